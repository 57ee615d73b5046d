/* A LoRA adapter. An input is adapter_config.json and the header of adapter_model.safetensors, each
 * ended by a NUL, for a model of a few small matrices. What is accepted is merged. */
#include <math.h>

#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/lora.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/weights_file.h"

enum { MAX_TENSORS = 32 };

/* The first layer has an MLP, whose gate and up are parts of one tensor, the second experts. */
static const struct blob_model model = {
    .hidden_size = 2,
    .intermediate_size = 3,
    .n_layers = 2,
    .n_heads = 1,
    .n_kv_heads = 1,
    .head_dim = 2,
    .vocab_size = 5,
    .blocks = BLOCK_QK_NORM_HEADS,
    .experts = {.n_experts = 2, .n_used = 1, .width = 2, .dense = {1}},
};
static const uint8_t zeros[64];
static char names[MAX_TENSORS][MAX_CHECKPOINT_NAME];
static struct safetensors_tensor base[MAX_TENSORS];

static size_t fill_base(void)
{
    const struct family *family = smol_family_by_architecture("Qwen3MoeForCausalLM");
    struct tensor_key key = {0};
    size_t n = 0;
    do {
        const struct blob_tensor layout = smol_tensor_layout(&model, key, NULL);
        bool is_vector = layout.layout == LAYOUT_VECTOR;
        base[n] = (struct safetensors_tensor){
            .name = smol_checkpoint_name(family, key, names[n]),
            .path = "base",
            .dtype = ST_BF16,
            .rank = is_vector ? 1 : 2,
            .shape = {is_vector ? layout.cols : layout.rows, is_vector ? 0 : layout.cols},
            .data = zeros,
            .size = layout.rows * layout.cols * 2,
        };
        CLAIM(base[n].size <= sizeof zeros);
        if (key.role == ROLE_MLP_GATE || key.role == ROLE_MLP_UP) {
            base[n].whole = "model.layers.0.mlp.gate_up_proj.weight";
            base[n].whole_rows = 6;
            base[n].first_row = key.role == ROLE_MLP_UP ? 3 : 0;
        }
        CLAIM(++n < MAX_TENSORS);
    } while (smol_tensor_next(&model, &key));
    return n;
}

static void merge(const struct lora *lora, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct lora_pair *pair = &lora->pairs[i];
        if (!pair->a)
            continue;
        float out[5 * 3];
        CLAIM(isfinite(pair->scale) && pair->b && i > 0);
        CLAIM(base[i].shape[0] <= TILE_ROWS && base[i].shape[0] * base[i].shape[1] <= 5 * 3);
        smol_lora_merge(pair, &base[i], 0, base[i].shape[0], out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct safetensors_tensor *tensors[MAX_TENSORS];
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    size_t length = end ? (size_t)(end - data) : size, header = size - length, file_size;
    struct lora lora;
    smol_error error;
    static size_t n;
    if (n == 0)
        n = fill_base();
    for (size_t i = 0; i < n; i++)
        tensors[i] = &base[i];
    header -= header > 0;
    uint8_t *file = fuzz_weights_file(data + size - header, header, &file_size);
    fuzz_write("adapter_config.json", data, length);
    fuzz_write("adapter_model.safetensors", file, file_size);
    free(file);
    if (!smol_lora_open(fuzz_folder(), &model, tensors, &lora, &error))
        merge(&lora, n);
    smol_lora_close(&lora);
    return 0;
}

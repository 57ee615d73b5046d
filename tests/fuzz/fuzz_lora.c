/* A LoRA adapter. An input is adapter_config.json and the header of adapter_model.safetensors, each
 * ended by a NUL, for a model of a few small matrices. What is accepted is merged. */
#include <math.h>

#include "convert/checkpoint/lora.h"
#include "format/layout.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/weights_file.h"

static const uint8_t zeros[64];
#define BASE(tensor_name, rows, cols)                                                              \
    {                                                                                              \
        .name = tensor_name, .path = "base", .dtype = ST_BF16, .rank = 2, .shape = {rows, cols},   \
        .data = zeros, .size = (rows) * (cols)*2                                                   \
    }
#define PART(tensor_name, rows, cols, row)                                                         \
    {                                                                                              \
        .name = tensor_name, .path = "base", .dtype = ST_BF16, .rank = 2, .shape = {rows, cols},   \
        .data = zeros, .size = (rows) * (cols)*2,                                                  \
        .whole = "model.layers.0.mlp.gate_up_proj.weight", .whole_rows = 5, .first_row = (row)     \
    }
static const struct safetensors_tensor base[] = {
    BASE("model.embed_tokens.weight", 5, 2),
    BASE("model.layers.0.self_attn.q_proj.weight", 2, 2),
    BASE("model.layers.1.mlp.up_proj.weight", 3, 2),
    BASE("model.layers.0.mlp.down_proj.weight", 2, 3),
    PART("model.layers.0.mlp.gate_proj.weight", 2, 2, 0),
    PART("model.layers.0.mlp.up_proj.weight", 3, 2, 2),
    BASE("lm_head.weight", 5, 2),
};
enum { N = sizeof base / sizeof base[0] };

static void merge(const struct lora *lora)
{
    for (size_t i = 0; i < N; i++) {
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
    const struct safetensors_tensor *tensors[N];
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    size_t length = end ? (size_t)(end - data) : size, header = size - length, file_size;
    struct lora lora;
    smol_error error;
    for (size_t i = 0; i < N; i++)
        tensors[i] = &base[i];
    header -= header > 0;
    uint8_t *file = fuzz_weights_file(data + size - header, header, &file_size);
    fuzz_write("adapter_config.json", data, length);
    fuzz_write("adapter_model.safetensors", file, file_size);
    free(file);
    if (!smol_lora_open(fuzz_folder(), tensors, N, &lora, &error))
        merge(&lora);
    smol_lora_close(&lora);
    return 0;
}

/* The safetensors reader, and what conversion then does with an accepted file. An input that begins
 * with `{` is a header: its length and as many bytes of data as it speaks of come with it. Any
 * other input is the whole file. */
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/fused.h"
#include "convert/checkpoint/safetensors.h"
#include "convert/checkpoint/scales.h"
#include "convert/weights/tile.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/weights_file.h"

/* A model so small that a header of some hundred bytes can hold all its tensors. */
static const struct blob_model tiny = {
    .family = FAMILY_LLAMA,
    .n_layers = 1,
    .hidden_size = 2,
    .intermediate_size = 3,
    .n_heads = 1,
    .n_kv_heads = 1,
    .head_dim = 2,
    .vocab_size = 5,
    .context_length = 8,
    .bos_id = NO_TOKEN,
    .tied_embeddings = 1,
    .rope_theta = 10000,
};

static void check_tensors(const struct safetensors *reader)
{
    uint64_t filled = 0;
    for (size_t i = 0; i < reader->n_tensors; i++) {
        const struct safetensors_tensor *tensor = &reader->tensors[i];
        CLAIM(tensor->begin == filled && tensor->size <= reader->file.size);
        CLAIM(tensor->data >= reader->file.data);
        CLAIM(tensor->data + tensor->size <= reader->file.data + reader->file.size);
        CLAIM(tensor->rank <= SAFETENSORS_MAX_RANK);
        CLAIM(smol_safetensors_find(reader, tensor->name) == tensor);
        CLAIM(strlen(smol_element_name(tensor->dtype)) > 0);
        filled = tensor->begin + tensor->size;
    }
}

static void tile(const struct safetensors_tensor *source, const struct blob_tensor *layout)
{
    float scratch[8];
    void *out;
    CLAIM(layout->rows <= TILE_ROWS && layout->cols <= sizeof scratch / sizeof scratch[0]);
    if (posix_memalign(&out, 64, layout->size))
        abort();
    if (layout->layout != LAYOUT_TILES)
        smol_tile_vector(source, layout, out);
    else
        smol_tile_block(source, layout, NULL, 0, scratch, out);
    free(out);
}

/* Tiles every tensor of a checkpoint that is the tiny model's. */
static void convert(const struct safetensors *reader, const struct family *family,
                    enum blob_dtype dtype)
{
    const struct safetensors_tensor *sources[32];
    struct blob_model model = tiny;
    smol_error error;
    model.dtype = dtype;
    CLAIM(smol_tensor_count(&model) < sizeof sources / sizeof sources[0]);
    if (smol_checkpoint_map(reader, family, &model, sources, &error))
        return;
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t i = 0;
    do {
        const struct blob_tensor layout = smol_tensor_layout(&model, key, NULL);
        if (sources[i])
            tile(sources[i], &layout);
        i++;
    } while (smol_tensor_next(&model, &key));
}

/* Converts a checkpoint of a family that keeps several matrices in one tensor. */
static void convert_fused(const struct safetensors *reader, enum blob_dtype dtype)
{
    const struct family *phi3 = smol_family_by_model_type("phi3");
    struct safetensors all;
    smol_error error;
    if (smol_safetensors_join(reader, 1, "fuzz", &all, &error))
        return;
    if (!smol_fused_split(phi3, &tiny, &all, &error)) {
        for (size_t i = 0; i < all.n_tensors; i++) {
            CLAIM(all.tensors[i].data >= reader->file.data);
            CLAIM(all.tensors[i].data + all.tensors[i].size <=
                  reader->file.data + reader->file.size);
        }
        convert(&all, phi3, dtype);
    }
    smol_safetensors_close(&all);
}

/* Converts the tensors after the scales have been attached to their matrices. */
static void convert_scaled(const struct safetensors *reader, enum blob_dtype dtype)
{
    const struct scale_rules rules = {.scaled = true, .has_integers = true, .block = {2, 1}};
    struct safetensors all;
    smol_error error;
    if (smol_safetensors_join(reader, 1, "fuzz", &all, &error))
        return;
    if (!smol_scales_attach(&rules, &all, &error)) {
        CLAIM(all.n_tensors <= reader->n_tensors);
        convert(&all, smol_family_of(&tiny, false), dtype);
    }
    smol_safetensors_close(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors reader;
    smol_error error;
    size_t file_size = size;
    uint8_t *file = size > 0 && data[0] == '{' ? fuzz_weights_file(data, size, &file_size)
                                               : exact_copy(data, size);
    struct file_view view = {.data = file, .size = file_size};
    if (!smol_safetensors_open_view(&view, "fuzz", &reader, &error)) {
        check_tensors(&reader);
        for (enum blob_dtype dtype = DTYPE_F32; dtype <= DTYPE_INT8; dtype++) {
            convert(&reader, smol_family_of(&tiny, false), dtype);
            convert_fused(&reader, dtype);
            convert_scaled(&reader, dtype);
        }
    }
    smol_safetensors_close(&reader);
    free(file);
    return 0;
}

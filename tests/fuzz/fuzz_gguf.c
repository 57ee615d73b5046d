/* A GGUF file: its container, its tensors, and the settings and tokenizer made of its keys. An
 * input is the whole file. */
#include "convert/checkpoint/gguf_tensors.h"
#include "convert/checkpoint/tensor.h"
#include "convert/gguf/settings.h"
#include "convert/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

enum { VOCAB_SIZE = 600, MOST_ELEMENTS = 4096 };

/* Reads the first and the last elements of a tensor. */
static void widen(const struct safetensors_tensor *tensor)
{
    float out[MOST_ELEMENTS];
    uint64_t n = 1;
    for (unsigned i = 0; i < tensor->rank; i++)
        n *= tensor->shape[i];
    if (!smol_element_is_weight(tensor->dtype) || tensor->rank > 2)
        return;
    uint64_t most = n < MOST_ELEMENTS ? n : MOST_ELEMENTS;
    tensor_widen(tensor, 0, most, out);
    tensor_widen(tensor, n - most, most, out);
}

static void check_tensors(const struct safetensors *reader)
{
    uint64_t filled = 0;
    for (size_t i = 0; i < reader->n_tensors; i++) {
        const struct safetensors_tensor *tensor = &reader->tensors[i];
        CLAIM(tensor->begin >= filled && tensor->end - tensor->begin == tensor->size);
        CLAIM(tensor->data >= reader->file.data && tensor->size > 0);
        CLAIM(tensor->data + tensor->size <= reader->file.data + reader->file.size);
        filled = tensor->end;
        widen(tensor);
    }
}

static void compile_tokenizer(const struct gguf *gguf)
{
    struct json_settings tokenizer = {0};
    struct tokenizer_rules rules = {0};
    struct tokenizer_section section = {0};
    smol_error error;
    if (!smol_gguf_tokenizer(gguf, &tokenizer, &error)) {
        CLAIM(json_is_object(tokenizer.object));
        if (!smol_tokenizer_check_rules(tokenizer.object, "fuzz", &rules, &error)) {
            smol_tokenizer_compile(tokenizer.object, "fuzz", &rules, VOCAB_SIZE, &section, &error);
            smol_tokenizer_section_free(&section);
        }
        smol_tokenizer_rules_free(&rules);
    }
    smol_settings_close(&tokenizer);
}

/* Makes the settings, and reads the model of those that are supported. */
static void make_settings(const struct gguf *gguf, const struct safetensors *all)
{
    struct json_settings config = {0}, tokenizer_config = {0};
    smol_error error;
    if (!smol_gguf_config(gguf, all, &config, &error))
        CLAIM(json_is_object(config.object));
    if (!smol_gguf_tokenizer_config(gguf, &tokenizer_config, &error))
        CLAIM(json_is_object(tokenizer_config.object));
    smol_settings_close(&config);
    smol_settings_close(&tokenizer_config);
}

static void read_embedder(const struct gguf *gguf, const struct safetensors *all)
{
    const struct blob_model model = {.hidden_size = 2, .context_length = 8};
    struct encoder_config config = {0};
    smol_error error;
    if (!smol_gguf_embedder(gguf, all, &model, &config, &error))
        CLAIM(config.encoder.pooling < ENCODER_POOLINGS && config.parts.n_dense <= 2);
    smol_embedder_close(&config.parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors reader = {.path = "fuzz"}, all;
    struct gguf gguf = {0};
    smol_error error;
    uint8_t *file = exact_copy(data, size);
    reader.file = (struct file_view){.data = file, .size = size};
    if (smol_gguf_is(file, size) && !smol_gguf_read(&reader, &gguf, &error)) {
        check_tensors(&reader);
        smol_gguf_name_tensors(&gguf, &reader);
        check_tensors(&reader);
        if (!smol_safetensors_join(&reader, 1, "fuzz", &all, &error)) {
            make_settings(&gguf, &all);
            read_embedder(&gguf, &all);
            smol_safetensors_close(&all);
        }
        compile_tokenizer(&gguf);
    }
    smol_gguf_close(&gguf);
    smol_safetensors_close(&reader);
    free(file);
    return 0;
}

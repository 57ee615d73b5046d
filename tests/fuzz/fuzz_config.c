/* The settings of a checkpoint. An input is config.json, generation_config.json,
 * tokenizer_config.json and tokenizer.json in this order, each ended by a NUL, which no JSON text
 * contains; those that are not there are missing files. */
#include <math.h>

#include "convert/checkpoint/config.h"
#include "format/layout.h"
#include "format/model.h"
#include "tests/fuzz/files.h"

static const char *const names[] = {"config.json", "generation_config.json",
                                    "tokenizer_config.json", "tokenizer.json"};
enum { N_FILES = sizeof names / sizeof names[0] };

static void write_files(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < N_FILES; i++) {
        const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
        size_t length = end ? (size_t)(end - data) : size;
        if (length > 0)
            fuzz_write(names[i], data, length);
        else
            fuzz_remove(names[i]);
        length += end != NULL;
        data += length;
        size -= length;
    }
}

static void check_config(const struct config *config)
{
    const struct blob_generation *g = &config->generation;
    const float reals[] = {g->temperature, g->top_p, g->min_p, g->repetition_penalty};
    for (size_t i = 0; i < config->n_stop; i++) {
        CLAIM(config->stop[i] < config->model.vocab_size);
        CLAIM(i == 0 || config->stop[i - 1] < config->stop[i]);
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        CLAIM(isfinite(reals[i]) && reals[i] >= 0);
    CLAIM(g->do_sample <= 1);
}

/* A model that a blob may have has layers and frequencies that it may have. */
static void check_model(const struct config *config)
{
    struct blob_model model = config->model;
    smol_error error;
    model.dtype = DTYPE_INT8;
    if (smol_model_check(&model, &error))
        return;
    CLAIM(model.n_heads % model.n_kv_heads == 0);
    CLAIM(smol_tensor_count(&model) > 0);
    CLAIM(smol_inv_freq_count(&model) <= sizeof config->inv_freq / sizeof config->inv_freq[0]);
    for (size_t i = 0; i < smol_inv_freq_count(&model); i++)
        CLAIM(config->inv_freq[i] >= 0 && config->inv_freq[i] <= 1);
    if (!smol_model_is_plain(&model))
        CLAIM(!smol_layers_check(&model, config->layers, &error));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct json_settings tokenizer_config, tokenizer;
    smol_error error;
    write_files(data, size);
    if (!smol_config_open(fuzz_folder(), "config.json", 0, &config, &tokenizer_config, &tokenizer,
                          &error)) {
        check_config(&config);
        check_model(&config);
    }
    smol_settings_close(&tokenizer_config);
    smol_settings_close(&tokenizer);
    return 0;
}

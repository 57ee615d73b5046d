/* Reads the files of sentence-transformers, see encoder.h. */
#include "convert/checkpoint/encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "convert/base/settings.h"

enum { MAX_MODULES_SIZE = 1 << 20 };

/* ---- modules.json ---- */

/* Returns whether a module's type is a class of that name, in any package. */
static bool is_module(const json_t *module, const char *name)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot && strcmp(dot + 1, name) == 0;
}

/* Takes the modules in order: Transformer, then Pooling, then Normalize, of which the last two may
 * be absent. *pooling is the path of the second. */
static smol_status take_modules(const json_t *list, const char *path, struct blob_encoder *encoder,
                                const char **pooling, smol_error *error)
{
    static const char *const names[] = {"Transformer", "Pooling", "Normalize"};
    size_t next = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *module = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(module, "type"));
        while (next < 3 && !is_module(module, names[next]))
            next++;
        if (next == 3 || (i == 0) != (next == 0))
            return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                             "%s: module %.80s (entry %zu): Transformer, Pooling and Normalize are "
                             "supported, in this order",
                             path, type ? type : "without a type", i);
        if (next == 1)
            *pooling = json_string_value(json_object_get(module, "path"));
        if (next == 2)
            encoder->normalizes = 1;
        next++;
    }
    return SMOL_OK;
}

/* ---- the pooling module ---- */

static smol_status take_pooling(const struct json_settings *pooling, struct blob_encoder *encoder)
{
    static const struct {
        const char *key, *mode;
        uint32_t kind;
    } modes[] = {
        {"pooling_mode_mean_tokens", "mean", ENCODER_MEAN},
        {"pooling_mode_cls_token", "cls", ENCODER_FIRST},
        {"pooling_mode_max_tokens", "max", ENCODER_MAX},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", ENCODER_POOLINGS},
        {"pooling_mode_weightedmean_tokens", "weightedmean", ENCODER_POOLINGS},
        {"pooling_mode_lasttoken", "lasttoken", ENCODER_POOLINGS},
    };
    const char *mode = NULL;
    uint32_t n_set = 0;
    encoder->pooling = ENCODER_POOLINGS;
    smol_status status = smol_setting_string(pooling, "pooling_mode", &mode);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0] && !status; i++) {
        uint32_t set = mode && strcmp(mode, modes[i].mode) == 0;
        if (!mode)
            status = smol_setting_flag(pooling, modes[i].key, &set);
        n_set += set;
        encoder->pooling = set ? modes[i].kind : encoder->pooling;
    }
    if (status || (n_set == 1 && encoder->pooling != ENCODER_POOLINGS))
        return status;
    return smol_fail(pooling->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: one of the modes mean, cls and max is supported", pooling->path);
}

/* ---- all files ---- */

static smol_status read_pooling(const char *folder, const char *path, struct encoder_config *config,
                                smol_error *error)
{
    struct json_settings pooling = {0};
    int length =
        snprintf(config->pooling_name, sizeof config->pooling_name, "%s/config.json", path);
    if (length >= (int)sizeof config->pooling_name || strstr(path, "..") || path[0] == '/')
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s/modules.json: path \"%.80s\" is not a folder beside it", folder, path);
    smol_status status = smol_settings_open(folder, config->pooling_name, true, &pooling, error);
    config->marks[POOLING_JSON] = pooling.mark;
    if (!status)
        status = take_pooling(&pooling, &config->encoder);
    smol_settings_close(&pooling);
    return status;
}

static smol_status read_modules(const char *folder, struct encoder_config *config,
                                smol_error *error)
{
    const char *pooling = NULL;
    json_t *list = NULL;
    struct json_mark *mark = &config->marks[MODULES_JSON];
    char *path = smol_path_join(folder, "modules.json");
    if (!path)
        return smol_fail_memory(error, "a file name");
    smol_status status = smol_json_load_optional(path, JSON_ARRAY, &list, mark, error);
    if (!status && mark->size > MAX_MODULES_SIZE)
        status = smol_fail(error, SMOL_ERROR_FILE, "%s: too large (%llu bytes, at most %d)", path,
                           (unsigned long long)mark->size, MAX_MODULES_SIZE);
    if (!status && list)
        status = take_modules(list, path, &config->encoder, &pooling, error);
    if (!status && pooling)
        status = read_pooling(folder, pooling, config, error);
    json_decref(list);
    free(path);
    return status;
}

smol_status smol_encoder_read(const char *folder, const struct blob_model *model,
                              struct encoder_config *config, smol_error *error)
{
    struct json_settings sentence = {0};
    struct blob_encoder *encoder = &config->encoder;
    *config = (struct encoder_config){.encoder.max_length = model->context_length};
    smol_status status = read_modules(folder, config, error);
    if (!status)
        status = smol_settings_open(folder, "sentence_bert_config.json", false, &sentence, error);
    config->marks[SENTENCE_JSON] = sentence.mark;
    if (!status)
        status =
            smol_setting_integer(&sentence, "max_seq_length", 1, UINT32_MAX, &encoder->max_length);
    if (encoder->max_length > model->context_length)
        encoder->max_length = model->context_length;
    smol_settings_close(&sentence);
    return status;
}

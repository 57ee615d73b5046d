/* A checkpoint's settings, see config.h. This file opens the JSON files and reads the sampling
 * defaults and the tokens that end a text. config_model.h reads the model. */
#include "convert/checkpoint/config.h"

#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "convert/checkpoint/config_model.h"
#include "convert/checkpoint/nested.h"

/* ---- sampling defaults ---- */

/* The limits are those of transformers' samplers, except that a temperature of 0 is allowed: it is
 * a common spelling of "greedy". */
static const struct {
    const char *key;
    enum generation_field bit;
    size_t offset; /* of the float in struct blob_generation */
    double min, max;
} reals[] = {
    {"temperature", GENERATION_TEMPERATURE, offsetof(struct blob_generation, temperature), 0, 1e6},
    {"top_p", GENERATION_TOP_P, offsetof(struct blob_generation, top_p), 0, 1},
    {"min_p", GENERATION_MIN_P, offsetof(struct blob_generation, min_p), 0, 1},
    {"repetition_penalty", GENERATION_REPETITION_PENALTY,
     offsetof(struct blob_generation, repetition_penalty), FLT_MIN, 1e6},
};

static smol_status read_reals(const struct json_settings *generation,
                              struct blob_generation *defaults)
{
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value = 0;
        smol_status status =
            smol_setting_real(generation, reals[i].key, reals[i].min, reals[i].max, &value);
        if (status)
            return status;
        float stored = (float)value;
        memcpy((char *)defaults + reals[i].offset, &stored, sizeof stored);
        if (smol_setting(generation, reals[i].key))
            defaults->present |= reals[i].bit;
    }
    return SMOL_OK;
}

static smol_status read_generation(const struct json_settings *generation,
                                   struct blob_generation *defaults)
{
    smol_status status = smol_setting_flag(generation, "do_sample", &defaults->do_sample);
    if (!status)
        status = smol_setting_integer(generation, "top_k", 0, INT32_MAX, &defaults->top_k);
    if (status)
        return status;
    if (smol_setting(generation, "do_sample"))
        defaults->present |= GENERATION_DO_SAMPLE;
    if (smol_setting(generation, "top_k"))
        defaults->present |= GENERATION_TOP_K;
    return read_reals(generation, defaults);
}

/* ---- the tokens that end a text ---- */

/* Three files may name such tokens. Published checkpoints contradict themselves: the config.json of
 * a chat model may name only the tokens of its base model. So the tokens of all files count. Ids
 * are never guessed from the text of a token. */

static smol_status fail_id(const struct json_settings *from, const char *key, const json_t *id,
                           uint32_t vocab_size)
{
    char expected[64];
    snprintf(expected, sizeof expected, "a token id below vocab_size %u", vocab_size);
    return smol_setting_expect_item(from, SMOL_ERROR_DAMAGED, key, id, expected);
}

/* Inserts an id. The ids stay ascending and unique. */
static smol_status add_id(const struct json_settings *from, const char *key, const json_t *id,
                          struct config *config)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= (json_int_t)config->model.vocab_size)
        return fail_id(from, key, id, config->model.vocab_size);
    uint32_t value = (uint32_t)json_integer_value(id);
    size_t at = 0;
    while (at < config->n_stop && config->stop[at] < value)
        at++;
    if (at < config->n_stop && config->stop[at] == value)
        return SMOL_OK;
    if (config->n_stop == CONFIG_MAX_STOP)
        return smol_fail(from->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: %s: more than %d tokens that end a text: remove some", from->path,
                         key, CONFIG_MAX_STOP);
    memmove(&config->stop[at + 1], &config->stop[at],
            (config->n_stop - at) * sizeof config->stop[0]);
    config->stop[at] = value;
    config->n_stop++;
    return SMOL_OK;
}

/* Adds eos_token_id: one id or a list of ids. */
static smol_status add_ids(const struct json_settings *from, struct config *config)
{
    json_t *ids = smol_setting(from, "eos_token_id");
    if (!ids)
        return SMOL_OK;
    if (!json_is_array(ids))
        return add_id(from, "eos_token_id", ids, config);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        smol_status status = add_id(from, "eos_token_id", json_array_get(ids, i), config);
        if (status)
            return status;
    }
    return SMOL_OK;
}

/* Reads the text of eos_token, which is a string or an object that holds one. *text stays unchanged
 * if the key is absent. */
static smol_status eos_text(const struct json_settings *from, const char **text)
{
    json_t *token = smol_setting(from, "eos_token");
    if (!json_is_object(token))
        return smol_setting_string(from, "eos_token", text);
    struct json_settings inside = *from;
    inside.object = token;
    inside.within = "eos_token.";
    return smol_setting_string(&inside, "content", text);
}

/* Returns the id of `text` in tokenizer.json: that of an added token, otherwise that of the
 * vocabulary. Returns NULL if there is none. */
static const json_t *find_token(const json_t *tokenizer, const char *text)
{
    json_t *added = json_object_get(tokenizer, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_t *token = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(token, "content"));
        if (content && strcmp(content, text) == 0)
            return json_object_get(token, "id");
    }
    json_t *vocabulary = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    return json_object_get(vocabulary, text);
}

static smol_status add_eos_token(const char *folder, const struct json_settings *from,
                                 struct json_settings *tokenizer, struct config *config)
{
    const char *text = NULL;
    smol_status status = eos_text(from, &text);
    if (status || !text)
        return status;
    if (!tokenizer->object)
        status = smol_settings_open(folder, "tokenizer.json", true, tokenizer, from->error);
    if (status)
        return status;
    const json_t *id = find_token(tokenizer->object, text);
    if (!id)
        return smol_fail(from->error, SMOL_ERROR_DAMAGED,
                         "%s: eos_token \"%.64s\" is not in tokenizer.json: correct either file",
                         from->path, text);
    return add_id(tokenizer, "the eos_token of tokenizer_config.json", id, config);
}

static smol_status read_stop(const char *folder, const struct json_settings *config,
                             const struct json_settings *generation,
                             const struct json_settings *tokenizer_config,
                             struct json_settings *tokenizer, struct config *result)
{
    struct json_settings text;
    const struct nest *nest;
    smol_status status = smol_nested_find(config, &text, &nest);
    if (!status)
        status = add_ids(config, result);
    if (!status)
        status = add_ids(&text, result);
    if (!status)
        status = add_ids(generation, result);
    if (!status)
        status = add_eos_token(folder, tokenizer_config, tokenizer, result);
    bool silent = result->n_stop == 0 && !json_object_get(config->object, "eos_token_id") &&
                  !json_object_get(text.object, "eos_token_id");
    if (!status && silent && result->family->eos_id < result->model.vocab_size)
        result->stop[result->n_stop++] = result->family->eos_id;
    return status;
}

/* ---- opening ---- */

static const struct {
    const char *name;
    bool required;
} files[N_CONFIG_FILES] = {
    [CONFIG_JSON] = {NULL, true},
    [GENERATION_JSON] = {"generation_config.json", false},
    [TOKENIZER_CONFIG_JSON] = {"tokenizer_config.json", false},
};

static smol_status read_all(const char *folder, const struct json_settings *from,
                            struct json_settings *tokenizer, struct config *config)
{
    smol_status status = smol_config_read_model(&from[CONFIG_JSON], config);
    if (!status)
        status = read_generation(&from[GENERATION_JSON], &config->generation);
    if (!status)
        status = read_stop(folder, &from[CONFIG_JSON], &from[GENERATION_JSON],
                           &from[TOKENIZER_CONFIG_JSON], tokenizer, config);
    return status;
}

smol_status smol_config_read(const struct json_settings *config_json,
                             const struct json_settings *tokenizer_config,
                             struct json_settings *tokenizer, uint32_t context,
                             struct config *config)
{
    const struct json_settings from[N_CONFIG_FILES] = {
        [CONFIG_JSON] = *config_json,
        [GENERATION_JSON] = {.path = config_json->path, .within = "", .error = config_json->error},
        [TOKENIZER_CONFIG_JSON] = *tokenizer_config,
    };
    *config = (struct config){.wanted_context = context};
    return read_all(NULL, from, tokenizer, config);
}

smol_status smol_config_open(const char *folder, const char *name, uint32_t context,
                             struct config *config, struct json_settings *tokenizer_config,
                             struct json_settings *tokenizer, smol_error *error)
{
    struct json_settings from[N_CONFIG_FILES] = {{0}};
    smol_status status = SMOL_OK;
    *config = (struct config){.wanted_context = context};
    *tokenizer = (struct json_settings){0};
    for (int i = 0; i < N_CONFIG_FILES && !status; i++) {
        const char *file = files[i].name ? files[i].name : name;
        status = smol_settings_open(folder, file, files[i].required, &from[i], error);
        config->marks[i] = from[i].mark;
    }
    if (!status)
        status = read_all(folder, from, tokenizer, config);
    smol_settings_close(&from[CONFIG_JSON]);
    smol_settings_close(&from[GENERATION_JSON]);
    *tokenizer_config = from[TOKENIZER_CONFIG_JSON];
    return status;
}

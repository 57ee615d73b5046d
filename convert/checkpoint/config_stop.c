/* The tokens that end a text, see config_parts.h. Three files may name some, and published
 * checkpoints disagree with themselves (a chat model whose config.json still names the base
 * model's only), so all of them count. Ids are never guessed from what a token looks like. */
#include <string.h>

#include "convert/checkpoint/config_parts.h"

/* Keeps the ids ascending and without duplicates. */
static smol_status add_id(const struct json_settings *from, const char *key, const json_t *id,
                          struct config *config)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= (json_int_t)config->model.vocab_size)
        return smol_fail(from->error, SMOL_ERROR_DAMAGED,
                         "%s: %s names no token: an id below vocab_size %u is due", from->path, key,
                         config->model.vocab_size);
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

/* eos_token_id: one id or a list of ids. */
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

/* eos_token: the token's text, or an object that holds it. NULL when there is none. */
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

/* The id of `text` in tokenizer.json: an added token, else one of the vocabulary. */
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

smol_status smol_config_read_stop(const char *folder, const struct json_settings *config,
                                  const struct json_settings *generation,
                                  const struct json_settings *tokenizer_config,
                                  struct json_settings *tokenizer, struct config *result)
{
    smol_status status = add_ids(config, result);
    if (!status)
        status = add_ids(generation, result);
    if (!status)
        status = add_eos_token(folder, tokenizer_config, tokenizer, result);
    bool silent = result->n_stop == 0 && !json_object_get(config->object, "eos_token_id");
    if (!status && silent && result->family->eos_id < result->model.vocab_size)
        result->stop[result->n_stop++] = result->family->eos_id;
    return status;
}

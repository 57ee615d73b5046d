/* Reads the special tokens by name. See template_list.h. */
#include "convert/template/template_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/text.h"

/* Tokens that every tokenizer of the reference may have. */
static const char *const known[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
enum { N_KNOWN = sizeof known / sizeof known[0] };

/* Sets a token, or removes it if `text` is NULL. */
static smol_status set(struct template_tokens *tokens, const char *name, const char *text,
                       smol_error *error)
{
    size_t at = 0;
    while (at < tokens->n && strcmp(tokens->items[at].name, name) != 0)
        at++;
    if (at < tokens->n && !text) {
        tokens->n--;
        memmove(&tokens->items[at], &tokens->items[at + 1],
                (tokens->n - at) * sizeof tokens->items[0]);
    }
    if (!text)
        return SMOL_OK;
    if (at == tokens->n) {
        if (!RESIZE(tokens->items, at + 1))
            return smol_fail_memory(error, "the special tokens");
        tokens->n++;
    }
    tokens->items[at] = (struct template_token){name, text};
    return SMOL_OK;
}

/* Reads a string, or an object with a string as its content. *text is NULL if the value is null. */
static smol_status read_text(const struct json_settings *file, const char *key, const char **text)
{
    const json_t *token = smol_setting(file, key);
    *text = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    if (!token || *text)
        return SMOL_OK;
    return smol_setting_fail(file, SMOL_ERROR_DAMAGED, key,
                             "expected a string, or an object with a string as its content");
}

/* Reads the tokens of `known`. */
static smol_status read_known(const struct json_settings *file, struct template_tokens *tokens)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        const char *text;
        smol_status status = read_text(file, known[i], &text);
        if (!status && json_object_get(file->object, known[i]))
            status = set(tokens, known[i], text, file->error);
        if (status)
            return status;
    }
    return SMOL_OK;
}

/* Returns whether a key names a token defined by the model. In tokenizer_config.json, an object is
 * a token only if its __type is "AddedToken", because flags also end in _token. */
static bool is_own(const char *key, const json_t *value, bool is_map)
{
    const char *type = json_string_value(json_object_get(value, "__type"));
    bool is_token =
        json_is_string(value) ||
        (json_is_object(value) && (is_map || (type && strcmp(type, "AddedToken") == 0)));
    for (size_t i = 0; i < N_KNOWN; i++)
        if (strcmp(known[i], key) == 0)
            return false;
    return is_token && ends_with(key, "_token");
}

static smol_status read_own(const struct json_settings *file, bool is_map,
                            struct template_tokens *tokens)
{
    const char *key, *text;
    json_t *value;
    json_object_foreach(file->object, key, value)
    {
        if (!is_own(key, value, is_map))
            continue;
        smol_status status = read_text(file, key, &text);
        if (!status)
            status = set(tokens, key, text, file->error);
        if (status)
            return status;
    }
    return SMOL_OK;
}

/* Reads an object of tokens with arbitrary names. Ignores a list, because its tokens have no
 * names. */
static smol_status read_named(const struct json_settings *file, const char *object,
                              struct template_tokens *tokens)
{
    struct json_settings extra = *file;
    const char *key, *text;
    json_t *value;
    extra.object = smol_setting(file, object);
    extra.within = "a token ";
    if (!json_is_object(extra.object))
        return SMOL_OK;
    json_object_foreach(extra.object, key, value)
    {
        smol_status status = read_text(&extra, key, &text);
        if (!status)
            status = set(tokens, key, text, file->error);
        if (status)
            return status;
    }
    return SMOL_OK;
}

/* Reads all sources in the reference's order: a later token replaces an earlier one with that
 * name. */
static smol_status read_all(const struct json_settings *config, const struct json_settings *map,
                            struct template_tokens *tokens)
{
    smol_status status = read_known(config, tokens);
    if (!status)
        status = read_known(map, tokens);
    if (!status)
        status = read_own(map, true, tokens);
    if (!status)
        status = read_own(config, false, tokens);
    if (!status)
        status = read_named(config, "model_specific_special_tokens", tokens);
    if (!status)
        status = read_named(config, "extra_special_tokens", tokens);
    return status ? status : read_named(map, "extra_special_tokens", tokens);
}

smol_status smol_template_tokens_open(const char *folder, const struct json_settings *config,
                                      struct template_tokens *tokens, smol_error *error)
{
    smol_status status = SMOL_OK;
    *tokens = (struct template_tokens){0};
    if (!json_object_get(config->object, "added_tokens_decoder"))
        status = smol_settings_open(folder, "special_tokens_map.json", false, &tokens->map, error);
    return status ? status : read_all(config, &tokens->map, tokens);
}

void smol_template_tokens_close(struct template_tokens *tokens)
{
    smol_settings_close(&tokens->map);
    free(tokens->items);
    *tokens = (struct template_tokens){0};
}

/* Makes JSON objects from keys, see maker.h. */
#include "convert/gguf/maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

struct maker smol_maker(const struct gguf *gguf, struct json_settings *settings, smol_error *error)
{
    const struct gguf_value *tokens = smol_gguf_find(gguf, "tokenizer.ggml.tokens");
    bool is_list = tokens && tokens->type == GGUF_ARRAY && tokens->item == GGUF_STRING;
    *settings = (struct json_settings){
        .object = json_object(), .path = strdup(gguf->path), .within = "", .error = error};
    return (struct maker){.gguf = gguf,
                          .arch = smol_gguf_arch(gguf),
                          .object = settings->object,
                          .tokens = is_list ? tokens : NULL,
                          .failed = !settings->object || !settings->path,
                          .error = error};
}

smol_status smol_maker_finish(const struct maker *m, smol_status status)
{
    if (status || !m->failed)
        return status;
    if (!m->bad_text)
        return smol_fail_memory(m->error, "the settings of a GGUF file");
    return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                     "%s: a text of its tokenizer or template is not UTF-8: download the file "
                     "again",
                     m->gguf->path);
}

void smol_maker_put(struct maker *m, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value))
        m->failed = true;
}

void smol_maker_put_integer(struct maker *m, const char *key, uint64_t value)
{
    smol_maker_put(m, m->object, key, json_integer((json_int_t)value));
}

void smol_maker_append(struct maker *m, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value))
        m->failed = true;
}

const struct gguf_value *smol_maker_find(const struct maker *m, const char *key)
{
    char whole[96];
    snprintf(whole, sizeof whole, "%s.%s", m->arch->name, key);
    return smol_gguf_find(m->gguf, whole);
}

smol_status smol_maker_integer(const struct maker *m, const char *key, uint64_t *integer)
{
    const struct gguf_value *value = smol_maker_find(m, key);
    if (value && (!smol_gguf_integer(value, integer) || *integer > UINT32_MAX))
        return smol_maker_fail_value(m, value, "an integer");
    return SMOL_OK;
}

uint64_t smol_maker_setting(const struct maker *m, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(m->object, key));
}

void smol_maker_refuse_text(struct maker *m, struct gguf_text text)
{
    m->failed = true;
    if (smol_utf8_well_formed((const uint8_t *)text.data, text.size) < text.size)
        m->bad_text = true;
}

json_t *smol_maker_text(struct maker *m, struct gguf_text text)
{
    json_t *string = json_stringn(text.data, text.size);
    if (!string)
        smol_maker_refuse_text(m, text);
    return string;
}

smol_status smol_maker_token_id(const struct maker *m, const char *name, uint64_t *id, bool *found)
{
    char key[64];
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    const struct gguf_value *value = smol_gguf_find(m->gguf, key);
    *found = false;
    if (!value || (smol_gguf_integer(value, id) && *id == UINT32_MAX))
        return SMOL_OK;
    if (!m->tokens || !smol_gguf_integer(value, id) || *id >= m->tokens->n)
        return smol_maker_fail_value(m, value, "the id of a token");
    *found = true;
    return SMOL_OK;
}

struct gguf_text smol_maker_token(const struct maker *m, uint64_t id)
{
    const uint8_t *at = m->tokens->data;
    struct gguf_text text = smol_gguf_next(m->tokens, &at);
    for (uint64_t i = 0; i < id; i++)
        text = smol_gguf_next(m->tokens, &at);
    return text;
}

smol_status smol_maker_fail_value(const struct maker *m, const struct gguf_value *value,
                                  const char *expected)
{
    const struct gguf_text text = smol_gguf_string(value);
    uint64_t integer;
    char found[80];
    if (value->type == GGUF_STRING)
        snprintf(found, sizeof found, "\"%.*s\"", gguf_shown(text), text.data);
    else if (smol_gguf_integer(value, &integer))
        snprintf(found, sizeof found, "%llu", (unsigned long long)integer);
    else
        snprintf(found, sizeof found, "%s", value->type == GGUF_ARRAY ? "a list" : "another value");
    return smol_fail(m->error,
                     value->type == GGUF_STRING ? SMOL_ERROR_UNSUPPORTED : SMOL_ERROR_DAMAGED,
                     "%s: %.*s must be %s, found %s", m->gguf->path, gguf_shown(value->key),
                     value->key.data, expected, found);
}

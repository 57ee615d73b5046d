/* The tokens that a tokenizer.json puts around a text: its post-processor. */

#include "convert/tokenizer/tokenizer_part.h"
#include "convert/tokenizer/tokenizer_text.h"

static const char again[] = "post_processor";

/* Appends the ids of the special token `name`, which the template lists. */
static smol_status add_ids(const json_t *template, const char *path, const json_t *name,
                           uint32_t *ids, uint32_t *n, smol_error *error)
{
    const char *text = json_string_value(name);
    const json_t *token = json_object_get(json_object_get(template, "special_tokens"), text);
    const json_t *list = json_object_get(token, "ids");
    if (!text || !json_is_array(list))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: the template names a token without ids (%.80s of post_processor): "
                         "download it again",
                         path, text ? text : "?");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (*n == TEXT_MAX_AROUND)
            return smol_part_refuse(path, "a template of so many tokens", template, error);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= NO_TOKEN)
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "%s: the template has no id for a token (%.80s of post_processor): "
                             "download it again",
                             path, text);
        ids[(*n)++] = (uint32_t)json_integer_value(id);
    }
    return SMOL_OK;
}

/* The template of a single text: tokens, the text, tokens. */
static smol_status read_template(const json_t *template, const char *path, struct text_rules *rules,
                                 smol_error *error)
{
    const json_t *pieces = json_object_get(template, "single");
    bool behind = false;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        const json_t *sequence = json_object_get(piece, "Sequence");
        const char *which = json_string_value(json_object_get(sequence, "id"));
        if (sequence) {
            if (behind || !which || strcmp(which, "A") != 0)
                return smol_part_refuse(path, again, template, error);
            behind = true;
            continue;
        }
        const json_t *name = json_object_get(json_object_get(piece, "SpecialToken"), "id");
        smol_status status = add_ids(template, path, name, behind ? rules->behind : rules->before,
                                     behind ? &rules->n_behind : &rules->n_before, error);
        if (status)
            return status;
    }
    return behind ? SMOL_OK : smol_part_refuse(path, again, template, error);
}

/* ByteLevel's only changes offsets. */
static smol_status read_processor(const json_t *part, const char *path, bool *seen,
                                  struct text_rules *rules, smol_error *error)
{
    if (part_has_type(part, "ByteLevel"))
        return SMOL_OK;
    if (!part_has_type(part, "TemplateProcessing") || *seen)
        return smol_part_refuse(path, again, part, error);
    *seen = true;
    return read_template(part, path, rules, error);
}

smol_status smol_around_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                   smol_error *error)
{
    const json_t *processor = json_object_get(root, "post_processor"), *parts;
    bool seen = false;
    if (!part_is_set(processor))
        return SMOL_OK;
    if (!part_is_sequence(processor, "processors", &parts))
        return read_processor(processor, path, &seen, rules, error);
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < json_array_size(parts) && !status; i++)
        status = read_processor(json_array_get(parts, i), path, &seen, rules, error);
    return status;
}

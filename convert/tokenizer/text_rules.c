/* Reads the rules of a tokenizer.json, see text_rules.h: pre-tokenizers of characters and
 * post-processors. model_rules.c, normalizer.c and decoder.c read the rest. */
#include "convert/tokenizer/text_rules.h"

#include <stdlib.h>

#include "common/utf8.h"

/* --- character-level pre-tokenizers --------------------------------------------------------- */

/* Returns whether the normalizer removes all spaces: it replaces them, and no later step adds
 * any. */
static bool leaves_no_space(const struct rule_steps *steps)
{
    bool none = false;
    for (uint32_t i = 0; i < steps->n; i++) {
        const struct rule_step *step = &steps->steps[i];
        bool adds = step->kind == STEP_MAP || step->kind == STEP_CLUSTERS ||
                    (step->text.size && memchr(step->text.data, ' ', step->text.size));
        bool removes = step->kind == STEP_REPLACE && step->pattern.size == 1 &&
                       step->pattern.data[0] == ' ' && !adds;
        none = (none || removes) && !adds;
    }
    return none;
}

/* Returns whether the part splits at spaces that the normalizer has already replaced, as in Gemma's
 * files. */
static bool splits_nothing(const json_t *part, const struct rule_steps *normalizer)
{
    struct json_text pattern =
        json_text_of(json_object_get(json_object_get(part, "pattern"), "String"));
    return part_has_type(part, "Split") && pattern.size == 1 && pattern.data[0] == ' ' &&
           json_is_false(json_object_get(part, "invert")) && leaves_no_space(normalizer);
}

/* Returns the kind of step that inserts the replacement before a text, or 0 for none. Reads
 * prepend_scheme, which the older add_prefix_space must not contradict. */
static int prepend_kind(const json_t *part, bool *valid)
{
    const json_t *scheme = json_object_get(part, "prepend_scheme");
    const char *name = scheme ? json_string_value(scheme) : "always";
    bool never = name && strcmp(name, "never") == 0, first = name && strcmp(name, "first") == 0;
    *valid = never || first || (name && strcmp(name, "always") == 0);
    if (json_is_false(json_object_get(part, "add_prefix_space")))
        *valid = *valid && never;
    return never ? 0 : first ? STEP_PREPEND_FIRST : STEP_PREPEND_UNLESS;
}

static bool take_metaspace(const json_t *part, struct text_rules *rules)
{
    static const struct json_text space = {" ", 1};
    struct json_text replacement = json_text_of(json_object_get(part, "replacement"));
    const json_t *split = json_object_get(part, "split"); /* true by default */
    uint32_t point;
    bool valid, flag = !part_is_set(split) || json_is_boolean(split);
    int prepend = prepend_kind(part, &valid);
    if (!part_has_type(part, "Metaspace") || !valid || !flag || replacement.size == 0 ||
        smol_utf8_decode((const uint8_t *)replacement.data, replacement.size, &point) !=
            replacement.size ||
        point == 0)
        return false;
    struct rule_steps *steps = &rules->metaspace;
    steps->steps[steps->n++] =
        (struct rule_step){.kind = STEP_REPLACE, .pattern = space, .text = replacement};
    if (prepend)
        steps->steps[steps->n++] =
            (struct rule_step){.kind = (enum text_step_kind)prepend, .text = replacement};
    rules->split = json_is_false(split) ? 0 : point;
    return true;
}

static bool finds_normalized(const json_t *root)
{
    const json_t *list = json_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_false(json_object_get(json_array_get(list, i), "normalized")))
            return true;
    return false;
}

/* Returns whether the normalizer may take the first character of a text away. */
static bool drops_first(const struct rule_steps *steps)
{
    const uint32_t keep = MAP_PAD | MAP_LOWER | MAP_COMPATIBILITY;
    bool drops = false;
    for (uint32_t i = 0; i < steps->n; i++) {
        const struct rule_step *step = &steps->steps[i];
        bool replaces = step->kind == STEP_REPLACE || step->kind == STEP_COLLAPSE;
        drops = drops || step->kind == STEP_CLUSTERS || step->kind == STEP_TRIM ||
                (step->kind == STEP_MAP && step->argument & ~keep) ||
                (replaces && step->text.size == 0);
    }
    return drops;
}

/* Reads a Metaspace that is the pre-tokenizer, or its last part. Before it, BPE allows nothing;
 * the other models' parts become a scanner. */
static smol_status read_character_pre_tokenizer(const json_t *root, const char *path,
                                                struct text_rules *rules, smol_error *error)
{
    const json_t *part = json_object_get(root, "pre_tokenizer"), *parts;
    bool merges = rules->model == TEXT_MERGES;
    if (part_is_sequence(part, "pretokenizers", &parts) && json_array_size(parts) > 0 &&
        (json_array_size(parts) == 1 || !merges))
        part = json_array_get(parts, json_array_size(parts) - 1);
    if (merges && part_is_set(part) && !splits_nothing(part, &rules->normalizer) &&
        !take_metaspace(part, rules))
        return part_refuse(path, "pre_tokenizer", part, error);
    if (!merges && part_has_type(part, "Metaspace") && !take_metaspace(part, rules))
        return part_refuse(path, "pre_tokenizer", part, error);
    /* the start of a text would then depend on how the normalizer counts */
    bool first = rules->metaspace.n == 2 && rules->metaspace.steps[1].kind == STEP_PREPEND_FIRST;
    if (first && rules->normalizer.n > 0 && finds_normalized(root))
        return part_refuse(path, "prepend_scheme with a normalizer and normalized tokens", part,
                           error);
    if (first && rules->normalizer.n > 0 && !merges && json_array_size(parts) > 1)
        return part_refuse(path, "prepend_scheme first after a normalizer and other parts", part,
                           error);
    /* the reference then takes the second character for one within the text */
    if (first && drops_first(&rules->normalizer))
        return part_refuse(path, "prepend_scheme first after a normalizer that drops characters",
                           part, error);
    return SMOL_OK;
}

static smol_status read_steps(const json_t *root, const char *path, struct text_rules *rules,
                              smol_error *error)
{
    smol_status status = smol_normalizer_read(root, path, &rules->normalizer, error);
    if (!status && rules->characters)
        status = read_character_pre_tokenizer(root, path, rules, error);
    return status;
}

/* --- the tokens around a text ---------------------------------------------------------------- */

/* Appends the ids that the template lists for the special token `name`. */
static smol_status add_ids(const json_t *template, const char *path, const json_t *name,
                           uint32_t *ids, uint32_t *n, smol_error *error)
{
    const char *text = json_string_value(name);
    const json_t *token = json_object_get(json_object_get(template, "special_tokens"), text);
    const json_t *list = json_object_get(token, "ids");
    if (!text || !json_is_array(list))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: the template names a token without ids (%.80s, in post_processor): "
                         "download it again",
                         path, text ? text : "?");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (*n == TEXT_MAX_AROUND)
            return part_refuse(path, "a template with this many tokens", template, error);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= NO_TOKEN)
            return smol_fail(
                error, SMOL_ERROR_DAMAGED,
                "%s: the template has no valid id for a token (%.80s, in post_processor): "
                "download it again",
                path, text);
        ids[(*n)++] = (uint32_t)json_integer_value(id);
    }
    return SMOL_OK;
}

/* Reads the template of a single text: tokens, the text, tokens. */
static smol_status read_template(const json_t *template, const char *path, struct text_rules *rules,
                                 smol_error *error)
{
    const json_t *pieces = json_object_get(template, "single");
    bool after = false;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        const json_t *sequence = json_object_get(piece, "Sequence");
        const char *which = json_string_value(json_object_get(sequence, "id"));
        if (sequence) {
            if (after || !which || strcmp(which, "A") != 0)
                return part_refuse(path, "post_processor", template, error);
            after = true;
            continue;
        }
        const json_t *name = json_object_get(json_object_get(piece, "SpecialToken"), "id");
        smol_status status = add_ids(template, path, name, after ? rules->after : rules->before,
                                     after ? &rules->n_after : &rules->n_before, error);
        if (status)
            return status;
    }
    return after ? SMOL_OK : part_refuse(path, "post_processor", template, error);
}

/* Reads the token, [text, id], of BertProcessing or RobertaProcessing. */
static bool take_around(const json_t *pair, uint32_t *ids, uint32_t *n)
{
    const json_t *id = json_array_get(pair, 1);
    bool valid = json_array_size(pair) == 2 && json_is_integer(id) && json_integer_value(id) >= 0 &&
                 json_integer_value(id) < NO_TOKEN;
    ids[(*n)++] = (uint32_t)json_integer_value(id);
    return valid;
}

/* Reads a post-processor that puts a text between the tokens cls and sep. */
static smol_status read_pair(const json_t *part, const char *path, struct text_rules *rules,
                             smol_error *error)
{
    bool valid = take_around(json_object_get(part, "cls"), rules->before, &rules->n_before) &&
                 take_around(json_object_get(part, "sep"), rules->after, &rules->n_after);
    return valid ? SMOL_OK : part_refuse(path, "post_processor", part, error);
}

/* Reads a post-processor. ByteLevel only changes offsets. */
static smol_status read_processor(const json_t *part, const char *path, bool *seen,
                                  struct text_rules *rules, smol_error *error)
{
    if (part_has_type(part, "ByteLevel"))
        return SMOL_OK;
    bool pair = part_has_type(part, "BertProcessing") || part_has_type(part, "RobertaProcessing");
    if ((!pair && !part_has_type(part, "TemplateProcessing")) || *seen)
        return part_refuse(path, "post_processor", part, error);
    *seen = true;
    if (pair)
        return read_pair(part, path, rules, error);
    return read_template(part, path, rules, error);
}

static smol_status read_around(const json_t *root, const char *path, struct text_rules *rules,
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

/* --- entry point ----------------------------------------------------------------------------- */

smol_status smol_text_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                 smol_error *error)
{
    *rules = (struct text_rules){0};
    smol_status status = smol_model_rules_read(root, path, rules, error);
    if (!status)
        status = smol_decoder_rules_read(root, path, rules, error);
    if (!status)
        status = read_steps(root, path, rules, error);
    if (!status)
        status = read_around(root, path, rules, error);
    return status;
}

void smol_text_rules_free(struct text_rules *rules)
{
    json_decref(rules->vocab);
    free(rules->scores);
    *rules = (struct text_rules){0};
}

/* What a tokenizer.json does to a text before it is cut: its normalizer, and, where words are made
 * of characters, its pre-tokenizer. */

#include "common/utf8.h"
#include "convert/tokenizer/tokenizer_part.h"
#include "convert/tokenizer/tokenizer_text.h"

static struct rule_text text_of(const json_t *value)
{
    return (struct rule_text){json_string_value(value), json_string_length(value)};
}

static bool is_short(struct rule_text text)
{
    return text.data && text.size <= TEXT_MAX_LENGTH;
}

/* Replace by a pattern that is a text; those that are regular expressions are refused. */
static bool take_replace(const json_t *part, struct rule_step *step)
{
    *step = (struct rule_step){
        STEP_REPLACE,
        text_of(json_object_get(json_object_get(part, "pattern"), "String")),
        text_of(json_object_get(part, "content")),
    };
    return part_has_type(part, "Replace") && is_short(step->pattern) && is_short(step->text) &&
           step->pattern.size > 0;
}

static bool take_prepend(const json_t *part, struct rule_step *step)
{
    *step =
        (struct rule_step){.kind = STEP_PREPEND, .text = text_of(json_object_get(part, "prepend"))};
    return part_has_type(part, "Prepend") && is_short(step->text) && step->text.size > 0;
}

static bool take_nfc(const json_t *part, struct rule_step *step)
{
    *step = (struct rule_step){.kind = STEP_NFC};
    return part_has_type(part, "NFC");
}

/* --- the normalizer ------------------------------------------------------------------------- */

static smol_status read_step(const json_t *part, const char *path, struct rule_steps *steps,
                             smol_error *error)
{
    struct rule_step step;
    if (!take_replace(part, &step) && !take_prepend(part, &step) && !take_nfc(part, &step))
        return smol_part_refuse(path, "normalizer", part, error);
    if (steps->n == TEXT_MAX_STEPS)
        return smol_part_refuse(path, "a normalizer of so many steps", part, error);
    steps->steps[steps->n++] = step;
    return SMOL_OK;
}

static smol_status read_normalizer(const json_t *root, const char *path, struct rule_steps *steps,
                                   smol_error *error)
{
    const json_t *normalizer = json_object_get(root, "normalizer"), *parts;
    if (!part_is_set(normalizer))
        return SMOL_OK;
    if (!part_is_sequence(normalizer, "normalizers", &parts))
        return read_step(normalizer, path, steps, error);
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < json_array_size(parts) && !status; i++)
        status = read_step(json_array_get(parts, i), path, steps, error);
    return status;
}

/* --- pre-tokenizers of characters ----------------------------------------------------------- */

/* Whether the normalizer leaves no space in a text: it replaces them, and then adds none. */
static bool leaves_no_space(const struct rule_steps *steps)
{
    bool none = false;
    for (uint32_t i = 0; i < steps->n; i++) {
        const struct rule_step *step = &steps->steps[i];
        bool adds = step->text.size && memchr(step->text.data, ' ', step->text.size);
        bool removes = step->kind == STEP_REPLACE && step->pattern.size == 1 &&
                       step->pattern.data[0] == ' ' && !adds;
        none = (none || removes) && !adds;
    }
    return none;
}

/* Gemma's files split at spaces, which their normalizers have replaced. */
static bool splits_nothing(const json_t *part, const struct rule_steps *normalizer)
{
    struct rule_text pattern = text_of(json_object_get(json_object_get(part, "pattern"), "String"));
    return part_has_type(part, "Split") && pattern.size == 1 && pattern.data[0] == ' ' &&
           json_is_false(json_object_get(part, "invert")) && leaves_no_space(normalizer);
}

/* The step that puts the replacement before a text: prepend_scheme, or the older add_prefix_space,
 * which must not contradict it. 0: none. */
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
    static const struct rule_text space = {" ", 1};
    struct rule_text replacement = text_of(json_object_get(part, "replacement"));
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
    steps->steps[steps->n++] = (struct rule_step){STEP_REPLACE, space, replacement};
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

static smol_status read_character_pre_tokenizer(const json_t *root, const char *path,
                                                struct text_rules *rules, smol_error *error)
{
    const json_t *part = json_object_get(root, "pre_tokenizer"), *parts;
    if (part_is_sequence(part, "pretokenizers", &parts) && json_array_size(parts) == 1)
        part = json_array_get(parts, 0);
    if (part_is_set(part) && !splits_nothing(part, &rules->normalizer) &&
        !take_metaspace(part, rules))
        return smol_part_refuse(path, "pre_tokenizer", part, error);
    /* where a text starts is then a question of how the normalizer counts */
    if (rules->metaspace.n == 2 && rules->metaspace.steps[1].kind == STEP_PREPEND_FIRST &&
        rules->normalizer.n > 0 && finds_normalized(root))
        return smol_part_refuse(path, "prepend_scheme with a normalizer and normalized tokens",
                                part, error);
    return SMOL_OK;
}

smol_status smol_step_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                 smol_error *error)
{
    smol_status status = read_normalizer(root, path, &rules->normalizer, error);
    if (!status && rules->characters)
        status = read_character_pre_tokenizer(root, path, rules, error);
    return status;
}

/* What a tokenizer.json asks for, see tokenizer_rules.h. */
#include "convert/tokenizer/tokenizer_rules.h"

#include "convert/tokenizer/tokenizer_part.h"

/* Some files say "" for an affix that is not there. */
static bool is_nothing(const json_t *value)
{
    const char *text = json_string_value(value);
    return !part_is_set(value) || json_is_false(value) || (text && !*text) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

static smol_status check_model(const json_t *root, const char *path, smol_error *error)
{
    const json_t *model = json_object_get(root, "model");
    if (!json_is_object(model))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: has no model (key \"model\"): download it again", path);
    const json_t *type = json_object_get(model, "type"); /* GPT-2's own file does not say */
    if (type && !part_has_type(model, "BPE"))
        return smol_part_refuse(path, "model type", type, error);
    static const char *const options[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const json_t *value = json_object_get(model, options[i]);
        if (!is_nothing(value))
            return smol_part_refuse(path, options[i], value, error);
    }
    return SMOL_OK;
}

smol_status smol_tokenizer_check_rules(const json_t *root, const char *path,
                                       struct tokenizer_rules *rules, smol_error *error)
{
    static const char *const must_be_null[] = {"truncation", "padding"};
    for (size_t i = 0; i < sizeof must_be_null / sizeof must_be_null[0]; i++) {
        const json_t *value = json_object_get(root, must_be_null[i]);
        if (part_is_set(value))
            return smol_part_refuse(path, must_be_null[i], value, error);
    }
    *rules = (struct tokenizer_rules){0};
    rules->pretokenizer.bits = PRETOKENIZE_GPT2; /* what words of characters do not look at */
    smol_status status;
    if ((status = check_model(root, path, error)) ||
        (status = smol_text_rules_read(root, path, &rules->text, error)))
        return status;
    return rules->text.characters ? SMOL_OK
                                  : smol_pretokenizer_read(root, path, &rules->pretokenizer, error);
}

void smol_tokenizer_rules_free(struct tokenizer_rules *rules)
{
    smol_pretokenizer_free(&rules->pretokenizer);
}

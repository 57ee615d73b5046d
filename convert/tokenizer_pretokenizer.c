/* The pre-tokenizer of a tokenizer.json, see tokenizer_pretokenizer.h. */
#include "convert/tokenizer_pretokenizer.h"

#include <stdbool.h>

#include "convert/tokenizer_part.h"
#include "format/format.h"

static bool splits_digits(const json_t *part)
{
    return part_has_type(part, "Digits") &&
           json_is_true(json_object_get(part, "individual_digits"));
}

static bool splits_as_gpt2(const json_t *part)
{
    const json_t *use_regex = json_object_get(part, "use_regex"); /* true by default */
    return part_has_type(part, "ByteLevel") &&
           json_is_false(json_object_get(part, "add_prefix_space")) &&
           (!use_regex || json_is_true(use_regex));
}

enum status smol_pretokenizer_read(const json_t *root, const char *path, uint32_t *bits,
                                   struct error *error)
{
    const json_t *whole = json_object_get(root, "pre_tokenizer"), *parts;
    *bits = PRETOKENIZE_GPT2;
    if (splits_as_gpt2(whole))
        return STATUS_OK;
    if (!part_is_sequence(whole, "pretokenizers", &parts))
        return smol_part_refuse(path, "pre_tokenizer", whole, error);
    size_t n_first = 0;
    if (splits_digits(json_array_get(parts, 0))) {
        *bits |= PRETOKENIZE_DIGITS;
        n_first = 1;
    }
    if (json_array_size(parts) != n_first + 1 || !splits_as_gpt2(json_array_get(parts, n_first)))
        return smol_part_refuse(path, "pre_tokenizer", whole, error);
    return STATUS_OK;
}

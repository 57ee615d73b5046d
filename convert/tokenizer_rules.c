/* What a tokenizer.json asks for, see tokenizer_rules.h. */
#include "convert/tokenizer_rules.h"

#include <stdlib.h>
#include <string.h>

#include "format/format.h"

static enum status refuse(const char *path, const char *what, const json_t *value,
                          struct error *error)
{
    char *quoted =
        json_dumps(value ? value : json_null(), JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    enum status status =
        smol_fail(error, STATUS_UNSUPPORTED,
                  "%s: %s is not supported (%.200s): use a model with GPT-2's byte-level BPE", path,
                  what, quoted ? quoted : "too large to quote");
    free(quoted);
    return status;
}

/* A key that is absent and one that is null say the same. */
static bool is_set(const json_t *value)
{
    return value && !json_is_null(value);
}

static bool has_type(const json_t *value, const char *type)
{
    const char *found = json_string_value(json_object_get(value, "type"));
    return found && strcmp(found, type) == 0;
}

/* Whether `value` is a Sequence; its parts, listed under `key`, are then in *parts. */
static bool is_sequence(const json_t *value, const char *key, const json_t **parts)
{
    *parts = json_object_get(value, key);
    return has_type(value, "Sequence") && json_is_array(*parts);
}

static enum status check_normalizer(const json_t *root, const char *path, struct error *error)
{
    const json_t *normalizer = json_object_get(root, "normalizer"), *parts;
    if (!is_set(normalizer) ||
        (is_sequence(normalizer, "normalizers", &parts) && json_array_size(parts) == 0))
        return STATUS_OK;
    return refuse(path, "normalizer", normalizer, error);
}

static bool splits_digits(const json_t *part)
{
    return has_type(part, "Digits") && json_is_true(json_object_get(part, "individual_digits"));
}

static bool splits_as_gpt2(const json_t *part)
{
    const json_t *use_regex = json_object_get(part, "use_regex"); /* true by default */
    return has_type(part, "ByteLevel") &&
           json_is_false(json_object_get(part, "add_prefix_space")) &&
           (!use_regex || json_is_true(use_regex));
}

static enum status check_pre_tokenizer(const json_t *root, const char *path, uint32_t *bits,
                                       struct error *error)
{
    const json_t *whole = json_object_get(root, "pre_tokenizer"), *parts;
    *bits = PRETOKENIZE_GPT2;
    if (splits_as_gpt2(whole))
        return STATUS_OK;
    if (!is_sequence(whole, "pretokenizers", &parts))
        return refuse(path, "pre_tokenizer", whole, error);
    size_t n_first = 0;
    if (splits_digits(json_array_get(parts, 0))) {
        *bits |= PRETOKENIZE_DIGITS;
        n_first = 1;
    }
    if (json_array_size(parts) != n_first + 1 || !splits_as_gpt2(json_array_get(parts, n_first)))
        return refuse(path, "pre_tokenizer", whole, error);
    return STATUS_OK;
}

/* ByteLevel has options, but none that matters to decoding or to the ids after encoding. */
static enum status check_decoder(const json_t *root, const char *path, struct error *error)
{
    const json_t *decoder = json_object_get(root, "decoder"), *parts;
    if (is_sequence(decoder, "decoders", &parts) && json_array_size(parts) == 1)
        decoder = json_array_get(parts, 0);
    return has_type(decoder, "ByteLevel") ? STATUS_OK : refuse(path, "decoder", decoder, error);
}

static enum status check_post_processor(const json_t *root, const char *path, struct error *error)
{
    const json_t *processor = json_object_get(root, "post_processor");
    if (!is_set(processor) || has_type(processor, "ByteLevel"))
        return STATUS_OK;
    return refuse(path, "post_processor", processor, error);
}

/* Some files say "" for an affix that is not there. */
static bool is_nothing(const json_t *value)
{
    const char *text = json_string_value(value);
    return !is_set(value) || json_is_false(value) || (text && !*text) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

static enum status check_model(const json_t *root, const char *path, struct error *error)
{
    const json_t *model = json_object_get(root, "model");
    if (!json_is_object(model))
        return smol_fail(error, STATUS_DAMAGED,
                         "%s: has no model (key \"model\"): download it again", path);
    const json_t *type = json_object_get(model, "type"); /* GPT-2's own file does not say */
    if (type && !has_type(model, "BPE"))
        return refuse(path, "model type", type, error);
    static const char *const options[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix", "ignore_merges"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const json_t *value = json_object_get(model, options[i]);
        if (!is_nothing(value))
            return refuse(path, options[i], value, error);
    }
    return STATUS_OK;
}

enum status smol_tokenizer_check_rules(const json_t *root, const char *path, uint32_t *pretokenizer,
                                       struct error *error)
{
    static const char *const must_be_null[] = {"truncation", "padding"};
    for (size_t i = 0; i < sizeof must_be_null / sizeof must_be_null[0]; i++) {
        const json_t *value = json_object_get(root, must_be_null[i]);
        if (is_set(value))
            return refuse(path, must_be_null[i], value, error);
    }
    enum status status;
    if ((status = check_model(root, path, error)) ||
        (status = check_normalizer(root, path, error)) ||
        (status = check_pre_tokenizer(root, path, pretokenizer, error)) ||
        (status = check_post_processor(root, path, error)) ||
        (status = check_decoder(root, path, error)))
        return status;
    return STATUS_OK;
}

enum status smol_tokenizer_check_unknown(const json_t *root, const char *path, bool covered,
                                         struct error *error)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *unk_token = json_object_get(model, "unk_token");
    const json_t *byte_fallback = json_object_get(model, "byte_fallback");
    if (covered)
        return STATUS_OK;
    if (is_set(unk_token))
        return refuse(path, "unk_token with bytes that have no token", unk_token, error);
    if (is_set(byte_fallback) && !json_is_false(byte_fallback))
        return refuse(path, "byte_fallback with bytes that have no token", byte_fallback, error);
    return STATUS_OK;
}

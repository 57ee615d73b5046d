/* What a tokenizer.json asks for, see tokenizer_rules.h. */
#include "convert/tokenizer_rules.h"

#include "convert/tokenizer_part.h"
#include "convert/tokenizer_pretokenizer.h"

static enum status check_normalizer(const json_t *root, const char *path, struct error *error)
{
    const json_t *normalizer = json_object_get(root, "normalizer"), *parts;
    if (!part_is_set(normalizer) ||
        (part_is_sequence(normalizer, "normalizers", &parts) && json_array_size(parts) == 0))
        return STATUS_OK;
    return smol_part_refuse(path, "normalizer", normalizer, error);
}

/* ByteLevel has options, but none that matters to decoding or to the ids after encoding. */
static enum status check_decoder(const json_t *root, const char *path, struct error *error)
{
    const json_t *decoder = json_object_get(root, "decoder"), *parts;
    if (part_is_sequence(decoder, "decoders", &parts) && json_array_size(parts) == 1)
        decoder = json_array_get(parts, 0);
    return part_has_type(decoder, "ByteLevel") ? STATUS_OK
                                               : smol_part_refuse(path, "decoder", decoder, error);
}

static enum status check_post_processor(const json_t *root, const char *path, struct error *error)
{
    const json_t *processor = json_object_get(root, "post_processor");
    if (!part_is_set(processor) || part_has_type(processor, "ByteLevel"))
        return STATUS_OK;
    return smol_part_refuse(path, "post_processor", processor, error);
}

/* Some files say "" for an affix that is not there. */
static bool is_nothing(const json_t *value)
{
    const char *text = json_string_value(value);
    return !part_is_set(value) || json_is_false(value) || (text && !*text) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

static enum status check_model(const json_t *root, const char *path, struct error *error)
{
    const json_t *model = json_object_get(root, "model");
    if (!json_is_object(model))
        return smol_fail(error, STATUS_DAMAGED,
                         "%s: has no model (key \"model\"): download it again", path);
    const json_t *type = json_object_get(model, "type"); /* GPT-2's own file does not say */
    if (type && !part_has_type(model, "BPE"))
        return smol_part_refuse(path, "model type", type, error);
    static const char *const options[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix", "ignore_merges"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const json_t *value = json_object_get(model, options[i]);
        if (!is_nothing(value))
            return smol_part_refuse(path, options[i], value, error);
    }
    return STATUS_OK;
}

enum status smol_tokenizer_check_rules(const json_t *root, const char *path, uint32_t *pretokenizer,
                                       struct error *error)
{
    static const char *const must_be_null[] = {"truncation", "padding"};
    for (size_t i = 0; i < sizeof must_be_null / sizeof must_be_null[0]; i++) {
        const json_t *value = json_object_get(root, must_be_null[i]);
        if (part_is_set(value))
            return smol_part_refuse(path, must_be_null[i], value, error);
    }
    enum status status;
    if ((status = check_model(root, path, error)) ||
        (status = check_normalizer(root, path, error)) ||
        (status = smol_pretokenizer_read(root, path, pretokenizer, error)) ||
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
    if (part_is_set(unk_token))
        return smol_part_refuse(path, "unk_token with bytes that have no token", unk_token, error);
    if (part_is_set(byte_fallback) && !json_is_false(byte_fallback))
        return smol_part_refuse(path, "byte_fallback with bytes that have no token", byte_fallback,
                                error);
    return STATUS_OK;
}

/* Reads the decoder of a tokenizer.json as rules, and applies them to tokens. */
#include <stdlib.h>

#include "common/buffer.h"
#include "common/utf8.h"
#include "convert/tokenizer/text_rules.h"

/* --- reading -------------------------------------------------------------------------------- */

/* The parts of a decoder, in the required order. Each may be absent. */
enum stage { TOKENS, BYTES, FUSED, STRIPPED };

static bool take_replace(const json_t *part, struct decoder_rules *rules)
{
    struct rule_step step = {
        STEP_REPLACE,
        json_text_of(json_object_get(json_object_get(part, "pattern"), "String")),
        json_text_of(json_object_get(part, "content")),
    };
    if (!part_has_type(part, "Replace") || step.pattern.size == 0 || !step.text.data ||
        step.pattern.size > TEXT_MAX_LENGTH || step.text.size > TEXT_MAX_LENGTH ||
        rules->n == TEXT_MAX_STEPS || rules->bare)
        return false;
    rules->replacements[rules->n++] = step;
    return true;
}

static bool take_metaspace(const json_t *part, struct decoder_rules *rules)
{
    static const struct json_text space = {" ", 1};
    struct json_text replacement = json_text_of(json_object_get(part, "replacement"));
    const json_t *scheme = json_object_get(part, "prepend_scheme");
    const char *name = scheme ? json_string_value(scheme) : "always";
    bool never = name && strcmp(name, "never") == 0;
    bool contradicts = json_is_false(json_object_get(part, "add_prefix_space")) && !never;
    if (!part_has_type(part, "Metaspace") || replacement.size == 0 || !name || contradicts ||
        rules->n > 0)
        return false;
    rules->replacements[rules->n++] = (struct rule_step){STEP_REPLACE, replacement, space};
    rules->bare = !never;
    return true;
}

static bool take_strip(const json_t *part, struct decoder_rules *rules)
{
    struct json_text content = json_text_of(json_object_get(part, "content"));
    const json_t *first = json_object_get(part, "start");
    json_int_t start = json_integer_value(first);
    const json_t *stop = json_object_get(part, "stop");
    if (!part_has_type(part, "Strip") || content.size == 0 || !json_is_integer(first) ||
        start < 0 || start > TEXT_MAX_STRIP || !json_is_integer(stop) ||
        json_integer_value(stop) != 0 ||
        smol_utf8_decode((const uint8_t *)content.data, content.size, &rules->strip) !=
            content.size ||
        rules->strip == 0)
        return false;
    rules->n_strip = (uint32_t)start;
    rules->strip = start ? rules->strip : 0;
    return true;
}

static bool take_part(const json_t *part, enum stage *stage, struct decoder_rules *rules)
{
    if (*stage == TOKENS && (take_replace(part, rules) || take_metaspace(part, rules)))
        return true;
    if (*stage == TOKENS && part_has_type(part, "ByteFallback")) {
        *stage = BYTES;
        rules->bytes = true;
        return true;
    }
    if (*stage <= BYTES && part_has_type(part, "Fuse")) {
        *stage = FUSED;
        return true;
    }
    bool strips = *stage == FUSED && take_strip(part, rules);
    *stage = strips ? STRIPPED : *stage;
    return strips;
}

/* The options of ByteLevel are ignored: none affects decoding or the ids after encoding. */
smol_status smol_decoder_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                    smol_error *error)
{
    const json_t *decoder = json_object_get(root, "decoder"), *parts;
    enum stage stage = TOKENS;
    bool many = part_is_sequence(decoder, "decoders", &parts);
    if (many && json_array_size(parts) == 1)
        decoder = json_array_get(parts, 0);
    if (part_has_type(decoder, "ByteLevel"))
        return SMOL_OK;
    rules->characters = true;
    if (!many)
        return take_part(decoder, &stage, &rules->decoder)
                   ? SMOL_OK
                   : part_refuse(path, "decoder", decoder, error);
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (!take_part(json_array_get(parts, i), &stage, &rules->decoder))
            return part_refuse(path, "decoder", json_array_get(parts, i), error);
    return json_array_size(parts) ? SMOL_OK : part_refuse(path, "decoder", decoder, error);
}

/* --- decoding tokens ------------------------------------------------------------------------ */

/* Appends text[0..size) and replaces each occurrence of the pattern. */
static void replace(const struct rule_step *step, const char *text, size_t size, struct buffer *out)
{
    for (;;) {
        const char *found = memmem(text, size, step->pattern.data, step->pattern.size);
        size_t before = found ? (size_t)(found - text) : size;
        smol_buffer_add(out, text, before);
        if (!found)
            return;
        smol_buffer_add(out, step->text.data, step->text.size);
        text = found + step->pattern.size;
        size -= before + step->pattern.size;
    }
}

static int hexadecimal(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return digit ? (int)(digit - digits) : -1;
}

/* Returns the byte that a name such as <0x0A> represents, or -1. The reference parses the number as
 * Rust does, which allows a plus sign. */
static int byte_of(const char *name, size_t size)
{
    if (size != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>')
        return -1;
    int high = name[3] == '+' ? 0 : hexadecimal(name[3]), low = hexadecimal(name[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Marks a token that contains spaces as plain. Metaspace removes only its own spaces from the first
 * token, so a token must not contain spaces and their replacement. */
static smol_status mark_spaces(const char *path, const char *name, size_t size,
                               struct shown_token *shown, smol_error *error)
{
    bool own = memchr(name, ' ', size);
    shown->flags |= own ? TOKEN_PLAIN : 0;
    if (!own || (shown->data && shown->size == size && memcmp(shown->data, name, size) == 0))
        return SMOL_OK;
    return smol_fail(
        error, SMOL_ERROR_UNSUPPORTED,
        "%s: token %.80s has spaces and their replacement, which Metaspace shows in two "
        "ways: use another model",
        path, name);
}

smol_status smol_decoder_show(const struct decoder_rules *rules, const char *path, const char *name,
                              size_t size, struct shown_token *shown, smol_error *error)
{
    struct buffer text = {0};
    smol_buffer_add(&text, name, size);
    for (uint32_t i = 0; i < rules->n && text.size <= UINT16_MAX; i++) {
        struct buffer next = {.failed = text.failed};
        replace(&rules->replacements[i], text.text ? text.text : "", text.size, &next);
        free(text.text);
        text = next;
    }
    *shown = (struct shown_token){text.text, text.size, 0};
    if (text.failed)
        return smol_fail_memory(error, "the vocabulary");
    if (text.size > UINT16_MAX) /* no token may be longer; also stops growth in the loop */
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%s: the decoder makes more than %d bytes of token %.80s: use another model", path,
            UINT16_MAX, name);
    int byte = rules->bytes && shown->data ? byte_of(shown->data, shown->size) : -1;
    if (byte >= 0) {
        shown->data[0] = (char)byte;
        shown->size = 1;
        shown->flags = TOKEN_BYTE;
        return SMOL_OK;
    }
    return rules->bare ? mark_spaces(path, name, size, shown, error) : SMOL_OK;
}

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
        .kind = STEP_REPLACE,
        .pattern = json_text_of(json_object_get(json_object_get(part, "pattern"), "String")),
        .text = json_text_of(json_object_get(part, "content")),
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
    rules->replacements[rules->n++] =
        (struct rule_step){.kind = STEP_REPLACE, .pattern = replacement, .text = space};
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

/* Reads WordPiece, whose prefix must be the model's. */
static bool take_wordpiece(const json_t *part, struct text_rules *rules)
{
    struct json_text prefix = json_text_of(json_object_get(part, "prefix"));
    const json_t *cleanup = json_object_get(part, "cleanup");
    rules->decoder.wordpiece = rules->decoder.bare = true;
    rules->decoder.cleanup = json_is_true(cleanup);
    rules->decoder.prefix = prefix;
    return part_has_type(part, "WordPiece") && json_is_boolean(cleanup) && prefix.data &&
           prefix.size == rules->prefix.size &&
           memcmp(prefix.data, rules->prefix.data, prefix.size) == 0;
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
    if (part_has_type(decoder, "ByteLevel") && rules->model == TEXT_MERGES)
        return SMOL_OK;
    rules->characters = true;
    if (rules->model == TEXT_WORDPIECE)
        return take_wordpiece(decoder, rules) ? SMOL_OK
                                              : part_refuse(path, "decoder", decoder, error);
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

/* Applies the replacements steps (n) to the text. Stops when it becomes too long for a token.
 * Returns the number of bytes written. */
static size_t replace_all(const struct rule_step *steps, size_t n, struct buffer *text)
{
    size_t written = 0;
    for (size_t i = 0; i < n && text->size <= UINT16_MAX; i++) {
        struct buffer next = {.failed = text->failed};
        replace(&steps[i], text->text ? text->text : "", text->size, &next);
        free(text->text);
        *text = next;
        written += next.size;
    }
    return written;
}

/* --- WordPiece ------------------------------------------------------------------------------ */

#define REPLACE(from, to)                                                                          \
    {                                                                                              \
        STEP_REPLACE, {from, sizeof from - 1}, {to, sizeof to - 1}, 0                              \
    }

/* The texts of a token and the space before it that `cleanup` replaces. */
static const struct rule_step cleanups[] = {
    REPLACE(" .", "."),     REPLACE(" ?", "?"),           REPLACE(" !", "!"),
    REPLACE(" ,", ","),     REPLACE(" ' ", "'"),          REPLACE(" n't", "n't"),
    REPLACE(" 'm", "'m"),   REPLACE(" do not", " don't"), REPLACE(" 's", "'s"),
    REPLACE(" 've", "'ve"), REPLACE(" 're", "'re"),
};

/* Returns the text of a token as the first one of a text, or as a later one. */
static struct buffer wordpiece_text(const struct decoder_rules *rules, const char *name,
                                    size_t size, bool first)
{
    const struct json_text *prefix = &rules->prefix;
    struct buffer text = {0};
    bool continues =
        !first && size >= prefix->size && memcmp(name, prefix->data, prefix->size) == 0;
    size_t start = continues ? prefix->size : 0;
    if (!first && !continues)
        smol_buffer_add(&text, " ", 1);
    smol_buffer_add(&text, name + start, size - start);
    if (rules->cleanup)
        replace_all(cleanups, sizeof cleanups / sizeof cleanups[0], &text);
    return text;
}

/* Returns whether `first` is `before` and then `later`, without `skipped` (0: nothing). */
static bool is_spelled(const struct buffer *first, struct json_text before,
                       const struct buffer *later, char skipped)
{
    size_t n = before.size;
    if (first->size < n || (n > 0 && memcmp(first->text, before.data, n) != 0))
        return false;
    for (size_t i = 0; i < later->size; i++) {
        if (skipped && later->text[i] == skipped)
            continue;
        if (n == first->size || first->text[n++] != later->text[i])
            return false;
    }
    return n == first->size;
}

/* Decodes a token of WordPiece: its text within a text, and by a flag that at its start. */
static smol_status show_wordpiece(const struct decoder_rules *rules, const char *path,
                                  const char *name, size_t size, struct shown_token *shown,
                                  smol_error *error)
{
    static const struct json_text nothing = {0};
    struct buffer later = wordpiece_text(rules, name, size, false);
    struct buffer first = wordpiece_text(rules, name, size, true);
    bool bare = is_spelled(&first, nothing, &later, ' ');
    bool plain = is_spelled(&first, nothing, &later, 0);
    bool continues = is_spelled(&first, rules->prefix, &later, 0);
    bool failed = first.failed || later.failed;
    free(first.text);
    *shown = (struct shown_token){.data = later.text,
                                  .size = later.size,
                                  .flags = bare        ? 0
                                           : plain     ? TOKEN_PLAIN
                                           : continues ? TOKEN_PLAIN | TOKEN_CONTINUES
                                                       : 0,
                                  .written = later.size};
    if (failed)
        return smol_fail_memory(error, "the vocabulary");
    if (bare || plain || continues)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s: token %.80s has spaces, so that it would start a text in a way of its "
                     "own: use another model",
                     path, name);
}

/* --- all decoders --------------------------------------------------------------------------- */

smol_status smol_decoder_show(const struct decoder_rules *rules, const char *path, const char *name,
                              size_t size, struct shown_token *shown, smol_error *error)
{
    if (rules->wordpiece)
        return show_wordpiece(rules, path, name, size, shown, error);
    struct buffer text = {0};
    smol_buffer_add(&text, name, size);
    size_t written = replace_all(rules->replacements, rules->n, &text);
    *shown = (struct shown_token){text.text, text.size, 0, written};
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

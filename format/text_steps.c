/* The steps that prepare a text before it is split, see text.h. A step that changes nothing copies
 * nothing. */
#include <string.h>

#include "format/text.h"

#include "common/memory.h"
#include "common/utf8.h"

/* Returns the start of the first occurrence of the pattern in text[0..size), or `size`. Patterns
 * are short. */
static size_t find(const uint8_t *text, size_t size, const uint8_t *pattern, size_t length)
{
    for (size_t i = 0; size - i >= length; i++) {
        const uint8_t *start = memchr(text + i, pattern[0], size - i - length + 1);
        if (!start)
            break;
        i = (size_t)(start - text);
        if (memcmp(start, pattern, length) == 0)
            return i;
    }
    return size;
}

/* Returns whether a character has Unicode's property White_Space. */
static bool is_white_space(uint32_t point)
{
    return smol_utf8_is_space(point) && (point < 0x1c || point > 0x1f); /* spaces of Python only */
}

static void add(struct buffer *out, const uint8_t *text, size_t size)
{
    smol_buffer_add(out, (const char *)text, size);
}

/* Appends the text with every occurrence of the pattern replaced. */
static void replace(const struct text_step *step, const uint8_t *pattern, const uint8_t *text,
                    size_t size, struct buffer *out)
{
    for (;;) {
        size_t start = find(text, size, pattern, step->pattern);
        add(out, text, start);
        if (start == size)
            return;
        add(out, pattern + step->pattern, step->text);
        text += start + step->pattern;
        size -= start + step->pattern;
    }
}

static bool starts_with(const uint8_t *text, size_t size, const uint8_t *start, size_t length)
{
    return size >= length && memcmp(text, start, length) == 0;
}

/* Appends the text with every run of two or more patterns replaced. */
static void collapse(const struct text_step *step, const uint8_t *pattern, const uint8_t *text,
                     size_t size, struct buffer *out)
{
    while (size > 0) {
        size_t start = find(text, size, pattern, step->pattern), end = start;
        while (starts_with(text + end, size - end, pattern, step->pattern))
            end += step->pattern;
        bool runs = end - start > step->pattern;
        add(out, text, runs ? start : end);
        if (runs)
            add(out, pattern + step->pattern, step->text);
        text += end;
        size -= end;
    }
}

/* Appends the text without the white space at its start (sides & 1) and at its end (sides & 2). */
static void trim(uint32_t sides, const uint8_t *text, size_t size, struct buffer *out)
{
    size_t start = size, end = 0, length;
    for (size_t i = 0; i < size; i += length) {
        uint32_t point;
        length = smol_utf8_decode(text + i, size - i, &point);
        if (is_white_space(point))
            continue;
        start = i < start ? i : start;
        end = i + length;
    }
    start = sides & 1 ? start : 0;
    end = sides & 2 ? end : size;
    if (start < end)
        add(out, text + start, end - start);
}

/* Returns whether the step does not change text[0..size), size > 0. */
static bool changes_nothing(const struct text_tables *tables, const struct text_step *step,
                            const uint8_t *text, size_t size, bool first)
{
    const uint8_t *pattern = tables->pool + step->start;
    struct character_map map;
    switch (step->kind) {
    case STEP_REPLACE:
        return find(text, size, pattern, step->pattern) == size;
    case STEP_PREPEND:
        return false;
    case STEP_PREPEND_FIRST:
        return !first || starts_with(text, size, pattern, step->text);
    case STEP_PREPEND_UNLESS:
        return starts_with(text, size, pattern, step->text);
    case STEP_NFD:
        return smol_normal_unchanged(&tables->nfc, false, text, size) == size;
    case STEP_MAP:
        map = text_map(tables, step->start);
        return smol_character_map_unchanged(&map, text, size);
    case STEP_CLUSTERS:
        map = text_map(tables, step->start);
        return smol_clusters_unchanged(&tables->clusters, &map, text, size);
    case STEP_COLLAPSE:
    case STEP_TRIM:
        return false;
    default:
        return smol_normal_unchanged(&tables->nfc, true, text, size) == size;
    }
}

static void apply(const struct text_tables *tables, const struct text_step *step,
                  const uint8_t *text, size_t size, struct buffer *out)
{
    const uint8_t *pattern = tables->pool + step->start;
    if (step->kind == STEP_REPLACE) {
        replace(step, pattern, text, size, out);
    } else if (step->kind == STEP_NFC || step->kind == STEP_NFD) {
        smol_normalize_text(&tables->nfc, step->kind == STEP_NFC, text, size, out);
    } else if (step->kind == STEP_MAP) {
        const struct character_map map = text_map(tables, step->start);
        smol_character_map(&map, text, size, out);
    } else if (step->kind == STEP_CLUSTERS) {
        const struct character_map map = text_map(tables, step->start);
        smol_clusters(&tables->clusters, &map, text, size, out);
    } else if (step->kind == STEP_COLLAPSE) {
        collapse(step, pattern, text, size, out);
    } else if (step->kind == STEP_TRIM) {
        trim(step->start, text, size, out);
    } else {
        add(out, pattern, step->text);
        add(out, text, size);
    }
}

smol_status smol_text_prepare(const struct text_tables *tables, const struct text_step *steps,
                              size_t n, const uint8_t *text, size_t size, bool first,
                              struct prepared *prepared, smol_error *error)
{
    prepared->text = text;
    prepared->size = size;
    for (size_t i = 0; i < n && prepared->size > 0; i++) {
        struct buffer out = {0};
        if (changes_nothing(tables, &steps[i], prepared->text, prepared->size, first))
            continue;
        apply(tables, &steps[i], prepared->text, prepared->size, &out);
        smol_prepared_free(prepared);
        prepared->buffer = out;
        prepared->text = (const uint8_t *)out.text;
        prepared->size = out.size;
        if (out.failed)
            return smol_fail_memory(error, "the text");
    }
    return SMOL_OK;
}

void smol_prepared_free(struct prepared *prepared)
{
    smol_free(prepared->buffer.text);
    prepared->buffer = (struct buffer){0};
}

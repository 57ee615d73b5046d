/* The steps that prepare a text before it is split, see text.h. A step that changes nothing copies
 * nothing. */
#include <string.h>

#include "format/text.h"

#include "common/memory.h"

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

/* Returns whether the step does not change text[0..size), size > 0. */
static bool changes_nothing(const struct text_tables *tables, const struct text_step *step,
                            const uint8_t *text, size_t size, bool first)
{
    const uint8_t *pattern = tables->pool + step->start;
    switch (step->kind) {
    case STEP_REPLACE:
        return find(text, size, pattern, step->pattern) == size;
    case STEP_PREPEND:
        return false;
    case STEP_PREPEND_FIRST:
        return !first || starts_with(text, size, pattern, step->text);
    case STEP_PREPEND_UNLESS:
        return starts_with(text, size, pattern, step->text);
    default:
        return smol_nfc_unchanged(&tables->nfc, text, size) == size;
    }
}

static void apply(const struct text_tables *tables, const struct text_step *step,
                  const uint8_t *text, size_t size, struct buffer *out)
{
    const uint8_t *pattern = tables->pool + step->start;
    if (step->kind == STEP_REPLACE) {
        replace(step, pattern, text, size, out);
    } else if (step->kind == STEP_NFC) {
        smol_nfc(&tables->nfc, text, size, out);
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

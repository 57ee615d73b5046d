/* Harmless text, see print_text.h. */
#include "convert/print_text.h"

#include <inttypes.h>
#include <stdbool.h>

#include "common/utf8.h"

/* A character of text[0..size), size > 0: *length bytes. False when they are no UTF-8. */
static bool next_character(const char *text, size_t size, uint32_t *code_point, size_t *length)
{
    *length = smol_utf8_decode((const uint8_t *)text, size, code_point);
    return utf8_well_formed((const uint8_t *)text, *length) == *length;
}

/* Controls (Cc), line and paragraph separators, and what sets the direction (Bidi_Control). */
static bool is_steering(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void smol_print_text(FILE *out, const char *text, size_t size)
{
    uint32_t c;
    size_t length;
    for (size_t i = 0; i < size; i += length) {
        bool shown = next_character(text + i, size - i, &c, &length) && !is_steering(c);
        if (shown)
            fwrite(text + i, 1, length, out);
        else
            fputc('?', out);
    }
}

static void print_escaped(FILE *out, uint32_t c)
{
    if (c == '\n')
        fputs("\\n", out);
    else if (c == '\t')
        fputs("\\t", out);
    else if (c == '"' || c == '\\')
        fprintf(out, "\\%c", (char)c);
    else
        fprintf(out, "\\u{%" PRIx32 "}", c);
}

void smol_print_quoted(FILE *out, const char *text, size_t size)
{
    uint32_t c;
    size_t length;
    fputc('"', out);
    for (size_t i = 0; i < size; i += length) {
        if (!next_character(text + i, size - i, &c, &length))
            for (size_t k = i; k < i + length; k++)
                fprintf(out, "\\x%02x", (unsigned char)text[k]);
        else if (c == '"' || c == '\\' || is_steering(c))
            print_escaped(out, c);
        else
            fwrite(text + i, 1, length, out);
    }
    fputc('"', out);
}

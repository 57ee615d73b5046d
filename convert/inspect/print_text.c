/* Harmless text, see print_text.h. */
#include "convert/inspect/print_text.h"

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
bool smol_is_steering(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void smol_print_text(FILE *out, const char *text, size_t size)
{
    uint32_t c;
    size_t length;
    for (size_t i = 0; i < size; i += length) {
        bool shown = next_character(text + i, size - i, &c, &length) && !smol_is_steering(c);
        if (shown)
            fwrite(text + i, 1, length, out);
        else
            fputc('?', out);
    }
}

/* One character, or one byte of what is none, as it stands between quotes; returns its length. */
static size_t quote_character(const char *text, size_t size, char *out, size_t room, size_t *length)
{
    uint32_t c;
    if (!next_character(text, size, &c, length)) {
        *length = 1;
        return (size_t)snprintf(out, room, "\\x%02x", (unsigned char)*text);
    }
    if (c == '\n' || c == '\t')
        return (size_t)snprintf(out, room, "\\%c", c == '\n' ? 'n' : 't');
    if (c == '"' || c == '\\')
        return (size_t)snprintf(out, room, "\\%c", (char)c);
    if (smol_is_steering(c))
        return (size_t)snprintf(out, room, "\\u{%" PRIx32 "}", c);
    return (size_t)snprintf(out, room, "%.*s", (int)*length, text);
}

void smol_quote_text(const char *text, size_t size, char *out, size_t room)
{
    enum { TAIL = 40, LONGEST = 16 }; /* of the remark about the size, and of a character */
    size_t used = 0, length;
    out[used++] = '"';
    size_t i = 0;
    for (; i < size && used + LONGEST + TAIL < room; i += length)
        used += quote_character(text + i, size - i, out + used, LONGEST, &length);
    if (i < size)
        snprintf(out + used, room - used, "\"... (%zu bytes)", size);
    else
        snprintf(out + used, room - used, "\"");
}

size_t smol_text_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

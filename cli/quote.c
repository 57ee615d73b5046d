/* Quoting, see quote.h. */
#include "cli/quote.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/terminal.h"
#include "common/code_range.h"
#include "common/utf8.h"

/* Returns whether `c` is invisible: a control or format character, a line separator or the byte
 * order mark. */
static bool is_invisible(uint32_t c)
{
    static const struct code_range ranges[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
        {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    return code_ranges_have(ranges, sizeof ranges / sizeof ranges[0], c);
}

/* Decodes the first character of text[0..size), size > 0, and its length in bytes. Returns false if
 * it is not UTF-8. */
static bool next_character(const char *text, size_t size, uint32_t *code_point, size_t *length)
{
    *length = smol_utf8_decode((const uint8_t *)text, size, code_point);
    return smol_utf8_well_formed((const uint8_t *)text, *length) == *length;
}

/* A character as it is printed. */
struct spelling {
    char text[16];
    size_t length, columns;
};

static void spell(uint32_t c, struct spelling *s)
{
    static const char letters[] = "\a\b\t\n\v\f\r\"\\", names[] = "abtnvfr\"\\";
    const char *letter = c && c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (letter) {
        s->length = (size_t)snprintf(s->text, sizeof s->text, "\\%c", names[letter - letters]);
    } else if (is_invisible(c)) {
        s->length = (size_t)snprintf(s->text, sizeof s->text, c < 0x80 ? "\\x%02x" : "\\u%04x",
                                     (unsigned)c);
    } else {
        s->length = smol_utf8_encode(c, (uint8_t *)s->text);
        s->columns = smol_terminal_width(c);
        return;
    }
    s->columns = s->length;
}

/* Spells the first character of text[0..size), or its first byte if that is not UTF-8. Returns the
 * number of bytes read. */
static size_t spell_next(const char *text, size_t size, struct spelling *s)
{
    uint32_t c;
    size_t taken;
    if (next_character(text, size, &c, &taken)) {
        spell(c, s);
        return taken;
    }
    s->length = s->columns =
        (size_t)snprintf(s->text, sizeof s->text, "\\x%02x", (unsigned char)*text);
    return 1;
}

/* The progress of a quotation. */
struct quoted {
    size_t used;  /* bytes */
    size_t taken; /* columns counted against the limit: at least one for each character */
    size_t columns;
};

size_t smol_quote(const char *text, size_t size, size_t most, char *out)
{
    struct quoted q = {.used = 1}, with_room = q; /* the longest part that leaves room for "..." */
    out[0] = '"';
    for (size_t i = 0; i < size;) {
        struct spelling s;
        i += spell_next(text + i, size - i, &s);
        size_t taken = s.columns ? s.columns : 1;
        if (q.taken + taken > most) {
            memcpy(out + with_room.used, "...", 4);
            q.used = with_room.used + 3;
            q.columns = with_room.columns + 3;
            break;
        }
        memcpy(out + q.used, s.text, s.length);
        q = (struct quoted){q.used + s.length, q.taken + taken, q.columns + s.columns};
        if (q.taken + 3 <= most)
            with_room = q;
    }
    memcpy(out + q.used, "\"", 2);
    return q.columns + 2;
}

/* --- names and other short texts from files ----------------------------------------------- */

/* Includes controls (Cc), line and paragraph separators, and direction controls (Bidi_Control). */
bool smol_is_steering(uint32_t c)
{
    return utf8_is_control(c) || c == 0x61c || c == 0x200e || c == 0x200f ||
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

/* Writes one character, or one byte that is not UTF-8, as it appears between quotes. Returns the
 * number of bytes written. */
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
    enum { TAIL = 40, LONGEST = 16 }; /* bytes for the note about the size, and for a character */
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
    return utf8_count(text, strlen(text));
}

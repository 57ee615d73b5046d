/* Quoting, see quote.h. */
#include "runtime/command/quote.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

/* Control and format characters, separators of lines, the byte order mark. */
static bool is_invisible(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
        {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

/* How a character is shown; returns the length of that. */
static size_t spell(uint32_t c, char shown[16])
{
    static const char letters[] = "\a\b\t\n\v\f\r\"\\", names[] = "abtnvfr\"\\";
    const char *letter = c && c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (letter)
        return (size_t)snprintf(shown, 16, "\\%c", names[letter - letters]);
    if (is_invisible(c))
        return (size_t)snprintf(shown, 16, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)c);
    return smol_utf8_encode(c, (uint8_t *)shown);
}

static size_t count_characters(const char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += ((uint8_t)text[i] & 0xc0) != 0x80;
    return n;
}

/* Spells the character at text[0..size), or the byte where that is none; returns the bytes taken.
 */
static size_t spell_next(const uint8_t *text, size_t size, char shown[16], size_t *length)
{
    uint32_t c;
    size_t taken = smol_utf8_decode(text, size, &c);
    if (utf8_well_formed(text, taken) == taken) {
        *length = spell(c, shown);
        return taken;
    }
    *length = (size_t)snprintf(shown, 16, "\\x%02x", *text);
    return 1;
}

size_t smol_quote(const char *text, size_t size, size_t most, char *out)
{
    size_t n = 0, used = 1, short_n = 0, short_used = 1; /* short: what leaves room for "..." */
    out[0] = '"';
    for (size_t i = 0; i < size;) {
        char shown[16];
        size_t length;
        i += spell_next((const uint8_t *)text + i, size - i, shown, &length);
        size_t width = count_characters(shown, length);
        if (n + width > most) {
            memcpy(out + short_used, "...", 4);
            used = short_used + 3;
            n = short_n + 3;
            break;
        }
        memcpy(out + used, shown, length);
        used += length;
        n += width;
        if (n + 3 <= most) {
            short_used = used;
            short_n = n;
        }
    }
    memcpy(out + used, "\"", 2);
    return n + 2;
}

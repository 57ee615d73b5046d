/* UTF-8 decoding compatible with Python's bytes.decode("utf-8", "replace"). */
#ifndef SMOL_COMMON_UTF8_H
#define SMOL_COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_MAX = 4, UTF8_REPLACEMENT = 0xfffd };

/* Returns whether this is a continuation byte: the second, third or fourth of a character. */
static inline bool utf8_continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Returns whether a character is a control (C0, DEL or C1), which a terminal may obey. */
static inline bool utf8_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Returns the bytes of a character. */
static inline uint32_t utf8_length(uint32_t code_point)
{
    return code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
}

/* Returns the number of characters that start in text[0..size). */
static inline size_t utf8_count(const void *text, size_t size)
{
    const uint8_t *bytes = text;
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += !utf8_continues(bytes[i]);
    return n;
}

/* Reads one code point from text[0..size), size > 0, into *code_point and returns the number of
 * bytes taken (1..4). An ill-formed sequence decodes to U+FFFD and takes the bytes of its longest
 * well-formed prefix, at least one (Unicode 15, section 3.9, "maximal subparts"). */
size_t smol_utf8_decode(const uint8_t *text, size_t size, uint32_t *code_point);

/* Returns the number of well-formed UTF-8 bytes at the start of text[0..size), which is `size` if
 * all are. */
size_t smol_utf8_well_formed(const uint8_t *text, size_t size);

/* Writes `code_point` (a Unicode scalar value) to out[0..UTF8_MAX) and returns the bytes used. */
size_t smol_utf8_encode(uint32_t code_point, uint8_t *out);

/* Returns the number of bytes at the end of text[0..size) that are a well-formed start of a longer
 * sequence: 0..3. A streaming writer holds these back. */
size_t smol_utf8_unfinished(const uint8_t *text, size_t size);

/* Returns whether Python's str.isspace and strip, and \s in its patterns, treat it as white
 * space. */
bool smol_utf8_is_space(uint32_t code_point);

#endif

/* UTF-8 decoding as Python's bytes.decode("utf-8", "replace") does it. */
#ifndef SMOL_COMMON_UTF8_H
#define SMOL_COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_MAX = 4, UTF8_REPLACEMENT = 0xfffd };

/* Reads one code point from text[0..size), size > 0, into *code_point and returns the number
 * of bytes that it took (1..4). An ill-formed sequence gives U+FFFD and takes the bytes of its
 * longest well-formed prefix, at least one (Unicode 15, section 3.9, "maximal subparts"). */
size_t smol_utf8_decode(const uint8_t *text, size_t size, uint32_t *code_point);

/* How many bytes at the start of text[0..size) are well-formed UTF-8: `size` when all are. */
static inline size_t utf8_well_formed(const uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        if (text[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t code_point;
        size_t length = smol_utf8_decode(text + i, size - i, &code_point);
        if (code_point == UTF8_REPLACEMENT && !(length == 3 && text[i] == 0xef))
            return i;
        i += length;
    }
    return size;
}

/* Writes `code_point` (a Unicode scalar value) to out[0..UTF8_MAX) and returns the bytes used. */
size_t smol_utf8_encode(uint32_t code_point, uint8_t *out);

/* How many bytes at the end of text[0..size) are a well-formed start of a sequence that needs
 * more bytes: 0..3. A writer that streams text holds these back. */
size_t smol_utf8_unfinished(const uint8_t *text, size_t size);

/* Whether Python's str.isspace and strip, and its patterns' \s, take it for white space. */
bool smol_utf8_is_space(uint32_t code_point);

#endif

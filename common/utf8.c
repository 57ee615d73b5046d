/* UTF-8, see utf8.h. */
#include "common/utf8.h"

/* The valid continuation of a lead byte: length of the sequence and range of the second byte
 * (Unicode 15, table 3-7). Length 0: not a lead byte. */
struct lead {
    uint8_t length, second_low, second_high;
};

static struct lead lead_of(uint8_t byte)
{
    if (byte < 0x80)
        return (struct lead){1, 0, 0};
    if (byte < 0xc2 || byte > 0xf4)
        return (struct lead){0, 0, 0};
    if (byte < 0xe0)
        return (struct lead){2, 0x80, 0xbf};
    if (byte < 0xf0)
        return (struct lead){3, byte == 0xe0 ? 0xa0 : 0x80, byte == 0xed ? 0x9f : 0xbf};
    return (struct lead){4, byte == 0xf0 ? 0x90 : 0x80, byte == 0xf4 ? 0x8f : 0xbf};
}

/* Returns the number of bytes of text[0..size) that form a well-formed sequence or a prefix of one,
 * or 0 if the first byte starts no sequence. Sets *needed to the full length. */
static size_t well_formed_prefix(const uint8_t *text, size_t size, size_t *needed)
{
    struct lead lead = lead_of(text[0]);
    *needed = lead.length;
    if (lead.length <= 1)
        return lead.length;
    size_t n = 1;
    while (n < lead.length && n < size) {
        uint8_t low = n == 1 ? lead.second_low : 0x80;
        uint8_t high = n == 1 ? lead.second_high : 0xbf;
        if (text[n] < low || text[n] > high)
            break;
        n++;
    }
    return n;
}

size_t smol_utf8_decode(const uint8_t *text, size_t size, uint32_t *code_point)
{
    size_t needed;
    size_t length = well_formed_prefix(text, size, &needed);
    if (length == 0 || length < needed) {
        *code_point = UTF8_REPLACEMENT;
        return length ? length : 1;
    }
    static const uint8_t lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = text[0] & lead_mask[length];
    for (size_t i = 1; i < length; i++)
        value = value << 6 | (text[i] & 0x3f);
    *code_point = value;
    return length;
}

size_t smol_utf8_well_formed(const uint8_t *text, size_t size)
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

size_t smol_utf8_encode(uint32_t code_point, uint8_t *out)
{
    static const uint8_t lead_bits[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t length = utf8_length(code_point);
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    out[0] = (uint8_t)(lead_bits[length] | code_point);
    return length;
}

size_t smol_utf8_unfinished(const uint8_t *text, size_t size)
{
    for (size_t back = 1; back < UTF8_MAX && back <= size; back++) {
        const uint8_t *start = text + size - back;
        size_t needed;
        if (utf8_continues(*start))
            continue; /* its lead byte is further left */
        return well_formed_prefix(start, back, &needed) == back && back < needed ? back : 0;
    }
    return 0;
}

bool smol_utf8_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

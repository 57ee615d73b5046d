/* The layouts of GGUF's blocks, see element.h. Each function below converts one block; its comment
 * shows the bytes of the block. Scales are f16 unless noted. */
#include "convert/base/element.h"

/* Reads an f16 number. */
static float half_at(const uint8_t *bytes)
{
    return f32_from_f16((uint16_t)(bytes[0] | bytes[1] << 8));
}

static int nibble(const uint8_t *bytes, unsigned i, unsigned n)
{
    return i < n ? bytes[i] & 15 : bytes[i - n] >> 4;
}

/* --- 32 elements -------------------------------------------------------------------------- */

/* scale, 16 bytes: elements 0 to 15 in the low nibbles, 16 to 31 in the high ones */
static void widen_q4_0(const uint8_t *block, float *out)
{
    float scale = half_at(block);
    for (unsigned i = 0; i < 32; i++)
        out[i] = scale * (float)(nibble(block + 2, i, 16) - 8);
}

/* scale, minimum, 16 bytes of nibbles */
static void widen_q4_1(const uint8_t *block, float *out)
{
    float scale = half_at(block), least = half_at(block + 2);
    for (unsigned i = 0; i < 32; i++) {
        float product = scale * (float)nibble(block + 4, i, 16);
        out[i] = product + least;
    }
}

/* Returns the fifth bit of element i, in its place. */
static int fifth_bit(const uint8_t *bits, unsigned i)
{
    return (bits[i / 8] >> (i % 8) & 1) << 4;
}

/* scale, 32 fifth bits, 16 bytes of nibbles */
static void widen_q5_0(const uint8_t *block, float *out)
{
    float scale = half_at(block);
    for (unsigned i = 0; i < 32; i++)
        out[i] = scale * (float)((nibble(block + 6, i, 16) | fifth_bit(block + 2, i)) - 16);
}

/* scale, minimum, 32 fifth bits, 16 bytes of nibbles */
static void widen_q5_1(const uint8_t *block, float *out)
{
    float scale = half_at(block), least = half_at(block + 2);
    for (unsigned i = 0; i < 32; i++) {
        float product = scale * (float)(nibble(block + 8, i, 16) | fifth_bit(block + 4, i));
        out[i] = product + least;
    }
}

/* scale, 32 signed bytes */
static void widen_q8_0(const uint8_t *block, float *out)
{
    float scale = half_at(block);
    for (unsigned i = 0; i < 32; i++)
        out[i] = scale * (float)(int8_t)block[2 + i];
}

/* Converts 32 elements whose 16 bytes of nibbles number the values of a table. */
static void widen_levels(float scale, const uint8_t *bytes, float *out)
{
    static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    for (unsigned i = 0; i < 32; i++)
        out[i] = scale * (float)levels[nibble(bytes, i, 16)];
}

/* --- 256 elements ------------------------------------------------------------------------- */

/* Returns the two bits of element i: each 32 bytes hold 128 elements, 32 for each pair of bits. */
static int pair_of_bits(const uint8_t *bytes, unsigned i)
{
    return bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* 16 bytes of scales and minimums for 16 elements each, 64 bytes of pairs of bits, scale of the
 * scales, scale of the minimums */
static void widen_q2_k(const uint8_t *block, float *out)
{
    float d = half_at(block + 80), d_least = half_at(block + 82);
    for (unsigned i = 0; i < 256; i++) {
        float scale = d * (float)(block[i / 16] & 15);
        float least = d_least * (float)(block[i / 16] >> 4);
        float product = scale * (float)pair_of_bits(block + 16, i);
        out[i] = product - least;
    }
}

/* Returns scale `i` of 16 with 6 bits each: low nibbles in 8 bytes, then pairs of bits in 4. */
static int six_bits(const uint8_t *bytes, unsigned i)
{
    return nibble(bytes, i, 8) | (bytes[8 + i % 4] >> (i / 4 * 2) & 3) << 4;
}

/* 32 bytes of third bits, 64 bytes of pairs of bits, 12 bytes of scales, scale of the scales */
static void widen_q3_k(const uint8_t *block, float *out)
{
    float d = half_at(block + 108);
    for (unsigned i = 0; i < 256; i++) {
        float scale = d * (float)(six_bits(block + 96, i / 16) - 32);
        int third = block[i % 32] >> (i / 32) & 1; /* set: nothing is subtracted */
        out[i] = scale * (float)(pair_of_bits(block + 32, i) - (third ? 0 : 4));
    }
}

/* Finds the scale and the minimum, of 6 bits, of group `i` of 8 in 12 bytes. */
static void scale_and_least(const uint8_t *bytes, unsigned i, float *scale, float *least)
{
    if (i < 4) {
        *scale = (float)(bytes[i] & 63);
        *least = (float)(bytes[4 + i] & 63);
        return;
    }
    *scale = (float)((bytes[4 + i] & 15) | (bytes[i - 4] >> 6) << 4);
    *least = (float)(bytes[4 + i] >> 4 | (bytes[i] >> 6) << 4);
}

/* scale of the scales, scale of the minimums, 12 bytes of both for 32 elements each; with
 * `fifths`, 32 bytes of fifth bits; 128 bytes of nibbles */
static void widen_q4_k_or_q5_k(const uint8_t *block, bool fifths, float *out)
{
    float d = half_at(block), d_least = half_at(block + 2);
    const uint8_t *high = block + 16, *low = fifths ? block + 48 : block + 16;
    for (unsigned group = 0; group < 8; group++) {
        float scale, least;
        scale_and_least(block + 4, group, &scale, &least);
        scale *= d;
        least *= d_least;
        for (unsigned i = 0; i < 32; i++) {
            int value = low[group / 2 * 32 + i] >> (group % 2 * 4) & 15;
            if (fifths)
                value |= (high[i] >> group & 1) << 4;
            float product = scale * (float)value;
            out[group * 32 + i] = product - least;
        }
    }
}

/* 128 bytes of nibbles, 64 bytes of pairs of bits, 16 signed bytes of scales for 16 elements each,
 * scale of the scales */
static void widen_q6_k(const uint8_t *block, float *out)
{
    float d = half_at(block + 208);
    for (unsigned i = 0; i < 256; i++) {
        float scale = d * (float)(int8_t)block[192 + i / 16];
        int low = block[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
        out[i] = scale * (float)((low | pair_of_bits(block + 128, i) << 4) - 32);
    }
}

/* scale of the scales, 8 pairs of high bits of scales for 32 elements each, 4 bytes of their low
 * nibbles, 128 bytes of nibbles that number the values of a table */
static void widen_iq4_xs(const uint8_t *block, float *out)
{
    float d = half_at(block);
    for (unsigned i = 0; i < 8; i++) {
        int low = block[4 + i / 2] >> (i % 2 * 4) & 15, high = block[2 + i / 4] >> (i % 4 * 2) & 3;
        widen_levels(d * (float)((low | high << 4) - 32), block + 8 + i * 16, out + i * 32);
    }
}

void smol_block_widen(enum safetensors_dtype dtype, const uint8_t *block, float *out)
{
    switch (dtype) {
    case ST_Q4_0:
        widen_q4_0(block, out);
        break;
    case ST_Q4_1:
        widen_q4_1(block, out);
        break;
    case ST_Q5_0:
        widen_q5_0(block, out);
        break;
    case ST_Q5_1:
        widen_q5_1(block, out);
        break;
    case ST_Q8_0:
        widen_q8_0(block, out);
        break;
    case ST_Q2_K:
        widen_q2_k(block, out);
        break;
    case ST_Q3_K:
        widen_q3_k(block, out);
        break;
    case ST_Q4_K:
    case ST_Q5_K:
        widen_q4_k_or_q5_k(block, dtype == ST_Q5_K, out);
        break;
    case ST_Q6_K:
        widen_q6_k(block, out);
        break;
    case ST_IQ4_XS:
        widen_iq4_xs(block, out);
        break;
    default: /* ST_IQ4_NL: scale, nibbles */
        widen_levels(half_at(block), block + 2, out);
    }
}

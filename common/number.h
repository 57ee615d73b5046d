/* Conversions between binary32 and the 16-bit and 8-bit floating-point formats. They are exact to
 * the bit and use only integer arithmetic and binary32 (IEEE 754-2019). And a step to the shortest
 * decimal number. */
#ifndef SMOL_COMMON_NUMBER_H
#define SMOL_COMMON_NUMBER_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "the results are defined to the bit: compile without -ffast-math"
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "floats must be computed as floats: use -msse2 -mfpmath=sse");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "smol runs on little-endian machines");

static inline float f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline bool f32_is_finite(float value)
{
    return (f32_bits(value) & 0x7f800000u) != 0x7f800000u;
}

static inline float f32_from_bf16(uint16_t half)
{
    return f32_from_bits((uint32_t)half << 16);
}

/* Rounds to nearest, ties to even. Finite values may become infinite. Not for NaN. */
static inline uint16_t bf16_from_f32(float value)
{
    uint32_t bits = f32_bits(value);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Converts exactly, including subnormals, infinities and NaN payloads. */
static inline float f32_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0x1f)
        return f32_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) /* zero or subnormal: fraction * 2^-24, exact */
        return f32_from_bits(sign | f32_bits((float)fraction * 0x1p-24f));
    return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Convert exactly. The 8-bit formats follow the OCP specification (OFP8 1.0): E4M3 has no
 * infinities and one NaN of each sign; E5M2 is the upper half of an f16. */
static inline float f32_from_f8_e4m3(uint8_t byte)
{
    uint32_t sign = (uint32_t)(byte & 0x80u) << 24;
    uint32_t exponent = (byte >> 3) & 0xfu;
    uint32_t fraction = byte & 0x7u;
    if ((byte & 0x7fu) == 0x7f)
        return f32_from_bits(sign | 0x7fc00000u);
    if (exponent == 0) /* zero or subnormal: fraction * 2^-9 */
        return f32_from_bits(sign | f32_bits((float)fraction * 0x1p-9f));
    return f32_from_bits(sign | (exponent + 120) << 23 | fraction << 20);
}

static inline float f32_from_f8_e5m2(uint8_t byte)
{
    return f32_from_f16((uint16_t)(byte << 8));
}

/* Rounds to nearest, ties to even. Values that are too large become infinity; NaN becomes a quiet
 * NaN. */
static inline uint16_t f16_from_f32(float value)
{
    uint32_t bits = f32_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 aligns the units at 2^-24 */
        float aligned = f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (f32_bits(aligned) - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

/* Returns the smallest f16 not below `value`, for finite value >= 0; infinity above 65504. */
static inline uint16_t f16_from_f32_up(float value)
{
    uint16_t nearest = f16_from_f32(value);
    return f32_from_f16(nearest) < value ? (uint16_t)(nearest + 1) : nearest;
}

/* Returns `value` rounded to the nearest integer, ties to even, for |value| < 2^22. The sum has no
 * bits for a fraction. The additions are the same on every machine, where rintf may be a library
 * call. */
static inline float f32_round_even(float value)
{
    return (value + 0x1.8p23f) - 0x1.8p23f;
}

/* Raises the last digit of a decimal number, unless it is 9: returns whether it did. The numbers
 * above a power of two are farther from each other than those below it: the decimal number above it
 * may read back as it although the nearest one, which is below, does not. */
static inline bool decimal_step(char *text)
{
    char *last = text + strcspn(text, "e") - 1;
    last -= *last == '.';
    if (*last == '9')
        return false;
    ++*last;
    return true;
}

#endif

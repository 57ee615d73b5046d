/* Elementary functions as fixed sequences of IEEE operations, without fused multiply-add. They
 * return the same bits on every machine, with or without vector units, and with any C library. */
#ifndef SMOL_RUNTIME_KERNELS_MATH_H
#define SMOL_RUNTIME_KERNELS_MATH_H

#include <stddef.h>
#include <stdint.h>

#include "common/number.h"

/* lanes[0..width) += lanes[width..2 * width) */
static inline void math_fold(float lanes[16], size_t width)
{
    for (size_t i = 0; i < width; i++)
        lanes[i] += lanes[i + width];
}

/* Returns the sum of 16 partial sums in the tree that kernels.h fixes; overwrites them. */
static inline float math_sum_lanes(float lanes[16])
{
    math_fold(lanes, 8);
    math_fold(lanes, 4);
    math_fold(lanes, 2);
    math_fold(lanes, 1);
    return lanes[0];
}

/* Splits x = n ln 2 + r with |r| <= ln 2 / 2. Returns e^r - 1 from the Taylor polynomial of degree
 * 7 (remainder 5e-9), and sets *power = 2^n from the exponent bits (Muller et al., Handbook of
 * Floating-Point Arithmetic, chapter 11). ln 2 is split so that n * ln2_high is exact. x must be at
 * most 88.3; below -87.3 the power is unusable. */
static inline float math_exp_parts(float x, float *power)
{
    const float ln2_high = 0x1.63p-1f, ln2_low = -0x1.bd0106p-13f;
    float shifted = x * 0x1.715476p+0f + 0x1.8p23f; /* n, in the low bits of the sum */
    float n = shifted - 0x1.8p23f;
    float r = (x - n * ln2_high) - n * ln2_low;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    *power = f32_from_bits((f32_bits(shifted) - f32_bits(0x1.8p23f) + 127) << 23);
    return (p * r) * r + r;
}

/* Returns e^x within 2 units in the last place for x in [-87.3, 88.3], 0 for smaller x, the value
 * at 88.3 (about 2e38) for larger x, and NaN for NaN. */
static inline float math_exp(float x)
{
    float power, p = math_exp_parts(x > 88.3f ? 88.3f : x, &power) + 1.0f;
    return x < -87.3f ? 0 : p * power;
}

/* Returns tanh x within 3 units in the last place, exactly odd; NaN for NaN.
 *
 * With t = e^(2|x|) - 1 the result is t / (t + 2). t is computed as 2^n (e^r - 1) + (2^n - 1), so
 * that no digits cancel for small x. From 2|x| = 20 on the quotient rounds to 1. */
static inline float math_tanh(float x)
{
    float magnitude = f32_from_bits(f32_bits(x) & 0x7fffffffu) * 2.0f;
    float power, p = math_exp_parts(magnitude > 20.0f ? 20.0f : magnitude, &power);
    float t = p * power + (power - 1.0f);
    return f32_from_bits(f32_bits(t / (t + 2.0f)) | (f32_bits(x) & 0x80000000u));
}

/* Returns Phi(x), the probability that a standard normal variable is below x, within 3e-7, and in
 * its lower tail within 8e-6 of the result until it underflows; NaN for NaN.
 *
 * The tail beyond |x| is exp(-x^2 / 2) times a polynomial of degree 8 in t = 1 / (1 + 0.3 |x|)
 * without a constant, the form of Abramowitz and Stegun, 26.2.17; its coefficients minimize the
 * largest relative error for |x| to 13 (1.2e-7). */
static inline float math_normal(float x)
{
    float magnitude = f32_from_bits(f32_bits(x) & 0x7fffffffu);
    float t = 1.0f / (1.0f + 0.3f * magnitude);
    float p = 0x1.28830cp-5f;
    p = p * t - 0x1.46690cp-3f;
    p = p * t + 0x1.ae54040p-3f;
    p = p * t - 0x1.d455aap-5f;
    p = p * t + 0x1.0b1866p-3f;
    p = p * t + 0x1.96ecaap-4f;
    p = p * t + 0x1.eefbc6p-4f;
    p = p * t + 0x1.e9fa14p-4f;
    float tail = p * t * math_exp(-0.5f * (magnitude * magnitude));
    return x < 0 ? tail : 1.0f - tail;
}

/* Returns 2 artanh(s), which is ln((1 + s) / (1 - s)), by its Taylor polynomial, for |s| up to 1/3.
 */
static inline double math_log_ratio(double s)
{
    double z = s * s;
    double p = 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    p = p * z + 1.0;
    return 2.0 * s * p;
}

/* Returns ln x, rounded from a double within 2e-11, for a finite x of at least 1: x = 2^n m with m
 * around 1, and m = (1 + s) / (1 - s). */
static inline float math_log(float x)
{
    uint32_t bits = f32_bits(x);
    int n = (int)(bits >> 23) - 127;
    double m = f32_from_bits((bits & 0x7fffffu) | 0x3f800000u);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        n++;
    }
    return (float)(n * 0x1.62e42fefa39efp-1 + math_log_ratio((m - 1.0) / (m + 1.0)));
}

/* Returns ln(1 + e^x) within 3 units in the last place, 0 below -87.3; NaN for NaN. With t =
 * e^-|x| and s = t / (2 + t), 1 + t = (1 + s) / (1 - s). */
static inline float math_softplus(float x)
{
    double t = math_exp(-f32_from_bits(f32_bits(x) & 0x7fffffffu));
    return (float)((x > 0 ? (double)x : 0.0) + math_log_ratio(t / (2.0 + t)));
}

static inline float math_sigmoid(float x)
{
    return 1.0f / (1.0f + math_exp(-x));
}

/* Computes *sine and *cosine of an f32 angle in radians, correctly rounded for |angle| up to 2^17
 * (tested, not proved) and gradually less exact up to 2^24. Computes in double: reduction modulo
 * pi/2, with pi/2 split so that n times its first part (33 bits) is exact, then Taylor polynomials
 * on [-pi/4, pi/4]. */
static inline void math_sincos(float angle, float *sine, float *cosine)
{
    const double half_pi_high = 0x1.921fb544p+0, half_pi_low = 0x1.0b4611a626331p-34;
    double x = angle;
    double shifted = x * 0x1.45f306dc9c883p-1 + 0x1.8p52; /* n, in the low bits */
    double n = shifted - 0x1.8p52;
    double r = (x - n * half_pi_high) - n * half_pi_low;
    double z = r * r;
    double s = -1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = s * z * r + r;
    double c = 1.0 / 20922789888000.0;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    c = c * z + 1.0;
    int quadrant = (int)((long long)n & 3);
    double sin_part = quadrant & 1 ? c : s, cos_part = quadrant & 1 ? s : c;
    *sine = (float)(quadrant & 2 ? -sin_part : sin_part);
    *cosine = (float)((quadrant + 1) & 2 ? -cos_part : cos_part);
}

#endif

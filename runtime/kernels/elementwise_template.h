/* Kernels in plain C whose loops compilers turn into whatever vectors they may use; the results
 * do not depend on it. Included by scalar.c for the baseline and by each instruction set's file,
 * which is compiled with more features, so that both hold their own static copies. */

#include <math.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/math.h"

/* lanes[0..width) += lanes[width..2 * width) */
static inline void fold_sum(float lanes[16], size_t width)
{
    for (size_t i = 0; i < width; i++)
        lanes[i] += lanes[i + width];
}

static inline float sum_lanes(float lanes[16])
{
    fold_sum(lanes, 8);
    fold_sum(lanes, 4);
    fold_sum(lanes, 2);
    fold_sum(lanes, 1);
    return lanes[0];
}

static float sum_of_squares(const float *x, size_t n)
{
    float lanes[16] = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t lane = 0; lane < 16; lane++)
            lanes[lane] += x[i + lane] * x[i + lane];
    for (size_t lane = 0; i + lane < n; lane++)
        lanes[lane] += x[i + lane] * x[i + lane];
    return sum_lanes(lanes);
}

static void rms_norm(const float *x, const float *weight, size_t n, float eps, float *out)
{
    float inverse = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = weight[i] * (x[i] * inverse);
}

static void swiglu(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gate[i] = gate[i] / (1.0f + math_exp(-gate[i])) * up[i];
}

/* One group of the quantizer: false when an element is not finite. */
static bool quantize_group(const float *x, size_t size, int8_t steps[GROUP_INPUTS], float *scale,
                           int32_t *offset)
{
    uint32_t amax_bits = 0; /* magnitudes order like their bits, infinity and NaN last */
    for (size_t i = 0; i < size; i++) {
        uint32_t magnitude = f32_bits(x[i]) & 0x7fffffffu;
        amax_bits = magnitude > amax_bits ? magnitude : amax_bits;
    }
    float amax = f32_from_bits(amax_bits);
    memset(steps, 0, GROUP_INPUTS);
    *offset = 0;
    if (amax < 0x1p-100f) { /* 127 / amax might overflow */
        *scale = 0;
        return true;
    }
    float inverse = 127.0f / amax;
    *scale = amax / 127.0f;
    if (amax_bits >= 0x7f800000u)
        return false;
    int32_t sum = 0;
    for (size_t i = 0; i < size; i++) {
        int32_t step = f32_round_even(x[i] * inverse);
        steps[i] = (int8_t)step;
        sum += step;
    }
    *offset = -128 * sum;
    return true;
}

static bool quantize(const float *x, size_t size, const struct quantized *out, size_t first,
                     size_t t)
{
    bool finite = true;
    for (size_t start = 0, group = first; start < size; start += GROUP_INPUTS, group++) {
        size_t rest = size - start, at = group * out->n + t;
        int8_t steps[GROUP_INPUTS];
        /* a constant count lets the compiler unroll whole groups */
        if (rest >= GROUP_INPUTS)
            finite &=
                quantize_group(x + start, GROUP_INPUTS, steps, &out->scales[at], &out->offsets[at]);
        else
            finite &= quantize_group(x + start, rest, steps, &out->scales[at], &out->offsets[at]);
        for (size_t quad = 0; quad < GROUP_INPUTS / 4; quad++)
            memcpy(out->steps + ((group * GROUP_INPUTS / 4 + quad) * out->n + t) * 4,
                   steps + quad * 4, 4);
    }
    return finite;
}

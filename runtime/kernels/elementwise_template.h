/* Kernels in plain C whose loops compilers turn into whatever vectors they may use; the results
 * do not depend on it. Included by scalar.c for the baseline and by each instruction set's file,
 * which is compiled with more features, so that both hold their own static copies. */

#include <math.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/math.h"

static float sum_lanes(float lanes[16])
{
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
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

static float softmax(float scores[KV_BLOCK], size_t n, float *max)
{
    float largest = scores[0];
    for (size_t i = 1; i < n; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    *max = largest;
    for (size_t i = n; i < KV_BLOCK; i++)
        scores[i] = largest; /* whatever lies behind the newest position must not matter */
    for (size_t i = 0; i < KV_BLOCK; i++)
        scores[i] = math_exp(scores[i] - largest);
    for (size_t i = n; i < KV_BLOCK; i++)
        scores[i] = 0;
    float lanes[16] = {0};
    for (size_t i = 0; i < KV_BLOCK; i += 16)
        for (size_t lane = 0; lane < 16; lane++)
            lanes[lane] += scores[i + lane];
    return sum_lanes(lanes);
}

/* One group of the quantizer: false when an element is not finite. */
static bool quantize_group(const float *x, size_t n, int8_t *q, float *scale)
{
    uint32_t amax_bits = 0; /* magnitudes order like their bits, infinity and NaN last */
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = f32_bits(x[i]) & 0x7fffffffu;
        amax_bits = magnitude > amax_bits ? magnitude : amax_bits;
    }
    float amax = f32_from_bits(amax_bits);
    memset(q, 0, GROUP_INPUTS);
    if (amax < 0x1p-100f) { /* 127 / amax might overflow */
        *scale = 0;
        return true;
    }
    float inverse = 127.0f / amax;
    *scale = amax / 127.0f;
    if (amax_bits >= 0x7f800000u)
        return false;
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)f32_round_even(x[i] * inverse);
    return true;
}

static bool quantize(const float *x, size_t n, int8_t *q, float *scales)
{
    bool finite = true;
    for (size_t i = 0; i < n; i += GROUP_INPUTS) {
        size_t rest = n - i;
        /* a constant count lets the compiler unroll whole groups */
        if (rest >= GROUP_INPUTS)
            finite &= quantize_group(x + i, GROUP_INPUTS, q + i, scales + i / GROUP_INPUTS);
        else
            finite &= quantize_group(x + i, rest, q + i, scales + i / GROUP_INPUTS);
    }
    return finite;
}

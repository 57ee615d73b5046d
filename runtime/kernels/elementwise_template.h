/* Kernels in plain C whose loops compilers turn into whatever vectors they may use; the results
 * do not depend on it. Included by scalar.c for the baseline and by each instruction set's file,
 * which is compiled with more features, so that both hold their own static copies. */

#include <float.h>
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

/* Scores of one query become weights, see `attend`; returns the factor for what was summed so far.
 */
static float softmax(float scores[KV_BLOCK], uint32_t visible, float *max, float *sum)
{
    float lanes[16];
    for (size_t lane = 0; lane < 16; lane++)
        lanes[lane] = *max;
    for (uint32_t i = 0; i < KV_BLOCK; i += 16)
        for (uint32_t lane = 0; lane < 16; lane++) {
            float score = i + lane < visible ? scores[i + lane] : -FLT_MAX;
            lanes[lane] = score > lanes[lane] ? score : lanes[lane];
        }
    float largest = lanes[0];
    for (size_t lane = 1; lane < 16; lane++)
        largest = lanes[lane] > largest ? lanes[lane] : largest;

    for (size_t lane = 0; lane < 16; lane++)
        lanes[lane] = 0;
    for (uint32_t i = 0; i < KV_BLOCK; i += 16)
        for (uint32_t lane = 0; lane < 16; lane++) {
            float weight = math_exp(scores[i + lane] - largest);
            weight = i + lane < visible ? weight : 0;
            scores[i + lane] = weight;
            lanes[lane] += weight;
        }
    float rescale = math_exp(*max - largest);
    *max = largest;
    *sum = *sum * rescale + sum_lanes(lanes);
    return rescale;
}

/* One group of the quantizer: false when an element is not finite. */
static bool quantize_group(const float *x, size_t n, int8_t *steps, float *scale, int32_t *offset)
{
    uint32_t amax_bits = 0; /* magnitudes order like their bits, infinity and NaN last */
    for (size_t i = 0; i < n; i++) {
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
    int32_t total = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t step = f32_round_even(x[i] * inverse);
        steps[i] = (int8_t)step;
        total += step;
    }
    *offset = -128 * total;
    return true;
}

static bool quantize(const float *x, size_t n, const struct quantized *out, size_t row)
{
    int8_t *steps = out->steps + row * out->stride;
    float *scales = out->scales + row * (out->stride / GROUP_INPUTS);
    int32_t *offsets = out->offsets + row * (out->stride / GROUP_INPUTS);
    bool finite = true;
    for (size_t i = 0, group = 0; i < n; i += GROUP_INPUTS, group++) {
        size_t rest = n - i;
        /* a constant count lets the compiler unroll whole groups */
        if (rest >= GROUP_INPUTS)
            finite &=
                quantize_group(x + i, GROUP_INPUTS, steps + i, &scales[group], &offsets[group]);
        else
            finite &= quantize_group(x + i, rest, steps + i, &scales[group], &offsets[group]);
    }
    return finite;
}

/* Kernels in plain C whose loops compilers vectorize for the enabled instruction set; the results
 * do not depend on it. scalar.c includes this file for the baseline. Each instruction set's file,
 * which is compiled with more features, includes it too. Each has its own static copies. */

#include <math.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/loops.h"
#include "runtime/kernels/math.h"

/* The largest step. */
static inline float most_steps(bool wide)
{
    return wide ? 127.0f * 256 : 127.0f;
}

/* Stores the wide steps of a group at `to`. */
static inline void store_wide(const int32_t steps[GROUP_INPUTS], int8_t *to)
{
    for (size_t quad = 0; quad < GROUP_QUADS; quad++, steps += 4, to += 4) {
        int8_t first[4], second[4];
#ifdef PAIR_STEPS
        const int16_t even[] = {(int16_t)steps[0], (int16_t)steps[2]};
        const int16_t odd[] = {(int16_t)steps[1], (int16_t)steps[3]};
        memcpy(first, even, sizeof even);
        memcpy(second, odd, sizeof odd);
#else
        for (size_t i = 0; i < 4; i++) {
            int32_t high = (steps[i] + 127 * 256 + 128) / 256 - 127;
            first[i] = (int8_t)high;
            second[i] = (int8_t)(steps[i] - 256 * high);
        }
#endif
        memcpy(to, first, sizeof first);
        memcpy(to + GROUP_INPUTS, second, sizeof second);
    }
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
    return math_sum_lanes(lanes);
}

static void rms_norm(const float *x, const float *weight, size_t n, float eps, float *out)
{
    float inverse = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = weight[i] * (x[i] * inverse);
}

static float sum_of_values(const float *x, size_t n)
{
    float lanes[16] = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t lane = 0; lane < 16; lane++)
            lanes[lane] += x[i + lane];
    for (size_t lane = 0; i + lane < n; lane++)
        lanes[lane] += x[i + lane];
    return math_sum_lanes(lanes);
}

static void layer_norm(const float *x, const float *weight, const float *bias, size_t n, float eps,
                       float *out)
{
    float mean = sum_of_values(x, n) / (float)n;
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] - mean;
    float inverse = 1.0f / sqrtf(sum_of_squares(out, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = (out[i] * inverse) * weight[i] + bias[i];
}

static void unit_norm(const float *x, size_t n, float eps, float scale, float *out)
{
    float inverse = 1.0f / sqrtf(sum_of_squares(x, n) + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = (x[i] * inverse) * scale;
}

static void softcap(float *x, size_t n, float cap)
{
    for (size_t i = 0; i < n; i++)
        x[i] = math_tanh(x[i] / cap) * cap;
}

static inline float silu(float x)
{
    return x / (1.0f + math_exp(-x));
}

static inline float gelu_tanh(float x)
{
    const float slope = 0x1.988454p-1f; /* sqrt(2 / pi) */
    return 0.5f * x * (1.0f + math_tanh(slope * (x + 0.044715f * (x * x * x))));
}

static inline float gelu(float x)
{
    return x * math_normal(x);
}

/* NaN for -infinity too, which must not become an ordinary number. */
static inline float relu_squared(float x)
{
    return x * (x < 0 ? 0 : x);
}

#define ACTIVATION_KERNEL(name, activation)                                                        \
    static void name(float *gate, const float *up, size_t n)                                       \
    {                                                                                              \
        if (up)                                                                                    \
            for (size_t i = 0; i < n; i++)                                                         \
                gate[i] = activation(gate[i]) * up[i];                                             \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                gate[i] = activation(gate[i]);                                                     \
    }

ACTIVATION_KERNEL(swiglu, silu)
ACTIVATION_KERNEL(geglu_tanh, gelu_tanh)
ACTIVATION_KERNEL(geglu, gelu)
ACTIVATION_KERNEL(reglu_squared, relu_squared)

/* Convolves up to SLICE_CHANNELS channels for all tokens, from the last to the first, so that the
 * inputs of each are still there. */
static ALWAYS_INLINE void convolve_slice(const struct convolution *c, size_t channel,
                                         const size_t width, float *x, size_t stride, size_t n)
{
    size_t before = c->taps - 1;
    const float *weight = c->weight + channel;
    float *window = c->window + channel;
    float next[STATES_MAX_TAPS][SLICE_CHANNELS];
    for (size_t tap = 0; tap < before; tap++) {
        size_t t = n + tap; /* counted from the window's first */
        const float *input = t < before ? window + t * c->stride : x + (t - before) * stride;
        memcpy(next[tap], input + (t < before ? 0 : channel), width * sizeof(float));
    }
    for (size_t t = n; t-- > 0;) {
        float sum[SLICE_CHANNELS] = {0};
        for (size_t i = 0; c->bias && i < width; i++)
            sum[i] = c->bias[channel + i];
        for (size_t tap = 0; tap <= before; tap++) {
            const float *input = t + tap < before ? window + (t + tap) * c->stride
                                                  : x + (t + tap - before) * stride + channel;
            for (size_t i = 0; i < width; i++)
                sum[i] += weight[tap * c->stride + i] * input[i];
        }
        memcpy(x + t * stride + channel, sum, width * sizeof(float));
    }
    for (size_t tap = 0; tap < before; tap++)
        memcpy(window + tap * c->stride, next[tap], width * sizeof(float));
}

static void convolve(const struct convolution *c, size_t n_channels, float *x, size_t stride,
                     size_t n)
{
    size_t channel = 0;
    for (; channel + SLICE_CHANNELS <= n_channels; channel += SLICE_CHANNELS)
        convolve_slice(c, channel, SLICE_CHANNELS, x, stride, n);
    if (channel < n_channels)
        convolve_slice(c, channel, n_channels - channel, x, stride, n);
    for (size_t t = 0; c->activates && t < n; t++)
        swiglu(x + t * stride, NULL, n_channels);
}

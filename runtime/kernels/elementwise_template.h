/* Kernels in plain C whose loops compilers vectorize for the enabled instruction set; the results
 * do not depend on it. scalar.c includes this file for the baseline. Each instruction set's file,
 * which is compiled with more features, includes it too. Each has its own static copies. */

#include <math.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/math.h"

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

/* Convolves `width` channels, at most SLICE_CHANNELS, for all tokens. */
static inline void convolve_slice(const struct convolution *c, size_t channel, size_t width,
                                  float *x, size_t stride, size_t n)
{
    size_t before = c->taps - 1;
    float weight[MAX_TAPS][SLICE_CHANNELS], inputs[MAX_TAPS][SLICE_CHANNELS] = {{0}};
    float bias[SLICE_CHANNELS] = {0};
    for (size_t tap = 0; tap < c->taps; tap++)
        for (size_t i = 0; i < SLICE_CHANNELS; i++)
            weight[tap][i] = i < width ? c->weight[tap * c->stride + channel + i] : 0;
    for (size_t tap = 0; tap < before; tap++)
        memcpy(inputs[tap], c->window + tap * c->stride + channel, width * sizeof(float));
    if (c->bias)
        memcpy(bias, c->bias + channel, width * sizeof(float));
    for (size_t t = 0; t < n; t++) {
        float *row = x + t * stride + channel, sum[SLICE_CHANNELS];
        memcpy(inputs[before], row, width * sizeof(float));
        for (size_t i = 0; i < SLICE_CHANNELS; i++)
            sum[i] = bias[i];
        for (size_t tap = 0; tap < c->taps; tap++)
            for (size_t i = 0; i < SLICE_CHANNELS; i++)
                sum[i] += weight[tap][i] * inputs[tap][i];
        for (size_t i = 0; c->activates && i < SLICE_CHANNELS; i++)
            sum[i] = silu(sum[i]);
        memcpy(row, sum, width * sizeof(float));
        memmove(inputs[0], inputs[1], before * sizeof inputs[0]);
    }
    for (size_t tap = 0; tap < before; tap++)
        memcpy(c->window + tap * c->stride + channel, inputs[tap], width * sizeof(float));
}

static void convolve(const struct convolution *c, size_t n_channels, float *x, size_t stride,
                     size_t n)
{
    size_t channel = 0;
    for (; channel + SLICE_CHANNELS <= n_channels; channel += SLICE_CHANNELS)
        convolve_slice(c, channel, SLICE_CHANNELS, x, stride, n);
    if (channel < n_channels)
        convolve_slice(c, channel, n_channels - channel, x, stride, n);
}

/* The kernels in plain C: the definition of every result. */
#include "runtime/kernels/elementwise_template.h"

#include <math.h>

#include "common/checked.h"

/* Integer dot products of one group with its TILE_ROWS rows: exact in any order. */
static void dot_group(const int8_t *weights, const int8_t *q, int32_t dot[TILE_ROWS])
{
    for (size_t row = 0; row < TILE_ROWS; row++)
        dot[row] = 0;
    for (size_t quad = 0; quad < GROUP_INPUTS / 4; quad++)
        for (size_t row = 0; row < TILE_ROWS; row++)
            for (size_t i = 0; i < 4; i++)
                dot[row] += weights[quad * QUAD_BYTES + row * 4 + i] * q[quad * 4 + i];
}

static void matmul_int8(const uint8_t *block, size_t n_groups, const int8_t *q, size_t q_stride,
                        const float *scales, size_t scale_stride, size_t n_tokens, float *out,
                        size_t out_stride)
{
    for (size_t t = 0; t < n_tokens; t++) {
        float sum[TILE_ROWS] = {0};
        for (size_t group = 0; group < n_groups; group++) {
            const uint16_t *weight_scales = (const void *)(block + group_scales_offset(group));
            int32_t dot[TILE_ROWS];
            dot_group((const void *)(block + group_weights_offset(group)),
                      q + t * q_stride + group * GROUP_INPUTS, dot);
            float scale = scales[t * scale_stride + group];
            for (size_t row = 0; row < TILE_ROWS; row++)
                sum[row] += (float)dot[row] * (f32_from_f16(weight_scales[row]) * scale);
        }
        memcpy(out + t * out_stride, sum, sizeof sum);
    }
}

static void matmul_f32(const float *block, size_t cols, const float *x, size_t x_stride,
                       size_t n_tokens, float *out, size_t out_stride)
{
    for (size_t t = 0; t < n_tokens; t++) {
        float sum[TILE_ROWS] = {0};
        for (size_t col = 0; col < cols; col++)
            for (size_t row = 0; row < TILE_ROWS; row++)
                sum[row] = fmaf(block[col * TILE_ROWS + row], x[t * x_stride + col], sum[row]);
        memcpy(out + t * out_stride, sum, sizeof sum);
    }
}

/* The weight of column `col` and row `row`. */
static inline float bf16_weight(const uint32_t *block, size_t col, size_t row)
{
    uint32_t pair = block[col / 2 * TILE_ROWS + row];
    return f32_from_bf16((uint16_t)(col % 2 ? pair >> 16 : pair));
}

static void matmul_bf16(const uint32_t *block, size_t cols, const float *x, size_t x_stride,
                        size_t n_tokens, float *out, size_t out_stride)
{
    for (size_t t = 0; t < n_tokens; t++) {
        float sum[TILE_ROWS] = {0};
        for (size_t col = 0; col < cols; col++)
            for (size_t row = 0; row < TILE_ROWS; row++)
                sum[row] = fmaf(bf16_weight(block, col, row), x[t * x_stride + col], sum[row]);
        memcpy(out + t * out_stride, sum, sizeof sum);
    }
}

static void to_f16(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = f16_from_f32(x[i]);
}

/* Attention reads its cache through one of these. */
static inline float load_f32(const void *data, size_t i)
{
    return ((const float *)data)[i];
}

static inline float load_f16(const void *data, size_t i)
{
    return f32_from_f16(((const uint16_t *)data)[i]);
}

static inline float load_int8(const void *data, size_t i)
{
    return (float)((const int8_t *)data)[i];
}

#define ATTENTION_KERNELS(type, scaled)                                                            \
    static void scores_##type(const float *q, const struct kv_block *block, size_t head_dim,       \
                              float scale, float scores[KV_BLOCK])                                 \
    {                                                                                              \
        for (size_t i = 0; i < KV_BLOCK; i++) {                                                    \
            float sum = 0;                                                                         \
            for (size_t c = 0; c < head_dim; c++)                                                  \
                sum += q[c] * load_##type(block->k, (i / 16 * head_dim + c) * 16 + i % 16);        \
            scores[i] = (scaled ? sum * block->k_scale[i] : sum) * scale;                          \
        }                                                                                          \
    }                                                                                              \
    static void values_##type(const float *weights, size_t n, const struct kv_block *block,        \
                              size_t head_dim, float *out)                                         \
    {                                                                                              \
        size_t stride = round_up(head_dim, 16);                                                    \
        for (size_t c = 0; c < stride; c++)                                                        \
            out[c] = 0;                                                                            \
        for (size_t i = 0; i < n; i++) {                                                           \
            float weight = scaled ? weights[i] * block->v_scale[i] : weights[i];                   \
            for (size_t c = 0; c < stride; c++)                                                    \
                out[c] += weight * load_##type(block->v, i * stride + c);                          \
        }                                                                                          \
    }

ATTENTION_KERNELS(f32, false)
ATTENTION_KERNELS(f16, false)
ATTENTION_KERNELS(int8, true)

const struct kernels smol_kernels_scalar = {
    .name = "scalar",
    .quantize = quantize,
    .matmul_int8 = matmul_int8,
    .matmul_f32 = matmul_f32,
    .matmul_bf16 = matmul_bf16,
    .rms_norm = rms_norm,
    .swiglu = swiglu,
    .softmax = softmax,
    .attention_scores = {scores_f32, scores_f16, scores_int8},
    .attention_values = {values_f32, values_f16, values_int8},
    .to_f16 = to_f16,
};

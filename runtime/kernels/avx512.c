/* Kernels for AVX-512 with VNNI (the Makefile compiles this file for them). A tile's 16 rows are
 * one vector. */
#if defined(__AVX512VNNI__)

#include <immintrin.h>

#include "runtime/kernels/elementwise_template.h"

#include "common/checked.h"

/* --- int8 matrix product ------------------------------------------------------------------ */

enum { INT8_TOKENS = 8 }; /* tokens that share a pass over a tile */

/* vpdpbusd multiplies unsigned by signed bytes, so activations are moved up by 128, and 128 times
 * the sum of the weights is taken off again. Both are exact. */
static inline __m512i broadcast_quad(const int8_t *q)
{
    int32_t bytes;
    memcpy(&bytes, q, sizeof bytes);
    return _mm512_set1_epi32(bytes ^ (int32_t)0x80808080);
}

static inline __attribute__((always_inline)) void
int8_tokens(const uint8_t *block, size_t n_groups, const int8_t *q, size_t q_stride,
            const float *scales, size_t scale_stride, float *out, size_t out_stride,
            const size_t n_tokens)
{
    __m512 sum[INT8_TOKENS];
    for (size_t t = 0; t < n_tokens; t++)
        sum[t] = _mm512_setzero_ps();
    for (size_t group = 0; group < n_groups; group++) {
        const uint8_t *weights = block + group_weights_offset(group);
        __m512i dot[INT8_TOKENS], offset = _mm512_setzero_si512();
        for (size_t t = 0; t < n_tokens; t++)
            dot[t] = _mm512_setzero_si512();
        for (size_t quad = 0; quad < GROUP_INPUTS / 4; quad++) {
            __m512i w = _mm512_load_si512(weights + quad * QUAD_BYTES);
            offset = _mm512_dpbusd_epi32(offset, _mm512_set1_epi8((char)128), w);
            for (size_t t = 0; t < n_tokens; t++)
                dot[t] = _mm512_dpbusd_epi32(
                    dot[t], broadcast_quad(q + t * q_stride + group * GROUP_INPUTS + quad * 4), w);
        }
        __m512 weight_scales =
            _mm512_cvtph_ps(_mm256_load_si256((const void *)(block + group_scales_offset(group))));
        for (size_t t = 0; t < n_tokens; t++) {
            __m512 scale = _mm512_set1_ps(scales[t * scale_stride + group]);
            __m512 product = _mm512_cvtepi32_ps(_mm512_sub_epi32(dot[t], offset));
            sum[t] =
                _mm512_add_ps(sum[t], _mm512_mul_ps(product, _mm512_mul_ps(weight_scales, scale)));
        }
    }
    for (size_t t = 0; t < n_tokens; t++)
        _mm512_storeu_ps(out + t * out_stride, sum[t]);
}

static void matmul_int8(const uint8_t *block, size_t n_groups, const int8_t *q, size_t q_stride,
                        const float *scales, size_t scale_stride, size_t n_tokens, float *out,
                        size_t out_stride)
{
    size_t t = 0;
    for (; t + INT8_TOKENS <= n_tokens; t += INT8_TOKENS)
        int8_tokens(block, n_groups, q + t * q_stride, q_stride, scales + t * scale_stride,
                    scale_stride, out + t * out_stride, out_stride, INT8_TOKENS);
    for (; t + 2 <= n_tokens; t += 2) /* the output layer's pairs of rows */
        int8_tokens(block, n_groups, q + t * q_stride, q_stride, scales + t * scale_stride,
                    scale_stride, out + t * out_stride, out_stride, 2);
    if (t < n_tokens)
        int8_tokens(block, n_groups, q + t * q_stride, q_stride, scales + t * scale_stride,
                    scale_stride, out + t * out_stride, out_stride, 1);
}

/* --- f32 matrix product ------------------------------------------------------------------- */

enum { F32_TOKENS = 16 };

static inline __attribute__((always_inline)) void f32_tokens(const float *block, size_t cols,
                                                             const float *x, size_t x_stride,
                                                             float *out, size_t out_stride,
                                                             const size_t n_tokens)
{
    __m512 sum[F32_TOKENS];
    for (size_t t = 0; t < n_tokens; t++)
        sum[t] = _mm512_setzero_ps();
    for (size_t col = 0; col < cols; col++) {
        __m512 w = _mm512_load_ps(block + col * TILE_ROWS);
        for (size_t t = 0; t < n_tokens; t++)
            sum[t] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[t * x_stride + col]), sum[t]);
    }
    for (size_t t = 0; t < n_tokens; t++)
        _mm512_storeu_ps(out + t * out_stride, sum[t]);
}

static void matmul_f32(const float *block, size_t cols, const float *x, size_t x_stride,
                       size_t n_tokens, float *out, size_t out_stride)
{
    size_t t = 0;
    for (; t + F32_TOKENS <= n_tokens; t += F32_TOKENS)
        f32_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                   F32_TOKENS);
    for (; t + 4 <= n_tokens; t += 4)
        f32_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride, 4);
    for (; t < n_tokens; t++)
        f32_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride, 1);
}

/* --- bf16 matrix product ------------------------------------------------------------------ */

static inline __attribute__((always_inline)) void bf16_tokens(const uint32_t *block, size_t cols,
                                                              const float *x, size_t x_stride,
                                                              float *out, size_t out_stride,
                                                              const size_t n_tokens)
{
    __m512 sum[F32_TOKENS];
    for (size_t t = 0; t < n_tokens; t++)
        sum[t] = _mm512_setzero_ps();
    for (size_t col = 0; col < cols; col += 2, block += TILE_ROWS) {
        __m512i pairs = _mm512_load_si512(block);
        __m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
        for (size_t t = 0; t < n_tokens; t++)
            sum[t] = _mm512_fmadd_ps(even, _mm512_set1_ps(x[t * x_stride + col]), sum[t]);
        if (col + 1 == cols)
            break;
        __m512 odd =
            _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
        for (size_t t = 0; t < n_tokens; t++)
            sum[t] = _mm512_fmadd_ps(odd, _mm512_set1_ps(x[t * x_stride + col + 1]), sum[t]);
    }
    for (size_t t = 0; t < n_tokens; t++)
        _mm512_storeu_ps(out + t * out_stride, sum[t]);
}

static void matmul_bf16(const uint32_t *block, size_t cols, const float *x, size_t x_stride,
                        size_t n_tokens, float *out, size_t out_stride)
{
    size_t t = 0;
    for (; t + F32_TOKENS <= n_tokens; t += F32_TOKENS)
        bf16_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                    F32_TOKENS);
    for (; t + 4 <= n_tokens; t += 4)
        bf16_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride, 4);
    for (; t < n_tokens; t++)
        bf16_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride, 1);
}

/* --- attention ---------------------------------------------------------------------------- */

static void to_f16(const float *x, size_t n, uint16_t *out)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0));
    for (; i < n; i++)
        out[i] = f16_from_f32(x[i]);
}

/* Sixteen elements of the cache as f32, from element i. */
static inline __attribute__((always_inline)) __m512 load_sixteen(const void *data, size_t i,
                                                                 enum kv_type type)
{
    switch (type) {
    case KV_F32:
        return _mm512_loadu_ps((const float *)data + i);
    case KV_F16:
        return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((const uint16_t *)data + i)));
    default:
        return _mm512_cvtepi32_ps(
            _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)((const int8_t *)data + i))));
    }
}

enum { BLOCK_VECTORS = KV_BLOCK / 16 };

static inline __attribute__((always_inline)) void
attention_scores(const float *q, const struct kv_block *block, size_t head_dim, float scale,
                 float scores[KV_BLOCK], enum kv_type type)
{
    __m512 sum[BLOCK_VECTORS];
    for (size_t i = 0; i < BLOCK_VECTORS; i++)
        sum[i] = _mm512_setzero_ps();
    for (size_t c = 0; c < head_dim; c++) {
        __m512 value = _mm512_set1_ps(q[c]);
        for (size_t i = 0; i < BLOCK_VECTORS; i++) {
            __m512 k = load_sixteen(block->k, (i * head_dim + c) * 16, type);
            sum[i] = _mm512_add_ps(sum[i], _mm512_mul_ps(value, k));
        }
    }
    for (size_t i = 0; i < BLOCK_VECTORS; i++) {
        if (type == KV_INT8)
            sum[i] = _mm512_mul_ps(sum[i], _mm512_loadu_ps(block->k_scale + i * 16));
        _mm512_storeu_ps(scores + i * 16, _mm512_mul_ps(sum[i], _mm512_set1_ps(scale)));
    }
}

/* Channels [c, c + 16 * n_vectors) of the weighted sum of V. */
static inline __attribute__((always_inline)) void
value_channels(const float *weights, size_t n, const struct kv_block *block, size_t stride,
               size_t c, float *out, enum kv_type type, const size_t n_vectors)
{
    __m512 sum[4];
    for (size_t j = 0; j < n_vectors; j++)
        sum[j] = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i++) {
        __m512 weight =
            _mm512_set1_ps(type == KV_INT8 ? weights[i] * block->v_scale[i] : weights[i]);
        for (size_t j = 0; j < n_vectors; j++) {
            __m512 v = load_sixteen(block->v, i * stride + c + j * 16, type);
            sum[j] = _mm512_add_ps(sum[j], _mm512_mul_ps(weight, v));
        }
    }
    for (size_t j = 0; j < n_vectors; j++)
        _mm512_storeu_ps(out + c + j * 16, sum[j]);
}

static inline __attribute__((always_inline)) void attention_values(const float *weights, size_t n,
                                                                   const struct kv_block *block,
                                                                   size_t head_dim, float *out,
                                                                   enum kv_type type)
{
    size_t stride = round_up(head_dim, 16);
    size_t c = 0;
    for (; c + 64 <= stride; c += 64)
        value_channels(weights, n, block, stride, c, out, type, 4);
    for (; c < stride; c += 16)
        value_channels(weights, n, block, stride, c, out, type, 1);
}

#define ATTENTION_KERNELS(name, type)                                                              \
    static void scores_##name(const float *q, const struct kv_block *block, size_t head_dim,       \
                              float scale, float scores[KV_BLOCK])                                 \
    {                                                                                              \
        attention_scores(q, block, head_dim, scale, scores, type);                                 \
    }                                                                                              \
    static void values_##name(const float *weights, size_t n, const struct kv_block *block,        \
                              size_t head_dim, float *out)                                         \
    {                                                                                              \
        attention_values(weights, n, block, head_dim, out, type);                                  \
    }

ATTENTION_KERNELS(f32, KV_F32)
ATTENTION_KERNELS(f16, KV_F16)
ATTENTION_KERNELS(int8, KV_INT8)

const struct kernels smol_kernels_avx512 = {
    .name = "avx512",
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

#else
typedef int smol_no_avx512_here; /* ISO C wants a declaration in every file */
#endif

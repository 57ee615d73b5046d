/* Kernels for AVX2 with FMA and F16C (the Makefile compiles this file for them). A tile's 16 rows
 * are two vectors of eight lanes, called low and high. */
#if defined(__AVX2__)

#include <immintrin.h>

#include "runtime/kernels/elementwise_template.h"

#include "common/checked.h"

/* --- int8 matrix product ------------------------------------------------------------------ */

enum { INT8_TOKENS = 4 }; /* tokens that share a pass over a tile: all accumulators in registers */

/* 32 products of weights and activations summed by fours into eight 32-bit lanes. maddubs takes
 * one unsigned operand, so the weight gives up its sign to the activation; with values within
 * -127..127 its 16-bit sums stay below 2 * 127 * 127 = 32258. */
static inline __m256i dot_quads(__m256i magnitude, __m256i weights, __m256i q, __m256i sum)
{
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, weights));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __m256i broadcast_quad(const int8_t *q)
{
    int32_t bytes;
    memcpy(&bytes, q, sizeof bytes);
    return _mm256_set1_epi32(bytes);
}

/* out += (float)dot * (weight scale * activation scale) */
static inline __m256 accumulate(__m256 sum, __m256i dot, __m256 weight_scales, __m256 scale)
{
    __m256 factor = _mm256_mul_ps(weight_scales, scale);
    return _mm256_add_ps(sum, _mm256_mul_ps(_mm256_cvtepi32_ps(dot), factor));
}

static inline __attribute__((always_inline)) void
int8_tokens(const uint8_t *block, size_t n_groups, const int8_t *q, size_t q_stride,
            const float *scales, size_t scale_stride, float *out, size_t out_stride,
            const size_t n_tokens)
{
    __m256 low[INT8_TOKENS], high[INT8_TOKENS];
    for (size_t t = 0; t < n_tokens; t++)
        low[t] = high[t] = _mm256_setzero_ps();
    for (size_t group = 0; group < n_groups; group++) {
        const uint8_t *weights = block + group_weights_offset(group);
        __m256i dot_low[INT8_TOKENS], dot_high[INT8_TOKENS];
        for (size_t t = 0; t < n_tokens; t++)
            dot_low[t] = dot_high[t] = _mm256_setzero_si256();
        for (size_t quad = 0; quad < GROUP_INPUTS / 4; quad++) {
            __m256i w_low = _mm256_load_si256((const void *)(weights + quad * QUAD_BYTES));
            __m256i w_high = _mm256_load_si256((const void *)(weights + quad * QUAD_BYTES + 32));
            __m256i m_low = _mm256_abs_epi8(w_low), m_high = _mm256_abs_epi8(w_high);
            for (size_t t = 0; t < n_tokens; t++) {
                __m256i x = broadcast_quad(q + t * q_stride + group * GROUP_INPUTS + quad * 4);
                dot_low[t] = dot_quads(m_low, w_low, x, dot_low[t]);
                dot_high[t] = dot_quads(m_high, w_high, x, dot_high[t]);
            }
        }
        const __m128i *halves = (const void *)(block + group_scales_offset(group));
        __m256 scales_low = _mm256_cvtph_ps(_mm_load_si128(halves));
        __m256 scales_high = _mm256_cvtph_ps(_mm_load_si128(halves + 1));
        for (size_t t = 0; t < n_tokens; t++) {
            __m256 scale = _mm256_set1_ps(scales[t * scale_stride + group]);
            low[t] = accumulate(low[t], dot_low[t], scales_low, scale);
            high[t] = accumulate(high[t], dot_high[t], scales_high, scale);
        }
    }
    for (size_t t = 0; t < n_tokens; t++) {
        _mm256_storeu_ps(out + t * out_stride, low[t]);
        _mm256_storeu_ps(out + t * out_stride + 8, high[t]);
    }
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

enum { F32_TOKENS = 6 };

static inline __attribute__((always_inline)) void f32_tokens(const float *block, size_t cols,
                                                             const float *x, size_t x_stride,
                                                             float *out, size_t out_stride,
                                                             const size_t n_tokens)
{
    __m256 low[F32_TOKENS], high[F32_TOKENS];
    for (size_t t = 0; t < n_tokens; t++)
        low[t] = high[t] = _mm256_setzero_ps();
    for (size_t col = 0; col < cols; col++) {
        __m256 w_low = _mm256_load_ps(block + col * TILE_ROWS);
        __m256 w_high = _mm256_load_ps(block + col * TILE_ROWS + 8);
        for (size_t t = 0; t < n_tokens; t++) {
            __m256 value = _mm256_broadcast_ss(x + t * x_stride + col);
            low[t] = _mm256_fmadd_ps(w_low, value, low[t]);
            high[t] = _mm256_fmadd_ps(w_high, value, high[t]);
        }
    }
    for (size_t t = 0; t < n_tokens; t++) {
        _mm256_storeu_ps(out + t * out_stride, low[t]);
        _mm256_storeu_ps(out + t * out_stride + 8, high[t]);
    }
}

static void matmul_f32(const float *block, size_t cols, const float *x, size_t x_stride,
                       size_t n_tokens, float *out, size_t out_stride)
{
    size_t t = 0;
    for (; t + F32_TOKENS <= n_tokens; t += F32_TOKENS)
        f32_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                   F32_TOKENS);
    for (; t + 2 <= n_tokens; t += 2)
        f32_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride, 2);
    if (t < n_tokens)
        f32_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride, 1);
}

/* --- bf16 matrix product ------------------------------------------------------------------ */

/* The even columns' weights are the low halves of the lanes, the odd columns' the high ones; moved
 * to the top of a lane, each is the f32 that it stands for. */
static inline __m256 even_weights(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

static inline __m256 odd_weights(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

static inline __attribute__((always_inline)) void bf16_tokens(const uint32_t *block, size_t cols,
                                                              const float *x, size_t x_stride,
                                                              float *out, size_t out_stride,
                                                              const size_t n_tokens)
{
    __m256 low[F32_TOKENS], high[F32_TOKENS];
    for (size_t t = 0; t < n_tokens; t++)
        low[t] = high[t] = _mm256_setzero_ps();
    for (size_t col = 0; col < cols; col += 2, block += TILE_ROWS) {
        __m256i pairs_low = _mm256_load_si256((const void *)block);
        __m256i pairs_high = _mm256_load_si256((const void *)(block + 8));
        __m256 w_low = even_weights(pairs_low), w_high = even_weights(pairs_high);
        for (size_t t = 0; t < n_tokens; t++) {
            __m256 value = _mm256_broadcast_ss(x + t * x_stride + col);
            low[t] = _mm256_fmadd_ps(w_low, value, low[t]);
            high[t] = _mm256_fmadd_ps(w_high, value, high[t]);
        }
        if (col + 1 == cols)
            break;
        w_low = odd_weights(pairs_low);
        w_high = odd_weights(pairs_high);
        for (size_t t = 0; t < n_tokens; t++) {
            __m256 value = _mm256_broadcast_ss(x + t * x_stride + col + 1);
            low[t] = _mm256_fmadd_ps(w_low, value, low[t]);
            high[t] = _mm256_fmadd_ps(w_high, value, high[t]);
        }
    }
    for (size_t t = 0; t < n_tokens; t++) {
        _mm256_storeu_ps(out + t * out_stride, low[t]);
        _mm256_storeu_ps(out + t * out_stride + 8, high[t]);
    }
}

static void matmul_bf16(const uint32_t *block, size_t cols, const float *x, size_t x_stride,
                        size_t n_tokens, float *out, size_t out_stride)
{
    size_t t = 0;
    for (; t + 4 <= n_tokens; t += 4)
        bf16_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride, 4);
    for (; t < n_tokens; t++)
        bf16_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride, 1);
}

/* --- attention ---------------------------------------------------------------------------- */

static void to_f16(const float *x, size_t n, uint16_t *out)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
    for (; i < n; i++)
        out[i] = f16_from_f32(x[i]);
}

/* Eight elements of the cache as f32, from element i. */
static inline __attribute__((always_inline)) __m256 load_eight(const void *data, size_t i,
                                                               enum kv_type type)
{
    switch (type) {
    case KV_F32:
        return _mm256_loadu_ps((const float *)data + i);
    case KV_F16:
        return _mm256_cvtph_ps(_mm_loadu_si128((const void *)((const uint16_t *)data + i)));
    default:
        return _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)((const int8_t *)data + i))));
    }
}

enum { BLOCK_VECTORS = KV_BLOCK / 8 };

static inline __attribute__((always_inline)) void
attention_scores(const float *q, const struct kv_block *block, size_t head_dim, float scale,
                 float scores[KV_BLOCK], enum kv_type type)
{
    __m256 sum[BLOCK_VECTORS];
    for (size_t i = 0; i < BLOCK_VECTORS; i++)
        sum[i] = _mm256_setzero_ps();
    for (size_t c = 0; c < head_dim; c++) {
        __m256 value = _mm256_broadcast_ss(q + c);
        for (size_t i = 0; i < BLOCK_VECTORS; i++) {
            __m256 k = load_eight(block->k, (i / 2 * head_dim + c) * 16 + i % 2 * 8, type);
            sum[i] = _mm256_add_ps(sum[i], _mm256_mul_ps(value, k));
        }
    }
    for (size_t i = 0; i < BLOCK_VECTORS; i++) {
        if (type == KV_INT8)
            sum[i] = _mm256_mul_ps(sum[i], _mm256_loadu_ps(block->k_scale + i * 8));
        _mm256_storeu_ps(scores + i * 8, _mm256_mul_ps(sum[i], _mm256_set1_ps(scale)));
    }
}

/* Channels [c, c + 8 * n_vectors) of the weighted sum of V. */
static inline __attribute__((always_inline)) void
value_channels(const float *weights, size_t n, const struct kv_block *block, size_t stride,
               size_t c, float *out, enum kv_type type, const size_t n_vectors)
{
    __m256 sum[8];
    for (size_t j = 0; j < n_vectors; j++)
        sum[j] = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i++) {
        __m256 weight =
            _mm256_set1_ps(type == KV_INT8 ? weights[i] * block->v_scale[i] : weights[i]);
        for (size_t j = 0; j < n_vectors; j++) {
            __m256 v = load_eight(block->v, i * stride + c + j * 8, type);
            sum[j] = _mm256_add_ps(sum[j], _mm256_mul_ps(weight, v));
        }
    }
    for (size_t j = 0; j < n_vectors; j++)
        _mm256_storeu_ps(out + c + j * 8, sum[j]);
}

static inline __attribute__((always_inline)) void attention_values(const float *weights, size_t n,
                                                                   const struct kv_block *block,
                                                                   size_t head_dim, float *out,
                                                                   enum kv_type type)
{
    size_t stride = round_up(head_dim, 16);
    size_t c = 0;
    for (; c + 64 <= stride; c += 64)
        value_channels(weights, n, block, stride, c, out, type, 8);
    for (; c < stride; c += 16)
        value_channels(weights, n, block, stride, c, out, type, 2);
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

const struct kernels smol_kernels_avx2 = {
    .name = "avx2",
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
typedef int smol_no_avx2_here; /* ISO C wants a declaration in every file */
#endif

/* Kernels for AVX2 with FMA and F16C. The Makefile compiles this file with these features. The 16
 * rows of a tile are two vectors of eight lanes, called low and high. */
#if defined(__AVX2__)

#include <immintrin.h>

#include <stddef.h>
#include <stdint.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"

/* --- vector operations -------------------------------------------------------------------- */

typedef __m256 V;
enum { LANES = 8, TOKENS_MANY = 6, TOKENS_FEW = 2 };
enum { QUERIES_MANY = 4, QUERIES_FEW = 3, FEW_VECTORS = 2 };

static inline V v_zero(void)
{
    return _mm256_setzero_ps();
}

static inline V v_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline V v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, V v)
{
    _mm256_storeu_ps(p, v);
}

static inline V v_add(V a, V b)
{
    return _mm256_add_ps(a, b);
}

static inline V v_mul(V a, V b)
{
    return _mm256_mul_ps(a, b);
}

static inline V v_fma(V a, V b, V c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline V v_max(V a, V b)
{
    return _mm256_max_ps(a, b);
}

static inline float v_reduce_max(V v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static inline V v_max_magnitude(V a, V b)
{
    __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(b), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), magnitude));
}

static inline uint32_t v_reduce_max_bits(V v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    m = _mm_max_epu32(m, _mm_unpackhi_epi64(m, m));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(m, _mm_srli_epi64(m, 32)));
}

static inline int32_t v_steps(const V v[GROUP_INPUTS / LANES], int8_t steps[GROUP_INPUTS])
{
    __m256i a = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
    __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32(v[2]), _mm256_cvtps_epi32(v[3]));
    __m256i mixed = _mm256_packs_epi16(a, b); /* packing works on 128-bit halves */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((void *)steps, _mm256_permutevar8x32_epi32(mixed, order));
    __m256i pairs = _mm256_madd_epi16(_mm256_add_epi16(a, b), _mm256_set1_epi16(1));
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_srli_epi64(sum, 32)));
}

static inline void v_store_f16(uint16_t *p, V v)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(v, 0));
}

/* A bf16 weight shifted to the top of its 32-bit lane is the equivalent f32. */
static inline V v_even(const uint32_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_load_si256((const void *)p), 16));
}

static inline V v_odd(const uint32_t *p)
{
    return _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_load_si256((const void *)p), _mm256_set1_epi32((int)0xffff0000)));
}

static inline __attribute__((always_inline)) V v_cache(const void *data, size_t i,
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

#include "runtime/kernels/vector_template.h"

/* --- int8 matrix product ------------------------------------------------------------------ */

enum { INT8_TOKENS = 4 }; /* tokens that share a pass over a tile; all sums are in registers */

/* Sums 32 products of weights and activations by fours into eight 32-bit lanes. maddubs takes one
 * unsigned operand, so the weight's sign moves to the activation. Values within -127..127 keep the
 * 16-bit sums within 2 * 127 * 127 = 32258. */
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

/* Returns sum + (float)dot * (weight scale * activation scale). */
static inline __m256 accumulate(__m256 sum, __m256i dot, __m256 weight_scales, __m256 scale)
{
    __m256 factor = _mm256_mul_ps(weight_scales, scale);
    return _mm256_add_ps(sum, _mm256_mul_ps(_mm256_cvtepi32_ps(dot), factor));
}

/* Multiplies one row block by tokens [first, first + n_tokens) of x. */
static ALWAYS_INLINE void int8_tokens(const uint8_t *block, size_t n_groups,
                                      const struct quantized *x, size_t first, float *out,
                                      size_t out_stride, const size_t n_tokens)
{
    const int8_t *steps = x->steps + 4 * first;
    __m256 low[INT8_TOKENS], high[INT8_TOKENS];
    UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
        low[t] = high[t] = _mm256_setzero_ps();
    for (size_t group = 0; group < n_groups; group++) {
        const uint8_t *weights = block + group_weights_offset(DTYPE_INT8, group);
        __m256i dot_low[INT8_TOKENS], dot_high[INT8_TOKENS];
        UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
            dot_low[t] = dot_high[t] = _mm256_setzero_si256();
        for (size_t quad = 0; quad < GROUP_QUADS; quad++) {
            __m256i w_low = _mm256_load_si256((const void *)(weights + quad * QUAD_BYTES));
            __m256i w_high = _mm256_load_si256((const void *)(weights + quad * QUAD_BYTES + 32));
            __m256i m_low = _mm256_abs_epi8(w_low), m_high = _mm256_abs_epi8(w_high);
            UNROLLED_UPTO (t, n_tokens, INT8_TOKENS) {
                __m256i q = broadcast_quad(steps + 4 * t);
                dot_low[t] = dot_quads(m_low, w_low, q, dot_low[t]);
                dot_high[t] = dot_quads(m_high, w_high, q, dot_high[t]);
            }
            steps += 4 * x->stride;
        }
        const __m128i *halves = (const void *)(block + group_scales_offset(DTYPE_INT8, group));
        __m256 scales_low = _mm256_cvtph_ps(_mm_load_si128(halves));
        __m256 scales_high = _mm256_cvtph_ps(_mm_load_si128(halves + 1));
        UNROLLED_UPTO (t, n_tokens, INT8_TOKENS) {
            __m256 scale = _mm256_set1_ps(x->scales[group * x->stride + first + t]);
            low[t] = accumulate(low[t], dot_low[t], scales_low, scale);
            high[t] = accumulate(high[t], dot_high[t], scales_high, scale);
        }
    }
    UNROLLED_UPTO (t, n_tokens, INT8_TOKENS) {
        _mm256_storeu_ps(out + (first + t) * out_stride, low[t]);
        _mm256_storeu_ps(out + (first + t) * out_stride + 8, high[t]);
    }
}

#include "runtime/kernels/int8_template.h"

/* --- the set ------------------------------------------------------------------------------ */

const struct kernels smol_kernels_avx2 = {
    .name = "avx2",
    .matmul_int8 = matmul_int8,
    VECTOR_KERNELS,
};

#else
typedef int smol_no_avx2_here; /* ISO C requires a declaration in every file */
#endif

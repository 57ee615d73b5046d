/* Kernels for AVX-512 with VNNI. The Makefile compiles this file with these features. The 16 rows
 * of a tile are one vector. */
#if defined(__AVX512VNNI__)

#include <immintrin.h>

#include <stddef.h>
#include <stdint.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"

/* --- vector operations -------------------------------------------------------------------- */

typedef __m512 V;
enum { LANES = 16, TOKENS_MANY = 16, TOKENS_FEW = 4 };
enum { QUERIES_MANY = 24, QUERIES_FEW = 3, FEW_VECTORS = 4 };

static inline V v_zero(void)
{
    return _mm512_setzero_ps();
}

static inline V v_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline V v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, V v)
{
    _mm512_storeu_ps(p, v);
}

static inline V v_add(V a, V b)
{
    return _mm512_add_ps(a, b);
}

static inline V v_mul(V a, V b)
{
    return _mm512_mul_ps(a, b);
}

static inline V v_fma(V a, V b, V c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline V v_max(V a, V b)
{
    return _mm512_max_ps(a, b);
}

static inline float v_reduce_max(V v)
{
    return _mm512_reduce_max_ps(v);
}

static inline V v_max_magnitude(V a, V b)
{
    __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(b), _mm512_set1_epi32(0x7fffffff));
    return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), magnitude));
}

static inline uint32_t v_reduce_max_bits(V v)
{
    return _mm512_reduce_max_epu32(_mm512_castps_si512(v));
}

static inline int32_t v_steps(const V v[GROUP_INPUTS / LANES], int8_t steps[GROUP_INPUTS])
{
    __m512i low = _mm512_cvtps_epi32(v[0]), high = _mm512_cvtps_epi32(v[1]);
    _mm_storeu_si128((void *)steps, _mm512_cvtepi32_epi8(low));
    _mm_storeu_si128((void *)(steps + 16), _mm512_cvtepi32_epi8(high));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(low, high));
}

static inline void v_store_f16(uint16_t *p, V v)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(v, 0));
}

/* A bf16 weight shifted to the top of its 32-bit lane is the equivalent f32. */
static inline V v_even(const uint32_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_load_si512(p), 16));
}

static inline V v_odd(const uint32_t *p)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_load_si512(p), _mm512_set1_epi32((int)0xffff0000)));
}

static inline __attribute__((always_inline)) V v_cache(const void *data, size_t i,
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

#include "runtime/kernels/vector_template.h"

/* --- int8 matrix product ------------------------------------------------------------------ */

enum { INT8_TOKENS = 16 }; /* tokens that share a pass over a tile */

/* Returns four steps in every lane. vpdpbusd multiplies unsigned by signed bytes and can broadcast
 * the signed ones from memory. The weights are therefore increased by 128, and the sum starts at
 * -128 times the sum of the activations. Both are exact. */
static ALWAYS_INLINE __m512i broadcast_quad(const int8_t *steps)
{
    int32_t bytes;
    memcpy(&bytes, steps, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/* Multiplies one row block by tokens [first, first + n_tokens) of x. */
static ALWAYS_INLINE void int8_tokens(const uint8_t *block, size_t n_groups,
                                      const struct quantized *x, size_t first, float *out,
                                      size_t out_stride, const size_t n_tokens)
{
    const int8_t *steps = x->steps + 4 * first;
    __m512 sum[INT8_TOKENS];
    UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
        sum[t] = _mm512_setzero_ps();
    for (size_t group = 0; group < n_groups; group++) {
        const uint8_t *weights = block + group_weights_offset(DTYPE_INT8, group);
        const int32_t *offsets = x->offsets + group * x->stride + first;
        __m512i dot[INT8_TOKENS];
        UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
            dot[t] = _mm512_set1_epi32(offsets[t]);
        UNROLLED (quad, GROUP_QUADS) {
            __m512i w = _mm512_xor_si512(_mm512_load_si512(weights + quad * QUAD_BYTES),
                                         _mm512_set1_epi8((char)0x80));
            UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
                dot[t] = _mm512_dpbusd_epi32(dot[t], w, broadcast_quad(steps + 4 * t));
            steps += 4 * x->stride;
        }
        const float *scales = x->scales + group * x->stride + first;
        __m512 weight_scales =
            _mm512_cvtph_ps(_mm256_load_si256((const void *)(block + group_scales_offset(DTYPE_INT8, group))));
        UNROLLED_UPTO (t, n_tokens, INT8_TOKENS) {
            __m512 factor = _mm512_mul_ps(weight_scales, _mm512_set1_ps(scales[t]));
            sum[t] = _mm512_add_ps(sum[t], _mm512_mul_ps(_mm512_cvtepi32_ps(dot[t]), factor));
        }
    }
    UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
        _mm512_storeu_ps(out + (first + t) * out_stride, sum[t]);
}

#include "runtime/kernels/int8_template.h"

/* --- the set ------------------------------------------------------------------------------ */

const struct kernels smol_kernels_avx512 = {
    .name = "avx512",
    .matmul_int8 = matmul_int8,
    VECTOR_KERNELS,
};

#else
typedef int smol_no_avx512_here; /* ISO C requires a declaration in every file */
#endif

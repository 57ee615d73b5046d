/* Vectors of AVX-512 with VNNI, see vector_template.h and grouped_template.h, without tables of
 * levels. The 16 rows of a tile are one vector. */

#include <immintrin.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/loops.h"

/* --- vector operations -------------------------------------------------------------------- */

typedef __m512 V;
enum { LANES = 16, TILE_VECTORS = TILE_ROWS / LANES, TOKENS_MANY = 16, TOKENS_FEW = 4 };
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

static inline V v_sub(V a, V b)
{
    return _mm512_sub_ps(a, b);
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

static inline void v_round(V v, int32_t *p)
{
    _mm512_storeu_si512(p, _mm512_cvtps_epi32(v));
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

static inline V v_from_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

static inline V v_from_int(__m512i v)
{
    return _mm512_cvtepi32_ps(v);
}

static inline __attribute__((always_inline)) V v_cache(const void *data, size_t i,
                                                       enum kv_type type)
{
    switch (type) {
    case KV_F32:
        return _mm512_loadu_ps((const float *)data + i);
    case KV_F16:
        return v_from_f16((const uint16_t *)data + i);
    default:
        return _mm512_cvtepi32_ps(
            _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)((const int8_t *)data + i))));
    }
}

/* The lookup uses the low four bits of each lane. */
static inline __attribute__((always_inline)) V v_levels(const uint8_t *p, bool high)
{
    V levels = v_cache(smol_kv_levels, 0, KV_INT8);
    __m128i bytes = _mm_srli_epi16(_mm_loadu_si128((const void *)p), high ? 4 : 0);
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(bytes), levels);
}

/* --- grouped weights ------------------------------------------------------------------------ */

enum { GROUPED_TOKENS = 16 };

typedef __m512i B;
typedef __m512i I;

static ALWAYS_INLINE B b_load(const uint8_t *p)
{
    return _mm512_load_si512(p);
}

static ALWAYS_INLINE void b_store(uint8_t *p, B b)
{
    _mm512_store_si512(p, b);
}

static ALWAYS_INLINE B b_left(B b, const int n)
{
    return _mm512_slli_epi16(b, (unsigned)n);
}

static ALWAYS_INLINE B b_right(B b, const int n)
{
    return _mm512_srli_epi16(b, (unsigned)n);
}

/* vpdpbusd multiplies unsigned by signed bytes and can broadcast the signed ones from memory. The
 * weights are therefore increased by 128, and the sum starts at -128 times the sum of the
 * activations. Both are exact. */
static ALWAYS_INLINE B b_operand(B b)
{
    return _mm512_xor_si512(b, _mm512_set1_epi8((char)0x80));
}

static ALWAYS_INLINE I dot_start(int32_t offset)
{
    return _mm512_set1_epi32(offset);
}

static ALWAYS_INLINE I dot_quad(I dot, B weights, const int8_t *steps, size_t quad)
{
    int32_t bytes;
    memcpy(&bytes, steps + 4 * quad, sizeof bytes);
    return _mm512_dpbusd_epi32(dot, weights, _mm512_set1_epi32(bytes));
}

static ALWAYS_INLINE I dot_wide_bytes(I high, I low)
{
    return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}

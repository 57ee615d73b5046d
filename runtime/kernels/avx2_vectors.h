/* Vectors of AVX2, FMA and F16C, see vector_template.h and grouped_template.h. The 16 rows of a
 * tile are two vectors of eight lanes. */

#include <immintrin.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/loops.h"

/* --- vector operations -------------------------------------------------------------------- */

typedef __m256 V;
enum { LANES = 8, TILE_VECTORS = TILE_ROWS / LANES, TOKENS_MANY = 6, TOKENS_FEW = 2 };
enum { QUERIES_MANY = 6, QUERIES_FEW = 3, FEW_VECTORS = 2 };

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

static inline V v_sub(V a, V b)
{
    return _mm256_sub_ps(a, b);
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

static inline void v_round(V v, int32_t *p)
{
    _mm256_storeu_si256((void *)p, _mm256_cvtps_epi32(v));
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

static inline V v_from_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

static inline V v_from_int(__m256i v)
{
    return _mm256_cvtepi32_ps(v);
}

static inline __attribute__((always_inline)) V v_cache(const void *data, size_t i,
                                                       enum kv_type type)
{
    switch (type) {
    case KV_F32:
        return _mm256_loadu_ps((const float *)data + i);
    case KV_F16:
        return v_from_f16((const uint16_t *)data + i);
    default:
        return _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)((const int8_t *)data + i))));
    }
}

static inline __attribute__((always_inline)) V v_levels(const uint8_t *p, bool high)
{
    __m128i bytes = _mm_loadl_epi64((const void *)p);
    __m128i codes = _mm_and_si128(_mm_srli_epi16(bytes, high ? 4 : 0), _mm_set1_epi8(15));
    __m128i levels = _mm_shuffle_epi8(_mm_loadu_si128((const void *)smol_kv_levels), codes);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(levels));
}

/* --- bytes of grouped weights -------------------------------------------------------------- */

enum { GROUPED_TOKENS = 4 }; /* all sums of a group are in registers */

typedef __m256i B;
typedef __m256i I;

static ALWAYS_INLINE B b_load(const uint8_t *p)
{
    return _mm256_load_si256((const void *)p);
}

static ALWAYS_INLINE void b_store(uint8_t *p, B b)
{
    _mm256_store_si256((void *)p, b);
}

static ALWAYS_INLINE B b_left(B b, const int n)
{
    return _mm256_slli_epi16(b, n);
}

static ALWAYS_INLINE B b_right(B b, const int n)
{
    return _mm256_srli_epi16(b, n);
}

static ALWAYS_INLINE B b_code(B low, B upper, const int mask)
{
    low = _mm256_and_si256(low, _mm256_set1_epi8(15));
    return mask ? _mm256_or_si256(low, _mm256_and_si256(upper, _mm256_set1_epi8((char)mask))) : low;
}

static ALWAYS_INLINE B b_spread(const int8_t *levels)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)levels));
}

static ALWAYS_INLINE B b_xor(B a, B b)
{
    return _mm256_xor_si256(a, b);
}

static ALWAYS_INLINE B b_minus_16(B b)
{
    return _mm256_sub_epi8(b, _mm256_set1_epi8(16));
}

static ALWAYS_INLINE B b_shuffle(B table, B b)
{
    return _mm256_shuffle_epi8(table, b);
}

#include "runtime/kernels/shuffle_table.h"

/* --- steps --------------------------------------------------------------------------------- */

static ALWAYS_INLINE __m256i broadcast_quad(const int8_t *steps)
{
    int32_t bytes;
    memcpy(&bytes, steps, sizeof bytes);
    return _mm256_set1_epi32(bytes);
}

/* --- wide steps ---------------------------------------------------------------------------- */

#define PAIR_STEPS

static ALWAYS_INLINE B b_even(B b)
{
    return _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8);
}

static ALWAYS_INLINE B b_odd(B b)
{
    return _mm256_srai_epi16(b, 8);
}

/* Vectors of AVX-512 with VNNI and VBMI: those of AVX-512, and tables of levels. */

#include "runtime/kernels/avx512_vectors.h"

/* A permutation takes the lower six bits of an index. The table is repeated to 64 levels, so that
 * it does not matter what the bits above a code are. */
struct table {
    B first;
};

static ALWAYS_INLINE B b_code(B low, B upper, const int mask)
{
    enum { SELECT = 0xca }; /* a ? b : c */
    return mask ? _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, upper, SELECT) : low;
}

static ALWAYS_INLINE struct table b_table(const int8_t *levels, const size_t n)
{
    if (n == 64)
        return (struct table){_mm512_loadu_si512(levels)};
    if (n == 32)
        return (struct table){_mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)levels))};
    return (struct table){_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)levels))};
}

static ALWAYS_INLINE B b_lookup(const struct table *table, B codes, const size_t n)
{
    (void)n;
    return _mm512_permutexvar_epi8(codes, table->first);
}

/* Kernels for AVX-512 with VNNI. The Makefile compiles this file with these features. */
#if defined(__AVX512VNNI__)

#include "runtime/kernels/avx512_vectors.h"

static ALWAYS_INLINE B b_code(B low, B upper, const int mask)
{
    low = _mm512_and_si512(low, _mm512_set1_epi8(15));
    if (!mask)
        return low;
    enum { OR_AND = 0xf8 }; /* a | (b & c) */
    return _mm512_ternarylogic_epi32(low, upper, _mm512_set1_epi8((char)mask), OR_AND);
}

/* The first 16 levels, and for each further 16 how their bits differ from the 16 before. */
struct table {
    B first, differences[3];
};

static ALWAYS_INLINE struct table b_table(const int8_t *levels, const size_t n)
{
    struct table table;
    B before = table.first = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)levels));
    UNROLLED_UPTO (i, n / 16 - 1, 3) {
        const void *next = levels + 16 * (i + 1);
        B part = _mm512_broadcast_i32x4(_mm_loadu_si128(next));
        table.differences[i] = _mm512_xor_si512(part, before);
        before = part;
    }
    return table;
}

/* A shuffle takes the lower four bits of an index, and makes 0 of a negative one. */
static ALWAYS_INLINE B b_lookup(const struct table *table, B codes, const size_t n)
{
    B levels = _mm512_shuffle_epi8(table->first, codes);
    UNROLLED_UPTO (i, n / 16 - 1, 3) {
        codes = _mm512_sub_epi8(codes, _mm512_set1_epi8(16));
        levels = _mm512_xor_si512(levels, _mm512_shuffle_epi8(table->differences[i], codes));
    }
    return levels;
}
#define GROUPED_SET avx512
#include "runtime/kernels/grouped_template.h"

#include "runtime/kernels/vector_template.h"

const struct kernels smol_kernels_avx512 = {
    .name = "avx512",
    GROUPED_KERNELS(avx512),
    VECTOR_KERNELS,
};
const struct kernels smol_kernels_avx512vbmi = {
    .name = "avx512vbmi",
    GROUPED_KERNELS(avx512vbmi),
    VECTOR_KERNELS,
};

#else
typedef int smol_no_avx512_here; /* ISO C requires a declaration in every file */
#endif

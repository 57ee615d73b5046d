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

static ALWAYS_INLINE B b_spread(const int8_t *levels)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)levels));
}

static ALWAYS_INLINE B b_xor(B a, B b)
{
    return _mm512_xor_si512(a, b);
}

static ALWAYS_INLINE B b_minus_16(B b)
{
    return _mm512_sub_epi8(b, _mm512_set1_epi8(16));
}

static ALWAYS_INLINE B b_shuffle(B table, B b)
{
    return _mm512_shuffle_epi8(table, b);
}

#include "runtime/kernels/shuffle_table.h"

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
const struct kernels smol_kernels_avx512amx = {
    .name = "avx512amx",
    GROUPED_KERNELS(avx512amx),
    VECTOR_KERNELS,
};

#else
typedef int smol_no_avx512_here; /* ISO C requires a declaration in every file */
#endif

/* Products with grouped dtypes for AVX-VNNI, whose set is otherwise that of AVX2. The Makefile
 * compiles this file with these features. */
#if defined(__AVXVNNI__)

#include "runtime/kernels/avx2_vectors.h"

/* vpdpbusd multiplies unsigned by signed bytes, see struct quantized. */
static ALWAYS_INLINE B b_operand(B b)
{
    return _mm256_xor_si256(b, _mm256_set1_epi8((char)0x80));
}

static ALWAYS_INLINE I dot_start(int32_t offset)
{
    return _mm256_set1_epi32(offset);
}

static ALWAYS_INLINE I dot_quad(I dot, B weights, const int8_t *steps, size_t quad)
{
    return _mm256_dpbusd_avx_epi32(dot, weights, broadcast_quad(steps + 4 * quad));
}

static ALWAYS_INLINE I dot_pair(I dot, B weights, const int8_t *steps)
{
    return _mm256_dpwssd_avx_epi32(dot, weights, broadcast_quad(steps));
}

#define GROUPED_SET avxvnni
#include "runtime/kernels/grouped_template.h"

#else
typedef int smol_no_avxvnni_here; /* ISO C requires a declaration in every file */
#endif

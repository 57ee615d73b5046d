/* Kernels for AVX2 with FMA and F16C. The Makefile compiles this file with these features. */
#if defined(__AVX2__)

#include "runtime/kernels/avx2_vectors.h"

static ALWAYS_INLINE B b_operand(B b)
{
    return b;
}

static ALWAYS_INLINE I dot_start(int32_t offset)
{
    (void)offset; /* weights are multiplied as they are */
    return _mm256_setzero_si256();
}

/* Sums 32 products of weights and activations by fours into eight 32-bit lanes. maddubs takes one
 * unsigned operand, so the weight's sign moves to the activation. Values within -127..127 keep the
 * 16-bit sums within 2 * 127 * 127 = 32258. */
static ALWAYS_INLINE I dot_quad(I dot, B weights, Q quads, size_t t)
{
    __m256i signed_steps = _mm256_sign_epi8(broadcast_quad(quads, t), weights);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), signed_steps);
    return _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#define GROUPED_SET avx2
#include "runtime/kernels/grouped_template.h"

#include "runtime/kernels/vector_template.h"

const struct kernels smol_kernels_avx2 = {.name = "avx2", GROUPED_KERNELS(avx2), VECTOR_KERNELS};
const struct kernels smol_kernels_avxvnni = {
    .name = "avxvnni",
    GROUPED_KERNELS(avxvnni),
    VECTOR_KERNELS,
};

#else
typedef int smol_no_avx2_here; /* ISO C requires a declaration in every file */
#endif

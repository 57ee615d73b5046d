/* Kernels for AVX2 with FMA and F16C. The Makefile compiles this file with these features. */
#if defined(__AVX2__)

/* Zen 3 reads what it multiplies by one token 1.2 times as fast with any distance from 512 to 1,536
 * bytes. */
#define READ_AHEAD 1024
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
static ALWAYS_INLINE I dot_quad(I dot, B weights, const int8_t *steps, size_t quad)
{
    __m256i signed_steps = _mm256_sign_epi8(broadcast_quad(steps + 4 * quad), weights);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), signed_steps);
    return _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static ALWAYS_INLINE I dot_pair(I dot, B weights, const int8_t *steps)
{
    return _mm256_add_epi32(dot, _mm256_madd_epi16(weights, broadcast_quad(steps)));
}

#define GROUPED_SET avx2
#define OWN_DOT_GROUP
#include "runtime/kernels/grouped_template.h"

/* Implements dot_group for levels and one token. The step's sign moves to the level, which is never
 * -128, so both vectors of a tile share the step's magnitude. */
static ALWAYS_INLINE void dot_one_token(enum blob_dtype dtype, const struct table *table,
                                        const uint8_t *weights, const int8_t *steps,
                                        I dot[TILE_VECTORS])
{
    UNROLLED (v, TILE_VECTORS)
        dot[v] = _mm256_setzero_si256();
    UNROLLED (quad, GROUP_QUADS) {
        __m256i signs = broadcast_quad(steps + 4 * quad);
        __m256i magnitudes = _mm256_abs_epi8(signs);
        UNROLLED (v, TILE_VECTORS) {
            B levels = load_operand(dtype, table, weights, quad, v);
            __m256i pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(levels, signs));
            dot[v] = _mm256_add_epi32(dot[v], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
    }
}

static ALWAYS_INLINE void dot_group(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *weights, const int8_t *steps, size_t stride,
                                    const int32_t *offsets, I dot[][TILE_VECTORS],
                                    const size_t n_tokens)
{
    if (dtype != DTYPE_INT8 && n_tokens == 1)
        dot_one_token(dtype, table, weights, steps, dot[0]);
    else
        dot_quads(dtype, table, weights, steps, stride, offsets, dot, n_tokens);
}

#include "runtime/kernels/vector_template.h"

const struct kernels smol_kernels_avx2 = {
    .name = "avx2",
    .pair_steps = true,
    GROUPED_KERNELS(avx2),
    VECTOR_KERNELS,
};
const struct kernels smol_kernels_avxvnni = {
    .name = "avxvnni",
    .pair_steps = true,
    GROUPED_KERNELS(avxvnni),
    VECTOR_KERNELS,
};

#else
typedef int smol_no_avx2_here; /* ISO C requires a declaration in every file */
#endif

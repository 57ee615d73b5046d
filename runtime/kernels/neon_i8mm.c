/* Products with grouped dtypes for aarch64 with products of matrices of bytes; the set is otherwise
 * that of NEON. The Makefile compiles this file with these features. */
#if defined(__ARM_FEATURE_MATMUL_INT8)

#include "runtime/kernels/neon_vectors.h"

enum { GROUPED_TOKENS = 4 };
#define GROUPED_SET i8mm
#define OWN_DOT_GROUP
#include "runtime/kernels/grouped_template.h"

/* Returns eight inputs of two rows, the first two of two quads or the others. */
static ALWAYS_INLINE int8x16_t two_rows(B quad0, B quad1, const bool second)
{
    int32x4_t a = vreinterpretq_s32_u8(quad0), b = vreinterpretq_s32_u8(quad1);
    return vreinterpretq_s8_s32(second ? vzip2q_s32(a, b) : vzip1q_s32(a, b));
}

/* For two or four tokens. smmla multiplies eight inputs of two rows by those of two tokens. */
static ALWAYS_INLINE void dot_pairs(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *weights, const int8_t *steps, size_t stride,
                                    I dot[][TILE_VECTORS], const size_t n_tokens)
{
    enum { PAIRS = GROUPED_TOKENS / 2 };
    I sums[PAIRS][TILE_VECTORS][2]; /* two rows times two tokens */
    UNROLLED_UPTO (pair, n_tokens / 2, PAIRS)
        UNROLLED (v, TILE_VECTORS)
            sums[pair][v][0] = sums[pair][v][1] = vdupq_n_s32(0);
    UNROLLED (i, GROUP_QUADS / 2) {
        int8x16_t tokens[PAIRS]; /* eight inputs of each of two */
        UNROLLED_UPTO (pair, n_tokens / 2, PAIRS)
            tokens[pair] = vcombine_s8(vld1_s8(steps + 2 * pair * stride + 8 * i),
                                       vld1_s8(steps + (2 * pair + 1) * stride + 8 * i));
        UNROLLED (v, TILE_VECTORS) {
            B w0 = load_operand(dtype, table, weights, 2 * i, v);
            B w1 = load_operand(dtype, table, weights, 2 * i + 1, v);
            UNROLLED (half, 2) {
                int8x16_t rows = two_rows(w0, w1, half == 1);
                UNROLLED_UPTO (pair, n_tokens / 2, PAIRS)
                    sums[pair][v][half] = vmmlaq_s32(sums[pair][v][half], rows, tokens[pair]);
            }
        }
    }
    UNROLLED_UPTO (pair, n_tokens / 2, PAIRS)
        UNROLLED (v, TILE_VECTORS) {
            dot[2 * pair][v] = vuzp1q_s32(sums[pair][v][0], sums[pair][v][1]);
            dot[2 * pair + 1][v] = vuzp2q_s32(sums[pair][v][0], sums[pair][v][1]);
        }
}

static ALWAYS_INLINE void dot_group(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *weights, const int8_t *steps, size_t stride,
                                    const int32_t *offsets, I dot[][TILE_VECTORS],
                                    const size_t n_tokens)
{
    if (n_tokens == 1)
        dot_quads(dtype, table, weights, steps, stride, offsets, dot, 1);
    else
        dot_pairs(dtype, table, weights, steps, stride, dot, n_tokens);
}

#else
typedef int smol_no_i8mm_here; /* ISO C requires a declaration in every file */
#endif

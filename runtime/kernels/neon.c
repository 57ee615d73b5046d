/* Kernels for every aarch64 processor. */
#if defined(__aarch64__)

#include "runtime/kernels/neon_vectors.h"

#define NO_DOT_QUADS
#define OWN_DOT_GROUP
#define GROUPED_SET neon
enum { GROUPED_TOKENS = 2 };
#include "runtime/kernels/grouped_template.h"

/* Adds the dot products of two vectors of weights with the inputs q0, and of the weights one quad
 * later with q1. Products of bytes are 16 bits wide. A 16-bit sum holds two, because weights
 * are within -127..127, bytes of steps within -128..127, and 2 * 127 * 128 = 32512; neighbours are
 * then added into 32 bits. A row's four inputs end up in two neighbouring lanes: rows 0 and 1 of a
 * vector in low, 2 and 3 in high.
 *
 * Each step handles both vectors, for processors that do not reorder instructions. */
static ALWAYS_INLINE void add_two_quads(I low[2], I high[2], const B w0[2], const B w1[2],
                                        int8x16_t q0, int8x16_t q1, const bool first)
{
    int16x8_t two_low[2], two_high[2];
    UNROLLED (v, 2) {
        int8x16_t w = vreinterpretq_s8_u8(w0[v]);
        two_low[v] = vmull_s8(vget_low_s8(w), vget_low_s8(q0));
        two_high[v] = vmull_high_s8(w, q0);
    }
    UNROLLED (v, 2) {
        int8x16_t w = vreinterpretq_s8_u8(w1[v]);
        two_low[v] = vmlal_s8(two_low[v], vget_low_s8(w), vget_low_s8(q1));
        two_high[v] = vmlal_high_s8(two_high[v], w, q1);
    }
    UNROLLED (v, 2) {
        low[v] = first ? vpaddlq_s16(two_low[v]) : vpadalq_s16(low[v], two_low[v]);
        high[v] = first ? vpaddlq_s16(two_high[v]) : vpadalq_s16(high[v], two_high[v]);
    }
}

static ALWAYS_INLINE void dot_group(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *weights, const int8_t *steps, size_t stride,
                                    const int32_t *offsets, I dot[][TILE_VECTORS],
                                    const size_t n_tokens)
{
    (void)offsets; /* weights are multiplied as they are */
    I low[GROUPED_TOKENS][TILE_VECTORS], high[GROUPED_TOKENS][TILE_VECTORS];
    UNROLLED (pair, GROUP_QUADS / 2) {
        const size_t quad = 2 * pair;
        B w0[TILE_VECTORS], w1[TILE_VECTORS];
        UNROLLED (v, TILE_VECTORS) {
            w0[v] = load_operand(dtype, table, weights, quad, v);
            w1[v] = load_operand(dtype, table, weights, quad + 1, v);
        }
        UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
            UNROLLED (half, 2)
                add_two_quads(low[t] + 2 * half, high[t] + 2 * half, w0 + 2 * half, w1 + 2 * half,
                              broadcast_quad(steps + t * stride + 4 * quad),
                              broadcast_quad(steps + t * stride + 4 * quad + 4), quad == 0);
    }
    UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            dot[t][v] = vpaddq_s32(low[t][v], high[t][v]);
}

#include "runtime/kernels/vector_template.h"

const struct kernels smol_kernels_neon = {.name = "neon", GROUPED_KERNELS(neon), VECTOR_KERNELS};
const struct kernels smol_kernels_dotprod = {
    .name = "dotprod",
    GROUPED_KERNELS(dotprod),
    VECTOR_KERNELS,
};
const struct kernels smol_kernels_i8mm = {.name = "i8mm", GROUPED_KERNELS(i8mm), VECTOR_KERNELS};

#else
typedef int smol_no_neon_here; /* ISO C requires a declaration in every file */
#endif

/* Kernels for aarch64 with dot products of bytes. The Makefile compiles this file with this
 * feature. */
#if defined(__ARM_FEATURE_DOTPROD)

enum { INT8_TOKENS = 4 };
#include "runtime/kernels/neon_template.h"

/* Returns dot + weights times token t's four inputs. */
static ALWAYS_INLINE int32x4_t dot_lane(int32x4_t dot, int8x16_t weights, int8x16_t quads,
                                        const size_t t)
{
    switch (t) {
    case 0:
        return vdotq_laneq_s32(dot, weights, quads, 0);
    case 1:
        return vdotq_laneq_s32(dot, weights, quads, 1);
    case 2:
        return vdotq_laneq_s32(dot, weights, quads, 2);
    default:
        return vdotq_laneq_s32(dot, weights, quads, 3);
    }
}

static ALWAYS_INLINE void dot_group(const int8_t *weights, const int8_t *steps, size_t stride,
                                    int32x4_t dot[][TILE_VECTORS], const size_t n_tokens)
{
    UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            dot[t][v] = vdupq_n_s32(0);
    UNROLLED (quad, GROUP_INPUTS / 4) {
        int8x16_t quads = load_quads(steps + quad * stride, n_tokens);
        int8x16_t w[TILE_VECTORS];
        UNROLLED (v, TILE_VECTORS)
            w[v] = vld1q_s8(weights + quad * QUAD_BYTES + 16 * v);
        UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
            UNROLLED (v, TILE_VECTORS)
                dot[t][v] = dot_lane(dot[t][v], w[v], quads, t);
    }
}

const struct kernels smol_kernels_dotprod = {.name = "dotprod", NEON_KERNELS};

#else
typedef int smol_no_dotprod_here; /* ISO C requires a declaration in every file */
#endif

/* Shared by the kernel sets for aarch64: vector operations of the baseline, and the int8 product
 * except for its dot products. Each set's file includes it once, after defining
 *
 *   INT8_TOKENS        most tokens that share a pass over an int8 tile, 2 or 4
 *
 * and then defines dot_group and its struct kernels. The 16 rows of a tile are four vectors of four
 * lanes. */

#include <arm_neon.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"

/* --- vector operations -------------------------------------------------------------------- */

typedef float32x4_t V;
enum { LANES = 4, TOKENS_MANY = 6, TOKENS_FEW = 2 };
enum { QUERIES_MANY = 6, QUERIES_FEW = 3, FEW_VECTORS = 4 };

static inline V v_zero(void)
{
    return vdupq_n_f32(0);
}

static inline V v_set1(float x)
{
    return vdupq_n_f32(x);
}

static inline V v_load(const float *p)
{
    return vld1q_f32(p);
}

static inline void v_store(float *p, V v)
{
    vst1q_f32(p, v);
}

static inline V v_add(V a, V b)
{
    return vaddq_f32(a, b);
}

static inline V v_mul(V a, V b)
{
    return vmulq_f32(a, b);
}

static inline V v_fma(V a, V b, V c)
{
    return vfmaq_f32(c, a, b);
}

static inline V v_max(V a, V b)
{
    return vmaxq_f32(a, b);
}

static inline float v_reduce_max(V v)
{
    return vmaxvq_f32(v);
}

static inline V v_max_magnitude(V a, V b)
{
    return vreinterpretq_f32_u32(
        vmaxq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(vabsq_f32(b))));
}

static inline uint32_t v_reduce_max_bits(V v)
{
    return vmaxvq_u32(vreinterpretq_u32_f32(v));
}

/* Converts four vectors to 16 steps. */
static inline int8x16_t narrow(const V v[4])
{
    int16x8_t low = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(v[0])), vmovn_s32(vcvtnq_s32_f32(v[1])));
    int16x8_t high = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(v[2])), vmovn_s32(vcvtnq_s32_f32(v[3])));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

static inline int32_t v_steps(const V v[GROUP_INPUTS / LANES], int8_t steps[GROUP_INPUTS])
{
    int8x16_t low = narrow(v), high = narrow(v + 4);
    vst1q_s8(steps, low);
    vst1q_s8(steps + 16, high);
    return vaddlvq_s8(low) + vaddlvq_s8(high);
}

static inline void v_store_f16(uint16_t *p, V v)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}

/* A bf16 weight shifted to the top of its 32-bit lane is the equivalent f32. */
static inline V v_even(const uint32_t *p)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(p), 16));
}

static inline V v_odd(const uint32_t *p)
{
    return vreinterpretq_f32_u32(vandq_u32(vld1q_u32(p), vdupq_n_u32(0xffff0000u)));
}

static inline V v_from_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

/* Returns four bytes in every lane. */
static inline int8x16_t broadcast_quad(const int8_t *p)
{
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vreinterpretq_s8_s32(vdupq_n_s32(bytes));
}

static inline __attribute__((always_inline)) V v_cache(const void *data, size_t i,
                                                       enum kv_type type)
{
    switch (type) {
    case KV_F32:
        return vld1q_f32((const float *)data + i);
    case KV_F16:
        return v_from_f16((const uint16_t *)data + i);
    default:
        return vcvtq_f32_s32(vmovl_s16(
            vget_low_s16(vmovl_s8(vget_low_s8(broadcast_quad((const int8_t *)data + i))))));
    }
}

#include "runtime/kernels/vector_template.h"

/* --- int8 matrix product ------------------------------------------------------------------ */

/* Loads four inputs of each of n_tokens tokens, at most 4 tokens. */
static ALWAYS_INLINE int8x16_t load_quads(const int8_t *steps, const size_t n_tokens)
{
    if (n_tokens == 4)
        return vld1q_s8(steps);
    if (n_tokens == 2)
        return vcombine_s8(vld1_s8(steps), vdup_n_s8(0));
    return broadcast_quad(steps);
}

/* dot[t] = the integer dot products of one group's weights and token t's steps. Tokens are
 * contiguous; `stride` is the distance in bytes from four inputs to the next four. */
static ALWAYS_INLINE void dot_group(const int8_t *weights, const int8_t *steps, size_t stride,
                                    int32x4_t dot[][TILE_VECTORS], const size_t n_tokens);

/* Multiplies one row block by tokens [first, first + n_tokens) of x. */
static ALWAYS_INLINE void int8_tokens(const uint8_t *block, size_t n_groups,
                                      const struct quantized *x, size_t first, float *out,
                                      size_t out_stride, const size_t n_tokens)
{
    V sum[INT8_TOKENS][TILE_VECTORS];
    UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            sum[t][v] = v_zero();
    for (size_t group = 0; group < n_groups; group++) {
        int32x4_t dot[INT8_TOKENS][TILE_VECTORS];
        dot_group((const int8_t *)block + group_weights_offset(DTYPE_INT8, group),
                  x->steps + group * GROUP_INPUTS * x->stride + 4 * first, 4 * x->stride, dot,
                  n_tokens);
        const uint16_t *weight_scales = (const void *)(block + group_scales_offset(DTYPE_INT8, group));
        const float *scales = x->scales + group * x->stride + first;
        UNROLLED (v, TILE_VECTORS) {
            V weight_scale = v_from_f16(weight_scales + v * LANES);
            UNROLLED_UPTO (t, n_tokens, INT8_TOKENS) {
                V factor = v_mul(weight_scale, v_set1(scales[t]));
                sum[t][v] = v_add(sum[t][v], v_mul(vcvtq_f32_s32(dot[t][v]), factor));
            }
        }
    }
    UNROLLED_UPTO (t, n_tokens, INT8_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            v_store(out + (first + t) * out_stride + v * LANES, sum[t][v]);
}

#include "runtime/kernels/int8_template.h"

/* The members of a struct kernels except its name. */
#define NEON_KERNELS .matmul_int8 = matmul_int8, VECTOR_KERNELS

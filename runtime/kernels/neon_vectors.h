/* Vectors of NEON, see vector_template.h and grouped_template.h. The 16 rows of a tile are four
 * vectors of four lanes. */

#include <arm_neon.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/loops.h"

/* --- vector operations -------------------------------------------------------------------- */

typedef float32x4_t V;
enum { LANES = 4, TILE_VECTORS = TILE_ROWS / LANES, TOKENS_MANY = 6, TOKENS_FEW = 2 };
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

static inline V v_sub(V a, V b)
{
    return vsubq_f32(a, b);
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

static inline void v_round(V v, int32_t *p)
{
    vst1q_s32(p, vcvtnq_s32_f32(v));
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

static inline V v_from_int(int32x4_t v)
{
    return vcvtq_f32_s32(v);
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

static inline __attribute__((always_inline)) V v_levels(const uint8_t *p, bool high)
{
    uint8x16_t bytes = vreinterpretq_u8_s8(broadcast_quad((const int8_t *)p));
    uint8x8_t low = vget_low_u8(bytes);
    uint8x8_t codes = high ? vshr_n_u8(low, 4) : vand_u8(low, vdup_n_u8(15));
    int8x8_t levels = vqtbl1_s8(vld1q_s8(smol_kv_levels), codes);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(levels))));
}

/* --- grouped weights ----------------------------------------------------------------------- */

typedef uint8x16_t B;
typedef int32x4_t I;

static ALWAYS_INLINE B b_load(const uint8_t *p)
{
    return vld1q_u8(p);
}

static ALWAYS_INLINE void b_store(uint8_t *p, B b)
{
    vst1q_u8(p, b);
}

/* Operators, because the functions of arm_neon.h demand literal counts. */
static ALWAYS_INLINE B b_left(B b, const int n)
{
    return b << n;
}

static ALWAYS_INLINE B b_right(B b, const int n)
{
    return b >> n;
}

static ALWAYS_INLINE B b_code(B low, B upper, const uint8_t mask)
{
    low = vandq_u8(low, vdupq_n_u8(15));
    return mask ? vbslq_u8(vdupq_n_u8(mask), upper, low) : low;
}

struct table {
    B first, more[3];
};

static ALWAYS_INLINE struct table b_table(const int8_t *levels, const size_t n)
{
    const uint8_t *bytes = (const void *)levels;
    struct table table = {.first = vld1q_u8(bytes)};
    UNROLLED_UPTO (i, n / 16 - 1, 3)
        table.more[i] = vld1q_u8(bytes + 16 * (i + 1));
    return table;
}

static ALWAYS_INLINE B b_lookup(const struct table *t, B codes, const size_t n)
{
    if (n == 16)
        return vqtbl1q_u8(t->first, codes);
    if (n == 32)
        return vqtbl2q_u8((uint8x16x2_t){{t->first, t->more[0]}}, codes);
    return vqtbl4q_u8((uint8x16x4_t){{t->first, t->more[0], t->more[1], t->more[2]}}, codes);
}

/* All products are signed. */
static ALWAYS_INLINE B b_operand(B b)
{
    return b;
}

static ALWAYS_INLINE I dot_wide_bytes(I high, I low)
{
    return vaddq_s32(vshlq_n_s32(high, 8), low);
}

#if defined(__ARM_FEATURE_DOTPROD)
static ALWAYS_INLINE I dot_start(int32_t offset)
{
    (void)offset; /* weights are multiplied as they are */
    return vdupq_n_s32(0);
}

static ALWAYS_INLINE I dot_quad(I dot, B weights, const int8_t *steps, const size_t quad)
{
    int8x16_t w = vreinterpretq_s8_u8(weights), quads = vld1q_s8(steps + quad / 4 * 16);
    switch (quad % 4) {
    case 0:
        return vdotq_laneq_s32(dot, w, quads, 0);
    case 1:
        return vdotq_laneq_s32(dot, w, quads, 1);
    case 2:
        return vdotq_laneq_s32(dot, w, quads, 2);
    default:
        return vdotq_laneq_s32(dot, w, quads, 3);
    }
}
#endif

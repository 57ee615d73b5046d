/* SHA-256 with the optional instructions of Armv8 processors (the Makefile passes +sha2 for this
 * file): four rounds at a time. */
#include "common/sha256.h"

#if defined(__ARM_FEATURE_SHA2)
#include <arm_neon.h>

#include "common/unrolled.h"

static void take_block(uint32x4_t *abcd, uint32x4_t *efgh, const uint8_t *block)
{
    uint32x4_t w[4]; /* the last 16 words of the schedule; w[i % 4] is replaced next */
    uint32x4_t x = *abcd, y = *efgh;
    UNROLLED (i, 16) {
        uint32x4_t *now = &w[i % 4];
        if (i < 4)
            *now = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(block + 16 * i)));
        else
            *now = vsha256su1q_u32(vsha256su0q_u32(*now, w[(i + 1) % 4]), w[(i + 2) % 4],
                                   w[(i + 3) % 4]);
        uint32x4_t keys = vaddq_u32(*now, vld1q_u32(smol_sha256_constants + 4 * i));
        uint32x4_t before = x;
        x = vsha256hq_u32(x, y, keys);
        y = vsha256h2q_u32(y, before, keys);
    }
    *abcd = vaddq_u32(*abcd, x);
    *efgh = vaddq_u32(*efgh, y);
}

void smol_sha256_take_arm(uint32_t state[8], const uint8_t *blocks, size_t n)
{
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (size_t i = 0; i < n; i++)
        take_block(&abcd, &efgh, blocks + i * SHA256_BLOCK);
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}
#else
typedef int smol_no_sha_here; /* ISO C requires a declaration in every file */
#endif

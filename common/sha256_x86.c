/* SHA-256 with the SHA instructions of x86-64 processors (the Makefile passes -msha for this file):
 * two rounds at a time. */
#include "common/sha256.h"

#if defined(__SHA__)
#include <immintrin.h>

#include "common/unrolled.h"

static __m128i load(const void *address)
{
    return _mm_loadu_si128(address);
}

static void take_block(__m128i *abef, __m128i *cdgh, const uint8_t *block)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i w[4]; /* the last 16 words of the schedule; w[i % 4] is replaced next */
    __m128i x = *abef, y = *cdgh;
    UNROLLED (i, 16) {
        __m128i *now = &w[i % 4], last = w[(i + 3) % 4];
        if (i < 4) {
            *now = _mm_shuffle_epi8(load(block + 16 * i), swap);
        } else {
            __m128i sum = _mm_sha256msg1_epu32(*now, w[(i + 1) % 4]);
            sum = _mm_add_epi32(sum, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
            *now = _mm_sha256msg2_epu32(sum, last);
        }
        __m128i keys = _mm_add_epi32(*now, load(smol_sha256_constants + 4 * i));
        y = _mm_sha256rnds2_epu32(y, x, keys);
        x = _mm_sha256rnds2_epu32(x, y, _mm_shuffle_epi32(keys, 0x0e));
    }
    *abef = _mm_add_epi32(*abef, x);
    *cdgh = _mm_add_epi32(*cdgh, y);
}

void smol_sha256_take_x86(uint32_t state[8], const uint8_t *blocks, size_t n)
{
    /* The instructions require the words f, e, b, a in one register and h, g, d, c in the other. */
    static const int order[8] = {5, 4, 1, 0, 7, 6, 3, 2};
    uint32_t words[8];
    for (int i = 0; i < 8; i++)
        words[i] = state[order[i]];
    __m128i abef = load(words), cdgh = load(words + 4);
    for (size_t i = 0; i < n; i++)
        take_block(&abef, &cdgh, blocks + i * SHA256_BLOCK);
    _mm_storeu_si128((void *)words, abef);
    _mm_storeu_si128((void *)(words + 4), cdgh);
    for (int i = 0; i < 8; i++)
        state[order[i]] = words[i];
}
#else
typedef int smol_no_sha_here; /* ISO C requires a declaration in every file */
#endif

/* Philox4x32-10: random numbers as a pure function of a counter and a key (Salmon et al.,
 * "Parallel random numbers: as easy as 1, 2, 3", SC11). The k-th number of a seed needs no state
 * and is the same on every machine. */
#ifndef SMOL_RUNTIME_PHILOX_H
#define SMOL_RUNTIME_PHILOX_H

#include <stdint.h>

struct philox_block {
    uint32_t word[4];
};

static inline struct philox_block philox_round(struct philox_block c, uint32_t key0, uint32_t key1)
{
    uint64_t product0 = (uint64_t)0xd2511f53 * c.word[0];
    uint64_t product1 = (uint64_t)0xcd9e8d57 * c.word[2];
    return (struct philox_block){{
        (uint32_t)(product1 >> 32) ^ c.word[1] ^ key0,
        (uint32_t)product1,
        (uint32_t)(product0 >> 32) ^ c.word[3] ^ key1,
        (uint32_t)product0,
    }};
}

/* Returns the random block of `counter`, whose low word comes first, under the 64-bit `key`. */
static inline struct philox_block philox(struct philox_block counter, uint64_t key)
{
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        counter = philox_round(counter, key0, key1);
        key0 += 0x9e3779b9; /* the golden ratio */
        key1 += 0xbb67ae85; /* sqrt(3) - 1 */
    }
    return counter;
}

/* Returns the k-th number of `seed` in [0, 1), with all 53 bits of a double. */
static inline double philox_uniform(uint64_t seed, uint64_t k)
{
    struct philox_block counter = {{(uint32_t)k, (uint32_t)(k >> 32), 0, 0}};
    struct philox_block block = philox(counter, seed);
    uint64_t bits = (uint64_t)block.word[1] << 32 | block.word[0];
    return (double)(bits >> 11) * 0x1p-53;
}

#endif

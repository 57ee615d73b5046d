/* SHA-256, see sha256.h: padding, and the rounds without special instructions. Names and section
 * numbers are from FIPS 180-4. */
#include "common/sha256.h"

#include <string.h>

#include "common/cpu.h"

const uint32_t smol_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* --- rounds (4.1.2, 6.2.2) ---------------------------------------------------------------- */

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* Computes the schedule: 16 words of the block, big-endian, and 48 words computed from earlier
 * ones. */
static void spread(const uint8_t *block, uint32_t w[64])
{
    for (int t = 0; t < 16; t++) {
        uint32_t word;
        memcpy(&word, block + 4 * t, sizeof word);
        w[t] = __builtin_bswap32(word);
    }
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
}

static void take_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    spread(block, w);
    for (int t = 0; t < 64; t++) {
        uint32_t sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + smol_sha256_constants[t] + w[t];
        uint32_t sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t sum[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += sum[i];
}

void smol_sha256_take_scalar(uint32_t state[8], const uint8_t *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        take_block(state, blocks + i * SHA256_BLOCK);
}

/* --- messages (5.1.1, 5.3.3) -------------------------------------------------------------- */

static sha256_take *best_variant(void)
{
#if defined(__x86_64__)
    if (smol_cpu_has(CPU_SHA))
        return smol_sha256_take_x86;
#elif defined(__aarch64__)
    if (smol_cpu_has(CPU_SHA))
        return smol_sha256_take_arm;
#endif
    return smol_sha256_take_scalar;
}

void smol_sha256_start(struct sha256 *hash)
{
    *hash = (struct sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                  0x1f83d9ab, 0x5be0cd19},
        .take = best_variant(),
    };
}

void smol_sha256_add(struct sha256 *hash, const void *blocks, size_t n)
{
    hash->take(hash->state, blocks, n);
    hash->size += (uint64_t)n * SHA256_BLOCK;
}

/* Adds the end of a message, after its whole blocks: the remaining bytes, a bit 1, zeros, and the
 * length in bits, big-endian, at the end of the last block. */
static void add_end(struct sha256 *hash, const uint8_t *rest, size_t n_rest)
{
    uint8_t end[2 * SHA256_BLOCK] = {0};
    uint64_t n_bits = __builtin_bswap64((hash->size + n_rest) * 8);
    size_t n_blocks = n_rest + 1 + sizeof n_bits <= SHA256_BLOCK ? 1 : 2;
    memcpy(end, rest, n_rest);
    end[n_rest] = 0x80;
    memcpy(end + n_blocks * SHA256_BLOCK - sizeof n_bits, &n_bits, sizeof n_bits);
    hash->take(hash->state, end, n_blocks);
}

void smol_sha256_end(struct sha256 *hash, const void *rest, size_t size,
                     char text[SHA256_TEXT_SIZE])
{
    size_t n_blocks = size / SHA256_BLOCK, whole = n_blocks * SHA256_BLOCK;
    smol_sha256_add(hash, rest, n_blocks);
    add_end(hash, (const uint8_t *)rest + whole, size - whole);
    for (int i = 0; i < SHA256_TEXT_SIZE - 1; i++)
        text[i] = "0123456789abcdef"[hash->state[i / 8] >> (28 - i % 8 * 4) & 15];
    text[SHA256_TEXT_SIZE - 1] = '\0';
}

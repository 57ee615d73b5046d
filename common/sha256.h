/* SHA-256 (FIPS 180-4), which identifies a trusted file. Unlike with XXH3 (hash.h), an attacker
 * cannot make another file with a given digest. */
#ifndef SMOL_COMMON_SHA256_H
#define SMOL_COMMON_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BLOCK = 64, SHA256_TEXT_SIZE = 65 };

/* Adds n blocks of SHA256_BLOCK bytes to the state. Each kind of processor has its own function. */
typedef void sha256_take(uint32_t state[8], const uint8_t *blocks, size_t n);

/* Hashes data: start, add pieces, end. Uses the processor's SHA instructions if it has them; the
 * digest is the same. */
struct sha256 {
    uint32_t state[8];
    sha256_take *take;
    uint64_t size; /* bytes added so far */
};
void smol_sha256_start(struct sha256 *hash);
/* Adds n whole blocks. */
void smol_sha256_add(struct sha256 *hash, const void *blocks, size_t n);
/* Adds the rest of the data, rest[0..size), of any size, and writes the digest in the form of
 * sha256sum: 64 lowercase hexadecimal digits, terminated. */
void smol_sha256_end(struct sha256 *hash, const void *rest, size_t size,
                     char text[SHA256_TEXT_SIZE]);

sha256_take smol_sha256_take_scalar;
#if defined(__x86_64__)
sha256_take smol_sha256_take_x86; /* requires smol_cpu_has(CPU_SHA) */
#elif defined(__aarch64__)
sha256_take smol_sha256_take_arm; /* requires smol_cpu_has(CPU_SHA) */
#endif

/* The constants of FIPS 180-4, 4.2.2, for all variants. */
extern const uint32_t smol_sha256_constants[64];

#endif

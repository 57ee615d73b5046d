/* SHA-256 (FIPS 180-4): the digest that identifies a trusted file. Unlike with XXH3 (hash.h), no
 * attacker can make another file with a given digest. */
#ifndef SMOL_COMMON_SHA256_H
#define SMOL_COMMON_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BLOCK = 64, SHA256_TEXT_SIZE = 65 };

/* The digest of data[0..size) as sha256sum prints it: 64 small hexadecimal digits, terminated. Uses
 * the processor's own instructions where it has them; the value is the same. */
void smol_sha256(const void *data, size_t size, char text[SHA256_TEXT_SIZE]);

/* Takes n blocks of SHA256_BLOCK bytes into the state: one function for each kind of processor. */
typedef void sha256_take(uint32_t state[8], const uint8_t *blocks, size_t n);

/* Hashes data in pieces: start, add each piece, end. */
struct sha256 {
    uint32_t state[8];
    sha256_take *take;
    uint64_t size; /* of what was added */
};
void smol_sha256_start(struct sha256 *hash);
/* n whole blocks. */
void smol_sha256_add(struct sha256 *hash, const void *blocks, size_t n);
/* Adds the rest of the data, rest[0..size), of any size. */
void smol_sha256_end(struct sha256 *hash, const void *rest, size_t size,
                     char text[SHA256_TEXT_SIZE]);

sha256_take smol_sha256_take_scalar;
#if defined(__x86_64__)
sha256_take smol_sha256_take_x86; /* where smol_cpu_has_sha() */
#elif defined(__aarch64__)
sha256_take smol_sha256_take_arm; /* where smol_cpu_has_sha() */
#endif

/* FIPS 180-4, 4.2.2; the scalar variant's file has it for all. */
extern const uint32_t smol_sha256_constants[64];

#endif

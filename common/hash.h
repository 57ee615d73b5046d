/* XXH3, 64 bits, seed 0: the digest of chunks, tables and sources (see format/FORMAT.md). */
#ifndef SMOL_COMMON_HASH_H
#define SMOL_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Returns the digest of data[0..size). Uses AVX2 if the processor has it; the value is the same. */
uint64_t smol_digest(const void *data, size_t size);

#if defined(__x86_64__)
/* Computes smol_digest with AVX2. Only smol_digest calls it, if the processor has AVX2. */
uint64_t smol_digest_avx2(const void *data, size_t size);
#endif

#endif

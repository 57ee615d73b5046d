/* Digests of a blob that was changed, made right again, so that nothing but the change gives it
 * away. */
#ifndef SMOL_TESTS_REPAIR_H
#define SMOL_TESTS_REPAIR_H

#include <stddef.h>
#include <string.h>

#include "common/hash.h"
#include "format/format.h"

/* Repairs the digests of blob[0..size). Its data and table of digests begin where they did. */
static inline void repair_blob(uint8_t *blob, uint64_t size, uint64_t data, uint64_t digests)
{
    for (uint64_t at = data; at < size; at += BLOB_CHUNK_SIZE, digests += sizeof(uint64_t)) {
        uint64_t rest = size - at;
        uint64_t digest = smol_digest(blob + at, rest < BLOB_CHUNK_SIZE ? rest : BLOB_CHUNK_SIZE);
        memcpy(blob + digests, &digest, sizeof digest);
    }
    uint64_t front = smol_digest(blob + BLOB_DIGEST_START, data - BLOB_DIGEST_START);
    memcpy(blob + offsetof(struct blob_header, front_digest), &front, sizeof front);
}

#endif

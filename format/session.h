/* The bytes of a session as C structs. format/SESSION.md is the specification; this header is the
 * same thing for compilers. Everything is little-endian; structs have no hidden padding. */
#ifndef SMOL_FORMAT_SESSION_H
#define SMOL_FORMAT_SESSION_H

#include <stdint.h>

#define SESSION_MAGIC "\x89SMS\r\n\x1a\n" /* as BLOB_MAGIC */

enum {
    SESSION_MAGIC_SIZE = 8,
    SESSION_MAJOR = 1, /* counted up, too, by a release whose logits are other bits */
    SESSION_MINOR = 0,
    SESSION_RECORD_IDS = 4096,   /* ids in a record, fewer in the last */
    SESSION_RECORD_DATA = 16384, /* bytes of the caller's data in a record */
};

/* A session is a row of records, each followed by the XXH3-64 of the digest before it (of 8 zero
 * bytes for the first) and its bytes. The first is this header; then follow the ids, the caller's
 * data, and the keys and values. */
struct session_header {
    uint8_t magic[SESSION_MAGIC_SIZE];
    uint16_t major, minor;
    uint32_t kv;           /* of enum smol_kv, never SMOL_KV_DEFAULT */
    uint64_t front_digest; /* of the blob, as in struct blob_header */
    uint64_t file_size;    /* likewise */
    uint32_t n_ids;        /* n_positions, or one more */
    uint32_t n_positions;  /* those of them that keys and values are there for */
    uint32_t n_data;       /* bytes of the caller's data */
    uint32_t has_sampler;  /* 1; 0: what follows is all 0 */
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t top_k;
    uint32_t reserved;
    uint64_t seed;
    uint64_t n_calls; /* random numbers that were used */
};

_Static_assert(sizeof(struct session_header) == 88, "header");

#endif

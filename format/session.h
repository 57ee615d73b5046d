/* The bytes of a session as C structs. format/SESSION.md is the specification. Everything is
 * little-endian; structs have no hidden padding. */
#ifndef SMOL_FORMAT_SESSION_H
#define SMOL_FORMAT_SESSION_H

#include <stdint.h>

#define SESSION_MAGIC "\x89SMS\r\n\x1a\n" /* see BLOB_MAGIC */

enum {
    SESSION_MAGIC_SIZE = 8,
    SESSION_MAJOR = 1,           /* also incremented by a release whose logits differ in any bit */
    SESSION_MINOR_WINDOWS = 1,   /* of a session of a model with windows; 0 of others */
    SESSION_MINOR_STATES = 2,    /* of a model with states */
    SESSION_RECORD_IDS = 4096,   /* ids in a record, fewer in the last */
    SESSION_RECORD_DATA = 16384, /* bytes of the caller's data in a record */
};

/* A session is a sequence of records. Each is followed by the XXH3-64 of the previous digest (8
 * zero bytes for the first record) and its bytes. The first record is this header; the ids, the
 * caller's data, and the keys and values follow; with states, the positions of these are before the
 * keys and values, and the states after them. */
struct session_header {
    uint8_t magic[SESSION_MAGIC_SIZE];
    uint16_t major, minor;
    uint32_t kv;           /* enum smol_kv, never SMOL_KV_DEFAULT */
    uint64_t front_digest; /* of the blob, as in struct blob_header */
    uint64_t file_size;    /* of the blob */
    uint32_t n_ids;        /* n_positions, or n_positions + 1 */
    uint32_t n_positions;  /* ids with keys and values, but for the last n_lost of them */
    uint32_t n_data;       /* bytes of the caller's data */
    uint32_t has_sampler;  /* 1, or 0 if all following fields are 0 */
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t top_k;
    uint32_t n_lost; /* these are evaluated again */
    uint64_t seed;
    uint64_t n_calls; /* random numbers used so far */
};

/* The positions of the states, ascending. The last is the number of positions with keys and
 * values. */
enum { SESSION_MAX_STATES = 3 };
struct session_states {
    uint32_t n; /* 0 if no position has keys and values */
    uint32_t positions[SESSION_MAX_STATES];
};

_Static_assert(sizeof(struct session_header) == 88, "header");
_Static_assert(sizeof(struct session_states) == 16, "states");

#endif

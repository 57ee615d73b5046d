/* The bytes of a .smoldelta as C structs. DELTA.md is the specification. Everything is
 * little-endian; structs have no hidden padding. */
#ifndef SMOL_FORMAT_DELTA_H
#define SMOL_FORMAT_DELTA_H

#include <stdint.h>

#include "format/format.h"

#define DELTA_MAGIC "\x89SMD\r\n\x1a\n" /* see BLOB_MAGIC */

enum {
    DELTA_MAJOR = 1,
    DELTA_MINOR = 0,
    /* Limits of one part, unless it only copies. */
    DELTA_MAX_NEW = 1 << 20,   /* bytes of NEW */
    DELTA_MAX_OLD = 1 << 22,   /* bytes of OLD */
    DELTA_MAX_CODED = 9 << 17, /* bytes of the delta: DELTA_MAX_NEW and an eighth */
};

/* Identifies a blob: the front contains a digest of every other byte. */
struct delta_blob {
    uint64_t front_digest, file_size; /* as in its struct blob_header */
};

/* The start of a delta. Parts follow without gaps; together they make NEW from its first byte to
 * its last. */
struct delta_header {
    uint8_t magic[BLOB_MAGIC_SIZE];
    uint64_t digest; /* XXH3-64 of the rest of this header */
    uint16_t major, minor;
    uint32_t reserved;
    uint64_t file_size;         /* bytes of the delta */
    uint64_t required_features; /* bits that a reader must support; none is defined yet */
    uint64_t optional_features; /* bits that a reader may ignore; none is defined yet */
    struct delta_blob old_blob, new_blob;
};

/* How a part makes its bytes of NEW. `OLD` is bytes [old_offset, old_offset + old_size) of the old
 * blob; `coded` are the bytes that follow the part. */
enum delta_method {
    DELTA_COPY = 0,   /* OLD unchanged; coded is empty */
    DELTA_ZSTD = 1,   /* coded: a zstd frame of the bytes, with OLD as a prefix */
    DELTA_BYTES = 2,  /* coded: a zstd frame of the differences from OLD, byte by byte */
    DELTA_HALVES = 3, /* coded: the same for 16-bit numbers, see DELTA.md */
    DELTA_METHODS,
};

struct delta_part {
    uint64_t digest; /* XXH3-64 of the rest of this struct and the coded bytes */
    uint32_t method; /* enum delta_method */
    uint32_t coded_size;
    uint64_t new_size;
    uint64_t old_offset;
    uint64_t old_size;
};

_Static_assert(sizeof(struct delta_header) == 80, "header");
_Static_assert(sizeof(struct delta_part) == 40, "part");

#endif

/* The bytes of a packed file, and of one that `smolconv unpack --resume` has not finished.
 * PACKED.md is the specification; this header states the same for compilers. Everything is
 * little-endian. */
#ifndef SMOL_FORMAT_PACKED_H
#define SMOL_FORMAT_PACKED_H

#include <stdint.h>

/* The blob is cut into pieces of one size, each in a zstd frame of its own. Frames of 1 MiB would
 * pack hardly better (f32: 1 %, int8 and bf16: worse), take more memory, and lose more when a
 * download is cut. */
enum {
    PACKED_PIECE = 1 << 18,    /* bytes of the blob in a frame, fewer in the last: 4 chunks */
    PACKED_MAX_FRAME = 263168, /* ZSTD_compressBound(PACKED_PIECE) */
};

/* The seek table follows the frames: zstd's seekable format, version 0.1.0, without checksums, as
 * the frames have their own. */
#define SEEK_TABLE_MAGIC 0x184d2a5eu /* of the skippable frame that holds it */
#define SEEK_TABLE_FOOTER_MAGIC 0x8f92eab1u

enum {
    SEEK_TABLE_HEADER_SIZE = 8,        /* u32 magic, u32 size of what follows the header */
    SEEK_TABLE_ENTRY_SIZE = 8,         /* u32 size of the frame, u32 size of its content */
    SEEK_TABLE_FOOTER_SIZE = 9,        /* u32 number of frames, u8 descriptor, u32 footer magic */
    SEEK_TABLE_MAX_FRAMES = 0x8000000, /* the limit of zstd's own seekable reader */
};

/* The journal of an unfinished file, after the end of the blob to be: an entry for each frame whose
 * content is in the file. */
struct journal_entry {
    uint64_t end;   /* where the frame ends in the packed file */
    uint64_t check; /* XXH3-64 of the previous entry's check (first: front_digest) and `end` */
};

_Static_assert(sizeof(struct journal_entry) == 16, "journal entry");

#endif

/* The bytes of a packed file, and of the unfinished output of `smolconv unpack --resume`. PACKED.md
 * is the specification. Everything is little-endian. */
#ifndef SMOL_FORMAT_PACKED_H
#define SMOL_FORMAT_PACKED_H

#include <stdint.h>

/* The blob is split into pieces of one size, each in its own zstd frame. Frames of 1 MiB would pack
 * hardly better (f32: 1 %, int8 and bf16: worse), take more memory, and lose more when a download
 * is interrupted. */
enum {
    PACKED_PIECE = 1 << 18,    /* bytes of the blob in a frame, fewer in the last: 4 chunks */
    PACKED_MAX_FRAME = 263168, /* ZSTD_compressBound(PACKED_PIECE) */
};

/* The seek table follows the frames. It has zstd's seekable format, version 0.1.0, without
 * checksums because the frames have their own. */
#define SEEK_TABLE_MAGIC 0x184d2a5eu /* of the skippable frame that holds it */
#define SEEK_TABLE_FOOTER_MAGIC 0x8f92eab1u

enum {
    SEEK_TABLE_HEADER_SIZE = 8,        /* u32 magic, u32 size of the bytes after the header */
    SEEK_TABLE_ENTRY_SIZE = 8,         /* u32 size of the frame, u32 size of its content */
    SEEK_TABLE_FOOTER_SIZE = 9,        /* u32 number of frames, u8 descriptor, u32 footer magic */
    SEEK_TABLE_MAX_FRAMES = 0x8000000, /* the limit of zstd's own seekable reader */
};

/* The journal of an unfinished file, after the space reserved for the blob: an entry for each frame
 * whose content is in the file. */
struct journal_entry {
    uint64_t end;   /* end of the frame in the packed file */
    uint64_t check; /* XXH3-64 of the previous entry's check (first: front_digest) and `end` */
};

_Static_assert(sizeof(struct journal_entry) == 16, "journal entry");

#endif

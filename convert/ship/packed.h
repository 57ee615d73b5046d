/* The packed file, see format/PACKED.md: the blob cut into pieces of one size, each a zstd frame of
 * its own, then a seek table (seek_table.h). */
#ifndef SMOL_CONVERT_PACKED_H
#define SMOL_CONVERT_PACKED_H

#include <zstd.h>

/* Frames of 1 MiB would pack hardly better (f32: 1 %, int8 and bf16: worse), take more memory, and
 * lose more when a download is cut. */
enum {
    PACKED_PIECE = 1 << 18, /* bytes of the blob in a frame, fewer in the last: 4 chunks */
    PACKED_MAX_FRAME = ZSTD_COMPRESSBOUND(PACKED_PIECE),
};

#endif

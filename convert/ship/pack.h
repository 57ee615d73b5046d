/* Compresses a blob for shipping, see format/PACKED.md. */
#ifndef SMOL_CONVERT_PACK_H
#define SMOL_CONVERT_PACK_H

#include <stdint.h>

#include "common/error.h"

struct pack_options {
    uint32_t level; /* of zstd, 1 to 22 */
    uint32_t n_threads;
    int force; /* 1: overwrite the output */
    int quiet; /* 1: no progress bar, no summary */
};

/* Packs the blob `input` into `output`, which appears complete or not at all. Verifies the whole
 * blob first. The same blob, level and release of zstd result in the same bytes for any number of
 * threads. Errors: those of smol_blob_open and smol_output_open. */
smol_status smol_pack(const char *input, const char *output, const struct pack_options *options,
                      smol_error *error);

#endif

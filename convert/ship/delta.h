/* Making a delta: what a blob has that an older one has not. */
#ifndef SMOL_CONVERT_DELTA_H
#define SMOL_CONVERT_DELTA_H

#include <stdint.h>

#include "common/error.h"

struct delta_options {
    uint32_t n_threads;
    int force; /* overwrite the output */
    int quiet; /* no progress, no summary */
};

/* Writes the delta that makes the blob new_path out of the blob old_path, as format/DELTA.md has
 * it. Both blobs are verified first, and the delta is applied once, in memory, before it appears.
 * It depends on the blobs and the release of zstd alone. Memory: some 40 MB for each thread.
 * Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY,
 * SMOL_ERROR_USAGE (the output is one of the blobs). */
smol_status smol_delta(const char *old_path, const char *new_path, const char *delta_path,
                       const struct delta_options *options, smol_error *error);

#endif

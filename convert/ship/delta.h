/* Makes a delta: the parts of a blob that an older blob does not have. */
#ifndef SMOL_CONVERT_DELTA_H
#define SMOL_CONVERT_DELTA_H

#include <stdint.h>

#include "common/error.h"

struct delta_options {
    uint32_t n_threads;
    int force; /* overwrite the output */
    int quiet; /* no progress, no summary */
};

/* Writes the delta that makes the blob new_path from the blob old_path, in the format of
 * format/DELTA.md. Verifies both blobs first, and applies the delta once in memory before the file
 * appears. The delta depends only on the blobs and the release of zstd. Memory: about 40 MB for
 * each thread. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY, SMOL_ERROR_USAGE (the output is one of the blobs). */
smol_status smol_delta(const char *old_path, const char *new_path, const char *delta_path,
                       const struct delta_options *options, smol_error *error);

#endif

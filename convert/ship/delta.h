/* Makes and applies deltas: the parts of a blob that an older blob does not have. */
#ifndef SMOL_CONVERT_DELTA_H
#define SMOL_CONVERT_DELTA_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/input.h"
#include "cli/output.h"
#include "common/error.h"
#include "format/reader.h"

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

/* patch.c: makes a blob from old_blob and a delta that arrives. Checks every part of the delta,
 * every chunk of the old blob before its use, and the resulting bytes. After success, `output`
 * holds exactly the blob that the delta is for. If `output` is NULL, nothing is written. Memory:
 * the front of the new blob, and 8 MiB. Errors: SMOL_ERROR_USAGE (a delta for another blob),
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_delta_apply(const struct blob *old_blob, struct input *delta,
                             struct output *output, smol_error *error);

/* Makes the blob new_path from the blob old_path and the delta delta_path ("-": standard input).
 * new_path appears complete or not at all. With `force`, new_path may exist, and may be old_path.
 * Errors: those of smol_delta_apply. */
smol_status smol_patch(const char *old_path, const char *delta_path, const char *new_path,
                       bool force, smol_error *error);

#endif

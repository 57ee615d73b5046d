/* Applies a delta to a blob. */
#ifndef SMOL_CONVERT_PATCH_H
#define SMOL_CONVERT_PATCH_H

#include <stdbool.h>

#include "cli/input.h"
#include "cli/output.h"
#include "common/error.h"
#include "format/reader.h"

/* Makes a blob from old_blob and a delta that arrives. Checks every part of the delta, every chunk
 * of the old blob before its use, and the resulting bytes. After success, `output` holds exactly
 * the blob that the delta is for. If `output` is NULL, nothing is written. Memory: the front of the
 * new blob, and 8 MiB. Errors: SMOL_ERROR_USAGE (a delta for another blob), SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_delta_apply(const struct blob *old_blob, struct input *delta,
                             struct output *output, smol_error *error);

/* Makes the blob new_path from the blob old_path and the delta delta_path ("-": standard input).
 * new_path appears complete or not at all. With `force`, new_path may exist, and may be old_path.
 * Errors: those of smol_delta_apply. */
smol_status smol_patch(const char *old_path, const char *delta_path, const char *new_path,
                       bool force, smol_error *error);

#endif

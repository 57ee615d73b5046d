/* Applying a delta. */
#ifndef SMOL_CONVERT_PATCH_H
#define SMOL_CONVERT_PATCH_H

#include <stdbool.h>

#include "cli/input.h"
#include "cli/output.h"
#include "common/error.h"
#include "format/reader.h"

/* Makes a blob out of old_blob and the delta that arrives. Whatever is used is checked first: every
 * part of the delta, every chunk of the old blob, and what comes out of them; so all that reached
 * `output` in the end is the blob that the delta is for. output NULL: nothing is written. Memory:
 * the front of the new blob, and 8 MiB. Errors: SMOL_ERROR_USAGE (a delta for another blob),
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_delta_apply(const struct blob *old_blob, struct input *delta,
                             struct output *output, smol_error *error);

/* Makes the blob new_path, which appears whole or not at all, out of the blob old_path and the
 * delta delta_path ("-": standard input). With `force` new_path may exist, and may be old_path.
 * Errors: as above. */
smol_status smol_patch(const char *old_path, const char *delta_path, const char *new_path,
                       bool force, smol_error *error);

#endif

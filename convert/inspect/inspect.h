/* What is in a file, for people. */
#ifndef SMOL_CONVERT_INSPECT_H
#define SMOL_CONVERT_INSPECT_H

#include <stdio.h>

#include "common/error.h"
#include "convert/checkpoint/source.h"

/* Describes `path`, a .smol blob or a safetensors file, on `out`: settings, tensors, sizes. */
enum status smol_inspect(const char *path, FILE *out, struct error *error);

/* Describes the checkpoint `path`, which is read as `options` say: what it is, whether it can be
 * converted, and if so how large the blobs are and how much memory they take with texts of
 * options->context tokens (0: all that the model can have). That it cannot is no error here; errors
 * are STATUS_FILE, STATUS_DAMAGED, STATUS_MEMORY, and STATUS_USAGE for a context that is too long.
 */
enum status smol_inspect_checkpoint(const char *path, const struct source_options *options,
                                    FILE *out, struct error *error);

#endif

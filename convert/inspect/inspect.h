/* Inspects a file or a checkpoint, for people and scripts. */
#ifndef SMOL_CONVERT_INSPECT_H
#define SMOL_CONVERT_INSPECT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "convert/source.h"

struct inspect_request {
    const struct source_options *checkpoint; /* NULL: the path is a file */
    uint32_t context;                        /* tokens to estimate memory for, or 0 */
    bool with_tensors;                       /* list them; as_json always does */
    bool with_statistics;
    bool as_json;
    uint32_t n_threads; /* for the statistics */
};

/* Describes `path` on `out`. `path` is a .smol blob, a safetensors file, or a checkpoint, which is
 * read with the options request->checkpoint. The description includes whether a checkpoint can be
 * converted, the sizes of its blobs, and the memory that they need, also with texts of
 * request->context tokens (0: the longest text of the model). A checkpoint that cannot be converted
 * is not an error. With statistics, reads all elements twice and checks every digest of a blob.
 * Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (a file of another kind),
 * SMOL_ERROR_MEMORY, SMOL_ERROR_USAGE (the context is too long). */
smol_status smol_inspect(const char *path, const struct inspect_request *request, FILE *out,
                         smol_error *error);

#endif

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
    uint32_t context;                        /* tokens whose memory is asked for, or 0 */
    bool with_tensors;                       /* list them; as_json always does */
    bool with_statistics;
    bool as_json;
    uint32_t n_threads; /* for the statistics */
};

/* Describes `path` on `out`: a .smol blob, a safetensors file, or a checkpoint, which is read as
 * request->checkpoint says: what it is, whether it can be converted, and if so how large the blobs
 * are and how much memory they take, also with texts of request->context tokens (0: all that the
 * model can have). That it cannot is no error here. With statistics, all elements are read, twice,
 * and every digest of a blob is checked. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED (a file of another kind), SMOL_ERROR_MEMORY, SMOL_ERROR_USAGE for a
 * context that is too long. */
smol_status smol_inspect(const char *path, const struct inspect_request *request, FILE *out,
                         smol_error *error);

#endif

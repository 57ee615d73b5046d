/* The conversion of a whole checkpoint into a blob. */
#ifndef SMOL_CONVERT_CONVERT_H
#define SMOL_CONVERT_CONVERT_H

#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

struct convert_options {
    enum blob_dtype dtype; /* of the matrices */
    uint32_t n_threads;
    int force; /* 1: overwrite the output */
    int quiet; /* 1: no progress bar, no summary */
};

/* Converts `input` (a checkpoint's folder, or the model.safetensors in it) into the blob
 * `output`, which appears whole or not at all. The same input gives the same bytes for any
 * number of threads. Memory beyond the mapped source: what the import of the tokenizer takes, then
 * the batches of weights.h. */
enum status smol_convert(const char *input, const char *output,
                         const struct convert_options *options, struct error *error);

#endif

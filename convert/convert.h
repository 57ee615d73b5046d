/* The conversion of a whole checkpoint into a blob. */
#ifndef SMOL_CONVERT_CONVERT_H
#define SMOL_CONVERT_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/source.h"
#include "format/format.h"
#include "format/reader.h"

struct convert_options {
    struct source_options source;
    enum blob_dtype dtype; /* of the matrices */
    uint32_t n_threads;
    int force; /* 1: overwrite the output */
    int quiet; /* 1: no progress bar, no summary */
};

/* Converts `input` (see smol_source_open) into the blob
 * `output`, which appears whole or not at all. The same input gives the same bytes for any
 * number of threads. Memory beyond the mapped source: what the import of the tokenizer takes, then
 * the batches of weights.h. */
smol_status smol_convert(const char *input, const char *output,
                         const struct convert_options *options, smol_error *error);

/* The size of the blob of `dtype` that the open source gives; source->config gets that dtype.
 * Errors: SMOL_ERROR_MEMORY. */
smol_status smol_convert_size(struct source *source, enum blob_dtype dtype, uint64_t *size,
                              smol_error *error);

/* Whether `blob` is what the conversion of `input` gives: converts it again with the blob's dtype
 * and compares the bytes as they come, so that it takes no file and no more memory than a
 * conversion. The release in the provenance may be another one, which *same_release tells. Errors:
 * SMOL_ERROR_MISMATCH with the first difference, and those of smol_convert. */
smol_status smol_convert_compare(const char *input, const struct source_options *options,
                                 const struct blob *blob, uint32_t n_threads, bool *same_release,
                                 smol_error *error);

#endif

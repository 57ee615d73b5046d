/* Converts a whole checkpoint into a blob. */
#ifndef SMOL_CONVERT_CONVERT_H
#define SMOL_CONVERT_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/source.h"
#include "convert/weights/plan.h"
#include "format/format.h"
#include "format/reader.h"

struct convert_options {
    struct source_options source;
    enum blob_dtype dtype; /* of the matrices, */
    struct goal goal; /* unless each one's is chosen, from the sensitivities of a calibration */
    uint32_t n_threads;
    int force; /* 1: overwrite the output */
    int quiet; /* 1: no progress bar, no summary */
};

/* Converts `input` (see smol_source_open) into the blob `output`, which appears complete or not at
 * all. The same input results in the same bytes for any number of threads. Memory beyond the mapped
 * source: that of importing the tokenizer, then the batches of weights.h. Errors: those of
 * smol_source_open, smol_weights_write and smol_writer_open, and SMOL_ERROR_USAGE (--context does
 * not apply, or the output is part of the source). */
smol_status smol_convert(const char *input, const char *output,
                         const struct convert_options *options, smol_error *error);

/* Computes the size of the blob of `dtype` for an open source. Sets its dtype.
 * Errors: SMOL_ERROR_MEMORY. */
smol_status smol_convert_size(struct source *source, enum blob_dtype dtype, uint64_t *size,
                              smol_error *error);

/* Checks that the conversion of `input` results in `blob`. Converts `input` again with the blob's
 * dtypes and compares the bytes as they are made, so that it needs no file and no more memory than
 * a conversion. The release in the provenance may differ; *same_release is set to whether it is the
 * same. Errors: SMOL_ERROR_MISMATCH with the first difference, and those of smol_convert. */
smol_status smol_convert_compare(const char *input, const struct source_options *options,
                                 const struct blob *blob, uint32_t n_threads, bool *same_release,
                                 smol_error *error);

#endif

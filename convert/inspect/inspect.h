/* Describes a model, draws a report about it, and compares two models. */
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

struct report_options {
    struct source_options source;
    const char *output;
    uint32_t n_threads;
    int force, quiet;
};

/* Writes options->output, one page of HTML without external resources and scripts. It shows the
 * model at `path` (a .smol blob, a safetensors file or a checkpoint), histograms of its weights,
 * the error of int8 by layer, statistics of every tensor, and the provenance. The bytes are the
 * same for any number of threads. Reads all elements three times. Errors: those of smol_inspect and
 * smol_output_commit. */
smol_status smol_report(const char *path, const struct report_options *options, smol_error *error);

/* Prints the differences between the models `a` and `b` on `out`; each is a .smol blob, a
 * safetensors file or a checkpoint's folder. For different kinds, compares the parts that both
 * have: a safetensors file has only tensors, and a blob's elements are compared as the numbers that
 * they represent. Provenances are shown but do not count as differences. Tensors are read in pieces
 * from their mappings, so memory does not grow with their size. Errors: SMOL_ERROR_MISMATCH,
 * without a message, if the models differ; the errors of opening either. */
smol_status smol_diff(const char *a, const char *b, FILE *out, smol_error *error);

#endif

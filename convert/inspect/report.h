/* Writes a report about a model as one page for a browser. */
#ifndef SMOL_CONVERT_REPORT_H
#define SMOL_CONVERT_REPORT_H

#include <stdint.h>

#include "common/error.h"
#include "convert/source.h"

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

#endif

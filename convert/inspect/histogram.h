/* How the elements of tensors are spread. */
#ifndef SMOL_CONVERT_HISTOGRAM_H
#define SMOL_CONVERT_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pool.h"
#include "convert/inspect/model_tensor.h"

/* How the finite elements of a group of tensors are spread: bin i has those within [edge(i), edge(i
 * + 1)), the last bin its upper edge too, where edge(i) = low + i * ((high - low) /
 * HISTOGRAM_BINS). */
enum { HISTOGRAM_BINS = 61 };
struct histogram {
    double low, high; /* low < high */
    uint64_t n_outside;
    uint64_t bins[HISTOGRAM_BINS];
};
double smol_histogram_edge(const struct histogram *histogram, unsigned i);

/* Counts the elements of tensors[i] in histograms[group[i]], for each tensor with a group >= 0.
 * `histograms` come with their bounds, and counts of zero. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_histograms(const struct model_tensor *tensors, size_t n, const int *group,
                            struct pool *pool, bool quiet, struct histogram *histograms,
                            smol_error *error);

#endif

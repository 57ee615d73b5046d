/* Histograms of the elements of tensors. */
#ifndef SMOL_CONVERT_HISTOGRAM_H
#define SMOL_CONVERT_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pool.h"
#include "convert/inspect/model_tensor.h"

/* A histogram of the finite elements of a group of tensors. Bin i counts the elements in [edge(i),
 * edge(i + 1)); the last bin includes its upper edge. edge(i) = low + i * ((high - low) /
 * HISTOGRAM_BINS). */
enum { HISTOGRAM_BINS = 61 };
struct histogram {
    double low, high; /* low < high */
    uint64_t n_outside;
    uint64_t bins[HISTOGRAM_BINS];
};
double smol_histogram_edge(const struct histogram *histogram, unsigned i);

/* Counts the elements of tensors[i] in histograms[group[i]], for each tensor with group[i] >= 0.
 * The caller sets the bounds of `histograms` and zeroes the counts. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_histograms(const struct model_tensor *tensors, size_t n, const int *group,
                            struct pool *pool, bool quiet, struct histogram *histograms,
                            smol_error *error);

#endif

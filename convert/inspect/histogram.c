/* Counts elements in histograms, see histogram.h. The counts are integers, so the order of the
 * elements does not matter. */
#include "convert/inspect/histogram.h"

#include "convert/inspect/scan.h"

struct counting {
    const int *group;
    struct histogram *histograms;
};

double smol_histogram_edge(const struct histogram *histogram, unsigned i)
{
    return i == HISTOGRAM_BINS
               ? histogram->high
               : histogram->low + i * ((histogram->high - histogram->low) / HISTOGRAM_BINS);
}

/* Returns the bin of a value. The quotient may have a rounding error, so the edges decide. */
static unsigned bin_of(const double *edges, double value)
{
    double low = edges[0], width = edges[HISTOGRAM_BINS] - low;
    unsigned bin = (unsigned)((value - low) / width * HISTOGRAM_BINS);
    bin = bin < HISTOGRAM_BINS ? bin : HISTOGRAM_BINS - 1;
    if (value < edges[bin])
        return bin - 1;
    return bin + 1 < HISTOGRAM_BINS && value >= edges[bin + 1] ? bin + 1 : bin;
}

static void add_counts(const void *context, struct scan_chunk *chunk, void *out)
{
    const struct counting *counting = context;
    struct histogram *counts = out;
    double edges[HISTOGRAM_BINS + 1];
    if (counting->group[chunk->tensor] < 0)
        return;
    for (unsigned i = 0; i <= HISTOGRAM_BINS; i++)
        edges[i] = smol_histogram_edge(&counting->histograms[counting->group[chunk->tensor]], i);
    for (size_t i = 0; i < chunk->n; i++) {
        double value = chunk->values[i];
        if (value >= edges[0] && value <= edges[HISTOGRAM_BINS])
            counts->bins[bin_of(edges, value)]++;
        else
            counts->n_outside += value - value == 0; /* finite */
    }
}

static void collect_counts(void *context, size_t tensor, const void *out)
{
    const struct counting *counting = context;
    const struct histogram *counts = out;
    if (counting->group[tensor] < 0)
        return;
    struct histogram *histogram = &counting->histograms[counting->group[tensor]];
    histogram->n_outside += counts->n_outside;
    for (unsigned i = 0; i < HISTOGRAM_BINS; i++)
        histogram->bins[i] += counts->bins[i];
}

smol_status smol_histograms(const struct model_tensor *tensors, size_t n, const int *group,
                            struct pool *pool, bool quiet, struct histogram *histograms,
                            smol_error *error)
{
    struct counting counting = {group, histograms};
    const struct tensor_scan scan = {sizeof(struct histogram), add_counts, collect_counts,
                                     &counting};
    return smol_scan(&scan, tensors, n, pool, quiet, error);
}

/* How fast it went, for --stats and a chat's /stats. */
#ifndef SMOL_SMOLRUN_STATS_H
#define SMOL_SMOLRUN_STATS_H

#include <stdio.h>

#include "smolrun/load.h"

/* Sums over all generations. */
struct stats {
    size_t n_prefill, n_decode; /* the first token of an answer comes with its prompt */
    double prefill_seconds, decode_seconds;
};

void smol_stats_add(struct stats *stats, const smol_generate_result *result);

/* Most memory that the process had at once, what of a mapped blob was in memory included. */
uint64_t smol_stats_peak_bytes(void);

/* One line for each of load, prefill, decode, context and memory. */
void smol_stats_print(FILE *out, const struct stats *stats, const struct loaded *loaded);

#endif

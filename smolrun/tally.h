/* Figures of which the mean is asked for. */
#ifndef SMOL_SMOLRUN_TALLY_H
#define SMOL_SMOLRUN_TALLY_H

#include <math.h>
#include <stddef.h>

/* Zeroed: none. */
struct tally {
    size_t n;
    double mean, squares; /* sum of squared differences from the mean (Welford, 1962) */
};

static inline void tally_add(struct tally *tally, double x)
{
    double before = x - tally->mean;
    tally->n++;
    tally->mean += before / (double)tally->n;
    tally->squares += before * (x - tally->mean);
}

/* The mean's standard error; NaN for a single figure. */
static inline double tally_error(const struct tally *tally)
{
    double n = (double)tally->n;
    return tally->n > 1 ? sqrt(tally->squares / (n - 1) / n) : (double)NAN;
}

#endif

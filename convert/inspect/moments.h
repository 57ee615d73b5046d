/* Sums over parts of a tensor, and their merging. */
#ifndef SMOL_CONVERT_MOMENTS_H
#define SMOL_CONVERT_MOMENTS_H

#include <stddef.h>
#include <stdint.h>

/* A sum with what rounding has left over: the total is sum + rest. */
struct long_sum {
    double sum, rest;
};

/* Running count, sum, mean square deviation and bounds of elements. Starts zeroed. */
struct moments {
    uint64_t n; /* the finite ones; what follows is of these */
    uint64_t n_zeros;
    struct long_sum sum;
    double squares; /* of the deviations from the mean */
    double min, max;
    uint64_t n_nan, n_infinite, first_not_finite;
};

/* The sum of values[0..n) in a fixed order: by index modulo 16, then in a tree. */
double smol_sum(const double *values, size_t n);

void smol_add(struct long_sum *sum, double value);

/* Moments of values[0..n), n <= 1024, the tensor's elements from `start` on. Moves the finite ones
 * to the front where there are others; their number is `n` in the result. */
struct moments smol_moments(double *values, size_t n, uint64_t start);

/* Adds the moments of the next part (Chan, Golub and LeVeque, 1979). */
void smol_moments_merge(struct moments *moments, const struct moments *other);

#endif

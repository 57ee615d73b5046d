/* Moments of parts of a tensor, and merging them. */
#ifndef SMOL_CONVERT_MOMENTS_H
#define SMOL_CONVERT_MOMENTS_H

#include <stddef.h>
#include <stdint.h>

/* A sum and its accumulated rounding error: the total is sum + rest. */
struct long_sum {
    double sum, rest;
};

/* Running count, sum, squared deviations and bounds of elements. Initialize to zeros. */
struct moments {
    uint64_t n; /* finite elements; the fields up to `max` describe these */
    uint64_t n_zeros;
    struct long_sum sum;
    double squares; /* sum of squared deviations from the mean */
    double min, max;
    uint64_t n_nan, n_infinite, first_not_finite;
};

/* Returns the sum of values[0..n) in a fixed order: by index modulo 16, then in a tree. */
double smol_sum(const double *values, size_t n);

void smol_add(struct long_sum *sum, double value);

/* Returns the moments of values[0..n), n <= 1024, which are the tensor's elements from index
 * `start` on. If some are not finite, moves the finite ones to the front; their number is `n` in
 * the result. */
struct moments smol_moments(double *values, size_t n, uint64_t start);

/* Adds the moments of the next part (Chan, Golub and LeVeque, 1979). */
void smol_moments_merge(struct moments *moments, const struct moments *other);

#endif

/* Statistics of tensors' elements, and the error of int8. */
#ifndef SMOL_CONVERT_STATISTICS_H
#define SMOL_CONVERT_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pool.h"
#include "convert/inspect/model_tensor.h"

/* The source of an error of int8. */
enum error_kind {
    ERROR_NONE,      /* unknown: not a matrix of floats, or int8 cannot represent it */
    ERROR_MEASURED,  /* the matrix was quantized as in a conversion, and compared */
    ERROR_ESTIMATED, /* the matrix is quantized without its source; estimated from its scales */
};

/* The error of a matrix whose rows are quantized in groups of GROUP_INPUTS: of an int6, int5 or
 * int4 matrix its own, of others that of int8. An estimate assumes that the error is spread evenly
 * within half a step, or half the gaps to the next levels: rmse is the root of the mean of step^2 /
 * 12, and `largest` is half the largest step or gap, which no error of int8 exceeds. */
struct int8_error {
    enum error_kind kind;
    double rmse;    /* the root of the mean of (x - x')^2 */
    double largest; /* the largest |x - x'| */
    double snr; /* decibels: 10 log10 of the sum of x^2 over the sum of (x - x')^2; infinite without
                   an error */
};

enum { OUTLIER_DEVIATIONS = 6 };

/* Statistics of the finite elements; the others are counted. An undefined figure (the mean of no
 * elements, the variance of one element, a sum beyond double) is NaN or infinite. */
struct statistics {
    bool is_known; /* the elements can be read as numbers; otherwise all fields are 0 */
    uint64_t n;    /* all elements */
    uint64_t n_nan, n_infinite; /* among the n elements */
    uint64_t first_not_finite;  /* flat index of the first, if there is any */
    uint64_t n_zeros;           /* 0 and -0 */
    uint64_t n_outliers;        /* more than OUTLIER_DEVIATIONS deviations from the mean */
    double sum, mean;
    double variance; /* divided by n - 1, as in PyTorch's var */
    double min, max;
    struct int8_error int8;
};

/* Fills all[0..n) with the statistics of tensors[0..n), in double. The result is the same for any
 * number of threads. Reads each tensor twice, in order. Memory does not grow with the tensors'
 * sizes. Draws a progress bar unless `quiet`. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_statistics(const struct model_tensor *tensors, size_t n, struct pool *pool,
                            bool quiet, struct statistics *all, smol_error *error);

/* --- moments of parts of a tensor, which statistics are computed from ---------------------- */

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

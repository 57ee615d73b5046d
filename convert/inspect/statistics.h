/* Statistics of tensors' elements, and the error of int8. */
#ifndef SMOL_CONVERT_STATISTICS_H
#define SMOL_CONVERT_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pool.h"
#include "convert/inspect/model_tensor.h"

/* How the error of int8 is known. */
enum error_kind {
    ERROR_NONE,      /* nothing: no matrix of floats, or not one that int8 can hold */
    ERROR_MEASURED,  /* the matrix was quantized as a conversion does it, and compared */
    ERROR_ESTIMATED, /* the matrix is int8 and its source unknown: what its scales say */
};

/* Errors are those of a matrix whose rows are quantized in groups of GROUP_INPUTS. Estimated ones
 * take the error to be spread evenly within half a step (rmse, from the mean of squared steps /
 * 12); `largest` is then half the largest step, which no error exceeds. */
struct int8_error {
    enum error_kind kind;
    double rmse;    /* the root of the mean of (x - x')^2 */
    double largest; /* of |x - x'| */
    double snr;     /* decibels: 10 log10 of the sum of x^2 over that of (x - x')^2; infinite where
                       there is no error */
};

enum { OUTLIER_DEVIATIONS = 6 };

/* Statistics of the finite elements; the others are counted. A figure without value (a mean of
 * nothing, a variance of one element, a sum beyond double) is NaN or infinite. */
struct statistics {
    bool is_known;              /* the elements are numbers that we read; if not, all is zero */
    uint64_t n;                 /* elements, all of them */
    uint64_t n_nan, n_infinite; /* of these */
    uint64_t first_not_finite;  /* the flat index of one, if there is any */
    uint64_t n_zeros;           /* 0 and -0 */
    uint64_t n_outliers;        /* farther than OUTLIER_DEVIATIONS deviations from the mean */
    double sum, mean;
    double variance; /* with n - 1 below, as PyTorch's var */
    double min, max;
    struct int8_error int8;
};

/* Fills all[0..n) with the statistics of tensors[0..n), in double, the same for any number of
 * threads. Reads each tensor twice, in order. Memory does not grow with the tensors' sizes. Draws a
 * progress bar unless `quiet`. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_statistics(const struct model_tensor *tensors, size_t n, struct pool *pool,
                            bool quiet, struct statistics *all, smol_error *error);

#endif

/* Scans the elements of many tensors, on all threads, in pieces. */
#ifndef SMOL_CONVERT_SCAN_H
#define SMOL_CONVERT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pool.h"
#include "convert/inspect/model_tensor.h"

/* Elements of one tensor: whole rows, or a part of one row that starts at a multiple of
 * TENSOR_PIECE. A tensor that is not a matrix is one row. */
struct scan_chunk {
    size_t tensor; /* its index */
    uint64_t row, col, rows, cols;
    uint64_t start; /* flat index of the first element */
    size_t n;       /* elements, at most TENSOR_PIECE */
    double values[TENSOR_PIECE];
};

/* The callbacks of a scan. `add` adds the chunks of a piece (neighbouring chunks of a tensor) to
 * one result, on any thread. `collect` receives the results in the order of the elements, on the
 * caller's thread. */
struct tensor_scan {
    size_t result_size; /* a result starts as zeros */
    void (*add)(const void *context, struct scan_chunk *chunk, void *result);
    void (*collect)(void *context, size_t tensor, const void *result);
    void *context;
};

/* Scans tensors[0..n) in order, except for those whose elements are not numbers. Draws a progress
 * bar unless `quiet`. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_scan(const struct tensor_scan *scan, const struct model_tensor *tensors, size_t n,
                      struct pool *pool, bool quiet, smol_error *error);

#endif

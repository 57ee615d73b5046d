/* Elements as numbers, see diff_parts.h. They are widened to double piece by piece, which is exact
 * for every type that counts as a number here. */
#include <math.h>

#include "convert/inspect/diff_parts.h"

/* Adds a piece that starts at element `start`; returns the sum of its differences. */
static double compare(const double *a, const double *b, uint64_t n, uint64_t start,
                      struct diff_values *values)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
            continue;
        values->n_different++;
        if (!isfinite(a[i]) || !isfinite(b[i])) {
            if (values->n_not_finite++ == 0)
                values->first_not_finite = start + i;
            continue;
        }
        double difference = fabs(a[i] - b[i]);
        sum += difference;
        if (difference > values->largest) {
            values->largest = difference;
            values->largest_at = start + i;
        }
    }
    return sum;
}

struct diff_values smol_diff_values(const struct model_tensor *a, const struct model_tensor *b)
{
    /* tiles need rows; otherwise all elements are one row */
    const struct blob_tensor *tiled = a->tiled ? a->tiled : b->tiled;
    uint64_t rows = tiled ? tiled->rows : 1, cols = tiled ? tiled->cols : a->n_elements;
    struct diff_values values = {.n = a->n_elements};
    double left[TENSOR_PIECE], right[TENSOR_PIECE], sum = 0;
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t col = 0; col < cols; col += TENSOR_PIECE) {
            uint64_t n = cols - col < TENSOR_PIECE ? cols - col : TENSOR_PIECE;
            smol_tensor_read(a, cols, row, col, n, left);
            smol_tensor_read(b, cols, row, col, n, right);
            sum += compare(left, right, n, row * cols + col, &values);
        }
    }
    if (values.n > values.n_not_finite)
        values.mean = sum / (double)(values.n - values.n_not_finite);
    return values;
}

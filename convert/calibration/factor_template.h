/* The inner loop of factorization. The file that includes this one compiles it for one instruction
 * set, and first defines:
 *
 *   FACTOR_UPDATE  the name of the function
 *   LANES          doubles in a vector: 2, 4 or 8
 *
 * Each element has its own sum, so the width of vectors does not change a bit. */
#include <string.h>

#include "convert/calibration/factor.h"

typedef double vector __attribute__((vector_size(LANES * sizeof(double))));

static inline __attribute__((always_inline)) void
update_columns(const double *a, const double *b, size_t panel_stride, double *out, size_t stride)
{
    enum { VECTORS = 2 };
    vector sums[FACTOR_ROWS][VECTORS];
    for (size_t i = 0; i < FACTOR_ROWS; i++)
        memcpy(sums[i], out + i * stride, sizeof sums[i]);
    for (size_t p = 0; p < FACTOR_PANEL; p++) {
        vector row[VECTORS];
        memcpy(row, b + p * panel_stride, sizeof row);
        for (size_t i = 0; i < FACTOR_ROWS; i++)
            for (size_t v = 0; v < VECTORS; v++)
                sums[i][v] -= row[v] * (a[p * panel_stride + i] - (vector){0});
    }
    for (size_t i = 0; i < FACTOR_ROWS; i++)
        memcpy(out + i * stride, sums[i], sizeof sums[i]);
}

void FACTOR_UPDATE(const double *a, const double *b, size_t panel_stride, size_t n_columns,
                   double *out, size_t stride)
{
    for (size_t k = 0; k < n_columns; k += 2 * LANES)
        update_columns(a, b + k, panel_stride, out + k, stride);
}

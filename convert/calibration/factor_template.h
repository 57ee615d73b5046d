/* The inner loop of factorization. The file that includes this one compiles it for one instruction
 * set, and first defines:
 *
 *   FACTOR_UPDATE  the name of the function
 *   LANES          doubles in a vector: 2, 4 or 8
 *
 * Each element has its own sum, so the width of vectors does not change a bit. */
#include "common/unrolled.h"
#include "convert/calibration/factor.h"

typedef double vector __attribute__((vector_size(LANES * sizeof(double))));

static inline __attribute__((always_inline)) void update_columns(const double *a, const double *b,
                                                                 double *out, size_t stride)
{
    enum { VECTORS = 2 };
    vector sums[FACTOR_ROWS][VECTORS];
    UNROLLED (i, FACTOR_ROWS)
        LOAD_VECTORS(sums[i], VECTORS, out + i * stride);
    for (size_t p = 0; p < FACTOR_PANEL; p++) {
        vector row[VECTORS];
        LOAD_VECTORS(row, VECTORS, b + p * FACTOR_COLUMNS);
        UNROLLED (i, FACTOR_ROWS)
            UNROLLED (v, VECTORS)
                sums[i][v] -= row[v] * (a[p * FACTOR_COLUMNS + i] - (vector){0});
    }
    UNROLLED (i, FACTOR_ROWS)
        STORE_VECTORS(out + i * stride, sums[i], VECTORS);
}

void FACTOR_UPDATE(const double *a, const double *b, size_t n_columns, double *out, size_t stride)
{
    for (size_t k = 0; k < n_columns; k += 2 * LANES)
        update_columns(a, b + panel_at(k), out + k, stride);
}

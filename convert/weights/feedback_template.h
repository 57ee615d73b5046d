/* The inner loop of error feedback. The file that includes this one compiles it for one instruction
 * set, and first defines:
 *
 *   FEEDBACK_UPDATE  the name of the function
 *   LANES            floats in a vector: 4, 8 or 16
 *   COLUMNS          inputs that share a pass over the errors, limited by registers
 *
 * Each element has its own sum, so the width of vectors does not change a bit. */
#include "common/unrolled.h"
#include "convert/weights/feedback.h"

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
enum { ROW_VECTORS = TILE_ROWS / LANES };

/* Updates n_columns targets, a constant number of at most COLUMNS. */
static inline __attribute__((always_inline)) void update_columns(const float *u, size_t stride,
                                                                 const float *errors, size_t n,
                                                                 float *targets, size_t n_columns)
{
    vector sums[COLUMNS][ROW_VECTORS];
    UNROLLED (k, n_columns)
        LOAD_VECTORS(sums[k], ROW_VECTORS, targets + k * TILE_ROWS);
    for (size_t j = 0; j < n; j++) {
        vector row[ROW_VECTORS];
        LOAD_VECTORS(row, ROW_VECTORS, errors + j * TILE_ROWS);
        UNROLLED (k, n_columns)
            UNROLLED (v, ROW_VECTORS)
                sums[k][v] += row[v] * (u[j * stride + k] - (vector){0});
    }
    UNROLLED (k, n_columns)
        STORE_VECTORS(targets + k * TILE_ROWS, sums[k], ROW_VECTORS);
}

void FEEDBACK_UPDATE(const float *u, size_t stride, const float *errors, size_t n, float *targets,
                     size_t n_columns)
{
    size_t k = 0;
    for (; n_columns - k >= COLUMNS; k += COLUMNS)
        update_columns(u + k, stride, errors, n, targets + k * TILE_ROWS, COLUMNS);
    for (; k < n_columns; k++)
        update_columns(u + k, stride, errors, n, targets + k * TILE_ROWS, 1);
}

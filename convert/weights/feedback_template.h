/* The inner loop of error feedback. The file that includes this one compiles it for one instruction
 * set, and first defines:
 *
 *   FEEDBACK_UPDATE  the name of the function
 *   LANES            floats in a vector: 4, 8 or 16
 *   COLUMNS          inputs that share a pass over the errors, limited by registers
 *
 * Each element has its own sum, so the width of vectors does not change a bit. */
#include <string.h>

#include "convert/weights/feedback.h"

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
enum { ROW_VECTORS = TILE_ROWS / LANES };

static inline __attribute__((always_inline)) void update_columns(const float *u, size_t stride,
                                                                 const float *errors, size_t n,
                                                                 float *targets, size_t n_columns)
{
    vector sums[COLUMNS][ROW_VECTORS];
    for (size_t k = 0; k < n_columns; k++)
        memcpy(sums[k], targets + k * TILE_ROWS, sizeof sums[k]);
    for (size_t j = 0; j < n; j++) {
        vector row[ROW_VECTORS];
        memcpy(row, errors + j * TILE_ROWS, sizeof row);
        for (size_t k = 0; k < n_columns; k++)
            for (size_t v = 0; v < ROW_VECTORS; v++)
                sums[k][v] += row[v] * (u[j * stride + k] - (vector){0});
    }
    for (size_t k = 0; k < n_columns; k++)
        memcpy(targets + k * TILE_ROWS, sums[k], sizeof sums[k]);
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

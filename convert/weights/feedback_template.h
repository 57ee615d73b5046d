/* The inner loop of error feedback. The file that includes this one compiles it for one instruction
 * set, and first defines:
 *
 *   FEEDBACK_UPDATE  the name of the function
 *   LANES            floats in a vector: 4, 8 or 16
 *   COLUMNS          inputs that share a pass over the errors, limited by registers
 *
 * Each element has its own sum, so the width of vectors does not change a bit. */
#include <string.h>

#include "common/unrolled.h"
#include "convert/weights/feedback.h"

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
enum { ROW_VECTORS = TILE_ROWS / LANES };

/* Updates n_columns targets; each of the two calls has a constant number of them. */
#define UPDATE(name, n_columns)                                                                    \
    static inline void name(const float *u, size_t stride, const float *errors, size_t n,          \
                            float *targets)                                                        \
    {                                                                                              \
        vector sums[n_columns][ROW_VECTORS];                                                       \
        memcpy(sums, targets, sizeof sums);                                                        \
        for (size_t j = 0; j < n; j++) {                                                           \
            vector row[ROW_VECTORS];                                                               \
            memcpy(row, errors + j * TILE_ROWS, sizeof row);                                       \
            UNROLLED (k, n_columns)                                                                \
                UNROLLED (v, ROW_VECTORS)                                                          \
                    sums[k][v] += row[v] * (u[j * stride + k] - (vector){0});                      \
        }                                                                                          \
        memcpy(targets, sums, sizeof sums);                                                        \
    }
UPDATE(update_columns, COLUMNS)
UPDATE(update_column, 1)

void FEEDBACK_UPDATE(const float *u, size_t stride, const float *errors, size_t n, float *targets,
                     size_t n_columns)
{
    size_t k = 0;
    for (; n_columns - k >= COLUMNS; k += COLUMNS)
        update_columns(u + k, stride, errors, n, targets + k * TILE_ROWS);
    for (; k < n_columns; k++)
        update_column(u + k, stride, errors, n, targets + k * TILE_ROWS);
}

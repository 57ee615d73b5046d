/* The inner loop of Gram matrices. The file that includes this one compiles it for one instruction
 * set, and first defines:
 *
 *   GRAM_UPDATE  the name of the function
 *   LANES        floats in a vector: 4, 8 or 16
 *   ROWS         rows that share a pass over b, limited by registers
 *
 * Each element is a sum of its own, so the width of vectors does not change a bit. */
#include "common/unrolled.h"
#include "runtime/calibrate/gram.h"

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
enum { BLOCK_VECTORS = GRAM_BLOCK / LANES };

static inline __attribute__((always_inline)) void update_rows(const float *a, const float *b,
                                                              size_t n, float *out, size_t stride)
{
    vector sums[ROWS][BLOCK_VECTORS] = {0};
    for (size_t t = 0; t < n; t++) {
        vector row[BLOCK_VECTORS];
        LOAD_VECTORS(row, BLOCK_VECTORS, b + t * GRAM_BLOCK);
        UNROLLED (i, ROWS)
            UNROLLED (v, BLOCK_VECTORS)
                sums[i][v] += row[v] * (a[t * GRAM_STRIP + i] - (vector){0});
    }
    UNROLLED (i, ROWS) {
        vector total[BLOCK_VECTORS];
        LOAD_VECTORS(total, BLOCK_VECTORS, out + i * stride);
        UNROLLED (v, BLOCK_VECTORS)
            total[v] += sums[i][v];
        STORE_VECTORS(out + i * stride, total, BLOCK_VECTORS);
    }
}

void GRAM_UPDATE(const float *a, const float *b, size_t n, float *out, size_t stride)
{
    for (size_t i = 0; i < GRAM_BLOCK; i++)
        __builtin_prefetch(out + i * stride, 1); /* the sums of a model fill no cache */
    for (size_t i = 0; i < GRAM_BLOCK; i += ROWS)
        update_rows(a + i, b, n, out + i * stride, stride);
}

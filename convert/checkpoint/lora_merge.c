/* The arithmetic of smol_lora_merge, see lora.h. */
#include <string.h>

#include "convert/checkpoint/lora.h"
#include "convert/weights/tile.h"

enum { STRIP = 256 }; /* columns whose sums stay in the first-level cache */

/* sums (n, width) of B A, of rows [row, row + n) and columns [col, col + width). */
static void add_products(const struct lora_pair *pair, uint64_t row, uint64_t n, uint64_t col,
                         uint64_t width, double (*sums)[STRIP])
{
    uint64_t rank = pair->a->shape[0], cols = pair->a->shape[1];
    float a[STRIP], b;
    memset(sums, 0, n * sizeof *sums);
    for (uint64_t k = 0; k < rank; k++) {
        smol_tile_widen(pair->a, k * cols + col, width, a);
        for (uint64_t r = 0; r < n; r++) {
            smol_tile_widen(pair->b, (pair->first_row + row + r) * rank + k, 1, &b);
            for (uint64_t c = 0; c < width; c++)
                sums[r][c] += (double)b * (double)a[c];
        }
    }
}

void smol_lora_merge(const struct lora_pair *pair, const struct safetensors_tensor *base,
                     uint64_t row, uint64_t n, float *out)
{
    uint64_t cols = pair->a->shape[1];
    double sums[TILE_ROWS][STRIP];
    smol_tile_widen(base, row * cols, n * cols, out);
    for (uint64_t col = 0; col < cols; col += STRIP) {
        uint64_t width = cols - col < STRIP ? cols - col : STRIP;
        add_products(pair, row, n, col, width, sums);
        for (uint64_t r = 0; r < n; r++)
            for (uint64_t c = 0; c < width; c++) {
                float delta = (float)sums[r][c] * pair->scale;
                out[r * cols + col + c] += delta;
            }
    }
}

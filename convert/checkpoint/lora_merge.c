/* Adds an adapter's change to rows of a weight, see lora.h. */
#include <string.h>

#include "convert/checkpoint/lora.h"
#include "convert/checkpoint/tensor.h"
#include "format/layout.h"

enum { MERGED_STRIP = 256 }; /* columns whose sums fit the first-level cache */

/* Computes sums (n, width): rows [row, row + n) of `base` and columns [col, col + width) of B A. */
static void add_products(const struct lora_pair *pair, const struct safetensors_tensor *base,
                         uint64_t row, uint64_t n, uint64_t col, uint64_t width,
                         double (*sums)[MERGED_STRIP])
{
    uint64_t rank = pair->rank, cols = pair->a->shape[1];
    float a[MERGED_STRIP], b;
    memset(sums, 0, n * sizeof *sums);
    for (uint64_t k = 0; k < rank; k++) {
        tensor_widen(pair->a, (pair->index * rank + k) * cols + col, width, a);
        for (uint64_t r = 0; r < n; r++) {
            uint64_t output = pair->first_row + base->first_row + tensor_output(base, row + r);
            tensor_widen(pair->b, (output * rank + k) * pair->n + pair->index, 1, &b);
            for (uint64_t c = 0; c < width; c++)
                sums[r][c] += (double)b * (double)a[c];
        }
    }
}

/* Works like add_products for a base whose rows are inputs: a part that `swaps`, or experts stacked
 * as PEFT below 0.19.1 stacks them. */
static void add_swapped(const struct lora_pair *pair, const struct safetensors_tensor *base,
                        uint64_t row, uint64_t n, uint64_t col, uint64_t width,
                        double (*sums)[MERGED_STRIP])
{
    uint64_t rank = pair->rank, inputs = pair->a->shape[1];
    float a, b[MERGED_STRIP];
    memset(sums, 0, n * sizeof *sums);
    for (uint64_t k = 0; k < rank; k++)
        for (uint64_t r = 0; r < n; r++) {
            uint64_t input = pair->first_row + row + r, output = col;
            bool is_next = r == 0;
            if (base->swaps) {
                output += base->first_row + input / inputs * (base->run_step / base->col_step);
                input %= inputs;
                is_next = is_next || input == 0; /* of another run */
            }
            for (uint64_t c = 0; is_next && c < width; c++)
                tensor_widen(pair->b, ((output + c) * rank + k) * pair->n + pair->index, 1, &b[c]);
            tensor_widen(pair->a, (pair->index * rank + k) * inputs + input, 1, &a);
            for (uint64_t c = 0; c < width; c++)
                sums[r][c] += (double)b[c] * (double)a;
        }
}

void smol_lora_merge(const struct lora_pair *pair, const struct safetensors_tensor *base,
                     uint64_t row, uint64_t n, float *out)
{
    uint64_t cols = base->shape[1];
    double sums[TILE_ROWS][MERGED_STRIP];
    tensor_widen(base, row * cols, n * cols, out);
    for (uint64_t col = 0; col < cols; col += MERGED_STRIP) {
        uint64_t width = cols - col < MERGED_STRIP ? cols - col : MERGED_STRIP;
        (base->swaps || pair->swaps ? add_swapped : add_products)(pair, base, row, n, col, width,
                                                                  sums);
        for (uint64_t r = 0; r < n; r++)
            for (uint64_t c = 0; c < width; c++) {
                float delta = (float)sums[r][c] * pair->scale;
                out[r * cols + col + c] += tensor_negates(base, row + r) ? -delta : delta;
            }
    }
}

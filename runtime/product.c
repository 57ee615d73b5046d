/* Matrix products, see product.h. Threads share the output rows, never a sum. */
#include "runtime/product.h"

#include <string.h>

struct input smol_input(const float *x, size_t n, size_t width, struct quantized quantized)
{
    quantized.n = n;
    quantized.stride = smol_quantized_stride(n);
    return (struct input){x, n, width, quantized};
}

void smol_input_prepare(struct pass *pass, const struct input *input, size_t t, const char *what,
                        size_t layer)
{
    const float *row = input->x + t * input->width;
    if (pass->m->dtype == DTYPE_INT8 &&
        !pass->c->kernels->quantize(row, input->width, &input->quantized, t))
        smol_pass_fail_numeric(pass, what, layer, t);
}

/* x (n, stride) += y (n, TILE_ROWS), the first `count` elements of each row */
static inline void add_rows(float *x, size_t stride, const float *y, size_t n, size_t count)
{
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < count; i++)
            x[t * stride + i] += y[t * TILE_ROWS + i];
}

static void add_bias(float *x, size_t stride, const float *bias, size_t n, size_t count)
{
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < count; i++)
            x[t * stride + i] += bias[i];
}

void smol_multiply_block(struct pass *pass, const struct blob_tensor *weight,
                         const struct blob_tensor *bias, const struct input *input, size_t block,
                         float *out, size_t stride)
{
    const struct kernels *kernels = pass->c->kernels;
    uint64_t bytes = smol_block_bytes(weight->dtype, weight->cols);
    const void *data = smol_pass_bytes(pass, weight, block * bytes, bytes);
    switch ((enum blob_dtype)weight->dtype) {
    case DTYPE_F32:
        kernels->matmul_f32(data, weight->cols, input->x, input->width, input->n, out, stride);
        break;
    case DTYPE_BF16:
        kernels->matmul_bf16(data, weight->cols, input->x, input->width, input->n, out, stride);
        break;
    case DTYPE_INT8:
        kernels->matmul_int8(data, count_groups(weight->cols), &input->quantized, out, stride);
    }
    size_t row = block * TILE_ROWS;
    if (bias)
        add_bias(out, stride, smol_pass_vector(pass, bias) + row, input->n,
                 rows_in_block(row, weight->rows));
}

/* One row block of a product: TILE_ROWS outputs, or fewer in the last one, for every token. */
static void multiply_block(struct pass *pass, const struct product *product,
                           const struct input *input, size_t block)
{
    const struct blob_tensor *weight = product->weight;
    size_t row = block * TILE_ROWS, rows = rows_in_block(row, weight->rows);
    float *out = product->out + row;
    if (rows == TILE_ROWS && !product->pairs && !product->add) {
        smol_multiply_block(pass, weight, product->bias, input, block, out, weight->rows);
        return;
    }
    float tile[BATCH][TILE_ROWS];
    smol_multiply_block(pass, weight, product->bias, input, block, tile[0], TILE_ROWS);
    size_t n = product->pairs ? input->n / 2 : input->n;
    for (size_t t = 0; product->pairs && t < n; t++) {
        memcpy(tile[t], tile[2 * t], sizeof tile[t]);
        add_rows(tile[t], TILE_ROWS, tile[2 * t + 1], 1, TILE_ROWS);
    }
    if (product->add && rows == TILE_ROWS)
        add_rows(out, weight->rows, tile[0], n, TILE_ROWS); /* a constant count is quicker */
    else if (product->add)
        add_rows(out, weight->rows, tile[0], n, rows);
    else
        for (size_t t = 0; t < n; t++)
            memcpy(out + t * weight->rows, tile[t], rows * sizeof(float));
}

/* Products of one input. */
struct products {
    const struct input *input;
    const struct product *products;
    size_t n;
};

/* Row blocks [begin, end), counted through from the first product to the last. */
static void multiply_blocks(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    const struct products *all = argument;
    size_t first = 0; /* of this product's blocks */
    for (size_t i = 0; i < all->n; i++) {
        size_t behind = first + count_blocks(all->products[i].weight->rows);
        size_t low = begin > first ? begin : first, high = end < behind ? end : behind;
        for (size_t block = low; block < high; block++)
            multiply_block(pass, &all->products[i], all->input, block - first);
        first = behind;
    }
}

void smol_multiply(const struct worker *w, const struct input *input,
                   const struct product *products, size_t n_products)
{
    const struct products all = {input, products, n_products};
    size_t total = 0;
    for (size_t i = 0; i < n_products; i++)
        total += count_blocks(products[i].weight->rows);
    smol_pass_each_range(w, total, 8, multiply_blocks, &all);
}

/* Matrix products, see product.h. Threads share the output rows, never a sum. */
#include "runtime/product.h"

#include <string.h>

struct quantized smol_product_quantized(const struct pass *pass, size_t n)
{
    struct quantized view = pass->c->quantized;
    view.n = n;
    return view;
}

void smol_product_prepare(struct pass *pass, const float *row, size_t cols, size_t n, size_t t,
                          const char *what, size_t layer)
{
    if (pass->m->dtype != DTYPE_INT8)
        return;
    const struct quantized view = smol_product_quantized(pass, n);
    if (!pass->c->kernels->quantize(row, cols, &view, t))
        smol_pass_fail_numeric(pass, what, layer, t);
}

/* The products of one row block of `weight` with every row of the input. */
static void multiply_tile(struct pass *pass, const struct blob_tensor *weight, size_t block,
                          const struct input *input, float *out, size_t out_stride)
{
    const struct kernels *kernels = pass->c->kernels;
    uint64_t bytes = smol_block_bytes(weight->dtype, weight->cols);
    const void *data = smol_pass_bytes(pass, weight, block * bytes, bytes);
    const struct quantized view = smol_product_quantized(pass, input->n);
    switch ((enum blob_dtype)weight->dtype) {
    case DTYPE_F32:
        kernels->matmul_f32(data, weight->cols, input->x, input->stride, input->n, out, out_stride);
        break;
    case DTYPE_BF16:
        kernels->matmul_bf16(data, weight->cols, input->x, input->stride, input->n, out,
                             out_stride);
        break;
    case DTYPE_INT8:
        kernels->matmul_int8(data, count_groups(weight->cols), &view, out, out_stride);
    }
}

static inline void add_to(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += x[i];
}

/* What a product does besides multiplying: pairs, bias, adding to what is there. The tile's rows
 * go to `rows` elements of each row of out (n, stride). */
static void finish_tile(const struct product *product, float tile[][TILE_ROWS], size_t n,
                        const float *bias, float *out, size_t stride, size_t rows)
{
    for (size_t t = 0; t < n; t++) {
        float *result = tile[product->pairs ? 2 * t : t];
        if (product->pairs)
            add_to(result, result + TILE_ROWS, TILE_ROWS);
        if (bias)
            add_to(result, bias, rows);
        if (product->add && rows == TILE_ROWS)
            add_to(out + t * stride, result, TILE_ROWS); /* a constant count is quicker */
        else if (product->add)
            add_to(out + t * stride, result, rows);
        else
            memcpy(out + t * stride, result, rows * sizeof(float));
    }
}

/* One row block of a product: TILE_ROWS outputs for every token. */
static void multiply_block(struct pass *pass, const struct product *product,
                           const struct input *input, size_t block)
{
    const struct blob_tensor *weight = product->weight;
    size_t row = block * TILE_ROWS, rows = rows_in_block(row, weight->rows);
    float *out = product->out + row;
    if (rows == TILE_ROWS && !product->bias && !product->pairs && !product->add) {
        multiply_tile(pass, weight, block, input, out, weight->rows);
        return;
    }
    float tile[BATCH][TILE_ROWS];
    multiply_tile(pass, weight, block, input, tile[0], TILE_ROWS);
    size_t n = product->pairs ? input->n / 2 : input->n;
    const float *bias = product->bias ? smol_pass_vector(pass, product->bias) + row : NULL;
    finish_tile(product, tile, n, bias, out, weight->rows, rows);
}

/* Row blocks [begin, end) of several products, counted through from the first to the last. */
static void multiply_blocks(struct pass *pass, const struct input *input,
                            const struct product *products, size_t n_products, size_t begin,
                            size_t end)
{
    size_t first = 0; /* of this product's blocks */
    for (size_t i = 0; i < n_products; i++) {
        size_t behind = first + count_blocks(products[i].weight->rows);
        size_t low = begin > first ? begin : first, high = end < behind ? end : behind;
        for (size_t block = low; block < high; block++)
            multiply_block(pass, &products[i], input, block - first);
        first = behind;
    }
}

/* Each thread gets a few runs of row blocks: long ones read memory best, and more than one lets
 * fast threads take over from slow ones. */
void smol_multiply(const struct worker *w, const struct input *input,
                   const struct product *products, size_t n_products)
{
    enum { RUNS_PER_THREAD = 2 };
    size_t total = 0;
    for (size_t i = 0; i < n_products; i++)
        total += count_blocks(products[i].weight->rows);
    size_t n_runs = (size_t)w->thread->n_threads * RUNS_PER_THREAD;
    n_runs = n_runs < total ? n_runs : total;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n_runs);
    while (smol_pool_claim(&stage)) {
        size_t begin, end;
        pool_share(total, stage.item, n_runs, &begin, &end);
        multiply_blocks(w->pass, input, products, n_products, begin, end);
    }
}

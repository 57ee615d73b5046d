/* Matrix products, see product.h. Threads divide the output rows, never a sum. */
#include "runtime/engine/product.h"

#include <string.h>

enum { FETCH_AHEAD = 8 }; /* rows */

struct product_input smol_input(const float *x, size_t n, size_t width, struct quantized quantized)
{
    quantized.n = n;
    quantized.stride = smol_quantized_stride(n);
    return (struct product_input){x, n, width, quantized};
}

struct quantized smol_quantized_part(struct quantized q, size_t groups, size_t column)
{
    return q.steps ? quantized_from(q, groups * column) : q;
}

static struct quantized quantized_rows(struct quantized q, size_t first, size_t n)
{
    q.n = n;
    return q.steps ? quantized_from(q, first) : q;
}

struct product_input smol_input_rows(const struct product_input *input, size_t first, size_t n)
{
    return (struct product_input){input->x + first * input->width, n, input->width,
                                  quantized_rows(input->quantized, first, n)};
}

void smol_input_prepare(struct pass *pass, const struct product_input *input, size_t t,
                        const char *what, size_t layer)
{
    const float *row = input->x + t * input->width;
    if (pass->m->dtype == DTYPE_INT8 &&
        !pass->e->kernels->quantize(row, input->width, &input->quantized, t))
        smol_pass_fail_numeric(pass, what, layer, t);
}

void smol_input_observe(const struct worker *w, struct stats_place place,
                        const struct product_input *input)
{
    const struct observer *observer = w->pass->observer;
    if (!observer || !observer->parts)
        return;
    uint32_t n_parts = observer->parts(observer->user, place);
    struct pool_stage stage = pool_stage(w->thread, n_parts ? (uint32_t)input->n : 0);
    while (smol_pool_claim(&stage))
        observer->look(observer->user, place, input->x + stage.item * input->width, stage.item);
    stage = pool_stage(w->thread, n_parts);
    while (smol_pool_claim(&stage))
        observer->see(observer->user, place, input->x, input->width, input->n, stage.item);
}

/* to += from, n elements; a constant inner count lets the compiler unroll whole tiles */
static void add_floats(float *to, const float *from, size_t n)
{
    size_t i = 0;
    for (; i + TILE_ROWS <= n; i += TILE_ROWS)
        for (size_t r = 0; r < TILE_ROWS; r++)
            to[i + r] += from[i + r];
    for (; i < n; i++)
        to[i] += from[i];
}

static void add_bias(float *x, size_t stride, const float *bias, size_t n, size_t count)
{
    for (size_t t = 0; t < n; t++)
        add_floats(x + t * stride, bias, count);
}

static grouped_product *grouped(const struct kernels *kernels, enum blob_dtype dtype)
{
    switch (dtype) {
    case DTYPE_INT6:
        return kernels->matmul_int6;
    case DTYPE_INT5:
        return kernels->matmul_int5;
    case DTYPE_INT4:
        return kernels->matmul_int4;
    default:
        return kernels->matmul_int8;
    }
}

void smol_multiply_blocks(struct pass *pass, const struct blob_tensor *weight,
                          const struct blob_tensor *bias, const struct product_input *input,
                          size_t begin, size_t end, float *out, size_t stride)
{
    const struct kernels *kernels = pass->e->kernels;
    uint64_t bytes = smol_block_bytes(weight->dtype, weight->cols);
    const void *data = smol_pass_bytes(pass, weight, begin * bytes, (end - begin) * bytes);
    switch ((enum blob_dtype)weight->dtype) {
    case DTYPE_F32:
        kernels->matmul_f32(data, end - begin, weight->cols, input->x, input->width, input->n, out,
                            stride);
        break;
    case DTYPE_BF16:
        kernels->matmul_bf16(data, end - begin, weight->cols, input->x, input->width, input->n, out,
                             stride);
        break;
    case DTYPE_INT8:
    case DTYPE_INT6:
    case DTYPE_INT5:
    case DTYPE_INT4:
        grouped(kernels, weight->dtype)(data, end - begin, count_groups(weight->cols),
                                        blob_levels(pass->e->network->blob, weight),
                                        &input->quantized, out, stride);
    }
    size_t row = begin * TILE_ROWS, rows = weight->rows - row;
    size_t most = (end - begin) * TILE_ROWS;
    if (bias)
        add_bias(out, stride, smol_pass_vector(pass, bias) + row, input->n,
                 rows < most ? rows : most);
}

size_t smol_blocks_at_once(const struct blob_tensor *weight, size_t n)
{
    size_t fit = n < BATCH ? BATCH / n : 1;
    size_t chunk = BLOB_CHUNK_SIZE / smol_block_bytes(weight->dtype, weight->cols);
    size_t blocks = chunk < fit ? chunk : fit;
    return blocks > 0 ? blocks : 1;
}

static float *out_row(const struct product *product, size_t t)
{
    return product->out_rows ? product->out_rows[t] : product->out + t * product->weight->rows;
}

/* Asks for n floats of a row that will be written. Rows lie too far apart for the processor to
 * foresee which is next. */
static void fetch_floats(const float *row, size_t n)
{
    for (size_t i = 0; i < n; i += CACHE_LINE / sizeof *row)
        __builtin_prefetch(row + i, 1);
}

/* Computes row blocks [begin, end) of a product, at most blocks_at_once of them, for `input`, the
 * rows from `first` on. */
static void multiply_rows(struct pass *pass, const struct product *product, size_t first,
                          const struct product_input *input, size_t begin, size_t end)
{
    const struct blob_tensor *weight = product->weight;
    size_t row = begin * TILE_ROWS, width = (end - begin) * TILE_ROWS;
    size_t rows = weight->rows - row < width ? weight->rows - row : width;
    if (rows == width && !product->remainders && !product->add && !product->out_rows) {
        smol_multiply_blocks(pass, weight, product->bias, input, begin, end,
                             product->out + first * weight->rows + row, weight->rows);
        return;
    }
    float bench[BATCH * TILE_ROWS]; /* (input->n, width) */
    smol_multiply_blocks(pass, weight, product->bias, input, begin, end, bench, width);
    size_t n = product->remainders ? input->n / 2 : input->n;
    for (size_t t = 0; t < n; t++) {
        float *to = out_row(product, first + t) + row, *from = bench + t * width;
        if (t + FETCH_AHEAD < n)
            fetch_floats(out_row(product, first + t + FETCH_AHEAD) + row, rows);
        if (product->remainders)
            add_floats(from, from + n * width, rows);
        if (product->add)
            add_floats(to, from, rows);
        else
            memcpy(to, from, rows * sizeof *to);
    }
}

/* Does the same for all rows of the input, at most BATCH at a time. */
static void multiply_some(struct pass *pass, const struct product *product,
                          const struct product_input *input, size_t begin, size_t end)
{
    if (input->n <= BATCH) { /* copies no views, which counts for a single token */
        multiply_rows(pass, product, 0, input, begin, end);
        return;
    }
    for (size_t first = 0; first < input->n; first += BATCH) {
        size_t n = input->n - first < BATCH ? input->n - first : BATCH;
        const struct product_input rows = smol_input_rows(input, first, n);
        multiply_rows(pass, product, first, &rows, begin, end);
    }
}

/* Several products of one input. */
struct products {
    const struct product_input *input;
    const struct product *products;
    size_t n;
};

/* Computes row blocks [begin, end), numbered from the first product to the last. */
static void multiply_blocks(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    const struct products *all = argument;
    size_t first = 0; /* number of this product's first block */
    for (size_t i = 0; i < all->n; i++) {
        size_t next = first + count_blocks(all->products[i].weight->rows);
        size_t low = begin > first ? begin : first, high = end < next ? end : next;
        size_t step = smol_blocks_at_once(all->products[i].weight, all->input->n);
        for (size_t block = low; block < high; block += step)
            multiply_some(pass, &all->products[i], all->input, block - first,
                          (high - block < step ? high : block + step) - first);
        first = next;
    }
}

void smol_multiply(const struct worker *w, const struct product_input *input,
                   const struct product *products, size_t n_products)
{
    const struct products all = {input, products, n_products};
    size_t total = 0;
    for (size_t i = 0; i < n_products; i++)
        total += count_blocks(products[i].weight->rows);
    smol_pass_each_range(w, total, 8, multiply_blocks, &all);
}

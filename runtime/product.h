/* Matrix products: activations of a batch times the transposed weights of a blob, on all threads.
 */
#ifndef SMOL_RUNTIME_PRODUCT_H
#define SMOL_RUNTIME_PRODUCT_H

#include "runtime/pass.h"

/* out (n, stride) = or += x (n, cols) times the transpose of `weight` (rows, cols), plus bias. */
struct product {
    const struct blob_tensor *weight;
    const struct blob_tensor *bias; /* or NULL */
    float *out;
    bool add;   /* to what is in out: the residual stream */
    bool pairs; /* input rows 2t and 2t + 1 are two parts of row t: add their products */
};

/* The input of a product: f32 and bf16 blobs read x, int8 blobs the quantized copy that
 * smol_product_prepare made. */
struct input {
    const float *x; /* (n, stride) */
    size_t n;
    size_t stride;
};

/* The quantized copy of an input of n rows, int8 blobs only. */
struct quantized smol_product_quantized(const struct pass *pass, size_t n);

/* Makes row t of an input of n rows ready: int8 blobs quantize it. A NaN or infinity is the pass's
 * error, in `what` at `layer`. */
void smol_product_prepare(struct pass *pass, const float *row, size_t cols, size_t n, size_t t,
                          const char *what, size_t layer);

/* One stage: several products of the same input, all of whose rows are ready. */
void smol_multiply(const struct worker *w, const struct input *input,
                   const struct product *products, size_t n_products);

#endif

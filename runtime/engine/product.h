/* Matrix products: activations of a batch times the transposed weights of a blob. */
#ifndef SMOL_RUNTIME_PRODUCT_H
#define SMOL_RUNTIME_PRODUCT_H

#include "runtime/engine/pass.h"

/* The input of a product: f32 and bf16 blobs read x, int8 blobs its quantized copy. If it is fine,
 * the copy has 2n rows: row n + t is the quantized remainder of row t, for products that need it.
 */
struct product_input {
    const float *x; /* (n, width) */
    size_t n, width;
    bool fine;
    struct quantized quantized; /* .n is n */
};

/* Returns the number of tokens that the quantized copy of n tokens has room for. Whole cache lines
 * of tokens let threads quantize different tokens without false sharing. An odd number of lines
 * spreads the rows of steps over all sets of the first-level cache. */
static inline size_t smol_quantized_stride(size_t n)
{
    return n < 16 ? n : ((n + 15) / 16 | 1) * 16;
}

/* Returns an input of the n rows of x (n, width) and of their quantized copy. Its rows 2n, if it is
 * fine, must be at most BATCH or, with network.has_fine_layers, 2 * BATCH. */
struct product_input smol_input(const float *x, size_t n, size_t width, bool fine,
                                struct quantized quantized);

/* Prepares row t: int8 blobs quantize it. Returns false if it has a NaN or an infinity. */
bool smol_input_quantize(const struct pass *pass, const struct product_input *input, size_t t);

/* Prepares row t. Reports a NaN or infinity in `what` at `layer` as an error of the row's
 * sequence. */
void smol_input_prepare(struct pass *pass, const struct product_input *input, size_t t,
                        const char *what, size_t layer);

/* Prepares one group of all rows: x (n, GROUP_INPUTS). Returns false if one has a NaN or an
 * infinity. For int8 blobs. */
bool smol_input_quantize_slice(const struct pass *pass, const struct product_input *input,
                               const float *x, size_t group);

/* out (n, rows of weight) = or += input times the transpose of `weight`, plus bias. */
struct product {
    const struct blob_tensor *weight;
    const struct blob_tensor *bias; /* or NULL */
    float *out;
    float *const *out_rows; /* or NULL; otherwise destinations of the rows, used instead of out */
    bool add;               /* add to the contents of out: the residual stream */
};

/* Computes several products of the same input, as one stage. All rows of the input must be
 * ready. */
void smol_multiply(const struct worker *w, const struct product_input *input,
                   const struct product *products, size_t n_products);

/* Writes the outputs of row blocks [begin, end), bias included, to out (n, stride) for each row of
 * input. Outputs after the last row of `weight` are 0. */
void smol_multiply_blocks(struct pass *pass, const struct blob_tensor *weight,
                          const struct blob_tensor *bias, const struct product_input *input,
                          size_t begin, size_t end, float *out, size_t stride);

#endif

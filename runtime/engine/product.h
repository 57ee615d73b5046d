/* Matrix products: activations of a batch times the transposed weights of a blob. */
#ifndef SMOL_RUNTIME_PRODUCT_H
#define SMOL_RUNTIME_PRODUCT_H

#include "runtime/engine/pass.h"

/* The input of a product: f32 and bf16 blobs read x, int8 blobs its quantized copy. */
struct product_input {
    const float *x; /* (n, width) */
    size_t n, width;
    struct quantized quantized;
};

/* Returns the number of tokens that the quantized copy of n tokens has room for. Whole cache lines
 * of scales let threads quantize different tokens without false sharing. An odd number of lines
 * spreads the groups of a token over all sets of the first-level cache. */
static inline size_t smol_quantized_stride(size_t n)
{
    return n < 16 ? n : ((n + 15) / 16 | 1) * 16;
}

/* Returns an input of the n rows of x (n, width) and of their quantized copy. */
struct product_input smol_input(const float *x, size_t n, size_t width, struct quantized quantized);

/* Returns the part of a copy that holds inputs of `groups` groups, from token `column` on, one
 * after the other: copies of different numbers of rows share its memory that way. */
struct quantized smol_quantized_part(struct quantized q, size_t groups, size_t column);

/* Returns rows [first, first + n) of an input. `first` is a multiple of BATCH. */
struct product_input smol_input_rows(const struct product_input *input, size_t first, size_t n);

/* Prepares row t: int8 blobs quantize it. Reports a NaN or infinity in `what` at `layer` as an
 * error of the row's sequence. */
void smol_input_prepare(struct pass *pass, const struct product_input *input, size_t t,
                        const char *what, size_t layer);

/* Shows an input, whose rows are ready, to the observer, if any, as two stages. */
void smol_input_observe(const struct worker *w, struct stats_place place,
                        const struct product_input *input);

/* out (n, rows of weight) = or += input times the transpose of `weight`, plus bias. */
struct product {
    const struct blob_tensor *weight;
    const struct blob_tensor *bias; /* or NULL */
    float *out;
    float *const *out_rows; /* or NULL; otherwise destinations of the rows, used instead of out */
    bool add;               /* add to the contents of out: the residual stream */
    bool remainders;        /* input row n / 2 + t is the remainder of row t: add their products */
};

/* Returns the number of row blocks to multiply at once for n rows. Their results fit into BATCH
 * tiles, and their weights into a chunk, so that its digest is computed just before its bytes are
 * used. */
size_t smol_blocks_at_once(const struct blob_tensor *weight, size_t n);

/* Computes several products of the same input, as one stage. All rows of the input must be
 * ready. */
void smol_multiply(const struct worker *w, const struct product_input *input,
                   const struct product *products, size_t n_products);

/* Writes the outputs of row blocks [begin, end), bias included, to out (n, stride) for each row of
 * input, at most BATCH. Outputs after the last row of `weight` are 0. */
void smol_multiply_blocks(struct pass *pass, const struct blob_tensor *weight,
                          const struct blob_tensor *bias, const struct product_input *input,
                          size_t begin, size_t end, float *out, size_t stride);

#endif

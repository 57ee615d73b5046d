/* What attention and the MLP have in common: how they read the residual stream, through an RMSNorm
 * or as it is, and how they add to it, straight away or through an RMSNorm and a scale. */
#ifndef SMOL_RUNTIME_RESIDUAL_H
#define SMOL_RUNTIME_RESIDUAL_H

#include "runtime/engine/product.h"

/* What a block's products read, once its rows are there. */
struct input smol_residual_input(const struct pass *pass);

/* Makes row t of it from the residual stream; norm NULL: there is none. `what` and `layer` are for
 * errors. */
void smol_residual_read(struct pass *pass, const struct blob_tensor *norm, size_t t,
                        const char *what, size_t layer);

/* The product that a block ends with: it adds to the residual stream, or, when it says !add, waits
 * for smol_residual_add. */
struct product smol_residual_product(const struct pass *pass, const struct blob_tensor *weight,
                                     const struct blob_tensor *bias);

/* Adds row t of the product's output, through the norm, if any, and times the scale. */
void smol_residual_add(struct pass *pass, const struct blob_tensor *norm, size_t t);

#endif

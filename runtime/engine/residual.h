/* The residual stream: norms, the inputs that blocks read from it and the outputs that they add. */
#ifndef SMOL_RUNTIME_RESIDUAL_H
#define SMOL_RUNTIME_RESIDUAL_H

#include "runtime/engine/product.h"

/* Applies the norm `role` of the layer to x (hidden_size): an RMSNorm, or a LayerNorm if it has a
 * bias. out may be x. */
void smol_normalize(struct pass *pass, const struct layer *layer, enum tensor_role role,
                    const float *x, float *out);

/* Returns the input of a block's products; smol_residual_read prepares its rows. */
struct product_input smol_residual_input(const struct pass *pass);

/* Computes row t of that input from the residual stream, through the norm `role` if the model has
 * it, times the scale. `what` is for error messages. */
void smol_residual_read(struct pass *pass, size_t layer, enum tensor_role role, float scale,
                        size_t t, const char *what);

/* Adds a block's output to the residual stream: the product of `input` and the layer's matrix
 * `weight`, with the vector `bias`, after the norm of the output, if it has them, times the scale.
 */
void smol_residual_write(const struct worker *w, size_t layer, const struct product_input *input,
                         enum tensor_role weight, enum tensor_role bias);

/* Do the same in two steps, for a block that computes the product itself: the product that
 * smol_residual_product returns adds to the residual stream, or, if !add, writes in place of the
 * block's input, which is no longer needed, and smol_residual_finish adds it. */
struct product smol_residual_product(const struct pass *pass, size_t layer, enum tensor_role weight,
                                     enum tensor_role bias);
void smol_residual_finish(const struct worker *w, size_t layer, enum tensor_role weight);

#endif

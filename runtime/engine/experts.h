/* Mixtures of experts (Shazeer et al., 2017; Fedus et al., 2022): the second block of a sparse
 * layer. FORMAT.md, 5.15, defines what is computed. Only the weights of experts that some row uses
 * are read. */
#ifndef SMOL_RUNTIME_EXPERTS_H
#define SMOL_RUNTIME_EXPERTS_H

#include "runtime/engine/product.h"

/* Chooses the experts of each row and computes their activations from the layer's input, whose rows
 * are ready. */
void smol_experts_read(const struct worker *w, size_t layer);

/* Adds the experts' outputs, after that of the MLP beside them, to the residual stream. `shared` is
 * that MLP's activation; its width is 0 if there is none. */
void smol_experts_write(const struct worker *w, size_t layer, const struct product_input *shared);

#endif

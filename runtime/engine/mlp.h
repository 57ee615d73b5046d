/* The MLP: the second block of a layer. */
#ifndef SMOL_RUNTIME_MLP_H
#define SMOL_RUNTIME_MLP_H

#include "runtime/engine/pass.h"

/* Computes the MLP's output from the residual stream, up to its last product. With one norm for
 * both blocks, its input is attention's, which is still there. */
void smol_mlp_read(const struct worker *w, size_t layer);

/* Adds the MLP's output to the residual stream. */
void smol_mlp_write(const struct worker *w, size_t layer);

#endif

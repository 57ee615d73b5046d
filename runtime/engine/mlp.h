/* The MLP: the second block of a layer. */
#ifndef SMOL_RUNTIME_MLP_H
#define SMOL_RUNTIME_MLP_H

#include "runtime/engine/product.h"

/* Returns the activation of gates: gate = activation(gate) * up, n numbers. `up` may be NULL: 1. */
typedef void activation_kernel(float *gate, const float *up, size_t n);
activation_kernel *smol_mlp_activation(const struct pass *pass);

/* Some rows of a pass, at most BATCH, in an MLP. */
struct mlp_rows {
    struct pass *pass;
    size_t layer;
    const struct blob_tensor *gate, *up, *gate_bias, *up_bias; /* NULL for those it does not have */
    struct product_input input, gated; /* the rows, and where their activations go */
    float *out;                        /* (n, width): gated.x; unused by int8 blobs */
    const uint32_t *rows;              /* (n): their numbers in the pass; NULL: from first on */
    size_t first;
};

/* Computes slices [begin, end), of GROUP_INPUTS channels each, of the activation of some rows. */
void smol_mlp_activate(const struct mlp_rows *rows, size_t begin, size_t end);

/* Computes the MLP's output from the residual stream, up to its last product. With one norm for
 * both blocks, its input is attention's, which is still there. */
void smol_mlp_read(const struct worker *w, size_t layer);

/* Adds the MLP's output to the residual stream. */
void smol_mlp_write(const struct worker *w, size_t layer);

/* experts.c: mixtures of experts (Shazeer et al., 2017; Fedus et al., 2022), the second block of a
 * sparse layer. FORMAT.md, 5.15, defines what is computed. Only the weights of experts that some
 * row uses are read.
 *
 * smol_experts_read chooses the experts of each row and computes their activations from the layer's
 * input, whose rows are ready. smol_experts_write adds the experts' outputs, after that of the MLP
 * beside them, to the residual stream. `shared` is that MLP's activation; its width is 0 if there
 * is none. */
void smol_experts_read(const struct worker *w, size_t layer, const struct product_input *shared);
void smol_experts_write(const struct worker *w, size_t layer, const struct product_input *shared);

#endif

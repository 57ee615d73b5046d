/* A model for the forward pass: its shape, and its tensors by layer and role. */
#ifndef SMOL_RUNTIME_NETWORK_H
#define SMOL_RUNTIME_NETWORK_H

#include "format/reader.h"

/* The tensors of one layer; NULL for norms and biases that the model does not have. */
struct layer {
    const struct blob_tensor *tensor[ROLE_COUNT];
    unsigned bits; /* enum layer_bit */
    /* Whether any of the products that read this input needs its remainder, too: those of q, k and
     * v; of o; of gate and up; of down. */
    bool fine_attention, fine_attended, fine_mlp, fine_gated;
};

/* Returns whether a product's input is quantized in two steps: the row, and what its rounding left.
 * The output layer's always is: every bit of this row affects the logits, and the time of the
 * product depends on the weights' bytes, which are read once for both
 * (docs/decisions.md has the measurements). */
static inline bool is_fine(const struct blob_tensor *weight)
{
    return is_grouped(weight->dtype) && (weight->fine_input || weight->role == ROLE_OUTPUT);
}

struct network {
    const struct blob *blob;
    struct blob_model model; /* the blob's, with all defaults filled in */
    struct layer outer;      /* roles outside the layers: embedding, final norm, output */
    struct layer *layers;    /* (n_layers) */
    bool has_fine_layers;    /* any layer has a fine input */
};

/* Indexes the tensors of an open blob, which must outlive the network. Free the network even after
 * an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_network_init(struct network *network, const struct blob *blob, smol_error *error);

/* Frees the index. A zeroed network is allowed. */
void smol_network_free(struct network *network);

#endif

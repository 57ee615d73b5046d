/* A model for the forward pass: its shape, and its tensors by layer and role. */
#ifndef SMOL_RUNTIME_NETWORK_H
#define SMOL_RUNTIME_NETWORK_H

#include "format/reader.h"

/* The tensors of one layer, those of its first expert among them; NULL for those that it does not
 * have. */
struct layer {
    const struct blob_tensor *tensor[ROLE_COUNT];
    unsigned bits; /* enum layer_bit */
};

struct network {
    const struct blob *blob;
    struct blob_model model; /* the blob's, with all defaults filled in */
    struct layer outer;      /* roles outside the layers: embedding, final norm, output */
    struct layer *layers;    /* (n_layers) */
};

/* Indexes the tensors of an open blob, which must outlive the network. Free the network even after
 * an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_network_init(struct network *network, const struct blob *blob, smol_error *error);

/* Frees the index. A zeroed network is allowed. */
void smol_network_free(struct network *network);

#endif

/* A model as the forward pass sees it: its shape, and its tensors by layer and role. */
#ifndef SMOL_RUNTIME_NETWORK_H
#define SMOL_RUNTIME_NETWORK_H

#include "format/reader.h"

/* The tensors of one layer; NULL for norms and biases that the model does not have. */
struct layer {
    const struct blob_tensor *tensor[ROLE_COUNT];
    unsigned bits; /* of enum layer_bit */
};

struct network {
    const struct blob *blob;
    struct blob_model model; /* the blob's, with the plain block spelled out */
    struct layer outer;      /* roles outside the layers: embedding, final norm, output */
    struct layer *layers;    /* (n_layers) */
};

/* Indexes the tensors of an open blob, which must outlive the network. After an error the network
 * is to be freed. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_network_init(struct network *network, const struct blob *blob, smol_error *error);

/* A zeroed network is fine. */
void smol_network_free(struct network *network);

#endif

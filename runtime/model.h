/* An open model: the blob, and its tensors by layer and role. */
#ifndef SMOL_RUNTIME_MODEL_H
#define SMOL_RUNTIME_MODEL_H

#include "format/reader.h"
#include "runtime/tokenizer/added_automaton.h"
#include "smol.h"

/* The tensors of one layer; NULL for norms and biases that the model does not have. */
struct layer {
    const struct blob_tensor *tensor[ROLE_COUNT];
    unsigned bits; /* of enum layer_bit */
};

struct smol_model {
    struct blob blob;
    struct blob_model filled;    /* the blob's, with the plain block spelled out */
    struct layer outer;          /* roles outside the layers: embedding, final norm, output */
    struct layer *layers;        /* (n_layers) */
    struct added_automata added; /* of the blob's tokenizer */
    smol_on_log *on_log;         /* or NULL, see log.h */
    void *user;
};

#endif

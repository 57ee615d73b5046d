/* Turns the hidden states of a text's tokens into one embedding, or keeps them all. */
#ifndef SMOL_RUNTIME_POOLING_H
#define SMOL_RUNTIME_POOLING_H

#include <stddef.h>

#include "runtime/kernels/kernels.h"
#include "runtime/model.h"

/* One text. */
struct pooling {
    smol_pooling kind; /* not SMOL_POOL_MODEL, which becomes another kind */
    bool normalizes;   /* divide the embedding by its Euclidean length */
    size_t width;      /* hidden_size */
    size_t n;          /* states so far */
    float *out;        /* the pooled state, or all states */
    double *sums;      /* (width), owned, for the mean: its bits do not depend on the passes */
    /* With dense layers: */
    const struct embedder *embedder; /* or NULL */
    float norm_eps;                  /* of DENSE_GELU_NORM */
    float *work;                     /* owned: the pooled state, and the layers' outputs */
    float *result;                   /* as smol_embed returns it; without layers that is `out` */
};

/* Initializes a pooling of kind `kind` into `out`. Free it with smol_pooling_free, also after an
 * error. Errors: SMOL_ERROR_USAGE (no such kind), SMOL_ERROR_MEMORY. */
smol_status smol_pooling_init(struct pooling *pooling, const smol_model *model, smol_pooling kind,
                              float *out, smol_error *error);
void smol_pooling_free(struct pooling *pooling);

/* Adds the states (n, width) of the next tokens. Initializing, adding and finishing assume the
 * library's floating-point environment. */
void smol_pooling_add(struct pooling *pooling, const float *states, size_t n);

/* Completes the result after the last token: dense layers, then the length or the score. */
void smol_pooling_finish(struct pooling *pooling, const struct kernels *kernels);

#endif

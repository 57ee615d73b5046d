/* An observer sees the inputs of a model's matrix products while passes run, and changes passes,
 * for calibration. */
#ifndef SMOL_RUNTIME_OBSERVER_H
#define SMOL_RUNTIME_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/stats.h"

/* Zeros are defaults, except for n_layers. */
struct observer {
    void *user;
    size_t first_layer, n_layers; /* passes run the layers in between */
    const float *before; /* (n, hidden_size): the residual stream that enters first_layer, or NULL:
                            the embedding */
    float *after;        /* (n, hidden_size): receives what leaves the last layer, or NULL */
    const struct blob_tensor *replaced; /* a matrix, of all experts if it is one's; NULL: none */
    const void *replacement;            /* its bytes, one expert's after another's */
    bool wants_output;                  /* STATS_OUTPUT is computed */
    /* Returns the number of parts that the work on this input is divided into; 0: it is not of
     * interest. NULL: no input is. */
    uint32_t (*parts)(void *user, struct stats_place place);
    /* Looks at row t, x (width), before the work on it. Threads look at different rows at the same
     * time. */
    void (*look)(void *user, struct stats_place place, const float *x, size_t t);
    /* Does part `part` of the work on n rows of x (n, stride), of which the first `width` floats
     * count. Threads do different parts at the same time. */
    void (*see)(void *user, struct stats_place place, const float *x, size_t stride, size_t n,
                uint32_t part);
    /* Does the whole work on such rows, `look` included, of an expert. Threads do this for
     * different experts at the same time. */
    void (*see_expert)(void *user, struct stats_place place, const float *x, size_t stride,
                       size_t n);
};

#endif

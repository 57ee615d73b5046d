/* An observer sees the inputs of a model's matrix products while passes run, for calibration. */
#ifndef SMOL_RUNTIME_OBSERVER_H
#define SMOL_RUNTIME_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The inputs in the order in which a layer computes them. */
enum observed {
    OBSERVED_ATTENTION, /* of q, k and v */
    OBSERVED_ATTENDED,  /* of o */
    OBSERVED_MLP,       /* of gate and up */
    OBSERVED_GATED,     /* of down */
    OBSERVED_PER_LAYER,
    OBSERVED_OUTPUT = OBSERVED_PER_LAYER, /* of the output layer, of every row */
};

struct observer {
    void *user;
    size_t n_layers;   /* passes end after this many layers */
    bool wants_output; /* OBSERVED_OUTPUT is computed */
    /* Returns the number of parts that the work on this input is divided into; 0: it is not of
     * interest. */
    uint32_t (*parts)(void *user, enum observed input, size_t layer);
    /* Looks at row t of x (n, width), before the work on it. Threads look at different rows at the
     * same time. */
    void (*look)(void *user, enum observed input, size_t layer, const float *x, size_t t);
    /* Does part `part` of the work on rows x (n, width). Threads do different parts at the same
     * time. */
    void (*see)(void *user, enum observed input, size_t layer, const float *x, size_t n,
                uint32_t part);
};

#endif

/* The Hadamard transform of heads, for KV caches of int4: it spreads the few large channels that
 * keys have over all channels, so that 16 levels suffice. H is symmetric, and H times H is n times
 * the identity, so scores do not change if keys are H k and queries H q / n; likewise values are
 * H v, and attention's output H o / n. */
#ifndef SMOL_RUNTIME_HADAMARD_H
#define SMOL_RUNTIME_HADAMARD_H

#include <stddef.h>

/* Replaces each head of x (n_heads, head_dim) by its transform, in parts of n channels; n is the
 * largest power of two that divides head_dim. Additions have a fixed order. */
void smol_hadamard(float *x, size_t n_heads, size_t head_dim);

/* Likewise, but divides by n, which is exact and makes it the inverse. */
void smol_hadamard_inverse(float *x, size_t n_heads, size_t head_dim);

#endif

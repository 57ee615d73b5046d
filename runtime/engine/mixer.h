/* The first block of a layer, which mixes positions: attention, what has a state
 * instead, or both, which read the same input. */
#ifndef SMOL_RUNTIME_MIXER_H
#define SMOL_RUNTIME_MIXER_H

#include "runtime/engine/pass.h"

/* Computes the block's output from the residual stream, up to its last product. */
void smol_mixer_read(const struct worker *w, size_t layer);

/* Adds the block's output to the residual stream. */
void smol_mixer_write(const struct worker *w, size_t layer);

#endif

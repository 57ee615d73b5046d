/* Layers that keep a state in place of attention's keys and values: Mamba2 (Dao and Gu, 2024:
 * Transformers are SSMs) and gated DeltaNet (Yang et al., 2024: Gated Delta Networks). */
#ifndef SMOL_RUNTIME_RECURRENCE_H
#define SMOL_RUNTIME_RECURRENCE_H

#include "runtime/engine/pass.h"

/* Computes the block's output from the residual stream, up to its last product. */
void smol_recurrence_read(const struct worker *w, size_t layer);

/* Adds the block's output to the residual stream. */
void smol_recurrence_write(const struct worker *w, size_t layer);

#endif

/* The gated short convolution of LFM2 (Liquid AI, 2025), a layer's first block in place of
 * attention. */
#ifndef SMOL_RUNTIME_SHORT_CONV_H
#define SMOL_RUNTIME_SHORT_CONV_H

#include "runtime/engine/pass.h"

/* Computes the block's output from the residual stream, up to its last product. */
void smol_short_conv_read(const struct worker *w, size_t layer);

/* Adds the block's output to the residual stream. */
void smol_short_conv_write(const struct worker *w, size_t layer);

#endif

/* Inputs from tokens: the embedding, which starts the residual stream, and in some models an input
 * for each layer (FORMAT.md, 5.19). */
#ifndef SMOL_RUNTIME_INPUTS_H
#define SMOL_RUNTIME_INPUTS_H

#include "runtime/engine/product.h"

/* Starts the residual stream of all rows, at layer `first`, computes the inputs of layers, and the
 * angles of rotation. */
void smol_inputs_start(const struct worker *w, size_t first);

/* Adds a layer's input to the residual stream and scales it, after the layer's blocks, if the
 * model's layers do that. */
void smol_inputs_add(const struct worker *w, size_t layer);

#endif

/* The parts of a forward pass, in the order in which it goes through them. Each is a sequence of
 * stages that all threads run (pass.h), and splits its work by token, by attention head or by block
 * of output rows, never within a sum, so that the number of threads cannot change a bit. */
#ifndef SMOL_RUNTIME_FORWARD_H
#define SMOL_RUNTIME_FORWARD_H

#include "runtime/engine/product.h"

/* The residual stream begins with the tokens' embeddings. Also RoPE's tables at their positions. */
void smol_forward_embedding(const struct worker *w);

/* A layer's two blocks, each of which adds to the residual stream. */
void smol_forward_attention(const struct worker *w, size_t layer);
void smol_forward_mlp(const struct worker *w, size_t layer);

/* The logits, or the hidden states, that are wanted. */
void smol_forward_output(const struct worker *w);

#endif

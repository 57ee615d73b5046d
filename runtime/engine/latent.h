/* Attention to latent vectors (DeepSeek-AI, 2024): what differs from other attention around the
 * cache. FORMAT.md, 5.18, defines what is computed. Keys and values are not expanded: a head's
 * query is multiplied by the matrix that would expand keys, and its output by that of values, so
 * that the cache holds one vector for all heads. */
#ifndef SMOL_RUNTIME_LATENT_H
#define SMOL_RUNTIME_LATENT_H

#include "runtime/engine/product.h"

/* Computes engine->query and engine->key, neither normalized nor rotated, from the layer's input,
 * whose rows are ready. */
void smol_latent_read(const struct worker *w, size_t layer, const struct product_input *input);

/* Completes attention's outputs in engine->query, and computes the heads' values from them:
 * engine->value (n_heads * value_dim). */
void smol_latent_attended(const struct worker *w, size_t layer);

#endif

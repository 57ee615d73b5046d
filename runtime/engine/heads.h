/* Queries and keys between the products that compute them and attention. */
#ifndef SMOL_RUNTIME_HEADS_H
#define SMOL_RUNTIME_HEADS_H

#include "runtime/engine/pass.h"

/* Computes the cosine and sine of every table of angles at row t's position. */
void smol_heads_angles(const struct pass *pass, size_t t);

/* Prepares row t's queries and keys (norms, rotation, growth), and stores its keys and values in
 * the cache. */
void smol_heads_store(struct pass *pass, size_t layer, size_t t);

#endif

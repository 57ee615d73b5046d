/* Causal attention of the rows of a pass, each over its sequence's KV cache, on all threads. */
#ifndef SMOL_RUNTIME_ATTENTION_H
#define SMOL_RUNTIME_ATTENTION_H

#include <stddef.h>

#include "common/error.h"

struct attention;
struct engine;
struct pass;
struct worker;

/* Working memory of attention; part of an engine. */
struct attention_memory {
    float *threads;  /* (n_threads, floats of one thread's tile), see attention.c */
    float *partials; /* (n_spans, n_heads): states of single tokens, see attention.c */
    size_t n_spans;  /* capacity of `partials` */
};

/* Returns n times `each` floats of value 0, aligned to cache lines, or NULL if memory is short. */
float *smol_attention_floats(size_t n, size_t each);

/* Sets the states of a's queries to those before the first block; `stride` is that of its values.
 */
void smol_attention_reset(const struct attention *a, size_t stride);

/* Returns the number of spans in a sequence of `n_positions`. */
size_t smol_attention_spans(size_t n_positions);

/* Makes room for passes whose sequences have `n_spans` spans together. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_attention_reserve(struct engine *engine, size_t n_spans, smol_error *error);
void smol_attention_free(struct attention_memory *memory);

/* Returns the number of bytes allocated. */
size_t smol_attention_bytes(const struct engine *engine);

/* Assigns each segment of a pass its place in that memory. */
void smol_attention_place(struct pass *pass);

/* Computes the attention of all rows, as one stage. Their rotated queries are in engine->query and
 * their keys and values in the caches. */
void smol_attend(const struct worker *w, size_t layer);

/* Writes row t's result to engine->query, in place of the queries. The next stage calls it once for
 * each row. */
void smol_attention_finish(struct pass *pass, size_t layer, size_t t);

#endif

/* Causal attention of the rows of a pass, each over its sequence's KV cache, on all threads. */
#ifndef SMOL_RUNTIME_ATTENTION_H
#define SMOL_RUNTIME_ATTENTION_H

#include <stddef.h>

#include "common/error.h"

struct engine;
struct pass;
struct worker;

/* Working memory of attention; part of an engine. */
struct attention_memory {
    float *threads;  /* (n_threads, floats of one thread's tile), see attention.c */
    float *partials; /* (n_spans, n_heads): of single tokens, see attention.c */
    size_t n_spans;  /* that `partials` has room for */
};

/* The spans that a sequence of `n_positions` takes. */
size_t smol_attention_spans(size_t n_positions);

/* Makes room for passes whose sequences take `n_spans` together. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_attention_reserve(struct engine *engine, size_t n_spans, smol_error *error);
void smol_attention_free(struct attention_memory *memory);

/* Bytes allocated. */
size_t smol_attention_bytes(const struct engine *engine);

/* Gives the segments of a pass their places in that memory. */
void smol_attention_place(struct pass *pass);

/* One stage: the attention of all rows, whose rotated queries are in engine->query and whose keys
 * and values are in the caches. */
void smol_attend(const struct worker *w, size_t layer);

/* To be called for each row t after that stage, by whoever needs the result: it is in
 * engine->query, in place of the queries. */
void smol_attention_finish(struct pass *pass, size_t layer, size_t t);

#endif

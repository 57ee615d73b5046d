/* Causal attention of a batch of tokens over the KV cache, on all threads. */
#ifndef SMOL_RUNTIME_ATTENTION_H
#define SMOL_RUNTIME_ATTENTION_H

#include "common/pool.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kv.h"

struct smol_context;

/* What attention works in; part of a context. */
struct attention_memory {
    float *threads;  /* (n_threads, floats of one thread's tile), see attention.c */
    float *partials; /* (n_spans, n_heads): of one token, see attention.c */
    size_t n_spans;  /* that `partials` has room for */
};

/* Makes room for sequences of `n_positions`. Errors: STATUS_MEMORY. */
enum status smol_attention_reserve(struct smol_context *context, size_t n_positions,
                                   struct error *error);
void smol_attention_free(struct attention_memory *memory);

/* Bytes allocated. */
size_t smol_attention_bytes(const struct smol_context *context);

/* One stage: the attention of the n tokens from position `first` on, whose rotated queries are in
 * context->query and whose keys and values are in the cache. */
void smol_attend(struct smol_context *context, struct pool_thread *thread, size_t layer,
                 size_t first, size_t n);

/* To be called for each token t of the n after that stage, by whoever needs the result: it is in
 * context->query, in place of the queries. */
void smol_attention_finish(struct smol_context *context, size_t layer, size_t first, size_t n,
                           size_t t);

#endif

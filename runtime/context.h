/* A sequence in progress: its KV cache, its threads, and the activations of one batch. */
#ifndef SMOL_RUNTIME_CONTEXT_H
#define SMOL_RUNTIME_CONTEXT_H

#include "common/pool.h"
#include "runtime/attention.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kv.h"
#include "runtime/model.h"

/* Tokens that go through the layers together: enough to reuse a tile well, few enough that
 * their activations stay in the second-level cache. */
enum { BATCH = 128 };

struct smol_context {
    const smol_model *model;
    const struct kernels *kernels;
    struct pool *pool;
    struct kv_cache kv;
    size_t length;   /* tokens in the sequence */
    size_t capacity; /* most tokens */
    uint32_t *ids;   /* (ids_room), of which (length) are the sequence */
    size_t ids_room; /* grows with the sequence */
    size_t n_ids;    /* length, or one more: what smol_generate brought last */

    /* Activations, (BATCH, ...) each, all within `memory`. */
    void *memory;
    size_t memory_bytes;
    float *x;             /* (hidden_size): the residual stream */
    float *normed;        /* (hidden_size): a block's input, or its output on the way to x */
    float *query;         /* (n_heads * head_dim); attention's output replaces it */
    float *key;           /* (n_kv_heads * head_dim) */
    float *value;         /* (n_kv_heads * head_dim) */
    float *gated;         /* (intermediate_size): the MLP's activation, not for int8 blobs */
    float *cosine, *sine; /* (n_rope_tables, rotary_dim / 2): RoPE at each token's position */
    /* Quantized copies of normed, query and the MLP's activation, for int8 blobs. */
    struct quantized normed_q, query_q, gated_q;

    struct attention_memory attention;
};

/* Room for n ids, at most context->capacity and one more. */
enum status smol_context_reserve_ids(struct smol_context *context, size_t n, struct error *error);

/* Runs ids[0..n), 0 < n <= BATCH, through the model at positions length.. of the context, whose
 * KV cache has room for them, and writes the logits after each of the last n_logits of them to
 * logits (n_logits, vocab_size). Does not change context->length. Errors: STATUS_DAMAGED (a
 * chunk's digest), STATUS_NUMERIC. */
enum status smol_forward(struct smol_context *context, const uint32_t *ids, size_t n,
                         size_t n_logits, float *logits, struct error *error);

#endif

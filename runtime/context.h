/* A sequence in progress: its KV cache, and the engine that evaluates it. */
#ifndef SMOL_RUNTIME_CONTEXT_H
#define SMOL_RUNTIME_CONTEXT_H

#include <stdatomic.h>

#include "common/listener.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/kv.h"
#include "runtime/engine/observer.h"
#include "runtime/engine/state.h"
#include "runtime/model.h"

struct smol_context {
    const smol_model *model;
    struct engine *engine; /* shared by all contexts that are evaluated together */
    struct kv_cache kv;
    struct sequence_state state; /* at `length`, or at lost_from if that is less */
    size_t length;               /* tokens in the sequence */
    size_t capacity;             /* most tokens */
    uint32_t *ids;               /* (ids_room); the first `length` are the sequence */
    size_t ids_room;             /* grows with the sequence */
    size_t n_ids;     /* length, or length + 1 after smol_generate, whose newest token is pending */
    size_t lost_from; /* the keys and values of tokens from here on are not there any more, or
                         SIZE_MAX: see smol_context_cut */
    size_t marks[2];  /* lengths to which the sequence can be cut at no cost: those at which the
                         newest prompt began and ended */

    /* shared blocks of the KV cache (prefix.h) */
    smol_prefix_cache *prefixes; /* or NULL */
    uint64_t prefix_group;
    struct prefix_block *last_borrowed; /* if kv.n_borrowed > 0 */
    size_t n_reused;                    /* tokens that were found in the cache, ever */
    bool unshared; /* the keys and values may be others than those of the ids: restored, or changed
                      by an observer */

    /* valid during an evaluation (evaluate.c) */
    const smol_eval_part *part; /* the part being evaluated, or NULL */
    bool guesses;               /* the part has guesses, or tokens after which one was wrong */
    size_t before;              /* length to restore after an error */
    atomic_bool cancelled;      /* set by smol_context_cancel on any thread */
    struct listener listener;
};

/* Sets *type to that of a KV cache of `kv` for the model. Errors: SMOL_ERROR_USAGE. */
smol_status smol_context_kv_type(const smol_model *model, smol_kv kv, enum kv_type *type,
                                 smol_error *error);

/* Checks that ids[0..n) can follow the sequence. Errors: SMOL_ERROR_USAGE (an id out of range),
 * SMOL_ERROR_CONTEXT_FULL. */
smol_status smol_check_tokens(const struct smol_context *context, const uint32_t *ids, size_t n,
                              smol_error *error);

/* smol_eval in runs of up to 128 tokens, each of which the observer sees and may change. If it
 * skips layers, the sequence must be emptied before another use. Errors: as smol_eval. */
smol_status smol_eval_observed(smol_context *context, const uint32_t *ids, size_t n,
                               size_t n_logits, float *logits, const struct observer *observer,
                               smol_error *error);

/* Cuts the sequence to n tokens, at most those that it has. Those whose keys and values are not
 * there any more are evaluated again before the next ones. The ids stay. */
void smol_context_cut(struct smol_context *context, size_t n);

/* Takes a snapshot of the states, if there are any. */
void smol_context_keep_state(struct smol_context *context);

/* Makes room for n ids, at most context->capacity + 1. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_context_reserve_ids(struct smol_context *context, size_t n, smol_error *error);

/* Returns an id of the sequence, whose newest may be those of the part being evaluated. */
static inline uint32_t context_id(const smol_context *context, size_t position)
{
    const smol_eval_part *part = context->part;
    return part && position >= context->before ? part->ids[position - context->before]
                                               : context->ids[position];
}

/* Returns whether the context is cancelled. The load is relaxed: the canceller does not wait for
 * its effect, and no other data depends on it. */
static inline bool smol_context_is_cancelled(const smol_context *context)
{
    return atomic_load_explicit(&context->cancelled, memory_order_relaxed);
}

#endif

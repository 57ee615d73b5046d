/* A sequence in progress: its KV cache, and the engine that evaluates it. */
#ifndef SMOL_RUNTIME_CONTEXT_H
#define SMOL_RUNTIME_CONTEXT_H

#include <stdatomic.h>

#include "common/listener.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/kv.h"
#include "runtime/model.h"

struct smol_context {
    const smol_model *model;
    struct engine *engine; /* shared by all that are evaluated together */
    struct kv_cache kv;
    size_t length;   /* tokens in the sequence */
    size_t capacity; /* most tokens */
    uint32_t *ids;   /* (ids_room), of which (length) are the sequence */
    size_t ids_room; /* grows with the sequence */
    size_t n_ids;    /* length, or one more: what smol_generate brought last */

    /* while it is evaluated (evaluate.c) */
    const smol_eval_part *part; /* that is being evaluated, or NULL */
    size_t before;              /* length to go back to after an error */
    atomic_bool cancelled;      /* smol_context_cancel, by any thread */
    struct listener listener;
};

/* Whether ids[0..n) may come next. Errors: SMOL_ERROR_USAGE (an id out of range),
 * SMOL_ERROR_CONTEXT_FULL.
 */
smol_status smol_check_tokens(const struct smol_context *context, const uint32_t *ids, size_t n,
                              smol_error *error);

/* Room for n ids, at most context->capacity and one more. */
smol_status smol_context_reserve_ids(struct smol_context *context, size_t n, smol_error *error);

/* Relaxed: whoever cancels does not wait for it to be seen, and nothing else depends on it. */
static inline bool smol_context_is_cancelled(const smol_context *context)
{
    return atomic_load_explicit(&context->cancelled, memory_order_relaxed);
}

#endif

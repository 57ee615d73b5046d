/* A cache of prefixes as contexts see it. Contexts call through this struct, so that a program that
 * never creates a cache does not contain one.
 *
 * The blocks of a context's KV cache that it borrows are in its prefix cache: they hold the keys
 * and values of the first tokens of the sequence. Nothing may write into them. */
#ifndef SMOL_RUNTIME_PREFIX_H
#define SMOL_RUNTIME_PREFIX_H

#include "runtime/context.h"

struct prefix_calls {
    /* Checks that a context with a KV cache of this type may use the cache. */
    smol_status (*check)(const smol_prefix_cache *cache, const smol_model *model, enum kv_type type,
                         smol_error *error);

    /* Appends to the sequence those first tokens of ids[0..n) whose keys and values are in the
     * cache, which takes no evaluation. Increases context->length, and does not change the ids. */
    void (*extend)(smol_context *context, const uint32_t *ids, size_t n);

    /* Makes the positions from context->length on writable. Errors: SMOL_ERROR_MEMORY. */
    smol_status (*own)(smol_context *context, smol_error *error);

    /* Adds the sequence's full blocks to the cache, after a pass of an evaluation. */
    void (*publish)(smol_context *context);

    /* Returns the borrowed data of windowed layers that smol_kv_drop will drop. */
    void (*drop)(smol_context *context, const struct kv_lengths *lengths);

    /* Returns the borrowed blocks that are not needed for the first n positions. */
    void (*give_back)(smol_context *context, size_t n);
};

/* The start of a cache. */
struct prefix_head {
    const struct prefix_calls *calls;
};

static inline const struct prefix_calls *prefix_calls(const smol_prefix_cache *cache)
{
    return ((const struct prefix_head *)(const void *)cache)->calls;
}

static inline void prefix_extend(smol_context *context, const uint32_t *ids, size_t n)
{
    if (context->prefixes)
        prefix_calls(context->prefixes)->extend(context, ids, n);
}

static inline smol_status prefix_own(smol_context *context, smol_error *error)
{
    return context->prefixes ? prefix_calls(context->prefixes)->own(context, error) : SMOL_OK;
}

static inline void prefix_publish(smol_context *context)
{
    if (context->prefixes)
        prefix_calls(context->prefixes)->publish(context);
}

static inline void prefix_drop(smol_context *context, const struct kv_lengths *lengths)
{
    if (context->prefixes)
        prefix_calls(context->prefixes)->drop(context, lengths);
}

static inline void prefix_give_back(smol_context *context, size_t n)
{
    if (context->prefixes)
        prefix_calls(context->prefixes)->give_back(context, n);
}

#endif

/* Caches of prefixes, see smol.h: what contexts take from them and add to them.
 *
 * A context that borrows a block also borrows its ancestors, and gives back the last block first.
 * Blocks that no context borrows are evicted in the order in which they were given back, so a block
 * is evicted after its children. Of windowed layers a context borrows only the keys and values that
 * it needs to continue. */
#include "runtime/prefix.h"

#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "format/model.h"
#include "runtime/model.h"
#include "runtime/prefix_blocks.h"

enum { MOST_BUCKETS = 1 << 16, PAGE = 4096 };

/* --- contexts ----------------------------------------------------------------------------- */

static smol_status check(const smol_prefix_cache *cache, const smol_model *model, enum kv_type type,
                         smol_error *error)
{
    if (model != cache->model)
        return smol_fail(error, SMOL_ERROR_USAGE, "prefix_cache: a cache of another model");
    if (type != cache->shape.type)
        return smol_fail(error, SMOL_ERROR_USAGE, "prefix_cache: a cache of another KV type");
    return SMOL_OK;
}

/* Returns the last block that the context borrows, or the root. */
static struct prefix_block *last_borrowed(const smol_context *c)
{
    return c->kv.n_borrowed ? c->last_borrowed : &c->prefixes->root;
}

/* Makes a block, which the context counts as borrowed, the one after the borrowed ones, with
 * windowed layers' data or not. */
static void take_block(smol_context *c, struct prefix_block *block, bool windowed)
{
    uint8_t *const data[] = {
        [KV_ALL] = block->data[KV_ALL],
        [KV_WINDOWED] = windowed ? block->data[KV_WINDOWED] : NULL,
    };
    if (data[KV_WINDOWED])
        smol_prefix_borrow_window(block);
    smol_kv_borrow(&c->kv, data);
    c->last_borrowed = block;
}

/* Continues from the state of the last block that is borrowed. */
static void take_state(smol_context *c, size_t position)
{
    smol_state_set(&c->state, position, c->last_borrowed->state);
    smol_context_keep_state(c);
}

/* Borrows what is known of ids[0..n), the windowed layers' data from the first block on that the
 * sequence then needs. */
static void borrow_known(smol_context *c, const struct known_prefix *known, const uint32_t *ids)
{
    size_t first = smol_kv_first(&c->kv, c->length + known->n + 1);
    for (size_t done = 0; done < known->n; done += KV_BLOCK) {
        struct prefix_block *next = known->common;
        if (done < known->n_whole)
            next = smol_prefix_find(c->prefixes, last_borrowed(c), c->prefix_group, ids + done);
        const bool needed = c->kv.n_borrowed >= first;
        next->wanted |= needed;
        smol_prefix_borrow(c->prefixes, next);
        take_block(c, next, needed);
    }
}

static void extend(smol_context *c, const uint32_t *ids, size_t n)
{
    smol_prefix_cache *cache = c->prefixes;
    smol_error ignored; /* an evaluation needs the same memory and reports the error */
    if (c->unshared || c->length % KV_BLOCK || c->lost_from < c->length ||
        smol_state_reserve(&c->state, &ignored))
        return;
    prefix_give_back(c, c->length);
    if (c->length != c->kv.n_borrowed * KV_BLOCK)
        return;
    threads_mutex_lock(&cache->mutex);
    const struct known_prefix known =
        smol_prefix_look_up(cache, last_borrowed(c), c->kv.n_borrowed, c->prefix_group, ids, n);
    if (known.n < known.n_path)
        smol_prefix_want(cache, known.last, c->length + known.n_path);
    borrow_known(c, &known, ids);
    if (known.n > 0 && c->state.n_floats)
        take_state(c, c->length + known.n);
    cache->info.n_reused += known.n;
    threads_mutex_unlock(&cache->mutex);
    c->length += known.n;
    c->n_reused += known.n;
}

/* Counts the context's last borrowed block as given back; `windowed`: and its windowed layers'
 * data. The caller changes c->kv. */
static void give_back_last(smol_context *c, bool windowed)
{
    struct prefix_block *block = c->last_borrowed;
    if (windowed)
        smol_prefix_give_back_window(c->prefixes, block, true);
    smol_prefix_give_back(c->prefixes, block);
    c->last_borrowed = block->parent;
}

static void give_back_blocks(smol_context *c, size_t n)
{
    size_t n_kept = (n + KV_BLOCK - 1) / KV_BLOCK;
    if (c->kv.n_borrowed <= n_kept)
        return;
    threads_mutex_lock(&c->prefixes->mutex);
    for (size_t i = c->kv.n_borrowed; i > n_kept; i--)
        give_back_last(c, smol_kv_windowed(&c->kv, i - 1));
    threads_mutex_unlock(&c->prefixes->mutex);
    smol_kv_return(&c->kv, n_kept);
}

static smol_status own(smol_context *c, smol_error *error)
{
    prefix_give_back(c, c->length);
    if (c->kv.n_borrowed * KV_BLOCK <= c->length)
        return SMOL_OK;
    const bool windowed = smol_kv_windowed(&c->kv, c->kv.n_borrowed - 1);
    smol_status status = smol_kv_own_last(&c->kv, error);
    if (status)
        return status;
    threads_mutex_lock(&c->prefixes->mutex);
    give_back_last(c, windowed);
    threads_mutex_unlock(&c->prefixes->mutex);
    return SMOL_OK;
}

static void drop(smol_context *c, const struct kv_lengths *lengths)
{
    struct prefix_block *block = c->last_borrowed;
    size_t first = smol_kv_passed(&c->kv, lengths, 0);
    if (first >= c->kv.n_borrowed)
        return;
    threads_mutex_lock(&c->prefixes->mutex);
    for (size_t i = c->kv.n_borrowed; i-- > first; block = block->parent)
        if (smol_kv_passed(&c->kv, lengths, i) == i)
            smol_prefix_give_back_window(c->prefixes, block, block->wanted);
    threads_mutex_unlock(&c->prefixes->mutex);
}

/* Adds the state after the last block that is borrowed, if the context knows it and the cache does
 * not. One that is only known because a pass began or ended there would take memory for little. */
static void give_state(const smol_context *c)
{
    smol_prefix_cache *cache = c->prefixes;
    struct prefix_block *block = c->last_borrowed;
    size_t position = c->kv.n_borrowed * KV_BLOCK;
    const float *state = smol_state_at(&c->state, position);
    bool ended = c->length == c->before + c->part->n || position % STATE_INTERVAL == 0;
    if (!state || state == c->state.next || (state == c->state.now && !ended) || block->state ||
        !smol_prefix_make_room(cache, cache->state_bytes))
        return;
    block->state = smol_malloc(cache->state_bytes);
    if (!block->state)
        return;
    memcpy(block->state, state, cache->state_bytes);
    cache->info.bytes += cache->state_bytes;
}

/* Borrows a block that another context has added, in place of the context's own, which has the same
 * contents. Windowed layers' data that the block lacks are added. Returns false if there is no room
 * for them. */
static bool share(smol_context *c, struct prefix_block *block)
{
    smol_prefix_cache *cache = c->prefixes;
    uint8_t *windowed = smol_kv_windowed(&c->kv, c->kv.n_borrowed);
    const size_t bytes = windowed && !block->data[KV_WINDOWED] ? cache->data_bytes[KV_WINDOWED] : 0;
    smol_prefix_borrow(cache, block); /* so that it is not evicted itself */
    if (!smol_prefix_make_room(cache, bytes)) {
        smol_prefix_give_back(cache, block);
        return false;
    }
    if (bytes > 0)
        smol_prefix_set_window(cache, block, windowed);
    take_block(c, block, windowed);
    return true;
}

/* Adds the context's block after the borrowed ones. Returns false if there is no room for it. */
static bool add(smol_context *c, const uint32_t *ids)
{
    bool windowed = smol_kv_windowed(&c->kv, c->kv.n_borrowed);
    struct prefix_block *parent = last_borrowed(c);
    if (parent->children)
        smol_prefix_want(c->prefixes, parent, c->kv.n_borrowed * KV_BLOCK);
    struct prefix_block *block =
        smol_prefix_add(c->prefixes, parent, c->prefix_group, ids, windowed);
    if (!block)
        return false;
    smol_kv_give(&c->kv, block->data);
    c->last_borrowed = block;
    return true;
}

static void publish(smol_context *c)
{
    smol_prefix_cache *cache = c->prefixes;
    bool has_room = true;
    if (c->unshared || c->length / KV_BLOCK <= c->kv.n_borrowed)
        return;
    threads_mutex_lock(&cache->mutex);
    while (has_room && c->kv.n_borrowed < c->length / KV_BLOCK) {
        uint32_t ids[KV_BLOCK];
        for (size_t i = 0; i < KV_BLOCK; i++)
            ids[i] = context_id(c, c->kv.n_borrowed * KV_BLOCK + i);
        struct prefix_block *block =
            smol_prefix_find(cache, last_borrowed(c), c->prefix_group, ids);
        has_room = block ? share(c, block) : add(c, ids);
        if (has_room)
            give_state(c);
    }
    threads_mutex_unlock(&cache->mutex);
}

/* --- caches ------------------------------------------------------------------------------- */

static const struct prefix_calls calls = {
    .check = check,
    .extend = extend,
    .own = own,
    .publish = publish,
    .give_back = give_back_blocks,
    .drop = drop,
};

static smol_status init_cache(smol_prefix_cache *cache, const smol_prefix_cache_params *params,
                              smol_error *error)
{
    enum kv_type type = KV_F32; /* for the compiler */
    smol_status status = smol_context_kv_type(cache->model, params->kv, &type, error);
    if (!status)
        status = smol_kv_init(&cache->shape, type, cache->model->blob.model,
                              cache->model->blob.layers, KV_BLOCK, true, error);
    if (status)
        return status;
    size_t block_bytes = sizeof(struct prefix_block);
    for (size_t g = 0; g < KV_GROUPS; g++) {
        cache->data_bytes[g] = round_up(cache->shape.groups[g].block_bytes, PAGE);
        block_bytes += cache->data_bytes[g];
    }
    cache->info.block_bytes = block_bytes;
    cache->state_bytes = smol_state_floats(cache->model->blob.model) *
                         smol_states_count(cache->model->blob.model) * sizeof(float);
    cache->info.max_bytes = params->max_bytes;
    if (params->max_bytes < block_bytes)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "max_bytes is %zu: a block of %d tokens takes %zu: allow more",
                         params->max_bytes, KV_BLOCK, block_bytes);
    cache->n_buckets = 16;
    while (cache->n_buckets < params->max_bytes / block_bytes && cache->n_buckets < MOST_BUCKETS)
        cache->n_buckets *= 2;
    cache->buckets = smol_calloc(cache->n_buckets, sizeof *cache->buckets);
    return cache->buckets ? SMOL_OK : smol_fail_memory(error, "a cache of prefixes");
}

smol_status smol_prefix_cache_create(const smol_model *model,
                                     const smol_prefix_cache_params *params,
                                     smol_prefix_cache **out, smol_error *error)
{
    error_clear(error);
    *out = NULL;
    smol_status status = CHECK_RESERVED(prefix_cache_params, params, error);
    if (status)
        return status;
    smol_prefix_cache *cache = smol_calloc(1, sizeof *cache);
    if (!cache)
        return smol_fail_memory(error, "a cache of prefixes");
    cache->head.calls = &calls;
    cache->model = model;
    cache->idle = (struct ring){.older = &cache->idle, .younger = &cache->idle};
    cache->passed = (struct ring){.older = &cache->passed, .younger = &cache->passed};
    threads_mutex_init(&cache->mutex);
    status = init_cache(cache, params, error);
    if (status)
        smol_prefix_cache_free(cache);
    else
        *out = cache;
    return status;
}

void smol_prefix_cache_free(smol_prefix_cache *cache)
{
    if (!cache)
        return;
    smol_prefix_clear(cache);
    threads_mutex_destroy(&cache->mutex);
    smol_kv_free(&cache->shape);
    smol_free(cache->buckets);
    smol_free(cache);
}

size_t smol_prefix_cache_count(smol_prefix_cache *cache, uint64_t group, const uint32_t *ids,
                               size_t n)
{
    threads_mutex_lock(&cache->mutex);
    n = smol_prefix_look_up(cache, &cache->root, 0, group, ids, n).n;
    threads_mutex_unlock(&cache->mutex);
    return n;
}

smol_prefix_cache_info smol_prefix_cache_get_info(smol_prefix_cache *cache)
{
    threads_mutex_lock(&cache->mutex);
    smol_prefix_cache_info info = cache->info;
    threads_mutex_unlock(&cache->mutex);
    return info;
}

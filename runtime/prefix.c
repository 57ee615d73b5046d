/* Caches of prefixes, see smol.h. A cache is a tree of blocks: the children of a block are the
 * blocks of 64 tokens that have followed it, so the path to a block spells all tokens that its keys
 * and values depend on. A digest of that path finds a block; its own tokens and its parent are then
 * compared, and so, by induction, the whole path.
 *
 * A context that borrows a block also borrows its ancestors, and gives back the last block first.
 * Blocks that no context borrows are evicted in the order in which they were given back, so a block
 * is evicted after its children. */
#include "runtime/prefix.h"

#include <string.h>

#include "common/checked.h"
#include "common/hash.h"
#include "common/memory.h"
#include "common/threads.h"
#include "format/model.h"
#include "runtime/model.h"

enum {
    MOST_BUCKETS = 1 << 16,
    MOST_COMPARED = 64, /* children that are searched for a common beginning */
    LEAST_COMMON = 8,   /* tokens: fewer are evaluated again, rather than a block copied */
    PAGE = 4096,
};

struct prefix_block {
    uint8_t *data; /* see kv.h */
    float *state;  /* after the block, see state.h; NULL: not known, or the model has none */
    struct prefix_block *parent;
    struct prefix_block *children; /* the newest first */
    struct prefix_block *sibling, **place;
    struct prefix_block *next;            /* in its bucket */
    struct prefix_block *older, *younger; /* in the ring of those that no context borrows */
    uint64_t group;
    uint64_t digest; /* of the path */
    size_t n_contexts;
    uint32_t ids[KV_BLOCK];
};

struct smol_prefix_cache {
    struct prefix_head head;
    const smol_model *model;
    struct kv_cache shape; /* of the contexts' */
    size_t state_bytes;    /* of a block's state */
    thread_mutex mutex;    /* guards the following members, and everything in blocks but the data */
    struct prefix_block root; /* parent of the first blocks of all groups */
    struct prefix_block idle; /* start of the ring: its `younger` is the oldest */
    struct prefix_block **buckets;
    size_t n_buckets; /* a power of two */
    smol_prefix_cache_info info;
};

/* --- blocks ------------------------------------------------------------------------------- */

static void leave_ring(struct prefix_block *block)
{
    block->older->younger = block->younger;
    block->younger->older = block->older;
}

static void borrow(smol_prefix_cache *cache, struct prefix_block *block)
{
    if (block->n_contexts++ > 0)
        return;
    leave_ring(block);
    cache->info.n_used++;
}

static void give_back(smol_prefix_cache *cache, struct prefix_block *block)
{
    if (--block->n_contexts > 0)
        return;
    block->older = cache->idle.older;
    block->younger = &cache->idle;
    block->older->younger = block->younger->older = block;
    cache->info.n_used--;
}

static struct prefix_block **bucket_of(smol_prefix_cache *cache, uint64_t digest)
{
    return &cache->buckets[digest & (cache->n_buckets - 1)];
}

static uint64_t digest_path(const struct prefix_block *parent, uint64_t group, const uint32_t *ids)
{
    struct {
        uint64_t group, before;
        uint32_t ids[KV_BLOCK];
    } path = {.group = group, .before = parent->digest};
    memcpy(path.ids, ids, sizeof path.ids);
    return smol_digest(&path, sizeof path);
}

/* Returns the child of `parent` with ids[0..KV_BLOCK), or NULL. */
static struct prefix_block *find(smol_prefix_cache *cache, const struct prefix_block *parent,
                                 uint64_t group, const uint32_t *ids)
{
    uint64_t digest = digest_path(parent, group, ids);
    struct prefix_block *block = *bucket_of(cache, digest);
    while (block && (block->digest != digest || block->parent != parent || block->group != group ||
                     memcmp(block->ids, ids, sizeof block->ids) != 0))
        block = block->next;
    return block;
}

/* Returns a child of `parent` that begins as ids[0..n) do, and for how many tokens; or NULL. */
static struct prefix_block *find_common(const struct prefix_block *parent, uint64_t group,
                                        const uint32_t *ids, size_t n, size_t *n_common)
{
    struct prefix_block *best = NULL, *block = parent->children;
    *n_common = LEAST_COMMON - 1;
    n = n < KV_BLOCK ? n : KV_BLOCK;
    for (int left = n < LEAST_COMMON ? 0 : MOST_COMPARED; block && left > 0; left--) {
        size_t common = 0;
        while (common < n && block->ids[common] == ids[common])
            common++;
        if (block->group == group && common > *n_common) {
            *n_common = common;
            best = block;
        }
        block = block->sibling;
    }
    return best;
}

/* Frees a block that no context borrows and that has no children. */
static void evict(smol_prefix_cache *cache, struct prefix_block *block)
{
    struct prefix_block **at = bucket_of(cache, block->digest);
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    *block->place = block->sibling;
    if (block->sibling)
        block->sibling->place = block->place;
    leave_ring(block);
    smol_zeros_free(block->data, smol_kv_block_bytes(&cache->shape));
    cache->info.n_blocks--;
    cache->info.bytes -= cache->info.block_bytes + (block->state ? cache->state_bytes : 0);
    smol_free(block->state);
    smol_free(block);
}

/* Evicts blocks until there is room for `bytes` bytes. Returns false if that is impossible. */
static bool make_room(smol_prefix_cache *cache, size_t bytes)
{
    smol_prefix_cache_info *info = &cache->info;
    while (bytes > info->max_bytes - info->bytes) {
        if (cache->idle.younger == &cache->idle)
            return false;
        evict(cache, cache->idle.younger);
        info->n_evicted++;
    }
    return true;
}

/* Creates a child of `parent` that one context borrows; it has no data yet. Returns NULL if there
 * is no memory, or no room even after evictions. */
static struct prefix_block *add(smol_prefix_cache *cache, struct prefix_block *parent,
                                uint64_t group, const uint32_t *ids)
{
    smol_prefix_cache_info *info = &cache->info;
    struct prefix_block *block =
        make_room(cache, info->block_bytes) ? smol_malloc(sizeof *block) : NULL;
    if (!block)
        return NULL;
    uint64_t digest = digest_path(parent, group, ids);
    struct prefix_block **bucket = bucket_of(cache, digest);
    *block = (struct prefix_block){
        .parent = parent,
        .sibling = parent->children,
        .place = &parent->children,
        .next = *bucket,
        .group = group,
        .digest = digest,
        .n_contexts = 1,
    };
    memcpy(block->ids, ids, sizeof block->ids);
    if (block->sibling)
        block->sibling->place = &block->sibling;
    parent->children = *bucket = block;
    info->n_blocks++;
    info->n_used++;
    info->bytes += info->block_bytes;
    return block;
}

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

static void borrow_next(smol_context *c, struct prefix_block *block)
{
    borrow(c->prefixes, block);
    smol_kv_borrow(&c->kv, block->data);
    c->last_borrowed = block;
}

/* Returns how many of ids[0..n), which follow `block`, may be taken from whole blocks: with states,
 * those up to the last block whose state is known. */
static size_t count_whole(smol_prefix_cache *cache, const struct prefix_block *block,
                          uint64_t group, const uint32_t *ids, size_t n)
{
    size_t known = 0;
    if (cache->state_bytes == 0)
        return n;
    for (size_t done = 0; n - done >= KV_BLOCK; done += KV_BLOCK) {
        block = find(cache, block, group, ids + done);
        if (!block)
            break;
        known = block->state ? done + KV_BLOCK : known;
    }
    return known;
}

/* Continues from the state of the last block that is borrowed. */
static void take_state(smol_context *c, size_t position)
{
    smol_state_set(&c->state, position, c->last_borrowed->state);
    smol_context_keep_state(c);
}

static void extend(smol_context *c, const uint32_t *ids, size_t n)
{
    smol_prefix_cache *cache = c->prefixes;
    struct prefix_block *next;
    size_t done = 0, n_common;
    smol_error ignored; /* an evaluation needs the same memory and reports the error */
    if (c->unshared || c->length % KV_BLOCK || c->lost_from < c->length ||
        smol_state_reserve(&c->state, &ignored))
        return;
    prefix_give_back(c, c->length);
    if (c->length != c->kv.n_borrowed * KV_BLOCK)
        return;
    threads_mutex_lock(&cache->mutex);
    n = count_whole(cache, last_borrowed(c), c->prefix_group, ids, n);
    for (; n - done >= KV_BLOCK; done += KV_BLOCK) {
        next = find(cache, last_borrowed(c), c->prefix_group, ids + done);
        if (!next)
            break;
        borrow_next(c, next);
    }
    next = find_common(last_borrowed(c), c->prefix_group, ids + done, n - done, &n_common);
    if (next) {
        borrow_next(c, next);
        done += n_common;
    }
    if (done > 0 && c->state.n_floats)
        take_state(c, c->length + done);
    cache->info.n_reused += done;
    threads_mutex_unlock(&cache->mutex);
    c->length += done;
    c->n_reused += done;
}

static void give_back_blocks(smol_context *c, size_t n)
{
    size_t n_kept = (n + KV_BLOCK - 1) / KV_BLOCK;
    if (c->kv.n_borrowed <= n_kept)
        return;
    threads_mutex_lock(&c->prefixes->mutex);
    for (size_t i = c->kv.n_borrowed; i > n_kept; i--) {
        struct prefix_block *parent = c->last_borrowed->parent;
        give_back(c->prefixes, c->last_borrowed);
        c->last_borrowed = parent;
    }
    threads_mutex_unlock(&c->prefixes->mutex);
    smol_kv_return(&c->kv, n_kept);
}

static smol_status own(smol_context *c, smol_error *error)
{
    prefix_give_back(c, c->length);
    if (c->kv.n_borrowed * KV_BLOCK <= c->length)
        return SMOL_OK;
    smol_status status = smol_kv_own_last(&c->kv, error);
    if (status)
        return status;
    struct prefix_block *copied = c->last_borrowed;
    c->last_borrowed = copied->parent;
    threads_mutex_lock(&c->prefixes->mutex);
    give_back(c->prefixes, copied);
    threads_mutex_unlock(&c->prefixes->mutex);
    return SMOL_OK;
}

/* Adds the state after the last block that is borrowed, if the context knows it and the cache does
 * not. One that is only known because the last pass began there would take memory for little. */
static void give_state(const smol_context *c)
{
    smol_prefix_cache *cache = c->prefixes;
    struct prefix_block *block = c->last_borrowed;
    const float *state = smol_state_at(&c->state, c->kv.n_borrowed * KV_BLOCK);
    if (!state || state == c->state.next || block->state || !make_room(cache, cache->state_bytes))
        return;
    block->state = smol_malloc(cache->state_bytes);
    if (!block->state)
        return;
    memcpy(block->state, state, cache->state_bytes);
    cache->info.bytes += cache->state_bytes;
}

/* Continues the path of borrowed blocks. A block that another context has added already takes the
 * place of the context's own, which has the same contents. */
static void publish(smol_context *c)
{
    smol_prefix_cache *cache = c->prefixes;
    if (c->unshared || c->length / KV_BLOCK <= c->kv.n_borrowed)
        return;
    threads_mutex_lock(&cache->mutex);
    while (c->kv.n_borrowed < c->length / KV_BLOCK) {
        const uint32_t *ids = c->ids + c->kv.n_borrowed * KV_BLOCK;
        struct prefix_block *parent = last_borrowed(c);
        struct prefix_block *block = find(cache, parent, c->prefix_group, ids);
        if (block) {
            borrow_next(c, block);
            give_state(c);
            continue;
        }
        block = add(cache, parent, c->prefix_group, ids);
        if (!block)
            break;
        block->data = smol_kv_give(&c->kv);
        c->last_borrowed = block;
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
};

static smol_status init_cache(smol_prefix_cache *cache, const smol_prefix_cache_params *params,
                              smol_error *error)
{
    enum kv_type type = KV_F32; /* for the compiler */
    smol_status status = smol_context_kv_type(cache->model, params->kv, &type, error);
    if (!status)
        status = smol_kv_init(&cache->shape, type, cache->model->blob.model, NULL, KV_BLOCK, true,
                              error);
    if (status)
        return status;
    size_t block_bytes = round_up(smol_kv_block_bytes(&cache->shape), PAGE);
    block_bytes += sizeof(struct prefix_block);
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
    cache->idle.older = cache->idle.younger = &cache->idle;
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
    while (cache->idle.younger != &cache->idle)
        evict(cache, cache->idle.younger);
    threads_mutex_destroy(&cache->mutex);
    smol_kv_free(&cache->shape);
    smol_free(cache->buckets);
    smol_free(cache);
}

size_t smol_prefix_cache_count(smol_prefix_cache *cache, uint64_t group, const uint32_t *ids,
                               size_t n)
{
    const struct prefix_block *block = &cache->root, *next;
    size_t done = 0, n_common;
    threads_mutex_lock(&cache->mutex);
    n = count_whole(cache, block, group, ids, n);
    for (; n - done >= KV_BLOCK; done += KV_BLOCK, block = next) {
        next = find(cache, block, group, ids + done);
        if (!next)
            break;
    }
    if (find_common(block, group, ids + done, n - done, &n_common))
        done += n_common;
    threads_mutex_unlock(&cache->mutex);
    return done;
}

smol_prefix_cache_info smol_prefix_cache_get_info(smol_prefix_cache *cache)
{
    threads_mutex_lock(&cache->mutex);
    smol_prefix_cache_info info = cache->info;
    threads_mutex_unlock(&cache->mutex);
    return info;
}

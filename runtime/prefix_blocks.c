/* The blocks of a cache of prefixes, see prefix_blocks.h. */
#include "runtime/prefix_blocks.h"

#include <string.h>

#include "common/hash.h"
#include "common/memory.h"

enum {
    MOST_COMPARED = 64, /* children that are searched for a common beginning */
    LEAST_COMMON = 8,   /* tokens: fewer are evaluated again, rather than a block copied */
};

/* --- search ------------------------------------------------------------------------------- */

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

struct prefix_block *smol_prefix_find(smol_prefix_cache *cache, const struct prefix_block *parent,
                                      uint64_t group, const uint32_t *ids)
{
    uint64_t digest = digest_path(parent, group, ids);
    struct prefix_block *block = *bucket_of(cache, digest);
    while (block && (block->digest != digest || block->parent != parent || block->group != group ||
                     memcmp(block->ids, ids, sizeof block->ids) != 0))
        block = block->next;
    return block;
}

/* Returns whether windowed layers, if there are any, have their keys and values of a block. */
static bool has_window(const smol_prefix_cache *cache, const struct prefix_block *block)
{
    return cache->data_bytes[KV_WINDOWED] == 0 || block->data[KV_WINDOWED];
}

/* Returns a child of `parent` that begins as ids[0..n) do, and for how many tokens; or NULL. */
static struct prefix_block *find_common(const smol_prefix_cache *cache,
                                        const struct prefix_block *parent, uint64_t group,
                                        const uint32_t *ids, size_t n, size_t *n_common)
{
    struct prefix_block *best = NULL, *block = parent->children;
    *n_common = LEAST_COMMON - 1;
    n = n < KV_BLOCK ? n : KV_BLOCK;
    for (int left = n < LEAST_COMMON ? 0 : MOST_COMPARED; block && left > 0; left--) {
        size_t common = 0;
        while (common < n && block->ids[common] == ids[common])
            common++;
        if (block->group == group && common > *n_common && has_window(cache, block)) {
            *n_common = common;
            best = block;
        }
        block = block->sibling;
    }
    return best;
}

struct known_prefix smol_prefix_look_up(smol_prefix_cache *cache, struct prefix_block *block,
                                        size_t index, uint64_t group, const uint32_t *ids, size_t n)
{
    const struct kv_cache *shape = &cache->shape;
    const bool states = cache->state_bytes > 0;
    struct known_prefix known = {.last = block};
    size_t n_common, first = smol_kv_first(shape, index * KV_BLOCK + 1);
    /* Windowed layers have the blocks from `first` on. */
    for (; n - known.n_path >= KV_BLOCK; known.last = block) {
        block = smol_prefix_find(cache, known.last, group, ids + known.n_path);
        if (!block)
            break;
        known.n_path += KV_BLOCK;
        index++;
        if (!has_window(cache, block))
            first = index;
        if (first <= smol_kv_first(shape, index * KV_BLOCK + 1) && (!states || block->state))
            known.n = known.n_whole = known.n_path;
    }
    block = find_common(cache, known.last, group, ids + known.n_path, n - known.n_path, &n_common);
    if (block && !states && first <= smol_kv_first(shape, index * KV_BLOCK + n_common + 1)) {
        known.common = block;
        known.n_whole = known.n_path;
        known.n = known.n_path + n_common;
    }
    return known;
}

/* --- eviction ----------------------------------------------------------------------------- */

static void leave(struct ring *place)
{
    place->older->younger = place->younger;
    place->younger->older = place->older;
}

/* Takes a place as the youngest of a ring, or as the oldest. */
static void join(struct ring *ring, struct prefix_block *block, struct ring *place,
                 uint64_t released)
{
    struct ring *older = released ? ring->older : ring;
    *place = (struct ring){older, older->younger, block, released};
    place->older->younger = place->younger->older = place;
}

static void free_window(smol_prefix_cache *cache, struct prefix_block *block)
{
    leave(&block->passed);
    smol_zeros_free(block->data[KV_WINDOWED], cache->shape.groups[KV_WINDOWED].block_bytes);
    block->data[KV_WINDOWED] = NULL;
    cache->info.bytes -= cache->data_bytes[KV_WINDOWED];
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
    leave(&block->idle);
    if (block->data[KV_WINDOWED])
        free_window(cache, block);
    if (block->data[KV_ALL])
        smol_zeros_free(block->data[KV_ALL], cache->shape.groups[KV_ALL].block_bytes);
    cache->info.n_blocks--;
    cache->info.bytes -=
        sizeof *block + cache->data_bytes[KV_ALL] + (block->state ? cache->state_bytes : 0);
    smol_free(block->state);
    smol_free(block);
}

bool smol_prefix_make_room(smol_prefix_cache *cache, size_t bytes)
{
    smol_prefix_cache_info *info = &cache->info;
    while (bytes > info->max_bytes - info->bytes) {
        const struct ring *idle = cache->idle.younger, *passed = cache->passed.younger;
        if (passed->block && (!idle->block || passed->released < idle->released)) {
            free_window(cache, passed->block);
        } else if (idle->block) {
            evict(cache, idle->block);
            info->n_evicted++;
        } else {
            return false;
        }
    }
    return true;
}

void smol_prefix_clear(smol_prefix_cache *cache)
{
    while (cache->idle.younger->block)
        evict(cache, cache->idle.younger->block);
}

/* --- use ---------------------------------------------------------------------------------- */

struct prefix_block *smol_prefix_add(smol_prefix_cache *cache, struct prefix_block *parent,
                                     uint64_t group, const uint32_t *ids, bool windowed)
{
    smol_prefix_cache_info *info = &cache->info;
    size_t bytes = sizeof(struct prefix_block) + cache->data_bytes[KV_ALL] +
                   (windowed ? cache->data_bytes[KV_WINDOWED] : 0);
    struct prefix_block *block =
        smol_prefix_make_room(cache, bytes) ? smol_malloc(sizeof *block) : NULL;
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
        .n_windows = windowed,
    };
    memcpy(block->ids, ids, sizeof block->ids);
    if (block->sibling)
        block->sibling->place = &block->sibling;
    parent->children = *bucket = block;
    info->n_blocks++;
    info->n_used++;
    info->bytes += bytes;
    return block;
}

void smol_prefix_borrow(smol_prefix_cache *cache, struct prefix_block *block)
{
    if (block->n_contexts++ > 0)
        return;
    leave(&block->idle);
    cache->info.n_used++;
}

void smol_prefix_give_back(smol_prefix_cache *cache, struct prefix_block *block)
{
    if (--block->n_contexts > 0)
        return;
    join(&cache->idle, block, &block->idle, ++cache->n_released);
    cache->info.n_used--;
}

void smol_prefix_borrow_window(struct prefix_block *block)
{
    if (block->n_windows++ == 0)
        leave(&block->passed);
}

void smol_prefix_give_back_window(smol_prefix_cache *cache, struct prefix_block *block, bool useful)
{
    if (--block->n_windows == 0)
        join(&cache->passed, block, &block->passed, useful ? ++cache->n_released : 0);
}

void smol_prefix_want(const smol_prefix_cache *cache, struct prefix_block *last, size_t length)
{
    size_t first = smol_kv_first(&cache->shape, length + 1);
    for (size_t i = length / KV_BLOCK; cache->data_bytes[KV_WINDOWED] > 0 && i > first; i--) {
        last->wanted = true;
        last = last->parent;
    }
}

void smol_prefix_set_window(smol_prefix_cache *cache, struct prefix_block *block, uint8_t *data)
{
    block->data[KV_WINDOWED] = data;
    cache->info.bytes += cache->data_bytes[KV_WINDOWED];
    join(&cache->passed, block, &block->passed, ++cache->n_released);
}

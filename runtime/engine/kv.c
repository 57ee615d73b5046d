/* The memory of the KV cache, see kv.h. */
#include "runtime/engine/kv.h"

#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "format/layout.h"
#include "format/model.h"

enum { SLAB_BLOCKS = 16 }; /* 1,024 positions */

/* Returns the bytes of an element of all types but int4. */
static size_t element_size(enum kv_type type)
{
    return type == KV_F32 ? 4 : type == KV_F16 ? 2 : 1;
}

static bool has_scales(enum kv_type type)
{
    return type == KV_INT8 || type == KV_INT4;
}

/* Returns the bytes of one position's elements in K, and in V. head_dim is even. */
static size_t k_bytes(enum kv_type type, size_t head_dim)
{
    return type == KV_INT4 ? head_dim / 2 : head_dim * element_size(type);
}

static size_t v_bytes(enum kv_type type, size_t head_dim)
{
    return type == KV_INT4 ? kv_v_stride(head_dim) : round_up(head_dim, 16) * element_size(type);
}

static size_t head_bytes(const struct kv_cache *cache, const struct kv_layer *layer)
{
    size_t values = cache->shares ? 0 : layer->v_bytes + cache->scale_bytes;
    return layer->k_bytes + cache->scale_bytes + values;
}

static size_t slab_bytes(const struct kv_group *group)
{
    return group->slab_blocks * group->block_bytes;
}

static size_t kv_blocks(size_t n_positions)
{
    return (n_positions + KV_BLOCK - 1) / KV_BLOCK;
}

/* --- creation ----------------------------------------------------------------------------- */

/* Distributes the layers to groups. */
static void place_layers(struct kv_cache *cache, const struct blob_model *model,
                         const uint8_t *layers, bool drops)
{
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        struct kv_layer *layer = &cache->layers[i];
        uint32_t source = smol_kv_source(model, i), dim = smol_head_dim(model, i);
        bool windowed = layers && layers[i] & LAYER_WINDOWED;
        struct kv_group *group = &cache->groups[windowed && drops ? KV_WINDOWED : KV_ALL];
        if (source != i)
            *layer = cache->layers[source];
        layer->absent = source != i || !layer_attends(model, i);
        if (layer->absent)
            continue;
        *layer = (struct kv_layer){
            .windowed = windowed,
            .group = (uint8_t)(group - cache->groups),
            .n_heads = smol_kv_heads(model, i),
            .head_dim = dim,
            .k_bytes = KV_BLOCK * k_bytes(cache->type, dim),
            .v_bytes = KV_BLOCK * v_bytes(cache->type, dim),
            .offset = group->block_bytes,
        };
        group->block_bytes += layer->n_heads * head_bytes(cache, layer);
    }
}

static smol_status init_group(struct kv_group *group, size_t n_blocks, size_t most,
                              smol_error *error)
{
    group->slab_blocks = n_blocks < most ? n_blocks : most;
    if (group->block_bytes == 0)
        return SMOL_OK;
    if (fits_memory((uint64_t)group->slab_blocks * group->block_bytes))
        group->slabs = smol_calloc((n_blocks + most - 1) / most, sizeof *group->slabs);
    return group->slabs ? SMOL_OK : smol_fail_memory(error, "the KV cache");
}

smol_status smol_kv_init(struct kv_cache *cache, enum kv_type type, const struct blob_model *model,
                         const uint8_t *layers, size_t n_positions, bool separate,
                         smol_error *error)
{
    *cache = (struct kv_cache){
        .type = type,
        .n_layers = model->n_layers,
        .scale_bytes = has_scales(type) ? KV_BLOCK * sizeof(float) : 0,
        .shares = model_has_latent(model),
        .window = model->sliding_window,
        .layers = smol_calloc(model->n_layers, sizeof *cache->layers),
    };
    if (!cache->layers)
        return smol_fail_memory(error, "the KV cache");
    size_t n_blocks = kv_blocks(n_positions);
    place_layers(cache, model, layers,
                 separate || n_positions > cache->window + 2 * KV_WINDOW_SPARE);
    smol_status status =
        init_group(&cache->groups[KV_ALL], n_blocks, separate ? 1 : SLAB_BLOCKS, error);
    return status ? status : init_group(&cache->groups[KV_WINDOWED], n_blocks, 1, error);
}

static void free_slab(struct kv_group *group, size_t i)
{
    if (group->slabs[i])
        smol_zeros_free(group->slabs[i], slab_bytes(group));
    group->slabs[i] = NULL;
}

static void free_slabs(struct kv_group *group, size_t first)
{
    for (size_t i = first; i < group->n_slabs; i++)
        free_slab(group, i);
}

void smol_kv_free(struct kv_cache *cache)
{
    for (size_t g = 0; g < KV_GROUPS; g++) {
        free_slabs(&cache->groups[g], cache->n_borrowed);
        smol_free(cache->groups[g].slabs);
    }
    smol_free(cache->layers);
    *cache = (struct kv_cache){0};
}

/* --- growth ------------------------------------------------------------------------------- */

/* Makes sure that slab i exists. */
static smol_status reserve_slab(struct kv_group *group, size_t i, smol_error *error)
{
    if (!group->slabs[i]) /* V's padding channels must be zero */
        group->slabs[i] = smol_zeros_new(slab_bytes(group));
    if (!group->slabs[i])
        return smol_fail_memory(error, "the KV cache");
    group->n_slabs = i < group->n_slabs ? group->n_slabs : i + 1;
    group->n_dropped = i < group->n_dropped ? i : group->n_dropped;
    return SMOL_OK;
}

smol_status smol_kv_reserve(struct kv_cache *cache, size_t begin, size_t end, smol_error *error)
{
    struct kv_group *all = &cache->groups[KV_ALL], *windowed = &cache->groups[KV_WINDOWED];
    size_t n_blocks = kv_blocks(end);
    smol_status status = SMOL_OK;
    while (!status && all->block_bytes && all->n_slabs * all->slab_blocks < n_blocks)
        status = reserve_slab(all, all->n_slabs, error);
    for (size_t i = begin / KV_BLOCK; !status && windowed->block_bytes && i < n_blocks; i++)
        status = reserve_slab(windowed, i, error);
    if (status)
        return status;
    /* Attention reads full slabs for each token. A slab that is not full would take more memory. */
    for (; all->slab_blocks > 1 && all->n_huge + 1 < all->n_slabs; all->n_huge++)
        smol_zeros_fill_huge(all->slabs[all->n_huge], slab_bytes(all));
    cache->n_blocks = n_blocks > cache->n_blocks ? n_blocks : cache->n_blocks;
    return SMOL_OK;
}

size_t smol_kv_bytes(const struct kv_cache *cache)
{
    const struct kv_group *windowed = &cache->groups[KV_WINDOWED];
    size_t n = 0;
    for (size_t i = windowed->n_dropped; i < windowed->n_slabs; i++)
        n += windowed->slabs[i] != NULL;
    return cache->n_blocks * cache->groups[KV_ALL].block_bytes + n * windowed->block_bytes;
}

/* --- windows ------------------------------------------------------------------------------ */

size_t smol_kv_first(const struct kv_cache *cache, size_t n)
{
    return cache->window && n > cache->window ? (n - cache->window) / KV_BLOCK : 0;
}

bool smol_kv_needs(const struct kv_cache *cache, size_t layer, size_t index, size_t n)
{
    const struct kv_layer *place = &cache->layers[layer];
    return !place->absent && (!place->windowed || index >= smol_kv_first(cache, n));
}

/* Returns whether a sequence of one of the lengths needs a block to continue. */
static bool is_needed(const struct kv_cache *cache, size_t index, const struct kv_lengths *lengths)
{
    bool needed = index >= smol_kv_first(cache, lengths->least);
    for (size_t i = 0; i < sizeof lengths->others / sizeof lengths->others[0]; i++)
        needed |= index >= smol_kv_first(cache, lengths->others[i]) &&
                  index * KV_BLOCK < lengths->others[i];
    return needed;
}

size_t smol_kv_passed(const struct kv_cache *cache, const struct kv_lengths *lengths, size_t from)
{
    const struct kv_group *group = &cache->groups[KV_WINDOWED];
    for (size_t i = from > group->n_dropped ? from : group->n_dropped; i < group->n_slabs; i++)
        if (group->slabs[i] && !is_needed(cache, i, lengths))
            return i;
    return SIZE_MAX;
}

void smol_kv_drop(struct kv_cache *cache, const struct kv_lengths *lengths)
{
    struct kv_group *group = &cache->groups[KV_WINDOWED];
    for (size_t i = 0; (i = smol_kv_passed(cache, lengths, i)) != SIZE_MAX;) {
        if (i >= cache->n_borrowed)
            free_slab(group, i);
        group->slabs[i] = NULL;
    }
    while (group->n_dropped < group->n_slabs && !group->slabs[group->n_dropped])
        group->n_dropped++;
}

/* Returns the largest length, at most n, for which every block from smol_kv_first(length + more) on
 * is there. */
static size_t find_known(const struct kv_cache *cache, size_t n, size_t more)
{
    const struct kv_group *group = &cache->groups[KV_WINDOWED];
    if (group->block_bytes > 0)
        for (size_t i = kv_blocks(n); n > 0 && i-- > smol_kv_first(cache, n + more);)
            if (!group->slabs[i])
                n = i * KV_BLOCK;
    return smol_kv_first(cache, n + more) < cache->n_absent ? 0 : n;
}

size_t smol_kv_known(const struct kv_cache *cache, size_t n)
{
    return find_known(cache, n, 0);
}

size_t smol_kv_cut(struct kv_cache *cache, size_t n)
{
    n = find_known(cache, n, 1); /* the next query does not see the oldest position any more */
    if (n == 0)
        cache->n_absent = 0;
    return n;
}

/* --- separate blocks ---------------------------------------------------------------------- */

void smol_kv_borrow(struct kv_cache *cache, uint8_t *const block[KV_GROUPS])
{
    size_t index = cache->n_borrowed++;
    for (size_t g = 0; g < KV_GROUPS; g++) {
        struct kv_group *group = &cache->groups[g];
        if (group->block_bytes == 0)
            continue;
        if (index < group->n_slabs && group->slabs[index] != block[g])
            free_slab(group, index);
        group->slabs[index] = block[g];
        group->n_slabs = index < group->n_slabs ? group->n_slabs : index + 1;
        group->n_dropped = index < group->n_dropped ? index : group->n_dropped;
    }
    cache->n_blocks = index < cache->n_blocks ? cache->n_blocks : index + 1;
}

void smol_kv_give(struct kv_cache *cache, uint8_t *block[KV_GROUPS])
{
    size_t index = cache->n_borrowed++;
    for (size_t g = 0; g < KV_GROUPS; g++)
        block[g] = cache->groups[g].block_bytes ? cache->groups[g].slabs[index] : NULL;
}

uint8_t *smol_kv_windowed(const struct kv_cache *cache, size_t index)
{
    const struct kv_group *group = &cache->groups[KV_WINDOWED];
    return index < group->n_slabs ? group->slabs[index] : NULL;
}

smol_status smol_kv_own_last(struct kv_cache *cache, smol_error *error)
{
    size_t index = cache->n_borrowed - 1;
    uint8_t *copies[KV_GROUPS] = {NULL};
    bool failed = false;
    for (size_t g = 0; g < KV_GROUPS; g++) {
        const struct kv_group *group = &cache->groups[g];
        if (index >= group->n_slabs || !group->slabs[index])
            continue;
        copies[g] = smol_zeros_new(slab_bytes(group));
        failed |= !copies[g];
        if (copies[g])
            memcpy(copies[g], group->slabs[index], slab_bytes(group));
    }
    for (size_t g = 0; g < KV_GROUPS; g++) {
        struct kv_group *group = &cache->groups[g];
        if (failed && copies[g])
            smol_zeros_free(copies[g], slab_bytes(group));
        else if (!failed && copies[g])
            group->slabs[index] = copies[g];
    }
    cache->n_borrowed -= !failed;
    return failed ? smol_fail_memory(error, "the KV cache") : SMOL_OK;
}

void smol_kv_return(struct kv_cache *cache, size_t n)
{
    for (size_t g = 0; g < KV_GROUPS; g++) {
        struct kv_group *group = &cache->groups[g];
        free_slabs(group, cache->n_borrowed);
        for (size_t i = n; i < cache->n_borrowed && i < group->n_slabs; i++)
            group->slabs[i] = NULL;
        group->n_slabs = n < group->n_slabs ? n : group->n_slabs;
        group->n_dropped = n < group->n_dropped ? n : group->n_dropped;
    }
    cache->n_blocks = cache->n_borrowed = n;
}

/* --- blocks ------------------------------------------------------------------------------- */

struct kv_block smol_kv_block(const struct kv_cache *cache, size_t layer, size_t head, size_t index)
{
    const struct kv_layer *place = &cache->layers[layer];
    const struct kv_group *group = &cache->groups[place->group];
    size_t n = group->slab_blocks, block = head * n + index % n;
    const uint8_t *data =
        group->slabs[index / n] + place->offset * n + block * head_bytes(cache, place);
    const uint8_t *scales = data + place->k_bytes + (cache->shares ? 0 : place->v_bytes);
    bool scaled = has_scales(cache->type);
    size_t of_values = cache->shares ? 0 : cache->scale_bytes;
    return (struct kv_block){
        .k = data,
        .v = cache->shares ? NULL : data + place->k_bytes,
        .k_scale = scaled ? (const float *)scales : NULL,
        .v_scale = scaled ? (const float *)(scales + of_values) : NULL,
    };
}

/* The KV cache: keys and values of every position so far, in blocks of KV_BLOCK positions. The
 * blocks of a layer and head are contiguous within a slab of SLAB_BLOCKS, in the order in which
 * attention reads them. Slabs are reserved as the sequence grows; the system provides their memory
 * at the first write. */
#ifndef SMOL_RUNTIME_KV_H
#define SMOL_RUNTIME_KV_H

#include "common/error.h"
#include "runtime/kernels/kernels.h"

struct kv_cache {
    enum kv_type type;
    size_t n_layers, n_kv_heads, head_dim;
    /* bytes of K, of V, and of the scales of each, in one block of one head */
    size_t k_bytes, v_bytes, scale_bytes;
    uint8_t **slabs;    /* (n_slabs): each (n_layers, n_kv_heads, slab_blocks, one head's block) */
    size_t n_slabs;     /* reserved */
    size_t slab_blocks; /* blocks in each slab: SLAB_BLOCKS, or all if that is fewer */
    size_t n_blocks;    /* in use */
};

/* Initializes an empty cache for at most `n_positions`. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_kv_init(struct kv_cache *cache, enum kv_type type, size_t n_layers,
                         size_t n_kv_heads, size_t head_dim, size_t n_positions, smol_error *error);
void smol_kv_free(struct kv_cache *cache);

/* Makes sure that positions below `n` have memory; n must not exceed the maximum. Stored data does
 * not change, even on SMOL_ERROR_MEMORY. */
smol_status smol_kv_reserve(struct kv_cache *cache, size_t n, smol_error *error);

/* Returns the bytes of the blocks in use. */
size_t smol_kv_bytes(const struct kv_cache *cache);

/* Returns the block of positions [index * KV_BLOCK, (index + 1) * KV_BLOCK). */
struct kv_block smol_kv_block(const struct kv_cache *cache, size_t layer, size_t head,
                              size_t index);

/* Stores k and v (head_dim each) of one position. int8 rounds each to steps of amax / 127,
 * ties to even; int4 rounds these steps to the nearest of smol_kv_levels. Threads may store
 * different positions and heads at the same time. */
void smol_kv_store(const struct kv_cache *cache, const struct kernels *kernels, size_t layer,
                   size_t head, size_t position, const float *k, const float *v);

/* Convert the keys and values of the first n positions of a head's block to and from the format of
 * sessions (format/SESSION.md). smol_kv_rows_bytes returns their size. */
size_t smol_kv_rows_bytes(const struct kv_cache *cache, size_t n);
void smol_kv_get_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, uint8_t *rows);
void smol_kv_put_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, const uint8_t *rows);

/* Returns whether rows contain only what smol_kv_store writes: finite numbers, int8 steps within
 * -127..127, scales of at least 0. */
bool smol_kv_rows_valid(const struct kv_cache *cache, size_t n, const uint8_t *rows);

#endif

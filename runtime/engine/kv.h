/* The KV cache: keys and values of every position so far, in blocks of KV_BLOCK positions. The
 * blocks of a layer and head lie one after the other, as attention reads them, in slabs of
 * SLAB_BLOCKS, which are reserved as the sequence grows; the system gives them memory as they are
 * written. */
#ifndef SMOL_RUNTIME_KV_H
#define SMOL_RUNTIME_KV_H

#include "common/error.h"
#include "runtime/kernels/kernels.h"

struct kv_cache {
    enum kv_type type;
    size_t n_layers, n_kv_heads, head_dim;
    /* of one block of one head: K, V, and the scales of each */
    size_t k_bytes, v_bytes, scale_bytes;
    uint8_t **slabs;    /* (n_slabs): each (n_layers, n_kv_heads, slab_blocks, one head's block) */
    size_t n_slabs;     /* reserved */
    size_t slab_blocks; /* in each: SLAB_BLOCKS, or all if that is fewer */
    size_t n_blocks;    /* in use */
};

/* An empty cache for at most `n_positions`. */
smol_status smol_kv_init(struct kv_cache *cache, enum kv_type type, size_t n_layers,
                         size_t n_kv_heads, size_t head_dim, size_t n_positions, smol_error *error);
void smol_kv_free(struct kv_cache *cache);

/* Makes sure that positions below `n` have memory, n within the maximum. What was stored stays;
 * on SMOL_ERROR_MEMORY too. */
smol_status smol_kv_reserve(struct kv_cache *cache, size_t n, smol_error *error);

/* Bytes of the blocks in use. */
size_t smol_kv_bytes(const struct kv_cache *cache);

/* The block of positions [index * KV_BLOCK, (index + 1) * KV_BLOCK). */
struct kv_block smol_kv_block(const struct kv_cache *cache, size_t layer, size_t head,
                              size_t index);

/* Stores k and v (head_dim each) of one position; int8: each rounded to nearest even in steps of
 * amax / 127. Different positions and heads may be stored by different threads. */
void smol_kv_store(const struct kv_cache *cache, const struct kernels *kernels, size_t layer,
                   size_t head, size_t position, const float *k, const float *v);

/* The keys and values of the first n positions of one block of a head, in the format of sessions
 * (format/SESSION.md). */
size_t smol_kv_rows_bytes(const struct kv_cache *cache, size_t n);
void smol_kv_get_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, uint8_t *rows);
void smol_kv_put_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, const uint8_t *rows);

/* Whether rows hold what smol_kv_store writes: finite numbers, int8 steps within -127..127 and
 * scales of at least 0. */
bool smol_kv_rows_valid(const struct kv_cache *cache, size_t n, const uint8_t *rows);

#endif

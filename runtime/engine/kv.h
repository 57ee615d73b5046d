/* The KV cache: keys and values of every position so far, in blocks of KV_BLOCK positions. The
 * blocks of a layer and head are contiguous within a slab of SLAB_BLOCKS, in the order in which
 * attention reads them. Slabs are reserved as the sequence grows; the system provides their memory
 * at the first write.
 *
 * Windowed layers keep the blocks that their windows need, and some more to go back to. Their slabs
 * are single blocks. A layer that shares the keys and values of an earlier one has their place. If
 * the window is not much smaller than the cache, they keep all blocks, unless these are separate.
 *
 * In a cache whose blocks are separate, every slab is one block. Its first blocks may be borrowed:
 * read-only memory of another owner, who keeps it until the cache returns or drops it. */
#ifndef SMOL_RUNTIME_KV_H
#define SMOL_RUNTIME_KV_H

#include "common/error.h"
#include "format/format.h"
#include "runtime/kernels/kernels.h"

/* Going back by so many positions finds the blocks of windowed layers, unless they were borrowed
 * from a later one on. */
enum { KV_WINDOW_SPARE = 256 };

/* Layers that keep the same blocks. */
struct kv_group {
    size_t slab_blocks; /* blocks in each slab */
    size_t block_bytes; /* of one block of all its layers and heads; 0: it has none */
    uint8_t **slabs;    /* (n_slabs), each (n_layers, n_kv_heads, slab_blocks, one head's block), or
                           NULL: dropped */
    size_t n_slabs;     /* reserved */
    size_t n_dropped;   /* of the first slabs, at least so many are dropped */
    size_t n_huge;      /* of the first slabs, so many are in huge pages */
};

enum { KV_ALL, KV_WINDOWED, KV_GROUPS };

struct kv_layer {
    bool windowed, absent; /* absent: the layer has no keys and values of its own */
    uint8_t group;
    uint32_t n_heads, head_dim;
    size_t k_bytes, v_bytes; /* of one head's block */
    size_t offset;           /* of the layer in a block of all layers of the group */
};

struct kv_cache {
    enum kv_type type;
    size_t n_layers;
    size_t scale_bytes;      /* of the scales of K, and of V, in one block of one head */
    bool shares;             /* keys are the values too, and are kept once */
    size_t window;           /* positions that a windowed layer sees, or 0 */
    struct kv_layer *layers; /* (n_layers) */
    struct kv_group groups[KV_GROUPS];
    size_t n_blocks;   /* in use, in layers that keep all */
    size_t n_borrowed; /* blocks; they are the first */
    size_t n_absent;   /* first blocks that no session restored for windowed layers */
};

/* Initializes an empty cache for at most `n_positions`, with separate blocks or not. `layers` are
 * the bits of the model's layers (enum layer_bit), or NULL if none has any. Free the cache even
 * after an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_kv_init(struct kv_cache *cache, enum kv_type type, const struct blob_model *model,
                         const uint8_t *layers, size_t n_positions, bool separate,
                         smol_error *error);
void smol_kv_free(struct kv_cache *cache);

/* Makes sure that positions [begin, end) have memory, and in layers that keep all blocks those
 * before them too; end must not exceed the maximum. Stored data does not change, even on
 * SMOL_ERROR_MEMORY. */
smol_status smol_kv_reserve(struct kv_cache *cache, size_t begin, size_t end, smol_error *error);

/* Returns the bytes of the blocks in use. */
size_t smol_kv_bytes(const struct kv_cache *cache);

/* Returns the first block that windowed layers need so that a sequence of n positions, or of one
 * less, can continue; and whether such a sequence needs this block of a layer. */
size_t smol_kv_first(const struct kv_cache *cache, size_t n);
bool smol_kv_needs(const struct kv_cache *cache, size_t layer, size_t index, size_t n);

/* Lengths that a sequence may be cut to. */
struct kv_lengths {
    size_t least; /* this one and all above */
    size_t others[3];
};

/* Returns the first block, from `from` on, that windowed layers have and that no sequence of one of
 * the lengths needs to continue, or SIZE_MAX. */
size_t smol_kv_passed(const struct kv_cache *cache, const struct kv_lengths *lengths, size_t from);

/* Frees these blocks, or returns them if they are borrowed. */
void smol_kv_drop(struct kv_cache *cache, const struct kv_lengths *lengths);

/* Returns the largest length, at most n, whose blocks are all there from smol_kv_first on: those
 * that a session holds. */
size_t smol_kv_known(const struct kv_cache *cache, size_t n);

/* Returns the largest length, at most n, to which a sequence of n positions can be cut so that it
 * has all the blocks that it needs to continue: smol_kv_known may be less. If that is 0, the caller
 * writes all positions again. */
size_t smol_kv_cut(struct kv_cache *cache, size_t n);

/* The following functions are for caches with separate blocks. A block is memory for the layers of
 * each group: block[KV_ALL], and block[KV_WINDOWED], which is NULL where it was dropped. A group
 * without layers has none. Borrowed memory must not be written. */

/* Makes `block`, of another cache of the same shape, the block after the borrowed ones. */
void smol_kv_borrow(struct kv_cache *cache, uint8_t *const block[KV_GROUPS]);

/* Gives away the block after the borrowed ones, which the cache must have, and borrows it. The new
 * owner frees it with smol_zeros_free. */
void smol_kv_give(struct kv_cache *cache, uint8_t *block[KV_GROUPS]);

/* Returns what the cache has of a block for windowed layers, or NULL. */
uint8_t *smol_kv_windowed(const struct kv_cache *cache, size_t index);

/* Replaces the last borrowed block by a copy of the cache's own. Nothing changes on
 * SMOL_ERROR_MEMORY. */
smol_status smol_kv_own_last(struct kv_cache *cache, smol_error *error);

/* Returns all borrowed blocks but the first n, and frees every block after those. */
void smol_kv_return(struct kv_cache *cache, size_t n);

/* Returns the block of positions [index * KV_BLOCK, (index + 1) * KV_BLOCK). Without values of its
 * own, block.v is NULL: smol_kv_spread writes them to `values` (v_bytes) and sets
 * it. Padding keeps what it was. */
struct kv_block smol_kv_block(const struct kv_cache *cache, size_t layer, size_t head,
                              size_t index);
void smol_kv_spread(const struct kv_cache *cache, size_t layer, struct kv_block *block,
                    void *values);

/* Stores k and v (head_dim each) of one position; v is not read if keys are the values. int8 rounds
 * each to steps of amax / 127, ties to even; int4 rounds these steps to the nearest of
 * smol_kv_levels. Threads may store different positions and heads at the same time. */
void smol_kv_store(const struct kv_cache *cache, const struct kernels *kernels, size_t layer,
                   size_t head, size_t position, const float *k, const float *v);

/* Convert the keys and values of the first n positions of a head's block to and from the format of
 * sessions (format/SESSION.md). smol_kv_rows_bytes returns their size. */
size_t smol_kv_rows_bytes(const struct kv_cache *cache, size_t layer, size_t n);
void smol_kv_get_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, uint8_t *rows);
void smol_kv_put_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, const uint8_t *rows);

/* Returns whether rows contain only what smol_kv_store writes: finite numbers, int8 steps within
 * -127..127, scales of at least 0. */
bool smol_kv_rows_valid(const struct kv_cache *cache, size_t layer, size_t n, const uint8_t *rows);

#endif

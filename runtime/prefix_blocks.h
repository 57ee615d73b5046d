/* The blocks of a cache of prefixes, see prefix.c. They are a tree: the children of a block are the
 * blocks of 64 tokens that have followed it, so the path to a block spells all tokens that its keys
 * and values depend on. A digest of that path finds a block; its own tokens and its parent are then
 * compared, and so, by induction, the whole path.
 *
 * Of layers with a window, a block has keys and values only as long as a context needs them, or
 * until there is no room for them.
 *
 * The owner of the cache keeps threads apart. */
#ifndef SMOL_RUNTIME_PREFIX_BLOCKS_H
#define SMOL_RUNTIME_PREFIX_BLOCKS_H

#include "common/threads.h"
#include "runtime/context.h"
#include "runtime/prefix.h"

/* A place in a ring of blocks from the oldest to the youngest, or the start of a ring. */
struct ring {
    struct ring *older, *younger;
    struct prefix_block *block;
    uint64_t released; /* when: a number that grows; 0: before all others */
};

struct prefix_block {
    uint8_t *data[KV_GROUPS]; /* see kv.h; data[KV_WINDOWED] is NULL where it is not kept */
    float *state; /* after the block, see state.h; NULL: not known, or the model has none */
    struct prefix_block *parent;
    struct prefix_block *children; /* the newest first */
    struct prefix_block *sibling, **place;
    struct prefix_block *next;    /* in its bucket */
    struct ring idle;             /* among the blocks that no context borrows */
    struct ring passed;           /* among those whose data[KV_WINDOWED] no context borrows */
    size_t n_contexts, n_windows; /* contexts that borrow it; that borrow data[KV_WINDOWED] */
    bool wanted;                  /* see smol_prefix_want */
    uint64_t group;
    uint64_t digest; /* of the path */
    uint32_t ids[KV_BLOCK];
};

struct smol_prefix_cache {
    struct prefix_head head;
    const smol_model *model;
    struct kv_cache shape;        /* of the contexts' */
    size_t data_bytes[KV_GROUPS]; /* of a block's data */
    size_t state_bytes;           /* of a block's state */
    thread_mutex mutex; /* guards the following members, and everything in blocks but the data */
    struct prefix_block root; /* parent of the first blocks of all groups */
    struct ring idle, passed; /* of blocks */
    uint64_t n_released;
    struct prefix_block **buckets;
    size_t n_buckets; /* a power of two */
    smol_prefix_cache_info info;
};

/* How much of a text the cache holds. The path of the text may be longer than what a sequence can
 * take, because windows or states are missing at its end. */
struct known_prefix {
    size_t n;                    /* tokens that a sequence can take, and continue after them */
    size_t n_whole;              /* of them, those in whole blocks */
    struct prefix_block *common; /* the block with the others, if any */
    size_t n_path;               /* tokens of the whole blocks on the path */
    struct prefix_block *last;   /* the last of these blocks */
};

/* Looks up the text that ids[0..n) continue after `block`, the last of `index` whole blocks whose
 * sequence can continue. */
struct known_prefix smol_prefix_look_up(smol_prefix_cache *cache, struct prefix_block *block,
                                        size_t index, uint64_t group, const uint32_t *ids,
                                        size_t n);

/* Returns the child of `parent` with ids[0..KV_BLOCK), or NULL. */
struct prefix_block *smol_prefix_find(smol_prefix_cache *cache, const struct prefix_block *parent,
                                      uint64_t group, const uint32_t *ids);

/* Evicts until there is room for `bytes` bytes. Returns false if that is impossible. */
bool smol_prefix_make_room(smol_prefix_cache *cache, size_t bytes);

/* Creates a child of `parent` that one context borrows. It has no data yet, but room is made for
 * it, with or without windowed layers'. Returns NULL if there is no memory, or no room. */
struct prefix_block *smol_prefix_add(smol_prefix_cache *cache, struct prefix_block *parent,
                                     uint64_t group, const uint32_t *ids, bool windowed);

/* Count a context that borrows a block, or its data of windowed layers, and one that does not any
 * more. What no context borrows can be evicted, first what is not useful. */
void smol_prefix_borrow(smol_prefix_cache *cache, struct prefix_block *block);
void smol_prefix_give_back(smol_prefix_cache *cache, struct prefix_block *block);
void smol_prefix_borrow_window(struct prefix_block *block);
void smol_prefix_give_back_window(smol_prefix_cache *cache, struct prefix_block *block,
                                  bool useful);

/* Marks the data of windowed layers that a text needs to continue after `last`, the last block of
 * its first `length` tokens: texts part there, or one could not continue for lack of them. */
void smol_prefix_want(const smol_prefix_cache *cache, struct prefix_block *last, size_t length);

/* Gives windowed layers' data to a block without, for which there is room. */
void smol_prefix_set_window(smol_prefix_cache *cache, struct prefix_block *block, uint8_t *data);

/* Frees all blocks, which no context borrows. */
void smol_prefix_clear(smol_prefix_cache *cache);

#endif

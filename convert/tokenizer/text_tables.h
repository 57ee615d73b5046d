/* The tables of a text section. Structs start as zeros. What a function allocates belongs to the
 * struct, also after an error; the section's builder frees it. */
#ifndef SMOL_CONVERT_TEXT_TABLES_H
#define SMOL_CONVERT_TEXT_TABLES_H

#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "common/buffer.h"
#include "common/code_range.h"
#include "common/error.h"
#include "convert/tokenizer/json_part.h"
#include "format/format.h"

/* Finds a block equal to `block` among blocks (*n, size), or appends it, for which there must be
 * room; returns its index. `block` may be a later one of the blocks. */
static inline uint16_t text_block_add(void *blocks, uint32_t *n, const void *block, size_t size)
{
    uint32_t i = 0;
    while (i < *n && memcmp((uint8_t *)blocks + i * size, block, size) != 0)
        i++;
    if (i == *n)
        memmove((uint8_t *)blocks + size * (*n)++, block, size);
    return (uint16_t)i;
}

/* Fills blocks, a byte for each character, from a packed table of runs, of whose values only the
 * bits in `mask` count. Then removes the blocks that equal an earlier one, and sets index
 * (CLASS_INDEX_SIZE) to where each is. `blocks` has room for all characters, and is zero. */
static inline void text_classes_fill(const uint8_t *packed, size_t size, uint32_t mask,
                                     uint8_t *blocks, uint32_t *n_blocks, uint16_t *index)
{
    enum { BLOCK_SIZE = 256 };
    const uint8_t *end = packed + size;
    for (struct packed_run run = {0}; packed_run_next(&run, &packed, end);)
        memset(blocks + run.first, (int)(run.value & mask), run.last - run.first + 1);
    for (size_t i = 0; i < CLASS_INDEX_SIZE; i++)
        index[i] = text_block_add(blocks, n_blocks, blocks + i * BLOCK_SIZE, BLOCK_SIZE);
}

/* character_maps.c: the maps, which change characters one by one. */
struct map_arrays {
    uint16_t *index;         /* (n_maps, CLASS_INDEX_SIZE) */
    uint32_t (*blocks)[256]; /* (n_blocks), all different */
    uint32_t n_maps, n_blocks;
};

/* Adds the map of `rules` (bits of enum map_rule). Appends the texts of its changes to `pool`,
 * which becomes the section's. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_map_arrays_add(struct map_arrays *maps, uint32_t rules, struct buffer *pool,
                                smol_error *error);

/* Adds the map with the given changes, (CLASS_INDEX_SIZE * 256). Errors: SMOL_ERROR_MEMORY. */
smol_status smol_map_arrays_add_changes(struct map_arrays *maps, const uint32_t *changes,
                                        smol_error *error);

/* charsmap.c: the tables of FEATURE_CLUSTERS. */
struct cluster_arrays {
    uint16_t *index;               /* (CLASS_INDEX_SIZE) */
    uint8_t (*blocks)[256];        /* (n_blocks), all different */
    const uint8_t *transitions;    /* (n_states, n_classes), constant */
    struct text_cluster *clusters; /* (n_clusters), ascending */
    uint32_t n_blocks, n_classes, n_states, n_clusters;
};

/* Reads SentencePiece's precompiled map of characters, as the reference's normalizer `Precompiled`
 * uses it. The map is the bytes of a double-array trie, whose values are places in the texts after
 * it. The shortest key that a character or a cluster starts with has its text.
 *
 * Adds a map of the changes of characters to `maps`, and fills *arrays. Appends the texts to
 * `pool`, which becomes the section's. `path` is for messages. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_charsmap_read(struct json_text base64, const char *path, struct map_arrays *maps,
                               struct cluster_arrays *arrays, struct buffer *pool,
                               smol_error *error);

/* nfc_tables.c: the tables of normalization form C. */
struct nfc_arrays {
    uint16_t *index;            /* (CLASS_INDEX_SIZE) */
    uint16_t *blocks;           /* (n_blocks, 256), all different */
    struct nfc_letter *letters; /* (n_letters) */
    uint32_t *texts;            /* (n_texts) */
    struct nfc_pair *pairs;     /* (n_pairs) */
    uint32_t n_blocks, n_letters, n_texts, n_pairs;
};

/* Builds the tables. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_nfc_arrays_make(struct nfc_arrays *arrays, smol_error *error);

/* name_trie.c: the trie of a model's names. */
struct name_array {
    struct name_node *nodes; /* (n) */
    uint32_t n;
};

/* Builds the trie of `vocab`, an object: token -> id. An empty name, which no text starts with, is
 * omitted. Errors: SMOL_ERROR_UNSUPPORTED (too many nodes), SMOL_ERROR_MEMORY. */
smol_status smol_name_trie_build(const json_t *vocab, const char *path, struct name_array *trie,
                                 smol_error *error);

#endif

/* The flat tables of a text section: for normalization, names, and changes of characters. All
 * pointers of the structs point into the section, which must not change after its check. */
#ifndef SMOL_FORMAT_TEXT_TABLES_H
#define SMOL_FORMAT_TEXT_TABLES_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "format/format.h"

/* Reports a rule that an entry of a table breaks. */
static inline smol_status text_damaged(smol_error *error, const char *what, uint64_t entry)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED, "%s (entry %" PRIu64 ")", what, entry);
}

/* nfc.c: Unicode's normalization forms: C, which composes, and D. */
struct nfc_tables {
    const uint16_t *index;            /* (CLASS_INDEX_SIZE) code point / 256 -> block */
    const uint16_t *blocks;           /* (n_blocks, 256) -> letter */
    const struct nfc_letter *letters; /* (n_letters) */
    const uint32_t *texts;            /* decompositions */
    const struct nfc_pair *pairs;     /* (n_pairs), ascending */
    uint32_t n_pairs;
};

/* Returns the number of bytes of text[0..size), well-formed UTF-8, before the first character that
 * may change, or `size` if the text is known to be normalized. */
size_t smol_normal_unchanged(const struct nfc_tables *tables, bool composes, const uint8_t *text,
                             size_t size);

/* Appends text[0..size), normalized, in linear time. Sets out->failed if memory runs out. */
void smol_normalize_text(const struct nfc_tables *tables, bool composes, const uint8_t *text,
                         size_t size, struct buffer *out);

/* name_trie.c: a trie of names, which tells the tokens that a text starts with. */
struct name_trie {
    const struct name_node *nodes; /* (n) */
    uint32_t n;
};

/* Checks that the nodes form a tree, so that every step leads to a longer string. Sets *id_bound to
 * a number above all ids, at least its value before. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_name_trie_check(const struct name_trie *trie, uint32_t *id_bound,
                                 smol_error *error);

/* Returns the node of a node's string plus `byte`, or 0 if there is none. */
static inline uint32_t name_step(const struct name_trie *trie, uint32_t node, uint8_t byte)
{
    uint32_t low = trie->nodes[node].children, end = low + trie->nodes[node].n_children;
    uint32_t high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (trie->nodes[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && trie->nodes[low].byte == byte ? low : 0;
}

/* Returns the node of a node's string plus text[0..size), or 0 if there is none. */
static inline uint32_t name_walk(const struct name_trie *trie, uint32_t node, const uint8_t *text,
                                 size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!(node = name_step(trie, node, text[i])))
            return 0;
    return node;
}

/* character_map.c: changes of single characters. */
struct character_map {
    const uint16_t *index;         /* (CLASS_INDEX_SIZE) code point / 256 -> block */
    const uint32_t (*blocks)[256]; /* (n_blocks): changes */
    const uint8_t *pool;
};

/* Returns how the first character of text[0..size), size > 0, changes. Sets *length to its bytes.
 */
uint32_t smol_character_change(const struct character_map *map, const uint8_t *text, size_t size,
                               size_t *length);

/* Appends the character or cluster text[0..length), changed. Sets out->failed if memory runs out.
 */
void smol_character_put(const struct character_map *map, uint32_t change, const uint8_t *text,
                        size_t length, struct buffer *out);

/* Returns an upper bound, at least 1, of the factor by which the map can lengthen a text. */
uint32_t smol_character_map_growth(const struct character_map *map);

/* Returns whether text[0..size), well-formed UTF-8, does not change. */
bool smol_character_map_unchanged(const struct character_map *map, const uint8_t *text,
                                  size_t size);

/* Appends text[0..size), changed. Sets out->failed if memory runs out. */
void smol_character_map(const struct character_map *map, const uint8_t *text, size_t size,
                        struct buffer *out);

/* clusters.c: changes of grapheme clusters, as SentencePiece's maps make them in the reference. A
 * cluster of less than CLUSTER_TOO_LONG bytes changes as a whole if its first character has a
 * change or its start is in the table; in all others each character changes. */
struct cluster_tables {
    const uint16_t *index;               /* (CLASS_INDEX_SIZE) code point / 256 -> block */
    const uint8_t (*blocks)[256];        /* (n_blocks): classes */
    const uint8_t *transitions;          /* (n_states, n_classes) */
    const struct text_cluster *clusters; /* (n_clusters), ascending, none the start of another */
    uint32_t n_blocks, n_classes, n_states, n_clusters;
};

/* Checks every rule of FORMAT.md, except those of the changes. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_clusters_check(const struct cluster_tables *tables, smol_error *error);

/* Returns the factor by which a valid table can lengthen a text, at least 1. */
uint32_t smol_clusters_growth(const struct cluster_tables *tables, const struct character_map *map);

/* Returns whether text[0..size), well-formed UTF-8, does not change. */
bool smol_clusters_unchanged(const struct cluster_tables *tables, const struct character_map *map,
                             const uint8_t *text, size_t size);

/* Appends text[0..size), changed. Sets out->failed if memory runs out. */
void smol_clusters(const struct cluster_tables *tables, const struct character_map *map,
                   const uint8_t *text, size_t size, struct buffer *out);

#endif

/* A trie of names: which tokens a text starts with. */
#ifndef SMOL_FORMAT_NAME_TRIE_H
#define SMOL_FORMAT_NAME_TRIE_H

#include <stddef.h>

#include "common/error.h"
#include "format/format.h"

/* Points into a section that must not change after its check. */
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

#endif

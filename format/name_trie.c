/* The check of a trie, see text_tables.h. */
#include "format/text_tables.h"

/* Returns whether the children of a node, numbers [first, first + n), ascend. */
static bool children_ascend(const struct name_trie *trie, const struct name_node *node)
{
    for (uint32_t i = 1; i < node->n_children; i++)
        if (trie->nodes[node->children + i - 1].byte >= trie->nodes[node->children + i].byte)
            return false;
    return true;
}

smol_status smol_name_trie_check(const struct name_trie *trie, uint32_t *id_bound,
                                 smol_error *error)
{
    uint64_t next = 1; /* the first node without a parent so far */
    for (uint32_t i = 0; i < trie->n; i++) {
        const struct name_node *node = &trie->nodes[i];
        bool empty = i == 0 && (node->byte || node->id != NO_TOKEN);
        if (empty || node->reserved || i >= next || node->children != next ||
            next + node->n_children > trie->n || !children_ascend(trie, node))
            return text_damaged(error, "bad node of a trie", i);
        next += node->n_children;
        if (node->id != NO_TOKEN && node->id >= *id_bound)
            *id_bound = node->id + 1;
    }
    return trie->n == 0 || next == trie->n
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_DAMAGED, "nodes of a trie without a parent");
}

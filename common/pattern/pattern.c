/* The tree of a pattern, see pattern.h; pattern_parse.c creates it. */
#include "common/pattern/pattern.h"

#include "common/memory.h"

enum { MAX_NODES = 1 << 16, MAX_SETS = 1 << 12 };

static bool is_nullable(const struct pattern *pattern, const struct pattern_node *node)
{
    const struct pattern_node *nodes = pattern->nodes;
    switch (node->kind) {
    case PATTERN_SET:
        return false;
    case PATTERN_CONCAT:
        return nodes[node->left].nullable && nodes[node->right].nullable;
    case PATTERN_CHOICE:
        return nodes[node->left].nullable || nodes[node->right].nullable;
    case PATTERN_REPEAT:
        return node->min == 0 || nodes[node->left].nullable;
    case PATTERN_ATOMIC:
        return nodes[node->left].nullable;
    case PATTERN_EMPTY:
    case PATTERN_AHEAD:
    case PATTERN_LOOKBEHIND:
    case PATTERN_REST:
    case PATTERN_BEFORE:
        break;
    }
    return true;
}

static bool does_look(const struct pattern *pattern, const struct pattern_node *node)
{
    const struct pattern_node *nodes = pattern->nodes;
    switch (node->kind) {
    case PATTERN_EMPTY:
    case PATTERN_SET:
        return false;
    case PATTERN_CONCAT:
    case PATTERN_CHOICE:
        return nodes[node->left].looks || nodes[node->right].looks;
    case PATTERN_REPEAT:
    case PATTERN_ATOMIC:
        return nodes[node->left].looks;
    case PATTERN_AHEAD:
    case PATTERN_LOOKBEHIND:
    case PATTERN_REST:
    case PATTERN_BEFORE:
        break;
    }
    return true;
}

bool smol_pattern_add(struct pattern *pattern, struct pattern_node node, uint32_t *index)
{
    if (pattern->n_nodes == MAX_NODES)
        return false;
    if (!GROW(pattern->nodes, pattern->n_nodes, &pattern->nodes_capacity)) {
        pattern->no_memory = true;
        return false;
    }
    node.nullable = is_nullable(pattern, &node);
    node.looks = does_look(pattern, &node);
    pattern->nodes[pattern->n_nodes] = node;
    *index = (uint32_t)pattern->n_nodes++;
    return true;
}

bool smol_pattern_add_set(struct pattern *pattern, struct code_set *set, uint32_t *index)
{
    size_t i = 0;
    while (i < pattern->n_sets && !smol_set_equal(&pattern->sets[i], set))
        i++;
    *index = (uint32_t)i;
    pattern->no_memory |= set->no_memory;
    bool fits = i < MAX_SETS && !set->failed;
    if (fits && !GROW(pattern->sets, pattern->n_sets, &pattern->sets_capacity)) {
        pattern->no_memory = true;
        fits = false;
    }
    if (!fits || i < pattern->n_sets) {
        smol_set_free(set);
        return fits;
    }
    pattern->sets[pattern->n_sets++] = *set;
    *set = (struct code_set){0};
    return true;
}

void smol_pattern_free(struct pattern *pattern)
{
    for (size_t i = 0; i < pattern->n_sets; i++)
        smol_set_free(&pattern->sets[i]);
    smol_free(pattern->sets);
    smol_free(pattern->nodes);
    *pattern = (struct pattern){0};
}

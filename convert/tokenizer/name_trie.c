/* Builds a trie, see text_tables.h: level by level from the sorted names, so that the children of a
 * node lie side by side. */
#include "convert/tokenizer/text_tables.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/text.h"
#include "convert/tokenizer/json_part.h"

enum { MAX_NAME_NODES = 5 << 20 }; /* of 12 bytes: they fit into the front of a blob */

struct name {
    struct json_text text;
    uint32_t id;
};

static int compare_names(const void *left, const void *right)
{
    const struct json_text *a = &((const struct name *)left)->text;
    const struct json_text *b = &((const struct name *)right)->text;
    return compare_texts(a->data, a->size, b->data, b->size);
}

/* Lists the names in order. Returns NULL if out of memory. */
static struct name *sorted_names(const json_t *vocab, size_t *n)
{
    json_t *object = (json_t *)(uintptr_t)vocab; /* iterators are declared without const */
    struct name *names = calloc(json_object_size(vocab) + 1, sizeof *names);
    *n = 0;
    if (!names)
        return NULL;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        struct json_text text = {json_object_iter_key(i), json_object_iter_key_len(i)};
        uint32_t id = (uint32_t)json_integer_value(json_object_iter_value(i));
        if (text.size > 0)
            names[(*n)++] = (struct name){text, id};
    }
    qsort(names, *n, sizeof *names, compare_names);
    return names;
}

/* A node to be expanded: the names [first, end) start with its string, of `depth` bytes. */
struct open_node {
    size_t first, end, depth;
};

/* The nodes under construction: struct name_node and struct open_node, side by side. */
struct name_builder {
    const struct name *names;
    struct buffer nodes, open;
};

static void add_node(struct name_builder *b, uint8_t byte, struct open_node open)
{
    struct name_node node = {.id = NO_TOKEN, .byte = byte};
    smol_buffer_add(&b->nodes, (const char *)&node, sizeof node);
    smol_buffer_add(&b->open, (const char *)&open, sizeof open);
}

/* Adds the children of node number i. Its own name is the first of those that start with it. */
static void expand(struct name_builder *b, size_t i)
{
    struct open_node open = ((const struct open_node *)(const void *)b->open.text)[i];
    struct name_node node = ((const struct name_node *)(const void *)b->nodes.text)[i];
    size_t at = open.first;
    if (open.depth > 0 && b->names[at].text.size == open.depth)
        node.id = b->names[at++].id;
    node.children = (uint32_t)(b->nodes.size / sizeof node);
    while (at < open.end) {
        size_t first = at;
        char byte = b->names[at].text.data[open.depth];
        while (at < open.end && b->names[at].text.data[open.depth] == byte)
            at++;
        add_node(b, (uint8_t)byte, (struct open_node){first, at, open.depth + 1});
        node.n_children++;
    }
    if (!b->nodes.failed)
        ((struct name_node *)(void *)b->nodes.text)[i] = node;
}

smol_status smol_name_trie_build(const json_t *vocab, const char *path, struct name_array *trie,
                                 smol_error *error)
{
    size_t n_names, n = 0;
    struct name *names = sorted_names(vocab, &n_names);
    struct name_builder b = {.names = names};
    add_node(&b, 0, (struct open_node){0, n_names, 0});
    for (; names && n * sizeof *trie->nodes < b.nodes.size && n <= MAX_NAME_NODES; n++)
        if (!b.nodes.failed && !b.open.failed)
            expand(&b, n);
    bool failed = !names || b.nodes.failed || b.open.failed;
    free(names);
    free(b.open.text);
    trie->nodes = (struct name_node *)(void *)b.nodes.text;
    trie->n = (uint32_t)(b.nodes.size / sizeof *trie->nodes);
    if (failed)
        return smol_fail_memory(error, "names");
    return n <= MAX_NAME_NODES ? SMOL_OK
                               : smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                                           "%s: the names of its tokens are too long in all: use "
                                           "another model",
                                           path);
}

/* A JSON text as a tree in an arena: for schemas, which refer to their own parts. Numbers keep
 * their text, so nothing is rounded. The text is untrusted. */
#ifndef SMOL_RUNTIME_JSON_TREE_H
#define SMOL_RUNTIME_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Memory that is freed as a whole; all zeros if empty. */
struct arena {
    struct arena_block *blocks;
    size_t left;  /* bytes that remain in the first block */
    size_t total; /* bytes in all blocks */
    bool failed;  /* memory or the limit ran out */
};

enum { ARENA_LIMIT = 256 << 20 /* bytes */ };

/* Returns `size` bytes of zeros, aligned for any type here, or NULL and sets arena->failed. */
void *smol_arena_take(struct arena *arena, size_t size);
void smol_arena_free(struct arena *arena);

enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_LIST,
    JSON_OBJECT
};

struct json_text {
    const char *at; /* (size), UTF-8, may contain NUL */
    size_t size;
};

struct json_node {
    uint8_t kind, word;    /* word: for the user of the tree, 0 at first */
    uint16_t digest;       /* of a number's value */
    uint32_t n;            /* elements or members */
    struct json_text text; /* a number as written, a string decoded */
    struct json_text key;  /* of a member of an object, decoded */
    const struct json_node *parent, *first, *next;
    const struct json_node **sorted; /* (n) the members of a large object by key, or NULL */
    const struct json_node *link;    /* for the user of the tree, NULL at first */
};

static inline bool json_text_equal(struct json_text a, struct json_text b)
{
    return a.size == b.size && (a.size == 0 || __builtin_memcmp(a.at, b.at, a.size) == 0);
}

static inline bool json_text_is(struct json_text a, const char *b)
{
    return a.size == __builtin_strlen(b) && __builtin_memcmp(a.at, b, a.size) == 0;
}

/* Reads text[0..size) into *root. `name` begins messages. Names that appear twice in an object, and
 * more than 125 nested values, are errors. Errors: SMOL_ERROR_USAGE, SMOL_ERROR_MEMORY. */
smol_status smol_json_tree(struct arena *arena, const char *name, const char *text, size_t size,
                           struct json_node **root, smol_error *error);

/* Returns the member of an object, or NULL, also if node is NULL or no object. */
const struct json_node *smol_json_find(const struct json_node *node, struct json_text key);
const struct json_node *smol_json_get(const struct json_node *node, const char *key);

/* Returns whether an object has `key` with the value true. */
bool smol_json_has_true(const struct json_node *node, const char *key);

/* Returns the first element or member, or NULL, also if node is NULL. */
static inline const struct json_node *json_first(const struct json_node *node)
{
    return node ? node->first : NULL;
}

/* Returns whether the values are equal: numbers by value, objects in any order. Adds the number of
 * values that it looked at to *steps, long texts several times. */
bool smol_json_equal(const struct json_node *a, const struct json_node *b, size_t *steps);

#endif

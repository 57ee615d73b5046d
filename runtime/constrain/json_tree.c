/* The tree of a JSON text, see json_tree.h. */
#include "runtime/constrain/json_tree.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/json_reader.h"
#include "common/memory.h"
#include "runtime/constrain/decimal.h"

/* --- arena -------------------------------------------------------------------------------- */

struct arena_block {
    struct arena_block *next;
    size_t size;
    _Alignas(16) char memory[];
};

enum { BLOCK_SIZE = 1 << 16, LARGE_OBJECT = 8 /* members */ };

void *smol_arena_take(struct arena *arena, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (arena->failed || size > ARENA_LIMIT) {
        arena->failed = true;
        return NULL;
    }
    if (size > arena->left) {
        size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
        struct arena_block *block =
            arena->total + room > ARENA_LIMIT ? NULL : smol_malloc(sizeof *block + room);
        if (!block) {
            arena->failed = true;
            return NULL;
        }
        block->next = arena->blocks, block->size = room;
        arena->blocks = block;
        arena->left = room;
        arena->total += room;
    }
    void *taken = arena->blocks->memory + arena->blocks->size - arena->left;
    arena->left -= size;
    return memset(taken, 0, size);
}

void smol_arena_free(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        smol_free(arena->blocks);
        arena->blocks = next;
    }
    *arena = (struct arena){0};
}

/* --- members ------------------------------------------------------------------------------ */

static int compare_texts(struct json_text a, struct json_text b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.at, b.at, common) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_keys(const void *a, const void *b)
{
    const struct json_node *const *first = a, *const *second = b;
    return compare_texts((*first)->key, (*second)->key);
}

const struct json_node *smol_json_find(const struct json_node *node, struct json_text key)
{
    if (!node || node->kind != JSON_OBJECT)
        return NULL;
    if (node->sorted) {
        struct json_node wanted = {.key = key}, *pointer = &wanted;
        const struct json_node **found =
            bsearch(&pointer, node->sorted, node->n, sizeof pointer, compare_keys);
        return found ? *found : NULL;
    }
    const struct json_node *member = node->first;
    while (member && !json_text_equal(member->key, key))
        member = member->next;
    return member;
}

const struct json_node *smol_json_get(const struct json_node *node, const char *key)
{
    return smol_json_find(node, (struct json_text){key, strlen(key)});
}

bool smol_json_has_true(const struct json_node *node, const char *key)
{
    const struct json_node *value = smol_json_get(node, key);
    return value && value->kind == JSON_TRUE;
}

/* Returns a key that appears twice in an object, or NULL. Sorts the members of large objects. */
static const struct json_node *find_double(struct arena *arena, struct json_node *object)
{
    if (object->n <= LARGE_OBJECT) {
        for (const struct json_node *a = object->first; a; a = a->next)
            for (const struct json_node *b = a->next; b; b = b->next)
                if (json_text_equal(a->key, b->key))
                    return b;
        return NULL;
    }
    object->sorted = smol_arena_take(arena, object->n * sizeof *object->sorted);
    if (!object->sorted)
        return NULL;
    size_t n = 0;
    for (const struct json_node *member = object->first; member; member = member->next)
        object->sorted[n++] = member;
    qsort(object->sorted, n, sizeof *object->sorted, compare_keys);
    for (size_t i = 1; i < n; i++)
        if (json_text_equal(object->sorted[i - 1]->key, object->sorted[i]->key))
            return object->sorted[i];
    return NULL;
}

/* --- reading ------------------------------------------------------------------------------ */

struct tree_reader {
    struct json_reader json;
    struct arena *arena;
    char *strings; /* decoded strings are shorter than the text */
};

static smol_status read_text(struct tree_reader *reader, struct json_text *text, bool key)
{
    text->at = reader->strings;
    smol_status status = key ? smol_json_name(&reader->json, reader->strings, &text->size)
                             : smol_json_string(&reader->json, reader->strings, &text->size);
    if (!status)
        reader->strings += text->size + 1;
    return status;
}

static smol_status read_scalar(struct tree_reader *reader, struct json_node *node)
{
    static const char words[][6] = {"null", "false", "true"};
    struct json_number number = {0};
    struct decimal value;
    int c = smol_json_peek(&reader->json);
    if (c == '"') {
        node->kind = JSON_STRING;
        return read_text(reader, &node->text, false);
    }
    for (unsigned i = 0; i < 3; i++) {
        if (smol_json_word(&reader->json, words[i])) {
            node->kind = (uint8_t)(JSON_NULL + i);
            return SMOL_OK;
        }
    }
    node->kind = JSON_NUMBER;
    smol_status status = smol_json_number(&reader->json, &number);
    node->text = (struct json_text){(const char *)number.text, number.size};
    if (status)
        return status;
    smol_decimal_read(node->text, &value);
    node->digest = (uint16_t)(smol_digest(value.digits, value.n) + (uint32_t)value.point);
    return SMOL_OK;
}

/* Reads a value and what is in it. Recursion ends at JSON_MAX_NESTING. */
static smol_status read_value(struct tree_reader *reader, struct json_node *node, unsigned depth)
{
    int c = smol_json_peek(&reader->json);
    if (c != '[' && c != '{')
        return read_scalar(reader, node);
    if (depth == JSON_MAX_NESTING)
        return smol_json_fail(&reader->json, "nested too deeply");
    bool more;
    const struct json_node **end = &node->first;
    node->kind = c == '[' ? JSON_LIST : JSON_OBJECT;
    smol_status status = smol_json_begin(&reader->json, (char)c, &more);
    while (!status && more) {
        struct json_node *child = smol_arena_take(reader->arena, sizeof *child);
        if (!child)
            return smol_fail_memory(reader->json.error, "a schema");
        child->parent = node;
        if (c == '{')
            status = read_text(reader, &child->key, true);
        if (!status)
            status = read_value(reader, child, depth + 1);
        if (!status)
            status = smol_json_more(&reader->json, c == '[' ? ']' : '}', &more);
        *end = child, end = (const struct json_node **)&child->next;
        node->n++;
    }
    const struct json_node *twice = !status && c == '{' ? find_double(reader->arena, node) : NULL;
    if (twice)
        return smol_fail(reader->json.error, reader->json.status,
                         "%s: the name \"%.*s\" appears twice in an object", reader->json.name,
                         (int)(twice->key.size < 80 ? twice->key.size : 80), twice->key.at);
    return status;
}

smol_status smol_json_tree(struct arena *arena, const char *name, const char *text, size_t size,
                           struct json_node **root, smol_error *error)
{
    const uint8_t *bytes = (const uint8_t *)text;
    struct tree_reader reader = {
        .json = {bytes, bytes, bytes + size, name, "not JSON", "", SMOL_ERROR_USAGE, error},
        .arena = arena,
        .strings = smol_arena_take(arena, size + 1),
    };
    *root = smol_arena_take(arena, sizeof **root);
    if (!reader.strings || !*root)
        return smol_fail_memory(error, "a schema");
    smol_status status = smol_json_check_utf8(&reader.json);
    if (!status)
        status = read_value(&reader, *root, 0);
    if (!status)
        status = smol_json_end(&reader.json);
    return status ? status : arena->failed ? smol_fail_memory(error, "a schema") : SMOL_OK;
}

/* --- equality ----------------------------------------------------------------------------- */

bool smol_json_equal(const struct json_node *a, const struct json_node *b, size_t *steps)
{
    *steps += 1 + a->text.size / 64;
    if (a->kind != b->kind || a->n != b->n || a->digest != b->digest)
        return false;
    if (a->kind == JSON_STRING)
        return json_text_equal(a->text, b->text);
    if (a->kind == JSON_NUMBER)
        return smol_decimal_compare_texts(a->text, b->text) == 0;
    const struct json_node *other = b->first;
    for (const struct json_node *child = a->first; child; child = child->next) {
        const struct json_node *match =
            a->kind == JSON_OBJECT ? smol_json_find(b, child->key) : other;
        if (!match || !smol_json_equal(child, match, steps))
            return false;
        other = other ? other->next : NULL;
    }
    return true;
}

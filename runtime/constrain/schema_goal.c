/* Goals, and the references of schemas, see schema_compiler.h. */
#include <string.h>

#include "runtime/constrain/schema_compiler.h"

enum { SCHEMA_MAX_LINKS = 64 /* references to references */, URI_SIZE = 1024 };

/* --- goals -------------------------------------------------------------------------------- */

/* Returns the $ref of a schema that has no other keyword, or NULL. Sets *nothing to whether it has
 * no keyword at all. */
static const struct json_node *only_reference(struct compiler *c, const struct json_node *schema,
                                              bool *nothing)
{
    const struct json_node *ref = smol_json_get(schema, "$ref");
    *nothing = false;
    if (ref && ref->kind == JSON_STRING && c->draft <= DRAFT_7)
        return ref; /* the older drafts ignore what is beside it */
    ref = NULL;
    *nothing = true;
    for (const struct json_node *member = schema->first; member; member = member->next) {
        enum word word = smol_schema_word(c, member);
        if (word == WORD_NONE)
            continue;
        if (word != WORD_REF || member->kind != JSON_STRING) {
            *nothing = false;
            return NULL;
        }
        ref = member;
    }
    *nothing = !ref;
    return ref;
}

void smol_schema_add(struct compiler *c, struct goal_builder *builder,
                     const struct json_node *schema, bool negative)
{
    bool nothing = false;
    for (unsigned i = 0; schema && schema->kind == JSON_OBJECT; i++) {
        const struct json_node *ref = only_reference(c, schema, &nothing);
        if (!ref || i == SCHEMA_MAX_LINKS)
            break;
        schema = smol_schema_target(c, ref);
    }
    if (!schema || !smol_schema_work(c, schema))
        return;
    if (schema->kind == JSON_TRUE || schema->kind == JSON_FALSE || nothing) {
        if ((schema->kind == JSON_FALSE) != negative)
            builder->never = true;
        return;
    }
    if (schema->kind != JSON_OBJECT) {
        smol_schema_wrong(c, schema, "must be a schema: an object, true or false");
        return;
    }
    for (size_t i = 0; i < builder->n; i++) {
        if (builder->parts[i].schema == schema) {
            builder->never |= builder->parts[i].negative != negative;
            return;
        }
    }
    if (builder->n == SCHEMA_MAX_PARTS)
        smol_schema_fail(c, schema, "too many schemas apply to one value");
    else
        builder->parts[builder->n++] = (struct part){schema, negative};
}

const struct goal *smol_schema_goal(struct compiler *c, const struct goal_builder *builder)
{
    uint64_t hash = 0;
    if (builder->never || c->status)
        return NULL;
    for (size_t i = 0; i < builder->n; i++) {
        hash ^= (uint64_t)(uintptr_t)builder->parts[i].schema + builder->parts[i].negative;
        hash *= 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    struct goal **bucket = &c->goals[hash % N_BUCKETS];
    for (struct goal *goal = *bucket; goal; goal = goal->next) {
        bool same = goal->hash == hash && goal->n == builder->n;
        for (size_t i = 0; same && i < goal->n; i++)
            same = goal->parts[i].schema == builder->parts[i].schema &&
                   goal->parts[i].negative == builder->parts[i].negative;
        if (same)
            return goal;
    }
    struct goal *goal = smol_schema_take(c, sizeof *goal);
    struct part *parts = smol_schema_take(c, builder->n * sizeof *parts);
    if (!goal || !parts)
        return NULL;
    memcpy(parts, builder->parts, builder->n * sizeof *parts);
    goal->hash = hash, goal->n = (uint32_t)builder->n, goal->parts = parts;
    goal->next = *bucket;
    *bucket = goal;
    return goal;
}

/* --- addresses ---------------------------------------------------------------------------- */

struct uri {
    char at[URI_SIZE];
    size_t size;
    bool failed; /* too long */
};

static void uri_add(struct uri *uri, const char *text, size_t size)
{
    uri->failed |= size > URI_SIZE - uri->size;
    if (uri->failed)
        return;
    memcpy(uri->at + uri->size, text, size);
    uri->size += size;
}

/* Returns the length of "scheme:" or 0. */
static size_t scheme_of(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char lower = text[i] | 0x20;
        if (text[i] == ':')
            return i ? i + 1 : 0;
        if (!(lower >= 'a' && lower <= 'z') &&
            (i == 0 || !strchr("0123456789+-.", text[i]) || text[i] == '\0'))
            return 0;
    }
    return 0;
}

/* Returns the length of what comes before the path. */
static size_t before_path(const struct uri *uri)
{
    size_t at = scheme_of(uri->at, uri->size);
    if (uri->size - at >= 2 && memcmp(uri->at + at, "//", 2) == 0)
        for (at += 2; at < uri->size && uri->at[at] != '/';)
            at++;
    return at;
}

/* Removes "." and ".." from the path, which starts at `start`. */
static void remove_dots(struct uri *uri, size_t start)
{
    size_t out = start;
    for (size_t i = start; i < uri->size;) {
        size_t end = i + 1;
        while (end < uri->size && uri->at[end] != '/')
            end++;
        size_t n = end - i; /* "/segment" */
        bool dot = n == 2 && memcmp(uri->at + i, "/.", 2) == 0;
        bool dots = n == 3 && memcmp(uri->at + i, "/..", 3) == 0;
        if (dots)
            while (out > start && uri->at[--out] != '/')
                continue;
        if (!dot && !dots) {
            memmove(uri->at + out, uri->at + i, n);
            out += n;
        } else if (end == uri->size) {
            uri->at[out++] = '/';
        }
        i = end;
    }
    uri->size = out;
}

/* Sets *base to the address of text[0..size), which has no fragment, relative to *base. */
static void resolve(struct uri *base, const char *text, size_t size)
{
    struct uri out = {.size = 0};
    size_t path = before_path(base), scheme = scheme_of(base->at, base->size);
    if (size == 0)
        return;
    if (scheme_of(text, size)) {
        uri_add(&out, text, size);
    } else if (size >= 2 && memcmp(text, "//", 2) == 0) {
        uri_add(&out, base->at, scheme);
        uri_add(&out, text, size);
    } else if (text[0] == '/') {
        uri_add(&out, base->at, path);
        uri_add(&out, text, size);
    } else {
        size_t end = base->size;
        while (end > path && base->at[end - 1] != '/')
            end--;
        uri_add(&out, base->at, end);
        if (end == path && path > scheme)
            uri_add(&out, "/", 1);
        uri_add(&out, text, size);
    }
    out.failed |= base->failed;
    if (!out.failed)
        remove_dots(&out, before_path(&out));
    *base = out;
}

/* Returns the length of text before its fragment. */
static size_t before_fragment(struct json_text text)
{
    const char *hash = text.size ? memchr(text.at, '#', text.size) : NULL;
    return hash ? (size_t)(hash - text.at) : text.size;
}

/* Returns the $id of a schema if it changes the base, or NULL. */
static const struct json_node *own_id(struct compiler *c, const struct json_node *node)
{
    const struct json_node *id = smol_json_get(node, c->draft <= DRAFT_4 ? "id" : "$id");
    if (!id || id->kind != JSON_STRING || before_fragment(id->text) == 0)
        return NULL;
    if (c->draft <= DRAFT_7 && smol_json_get(node, "$ref"))
        return NULL;
    return id;
}

/* Sets *uri to the base address within a node. */
static void base_of(struct compiler *c, const struct json_node *node, struct uri *uri)
{
    const struct json_node *ids[130];
    size_t n = 0;
    for (; node && n < 130; node = node->parent) {
        ids[n] = own_id(c, node);
        n += ids[n] != NULL;
    }
    uri->size = 0, uri->failed = false;
    while (n-- > 0)
        resolve(uri, ids[n]->text.at, before_fragment(ids[n]->text));
}

/* --- looking up --------------------------------------------------------------------------- */

/* Takes the next token of a JSON pointer that may be percent-encoded. Returns its size. */
static size_t read_token(const char **at, const char *end, char *out)
{
    size_t n = 0;
    for (; *at < end && **at != '/'; (*at)++) {
        char byte = **at;
        if (byte == '%' && end - *at > 2) {
            static const char digits[] = "0123456789abcdef";
            const char *high = strchr(digits, (*at)[1] | 0x20),
                       *low = strchr(digits, (*at)[2] | 0x20);
            /* '0' | 0x20 is '0', and no other character becomes a digit */
            if (high && low && *high && *low) {
                byte = (char)((high - digits) << 4 | (low - digits));
                *at += 2;
            }
        }
        out[n++] = byte;
    }
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        bool escape = out[i] == '~' && i + 1 < n && (out[i + 1] == '0' || out[i + 1] == '1');
        out[size++] = escape ? "~/"[out[i + 1] - '0'] : out[i];
        i += escape;
    }
    return size;
}

static const struct json_node *child_number(const struct json_node *list, const char *text,
                                            size_t size)
{
    size_t index = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || i > 8)
            return NULL;
        index = index * 10 + (size_t)(text[i] - '0');
    }
    const struct json_node *child = size ? list->first : NULL;
    while (child && index--)
        child = child->next;
    return child;
}

/* Follows the JSON pointer text[0..size), "" or "/...". */
static const struct json_node *follow(const struct json_node *node, const char *text, size_t size)
{
    char token[URI_SIZE];
    const char *at = text, *end = text + size;
    if (size >= URI_SIZE)
        return NULL;
    while (node && at < end) {
        at++;
        size_t n = read_token(&at, end, token);
        node = node->kind == JSON_LIST ? child_number(node, token, n)
                                       : smol_json_find(node, (struct json_text){token, n});
    }
    return node;
}

/* Returns whether a schema has this anchor. */
static bool has_anchor(struct compiler *c, const struct json_node *node, struct json_text anchor)
{
    static const char *const names[] = {"$anchor", "$dynamicAnchor"};
    for (size_t i = 0; i < 2; i++) {
        const struct json_node *own = smol_json_get(node, names[i]);
        if (own && own->kind == JSON_STRING && json_text_equal(own->text, anchor))
            return true;
    }
    const struct json_node *id = smol_json_get(node, c->draft <= DRAFT_4 ? "id" : "$id");
    return id && id->kind == JSON_STRING && id->text.size == anchor.size + 1 &&
           id->text.at[0] == '#' && memcmp(id->text.at + 1, anchor.at, anchor.size) == 0;
}

/* Returns whether the member of a schema holds data and no schemas. */
static bool is_data(const struct json_node *node)
{
    const struct json_node *owner = node->parent;
    bool named = owner && owner->parent && owner->kind == JSON_OBJECT &&
                 (json_text_is(owner->key, "properties") || json_text_is(owner->key, "$defs") ||
                  json_text_is(owner->key, "definitions"));
    return !named && (json_text_is(node->key, "const") || json_text_is(node->key, "enum") ||
                      json_text_is(node->key, "default") || json_text_is(node->key, "examples"));
}

/* Returns the next node in the order of the text. */
static const struct json_node *next_node(const struct json_node *node, const struct json_node *root)
{
    if (node->first && !is_data(node))
        return node->first;
    while (node != root && !node->next)
        node = node->parent;
    return node == root ? NULL : node->next;
}

/* Returns the resource with this address, and this anchor if it has a size. */
static const struct json_node *find_resource(struct compiler *c, const struct uri *uri,
                                             struct json_text anchor)
{
    for (const struct json_node *node = c->root; node; node = next_node(node, c->root)) {
        struct uri own;
        bool candidate =
            anchor.size ? has_anchor(c, node, anchor) : node == c->root || own_id(c, node);
        if (node->kind != JSON_OBJECT || !candidate || !smol_schema_work(c, node))
            continue;
        base_of(c, node, &own);
        if (!own.failed && own.size == uri->size && memcmp(own.at, uri->at, own.size) == 0)
            return node;
    }
    return NULL;
}

/* Counts the schemas with a dynamic anchor: with one, a dynamic reference is a static one. */
static size_t count_dynamic(struct compiler *c, const char *keyword, const struct json_text *name)
{
    size_t n = 0;
    for (const struct json_node *node = c->root; node; node = next_node(node, c->root)) {
        const struct json_node *own = smol_json_get(node, keyword);
        n += own && (!name || (own->kind == JSON_STRING && json_text_equal(own->text, *name)));
    }
    return n;
}

static const struct json_node *find_target(struct compiler *c, const struct json_node *ref)
{
    size_t n = before_fragment(ref->text);
    const char *fragment = ref->text.at + n + 1;
    size_t size = n < ref->text.size ? ref->text.size - n - 1 : 0;
    const struct json_node *resource = NULL;
    struct uri uri;
    bool pointer = size == 0 || fragment[0] == '/';
    if (n == 0 && pointer) { /* within the resource that the reference is in */
        resource = ref->parent;
        while (resource->parent && !(resource->kind == JSON_OBJECT && own_id(c, resource)))
            resource = resource->parent;
        return follow(resource, fragment, size);
    }
    base_of(c, ref->parent, &uri);
    resolve(&uri, ref->text.at, n);
    if (uri.failed)
        return NULL;
    if (!pointer)
        return find_resource(c, &uri, (struct json_text){fragment, size});
    resource = find_resource(c, &uri, (struct json_text){NULL, 0});
    return follow(resource, fragment, size);
}

const struct json_node *smol_schema_target(struct compiler *c, const struct json_node *ref)
{
    if (ref->link)
        return ref->link;
    if (ref->kind != JSON_STRING) {
        smol_schema_wrong(c, ref, "must be a string");
        return NULL;
    }
    size_t n = before_fragment(ref->text);
    struct json_text name = {ref->text.at + n + 1, n < ref->text.size ? ref->text.size - n - 1 : 0};
    enum word word = smol_schema_word(c, ref);
    if ((word == WORD_DYNAMIC_REF && count_dynamic(c, "$dynamicAnchor", &name) > 1) ||
        (word == WORD_RECURSIVE_REF && count_dynamic(c, "$recursiveAnchor", NULL) > 0 &&
         count_dynamic(c, "$id", NULL) > 1)) {
        smol_schema_fail(c, ref, "dynamic references to several schemas are not supported");
        return NULL;
    }
    const struct json_node *target = find_target(c, ref);
    if (!target)
        smol_schema_fail(c, ref, "the reference leads to nothing in this schema");
    ((struct json_node *)ref)->link = target;
    return target;
}

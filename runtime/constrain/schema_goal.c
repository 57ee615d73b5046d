/* Goals, and the references of schemas, see schema_compiler.h. */
#include <string.h>

#include "common/hash.h"
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

static const struct json_node *child_number(struct compiler *c, const struct json_node *list,
                                            const char *text, size_t size)
{
    size_t index = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || i > 8)
            return NULL;
        index = index * 10 + (size_t)(text[i] - '0');
    }
    const struct json_node *child = size ? list->first : NULL;
    if (!smol_schema_steps(c, list, index < list->n ? index : list->n))
        return NULL;
    while (child && index--)
        child = child->next;
    return child;
}

/* Follows the JSON pointer text[0..size), "" or "/...". */
static const struct json_node *follow(struct compiler *c, const struct json_node *node,
                                      const char *text, size_t size)
{
    char token[URI_SIZE];
    const char *at = text, *end = text + size;
    if (size >= URI_SIZE)
        return NULL;
    while (node && at < end) {
        at++;
        size_t n = read_token(&at, end, token);
        node = node->kind == JSON_LIST ? child_number(c, node, token, n)
                                       : smol_json_find(node, (struct json_text){token, n});
    }
    return node;
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

/* A target of references: a resource (the root, or a schema with its own address), an anchor in a
 * resource, or a name of dynamic anchors with their number. */
struct address {
    struct address *next; /* in its bucket */
    uint64_t hash;
    const struct json_node *node; /* NULL for a name */
    struct json_text anchor;      /* or the name; no size for a resource */
    size_t n;
};

struct addresses {
    struct address *buckets[N_BUCKETS];
    size_t n_ids, n_recursive; /* schemas with $id and $recursiveAnchor */
};

/* Returns the first resource with this base address, or anchor in it, if there is one; without a
 * base, a name of dynamic anchors. */
static struct address *find_address(struct compiler *c, uint64_t hash, const struct uri *base,
                                    struct json_text anchor)
{
    struct address *found = c->addresses->buckets[hash % N_BUCKETS];
    for (; found && smol_schema_steps(c, c->root, 1); found = found->next) {
        struct uri own;
        if (found->hash != hash || !json_text_equal(found->anchor, anchor) ||
            (found->node != NULL) != (base != NULL))
            continue;
        if (!base)
            return found;
        base_of(c, found->node, &own);
        if (own.size == base->size && memcmp(own.at, base->at, own.size) == 0)
            return found;
    }
    return NULL;
}

static uint64_t hash_address(const struct uri *base, struct json_text anchor)
{
    uint64_t hash = anchor.size ? smol_digest(anchor.at, anchor.size) : 0;
    return base ? hash * 0x9e3779b97f4a7c15u ^ smol_digest(base->at, base->size) : hash;
}

static void add_address(struct compiler *c, const struct uri *base, struct json_text anchor,
                        const struct json_node *node)
{
    uint64_t hash = hash_address(base, anchor);
    struct address *own = find_address(c, hash, base, anchor);
    if (!own && (own = smol_schema_take(c, sizeof *own))) {
        struct address **bucket = &c->addresses->buckets[hash % N_BUCKETS];
        *own = (struct address){*bucket, hash, node, anchor, 0};
        *bucket = own;
    }
    if (own)
        own->n++;
}

static bool is_text(const struct json_node *node)
{
    return node && node->kind == JSON_STRING && node->text.size > 0;
}

/* Adds the addresses of a schema. */
static void add_addresses_of(struct compiler *c, const struct json_node *node)
{
    const struct json_node *id = smol_json_get(node, c->draft <= DRAFT_4 ? "id" : "$id");
    const struct json_node *anchor = smol_json_get(node, "$anchor");
    const struct json_node *dynamic = smol_json_get(node, "$dynamicAnchor");
    bool resource = node == c->root || own_id(c, node);
    bool old = is_text(id) && id->text.at[0] == '#' && id->text.size > 1;
    struct uri base;
    c->addresses->n_ids += smol_json_get(node, "$id") != NULL;
    c->addresses->n_recursive += smol_json_get(node, "$recursiveAnchor") != NULL;
    if (!resource && !old && !is_text(anchor) && !is_text(dynamic))
        return;
    base_of(c, node, &base);
    if (is_text(dynamic))
        add_address(c, NULL, dynamic->text, NULL);
    if (base.failed || !smol_schema_work(c, node))
        return;
    if (resource)
        add_address(c, &base, (struct json_text){NULL, 0}, node);
    if (old)
        add_address(c, &base, (struct json_text){id->text.at + 1, id->text.size - 1}, node);
    if (is_text(anchor))
        add_address(c, &base, anchor->text, node);
    if (is_text(dynamic))
        add_address(c, &base, dynamic->text, node);
}

/* Lists the addresses when they are first needed. Returns whether there are any. */
static bool have_addresses(struct compiler *c)
{
    if (c->addresses || !(c->addresses = smol_schema_take(c, sizeof *c->addresses)))
        return c->addresses != NULL;
    for (const struct json_node *node = c->root; node; node = next_node(node, c->root))
        if (node->kind == JSON_OBJECT && !is_data(node))
            add_addresses_of(c, node);
    return true;
}

/* Returns the resource with this address, and this anchor if it has a size. */
static const struct json_node *find_resource(struct compiler *c, const struct uri *uri,
                                             struct json_text anchor)
{
    const struct address *found =
        have_addresses(c) ? find_address(c, hash_address(uri, anchor), uri, anchor) : NULL;
    return found ? found->node : NULL;
}

/* Returns whether a dynamic reference may lead to several schemas: to one, it is a static one. */
static bool is_dynamic(struct compiler *c, enum word word, struct json_text name)
{
    if ((word != WORD_DYNAMIC_REF && word != WORD_RECURSIVE_REF) || !have_addresses(c))
        return false;
    if (word == WORD_RECURSIVE_REF)
        return c->addresses->n_recursive > 0 && c->addresses->n_ids > 1;
    const struct address *anchors = find_address(c, hash_address(NULL, name), NULL, name);
    return anchors && anchors->n > 1;
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
        return follow(c, resource, fragment, size);
    }
    base_of(c, ref->parent, &uri);
    resolve(&uri, ref->text.at, n);
    if (uri.failed)
        return NULL;
    if (!pointer)
        return find_resource(c, &uri, (struct json_text){fragment, size});
    resource = find_resource(c, &uri, (struct json_text){NULL, 0});
    return follow(c, resource, fragment, size);
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
    if (is_dynamic(c, smol_schema_word(c, ref), name)) {
        smol_schema_fail(c, ref, "dynamic references to several schemas are not supported");
        return NULL;
    }
    const struct json_node *target = find_target(c, ref);
    if (!target)
        smol_schema_fail(c, ref, "the reference leads to nothing in this schema");
    ((struct json_node *)ref)->link = target;
    return target;
}

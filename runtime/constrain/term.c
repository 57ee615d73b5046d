/* Terms and their constructors, see term.h. */
#include "runtime/constrain/term.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "runtime/constrain/term_table.h"

term smol_term_fail(struct term_table *table, smol_status status, const char *reason)
{
    if (!table->status) {
        table->status = status;
        table->reason = reason;
    }
    return TERM_NOTHING;
}

bool smol_term_grow(struct term_table *table, void *items, size_t *capacity, size_t n, size_t size)
{
    bool grown = smol_grow(items, n, capacity, size);
    if (!grown)
        smol_term_fail(table, SMOL_ERROR_MEMORY, "out of memory");
    return grown;
}

/* --- interning ---------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static uint64_t hash_node(const struct term_table *table, const struct term_node *node)
{
    uint64_t hash = mix(node->kind, node->b);
    if (node->kind == KIND_LITERAL)
        for (uint32_t i = 0; i < node->b; i++)
            hash = mix(hash, table->bytes[node->a + i]);
    else if (node->kind == KIND_BYTES)
        for (size_t i = 0; i < 4; i++)
            hash = mix(hash, table->sets[node->a].bits[i]);
    else if (node->kind == KIND_ANY_OF || node->kind == KIND_ALL_OF)
        for (uint32_t i = 0; i < node->b; i++)
            hash = mix(hash, table->lists[node->a + i]);
    else
        hash = mix(mix(hash, node->a), node->c);
    return hash;
}

static bool equal(const struct term_table *table, const struct term_node *x,
                  const struct term_node *y)
{
    if (x->kind != y->kind || x->b != y->b || x->c != y->c)
        return false;
    if (x->kind == KIND_LITERAL)
        return memcmp(table->bytes + x->a, table->bytes + y->a, x->b) == 0;
    if (x->kind == KIND_BYTES)
        return memcmp(&table->sets[x->a], &table->sets[y->a], sizeof *table->sets) == 0;
    if (x->kind == KIND_ANY_OF || x->kind == KIND_ALL_OF)
        return memcmp(table->lists + x->a, table->lists + y->a, x->b * sizeof(term)) == 0;
    return x->a == y->a;
}

static void put_in_slot(struct term_table *table, uint32_t number)
{
    size_t mask = table->n_slots - 1;
    size_t i = (size_t)hash_node(table, &table->nodes[number]) & mask;
    while (table->slots[i])
        i = (i + 1) & mask;
    table->slots[i] = number;
}

/* Enlarges the nodes' arrays together: a failure leaves them as they are. */
static bool grow_nodes(struct term_table *table)
{
    size_t before = table->nodes_capacity, wanted = before ? 2 * before : 64;
    bool grown = RESIZE(table->row_of, wanted) && RESIZE(table->nodes, wanted);
    uint32_t *slots = grown ? smol_calloc(2 * wanted, sizeof *slots) : NULL;
    if (!slots) {
        smol_term_fail(table, SMOL_ERROR_MEMORY, "out of memory");
        return false;
    }
    memset(table->row_of + before, 0, (wanted - before) * sizeof *table->row_of);
    smol_free(table->slots);
    table->slots = slots;
    table->n_slots = 2 * wanted;
    table->nodes_capacity = wanted;
    for (size_t i = 1; i < table->n_nodes; i++)
        put_in_slot(table, (uint32_t)i);
    return true;
}

static bool make_room(struct term_table *table)
{
    if (table->n_nodes < table->nodes_capacity)
        return true;
    if (table->n_nodes >= TERM_MAX_NODES) {
        smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "it has too many states");
        return false;
    }
    return grow_nodes(table);
}

/* Returns YES if a term surely contains a text. */
static uint8_t has_text(const struct term_table *table, const struct term_node *node)
{
    bool literal = node->kind == KIND_LITERAL;
    if (node->kind == KIND_THEN)
        literal = table->nodes[node->a].known[HAS_TEXT] == YES &&
                  table->nodes[node->b].known[HAS_TEXT] == YES;
    return literal ? YES : UNKNOWN;
}

/* Returns the number of an equal node, or adds this one. */
static term intern(struct term_table *table, struct term_node node)
{
    if (table->status || !make_room(table))
        return TERM_NOTHING;
    size_t mask = table->n_slots - 1;
    size_t i = (size_t)hash_node(table, &node) & mask;
    for (; table->slots[i]; i = (i + 1) & mask)
        if (equal(table, &table->nodes[table->slots[i]], &node))
            return table->slots[i];
    node.known[MAY_END] = (uint8_t)smol_term_end_of(table, &node);
    node.known[HAS_TEXT] = has_text(table, &node);
    table->slots[i] = (uint32_t)table->n_nodes;
    table->nodes[table->n_nodes] = node;
    table->n_steps++;
    return (term)table->n_nodes++;
}

static const struct term_node *node_of(const struct term_table *table, term a)
{
    return &table->nodes[a];
}

/* --- leaves ------------------------------------------------------------------------------- */

term smol_term_bytes(struct term_table *table, const struct byte_set *set)
{
    const struct byte_set none = {{0}};
    if (memcmp(set, &none, sizeof none) == 0 || !TERM_ROOM(table, sets))
        return TERM_NOTHING;
    size_t before = table->n_nodes;
    table->sets[table->n_sets] = *set;
    term result = intern(
        table,
        (struct term_node){.kind = KIND_BYTES, .a = (uint32_t)table->n_sets, .regular = true});
    table->n_sets += table->n_nodes > before; /* or it was there already */
    return result;
}

/* Returns a literal of at most TERM_LITERAL_SIZE bytes. */
static term short_literal(struct term_table *table, const uint8_t *from, size_t n)
{
    size_t start = table->n_bytes;
    for (size_t i = 0; i < n; i++) {
        if (!TERM_ROOM(table, bytes))
            return TERM_NOTHING;
        table->bytes[table->n_bytes++] = from[i];
    }
    if (table->n_bytes > UINT32_MAX)
        return smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "its literals are too long");
    struct term_node node = {
        .kind = KIND_LITERAL, .a = (uint32_t)start, .b = (uint32_t)n, .regular = true};
    size_t before = table->n_nodes;
    term result = intern(table, node);
    if (table->n_nodes == before)
        table->n_bytes = start; /* it was there already */
    return result;
}

term smol_term_literal(struct term_table *table, const void *bytes, size_t n)
{
    const uint8_t *from = bytes;
    term result = TERM_EMPTY;
    for (size_t left = n; left > 0;) {
        size_t size = left < TERM_LITERAL_SIZE ? left : TERM_LITERAL_SIZE;
        left -= size;
        result = smol_term_then(table, short_literal(table, from + left, size), result);
    }
    return result;
}

term smol_term_rest(struct term_table *table, struct term_node literal)
{
    literal.a++;
    literal.b--;
    return literal.b ? intern(table, literal) : TERM_EMPTY;
}

term smol_term_rule(struct term_table *table)
{
    if (!TERM_ROOM(table, rules))
        return TERM_NOTHING;
    table->rules[table->n_rules] = (struct term_rule){.body = NO_BODY};
    return intern(table, (struct term_node){.kind = KIND_RULE, .a = (uint32_t)table->n_rules++});
}

void smol_term_define(struct term_table *table, term rule, term body)
{
    if (!table->status)
        table->rules[node_of(table, rule)->a].body = body;
}

/* --- compositions ------------------------------------------------------------------------- */

/* Sequences nest on the right, so that what is left of one is always its second part. */
term smol_term_then(struct term_table *table, term first, term second)
{
    size_t base = table->n_stack;
    if (first == TERM_NOTHING || second == TERM_NOTHING || table->status)
        return TERM_NOTHING;
    for (; node_of(table, first)->kind == KIND_THEN; first = node_of(table, first)->b)
        if (!smol_term_push(table, node_of(table, first)->a))
            return TERM_NOTHING;
    if (!smol_term_push(table, first))
        return TERM_NOTHING;
    while (table->n_stack > base) {
        first = table->stack[--table->n_stack];
        if (first == TERM_EMPTY)
            continue;
        bool regular = node_of(table, first)->regular && node_of(table, second)->regular;
        second = second == TERM_EMPTY
                     ? first
                     : intern(table,
                              (struct term_node){
                                  .kind = KIND_THEN, .a = first, .b = second, .regular = regular});
    }
    return second;
}

static int compare(const void *a, const void *b)
{
    term x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Sorts terms, mostly in order already, and removes repeated ones. Returns how many remain. */
static size_t sort_unique(term *terms, size_t n)
{
    size_t kept = 0, sorted = 1;
    while (sorted < n && terms[sorted - 1] <= terms[sorted])
        sorted++;
    if (n > 32 && sorted < n)
        qsort(terms, n, sizeof *terms, compare);
    for (size_t i = sorted; n <= 32 && i < n; i++)
        for (size_t k = i; k > 0 && terms[k - 1] > terms[k]; k--) {
            term swap = terms[k];
            terms[k] = terms[k - 1];
            terms[k - 1] = swap;
        }
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || terms[kept - 1] != terms[i])
            terms[kept++] = terms[i];
    return kept;
}

/* Replaces the lists among the terms from `base` on by their elements. */
static bool flatten(struct term_table *table, enum term_kind kind, size_t base)
{
    for (size_t i = base; i < table->n_stack; i++) {
        struct term_node node = *node_of(table, table->stack[i]);
        if (node.kind != kind)
            continue;
        table->stack[i] = table->lists[node.a];
        for (uint32_t k = 1; k < node.b; k++)
            if (!smol_term_push(table, table->lists[node.a + k]))
                return false;
    }
    return true;
}

static bool is_everything(const struct term_table *table, term a)
{
    return node_of(table, a)->kind == KIND_NOT && node_of(table, a)->a == TERM_NOTHING;
}

/* Removes terms that change nothing. Returns false if one term decides: *result. */
static bool simplify(struct term_table *table, enum term_kind kind, size_t base, term *result)
{
    size_t kept = base;
    for (size_t i = base; i < table->n_stack; i++) {
        term a = table->stack[i];
        bool nothing = a == TERM_NOTHING, everything = is_everything(table, a);
        *result = a;
        if (kind == KIND_ANY_OF ? everything : nothing)
            return false;
        if (kind == KIND_ANY_OF ? !nothing : !everything)
            table->stack[kept++] = a;
    }
    table->n_stack = kept;
    return true;
}

static term add_list(struct term_table *table, enum term_kind kind, const term *terms, size_t n)
{
    struct term_node node = {
        .kind = (uint8_t)kind, .a = (uint32_t)table->n_lists, .b = (uint32_t)n, .regular = true};
    size_t before = table->n_nodes;
    if (n > TERM_MAX_LISTS - table->n_lists)
        return smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "it has too many alternatives");
    for (size_t i = 0; i < n; i++) {
        if (!TERM_ROOM(table, lists))
            return TERM_NOTHING;
        table->lists[table->n_lists++] = terms[i];
        node.regular = node.regular && node_of(table, terms[i])->regular;
    }
    term result = intern(table, node);
    if (table->n_nodes == before)
        table->n_lists = node.a; /* it was there already */
    else
        table->n_steps += n; /* but not again: each slice of the work must get on */
    return result;
}

term smol_term_combine(struct term_table *table, enum term_kind kind, size_t base)
{
    term result = TERM_NOTHING;
    if (!table->status && flatten(table, kind, base) && simplify(table, kind, base, &result)) {
        size_t n =
            table->n_stack > base ? sort_unique(table->stack + base, table->n_stack - base) : 0;
        if (n == 0)
            result = kind == KIND_ANY_OF ? TERM_NOTHING : smol_term_not(table, TERM_NOTHING);
        else
            result = n == 1 ? table->stack[base] : add_list(table, kind, table->stack + base, n);
    }
    table->n_stack = base;
    return table->status ? TERM_NOTHING : result;
}

term smol_term_any_of(struct term_table *table, const term *terms, size_t n)
{
    size_t base = table->n_stack;
    for (size_t i = 0; i < n; i++)
        if (!smol_term_push(table, terms[i]))
            return TERM_NOTHING;
    return smol_term_combine(table, KIND_ANY_OF, base);
}

term smol_term_either(struct term_table *table, term a, term b)
{
    return smol_term_any_of(table, (const term[]){a, b}, 2);
}

term smol_term_optional(struct term_table *table, term a)
{
    return smol_term_either(table, a, TERM_EMPTY);
}

term smol_term_repeat(struct term_table *table, term a, uint32_t min, uint32_t max)
{
    if (min > max)
        return TERM_NOTHING;
    if (max == 0 || a == TERM_EMPTY || table->status)
        return table->status ? TERM_NOTHING : TERM_EMPTY;
    if (a == TERM_NOTHING)
        return min == 0 ? TERM_EMPTY : TERM_NOTHING;
    if (min == 1 && max == 1)
        return a;
    const struct term_node *node = node_of(table, a);
    if (node->kind == KIND_REPEAT && node->b == 0 && node->c == TERM_FOREVER)
        return a;
    return intern(table,
                  (struct term_node){
                      .kind = KIND_REPEAT, .a = a, .b = min, .c = max, .regular = node->regular});
}

term smol_term_not(struct term_table *table, term a)
{
    if (table->status)
        return TERM_NOTHING;
    if (node_of(table, a)->kind == KIND_NOT)
        return node_of(table, a)->a;
    return intern(table, (struct term_node){.kind = KIND_NOT, .a = a, .regular = true});
}

term smol_term_both(struct term_table *table, term a, term b)
{
    size_t base = table->n_stack;
    if (table->status || !smol_term_push(table, a) || !smol_term_push(table, b))
        return TERM_NOTHING;
    if (!node_of(table, a)->regular || !node_of(table, b)->regular) {
        table->n_stack = base;
        return smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "an intersection contains recursion");
    }
    return smol_term_combine(table, KIND_ALL_OF, base);
}

term smol_term_without(struct term_table *table, term a, term b)
{
    if (!table->status && !node_of(table, b)->regular)
        return smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "a difference contains recursion");
    return smol_term_both(table, a, smol_term_not(table, b));
}

term smol_term_unit(struct term_table *table, term a)
{
    if (table->status || a == TERM_NOTHING || a == TERM_EMPTY)
        return table->status ? TERM_NOTHING : a;
    const struct term_node *node = node_of(table, a);
    if (node->kind == KIND_UNIT)
        return a;
    return intern(table, (struct term_node){.kind = KIND_UNIT, .a = a, .regular = node->regular});
}

/* --- the table ---------------------------------------------------------------------------- */

smol_status smol_terms_create(struct term_table **table, smol_error *error)
{
    struct term_table *t = *table = smol_calloc(1, sizeof *t);
    if (!t)
        return smol_fail_memory(error, "a constraint");
    t->most_steps = UINT64_MAX;
    for (int kind = KIND_NOTHING; kind <= KIND_EMPTY && make_room(t); kind++)
        t->nodes[t->n_nodes++] = (struct term_node){
            .kind = (uint8_t)kind,
            .known = {kind == KIND_EMPTY ? YES : NO, kind == KIND_EMPTY ? YES : NO},
            .regular = true,
        };
    if (!t->status)
        return SMOL_OK;
    smol_terms_free(t);
    *table = NULL;
    return smol_fail_memory(error, "a constraint");
}

void smol_terms_free(struct term_table *table)
{
    if (!table)
        return;
    smol_free(table->nodes);
    smol_free(table->slots);
    smol_free(table->sets);
    smol_free(table->bytes);
    smol_free(table->lists);
    smol_free(table->rules);
    smol_free(table->stack);
    smol_free(table->row_of);
    smol_free(table->rows);
    smol_free(table);
}

size_t smol_terms_bytes(const struct term_table *t)
{
    return sizeof *t + t->nodes_capacity * (sizeof *t->nodes + sizeof *t->row_of) +
           t->n_slots * sizeof *t->slots + t->sets_capacity * sizeof *t->sets + t->bytes_capacity +
           t->lists_capacity * sizeof *t->lists + t->rules_capacity * sizeof *t->rules +
           t->stack_capacity * sizeof *t->stack + t->rows_capacity * t->n_classes * sizeof *t->rows;
}

size_t smol_terms_count(const struct term_table *table)
{
    return table->n_nodes;
}

void smol_terms_forget(struct term_table *table)
{
    table->n_nodes = table->settled.n_nodes;
    table->n_bytes = table->settled.n_bytes;
    table->n_lists = table->settled.n_lists;
    table->n_rows = table->n_stack = table->depth = table->n_searched = 0;
    memset(table->row_of, 0, table->nodes_capacity * sizeof *table->row_of);
    memset(table->slots, 0, table->n_slots * sizeof *table->slots);
    for (size_t i = 1; i < table->n_nodes; i++)
        put_in_slot(table, (uint32_t)i);
    table->status = SMOL_OK;
}

void smol_terms_limit(struct term_table *table, uint64_t n)
{
    table->most_steps = n < UINT64_MAX - table->n_steps ? table->n_steps + n : UINT64_MAX;
}

uint64_t smol_terms_steps(const struct term_table *table)
{
    return table->n_steps;
}

bool smol_terms_resume(struct term_table *table)
{
    if (table->status != SMOL_ERROR_CANCELLED)
        return false;
    table->status = SMOL_OK;
    table->n_stack = table->depth = 0;
    return true;
}

smol_status smol_terms_status(const struct term_table *table, smol_error *error)
{
    return table->status ? smol_fail(error, table->status, "the constraint: %s", table->reason)
                         : SMOL_OK;
}

/* Derivatives of terms, and whether terms contain any text. */
#include <string.h>

#include "common/memory.h"
#include "runtime/constrain/term_table.h"

static term find_after(struct term_table *table, term a, unsigned class);

/* Returns the derivative by the bytes of a class. */
static term after(struct term_table *table, term a, unsigned class)
{
    size_t row = table->row_of[a];
    term known = row ? table->rows[row * table->n_classes + class] : NOT_YET;
    return known == NOT_YET || table->status ? find_after(table, a, class) : known & ~ALIVE;
}

/* --- derivatives of each kind ---------------------------------------------------------------- */

/* The derivatives of the first part, then of the second if the first may be empty, and so on. */
static term after_then(struct term_table *table, struct term_node node, unsigned class)
{
    size_t base = table->n_stack;
    for (;;) {
        term first = after(table, node.a, class);
        if (!smol_term_push(table, smol_term_then(table, first, node.b)))
            return TERM_NOTHING;
        if (table->nodes[node.a].known[MAY_END] != YES)
            break;
        const struct term_node rest = table->nodes[node.b];
        if (rest.kind != KIND_THEN) {
            if (!smol_term_push(table, after(table, node.b, class)))
                return TERM_NOTHING;
            break;
        }
        node = rest;
    }
    return smol_term_combine(table, KIND_ANY_OF, base);
}

static term after_list(struct term_table *table, struct term_node node, unsigned class)
{
    size_t base = table->n_stack;
    for (uint32_t i = 0; i < node.b; i++) {
        term next = after(table, table->lists[node.a + i], class);
        if (next == TERM_NOTHING && node.kind == KIND_ANY_OF && !table->status)
            continue;
        if (!smol_term_push(table, next))
            return TERM_NOTHING;
    }
    table->n_steps += node.b; /* only now, so that what is new in a long list is found */
    return smol_term_combine(table, node.kind, base);
}

term smol_term_fewer(struct term_table *table, struct term_node repeat)
{
    uint32_t min = repeat.b ? repeat.b - 1 : 0;
    uint32_t max = repeat.c == TERM_FOREVER ? TERM_FOREVER : repeat.c - 1;
    if (table->nodes[repeat.a].known[MAY_END] == YES)
        min = 0; /* the others may be empty */
    return smol_term_repeat(table, repeat.a, min, max);
}

static term after_repeat(struct term_table *table, struct term_node node, unsigned class)
{
    return smol_term_then(table, after(table, node.a, class), smol_term_fewer(table, node));
}

static term after_leaf(struct term_table *table, struct term_node node, uint8_t byte)
{
    if (node.kind == KIND_BYTES)
        return byte_set_has(&table->sets[node.a], byte) ? TERM_EMPTY : TERM_NOTHING;
    if (node.kind != KIND_LITERAL || table->bytes[node.a] != byte)
        return TERM_NOTHING;
    return smol_term_rest(table, node);
}

static term compute(struct term_table *table, term a, unsigned class)
{
    const struct term_node node = table->nodes[a];
    switch (node.kind) {
    case KIND_THEN:
        return after_then(table, node, class);
    case KIND_REPEAT:
        return after_repeat(table, node, class);
    case KIND_ANY_OF:
    case KIND_ALL_OF:
        return after_list(table, node, class);
    case KIND_NOT:
        return smol_term_not(table, after(table, node.a, class));
    case KIND_UNIT:
        return smol_term_unit(table, after(table, node.a, class));
    case KIND_RULE:
        return after(table, table->rules[node.a].body, class);
    default:
        return after_leaf(table, node, table->of_class[class]);
    }
}

/* --- rows ----------------------------------------------------------------------------------- */

/* Returns the row of a node, made of NOT_YET at first, or 0 after an error. Row 0 is unused. */
static size_t row_of(struct term_table *table, term a)
{
    size_t n = table->n_classes;
    if (table->row_of[a])
        return table->row_of[a];
    if (table->n_rows == 0)
        table->n_rows = 1;
    if (table->n_rows >= table->rows_capacity) {
        size_t wanted = table->rows_capacity ? 2 * table->rows_capacity : 64;
        if (wanted * n * sizeof *table->rows > TERM_MAX_BYTES)
            return smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "its states need too much memory");
        if (!smol_resize(&table->rows, wanted, n * sizeof *table->rows))
            return smol_term_fail(table, SMOL_ERROR_MEMORY, "out of memory");
        table->rows_capacity = wanted;
    }
    memset(table->rows + table->n_rows * n, 0xff, n * sizeof *table->rows);
    table->row_of[a] = (uint32_t)table->n_rows;
    return table->n_rows++;
}

/* Does what `after` does for a term that has not been asked before. */
static term find_after(struct term_table *table, term a, unsigned class)
{
    if (table->status || a <= TERM_EMPTY)
        return TERM_NOTHING;
    uint8_t kind = table->nodes[a].kind;
    if (kind == KIND_BYTES || kind == KIND_LITERAL)
        return after_leaf(table, table->nodes[a], table->of_class[class]);
    if (table->n_steps++ >= table->most_steps)
        return smol_term_fail(table, SMOL_ERROR_CANCELLED, "its work was interrupted");
    size_t row = row_of(table, a), n = table->n_classes;
    if (row == 0)
        return TERM_NOTHING;
    if (table->depth >= TERM_MAX_DEPTH)
        return smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "it is nested too deeply");
    table->depth++;
    term result = compute(table, a, class);
    table->depth--;
    if (!table->status)
        table->rows[row * n + class] = result;
    return result;
}

/* --- which terms contain any text --------------------------------------------------------------
 */

enum { SEARCHED_STEPS = 8 }; /* terms that are a step of work */

/* A term that a search has found, and the place of the one it follows. */
struct found {
    term number;
    uint32_t from;
};

/* Appends what may follow a found term, unless it was found before. Returns false after an error,
 * or when one of them is known to contain a text: *hit is its place. */
static bool expand(struct term_table *table, struct found **list, size_t *n, size_t *capacity,
                   uint32_t at, uint32_t *hit)
{
    for (unsigned class = 0; class < table->n_classes; class ++) {
        term next = after(table, (*list)[at].number, class);
        struct term_node *node = &table->nodes[next];
        if (table->status || ++table->n_searched > TERM_MAX_SEARCH)
            return smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "its intersections are too large");
        if (node->known[HAS_TEXT] == NO || node->known[HAS_TEXT] == OPEN)
            continue;
        if (!smol_term_grow(table, list, capacity, *n, sizeof **list))
            return false;
        (*list)[*n] = (struct found){next, at};
        if (node->known[HAS_TEXT] == YES || node->known[MAY_END] == YES) {
            *hit = (uint32_t)*n;
            return false;
        }
        node->known[HAS_TEXT] = OPEN;
        ++*n;
    }
    return true;
}

/* Searches the derivatives of a regular term for one that may end. Those on the way to it contain
 * texts; if there is none, all that were found are empty. */
static bool search(struct term_table *table, term a)
{
    size_t n = 1, capacity = 0;
    uint32_t hit = UINT32_MAX;
    struct found *list = NULL;
    if (table->nodes[a].known[MAY_END] == YES)
        return true;
    table->n_searched = 0;
    if (!smol_term_grow(table, &list, &capacity, 0, sizeof *list))
        return false;
    list[0] = (struct found){a, UINT32_MAX};
    table->nodes[a].known[HAS_TEXT] = OPEN;
    for (size_t at = 0; at < n && expand(table, &list, &n, &capacity, (uint32_t)at, &hit);)
        at++;
    for (size_t i = 0; i < n; i++)
        table->nodes[list[i].number].known[HAS_TEXT] =
            hit == UINT32_MAX && !table->status ? NO : UNKNOWN;
    if (!table->status) /* else it is searched again */
        table->n_steps += table->n_searched / SEARCHED_STEPS;
    for (uint32_t i = hit; i != UINT32_MAX; i = list[i].from)
        table->nodes[list[i].number].known[HAS_TEXT] = YES;
    smol_free(list);
    return hit != UINT32_MAX;
}

static bool find_alive(struct term_table *table, struct term_node node, term a)
{
    switch (node.kind) {
    case KIND_THEN:
        return smol_term_alive(table, node.a) && smol_term_alive(table, node.b);
    case KIND_REPEAT:
        return node.b == 0 || smol_term_alive(table, node.a);
    case KIND_ANY_OF:
        for (uint32_t i = 0; i < node.b; i++)
            if (smol_term_alive(table, table->lists[node.a + i]))
                return true;
        return false;
    case KIND_ALL_OF:
    case KIND_NOT:
        return search(table, a);
    case KIND_UNIT:
        return smol_term_alive(table, node.a);
    case KIND_RULE:
        return table->rules[node.a].known[HAS_TEXT] == YES;
    default:
        return node.kind != KIND_NOTHING;
    }
}

bool smol_term_alive(struct term_table *table, term a)
{
    const struct term_node node = table->nodes[a];
    if (node.known[HAS_TEXT] == YES || node.known[HAS_TEXT] == NO || table->status)
        return node.known[HAS_TEXT] == YES;
    if (table->depth >= TERM_MAX_DEPTH)
        return smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "it is nested too deeply");
    table->depth++;
    bool alive = find_alive(table, node, a);
    table->depth--;
    if (!table->status)
        table->nodes[a].known[HAS_TEXT] = alive ? YES : NO;
    return alive;
}

/* --- the interface ---------------------------------------------------------------------------- */

term smol_term_after(struct term_table *table, term a, uint8_t byte)
{
    unsigned class = table->class_of[byte];
    const struct term_node *node = &table->nodes[a];
    if (node->kind == KIND_THEN && table->nodes[node->a].kind == KIND_LITERAL &&
        table->bytes[table->nodes[node->a].a] != byte)
        return TERM_NOTHING; /* the most frequent case, which needs no row */
    if (table->row_of[a]) {
        uint32_t entry = table->rows[table->row_of[a] * table->n_classes + class];
        if (entry - ALIVE < TERM_MAX_NODES)
            return entry - ALIVE;
    }
    term next = after(table, a, class);
    if (!smol_term_alive(table, next) || table->status)
        next = TERM_NOTHING;
    if (table->row_of[a] && !table->status)
        table->rows[table->row_of[a] * table->n_classes + class] = next + ALIVE;
    return next;
}

bool smol_term_may_end(const struct term_table *table, term a)
{
    return table->nodes[a].known[MAY_END] == YES;
}

bool smol_term_forced(struct term_table *table, term a, uint8_t *byte)
{
    bool found = false;
    if (smol_term_may_end(table, a))
        return false;
    for (unsigned class = 0; class < table->n_classes; class ++) {
        if (smol_term_after(table, a, table->of_class[class]) == TERM_NOTHING)
            continue;
        if (found || !table->class_is_byte[class])
            return false;
        *byte = table->of_class[class];
        found = true;
    }
    return found;
}

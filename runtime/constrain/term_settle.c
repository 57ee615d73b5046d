/* Settles a table of terms: classes of bytes, which rules may be empty or have no text at all, and
 * that none begins with itself. */
#include <string.h>

#include "common/memory.h"
#include "runtime/constrain/term_table.h"

/* --- classes of bytes --------------------------------------------------------------------- */

/* Splits the classes so that a set is a union of classes. */
static void split_classes(struct term_table *table, const struct byte_set *set)
{
    uint8_t within[256];
    bool is_new[256] = {false}, outside[256] = {false};
    for (unsigned b = 0; b < 256; b++)
        outside[table->class_of[b]] |= !byte_set_has(set, (uint8_t)b);
    for (unsigned b = 0; b < 256; b++) {
        unsigned class = table->class_of[b];
        if (!byte_set_has(set, (uint8_t)b) || !outside[class])
            continue;
        if (!is_new[class])
            within[class] = (uint8_t)table->n_classes++;
        is_new[class] = true;
        table->class_of[b] = within[class];
    }
}

static void make_classes(struct term_table *table)
{
    struct byte_set single;
    bool in_literal[256] = {false};
    table->n_classes = 1;
    for (size_t i = 0; i < table->n_bytes; i++)
        in_literal[table->bytes[i]] = true;
    for (unsigned b = 0; b < 256; b++)
        if (in_literal[b]) {
            single = (struct byte_set){{0}};
            byte_set_add(&single, b, b);
            split_classes(table, &single);
        }
    for (size_t i = 0; i < table->n_sets; i++)
        split_classes(table, &table->sets[i]);
    size_t counts[256] = {0};
    for (unsigned b = 0; b < 256; b++) {
        table->of_class[table->class_of[b]] = (uint8_t)b;
        counts[table->class_of[b]]++;
    }
    for (size_t i = 0; i < table->n_classes; i++)
        table->class_is_byte[i] = counts[i] == 1;
}

/* --- answers from the parts of a term ------------------------------------------------------ */

static enum known all_known(const struct term_table *table, const struct term_node *node, bool any)
{
    enum known decides = any ? YES : NO, result = any ? NO : YES;
    for (uint32_t i = 0; i < node->b; i++) {
        enum known one = table->nodes[table->lists[node->a + i]].known[MAY_END];
        if (one == decides)
            return decides;
        if (one == UNKNOWN)
            result = UNKNOWN;
    }
    return result;
}

enum known smol_term_end_of(const struct term_table *table, const struct term_node *node)
{
    const struct term_node *nodes = table->nodes;
    switch (node->kind) {
    case KIND_EMPTY:
        return YES;
    case KIND_THEN: {
        enum known first = nodes[node->a].known[MAY_END], second = nodes[node->b].known[MAY_END];
        if (first == NO || second == NO)
            return NO;
        return first == YES && second == YES ? YES : UNKNOWN;
    }
    case KIND_REPEAT:
        return node->b == 0 ? YES : nodes[node->a].known[MAY_END];
    case KIND_ANY_OF:
    case KIND_ALL_OF:
        return all_known(table, node, node->kind == KIND_ANY_OF);
    case KIND_NOT:
        return nodes[node->a].known[MAY_END] == YES ? NO : YES;
    case KIND_UNIT:
        return nodes[node->a].known[MAY_END];
    case KIND_RULE:
        return table->rules[node->a].known[MAY_END];
    default:
        return NO;
    }
}

/* Returns whether a term contains any text, from what is known of its parts; intersections are
 * searched. */
static enum known alive_of(struct term_table *table, term number)
{
    const struct term_node node = table->nodes[number];
    switch (node.kind) {
    case KIND_THEN:
        return table->nodes[node.a].known[HAS_TEXT] == YES ? table->nodes[node.b].known[HAS_TEXT]
                                                           : UNKNOWN;
    case KIND_REPEAT:
        return node.b == 0 ? YES : table->nodes[node.a].known[HAS_TEXT];
    case KIND_ANY_OF:
        for (uint32_t i = 0; i < node.b; i++)
            if (table->nodes[table->lists[node.a + i]].known[HAS_TEXT] == YES)
                return YES;
        return UNKNOWN;
    case KIND_ALL_OF:
    case KIND_NOT:
        return smol_term_alive(table, number) ? YES : NO;
    case KIND_UNIT:
        return table->nodes[node.a].known[HAS_TEXT];
    case KIND_RULE:
        return table->rules[node.a].known[HAS_TEXT];
    case KIND_NOTHING:
        return NO;
    default:
        return YES;
    }
}

/* The terms that the root is made of. A search of intersections adds terms after these. */
struct reach {
    size_t n;
    bool *has;      /* (n) */
    bool *searched; /* (n): by left_recursion, which found none */
};

/* --- rules -------------------------------------------------------------------------------- */

static uint8_t find(struct term_table *table, enum question question, term a)
{
    return (uint8_t)(question == MAY_END ? smol_term_end_of(table, &table->nodes[a])
                                         : alive_of(table, a));
}

/* Asks all reachable terms whose answer is unknown, in the order of construction, in which parts
 * precede what they are part of. */
static void ask_terms(struct term_table *table, const struct reach *reach, enum question question)
{
    for (size_t i = 1; i < reach->n && !table->status; i++)
        if (reach->has[i] && table->nodes[i].known[question] == UNKNOWN) {
            uint8_t now = find(table, question, (term)i);
            table->nodes[i].known[question] = now;
        }
}

/* Gives the rules the answers of their bodies. Returns whether one has changed. */
static bool ask_rules(struct term_table *table, enum question question)
{
    bool changed = false;
    for (size_t i = 0; i < table->n_rules; i++) {
        struct term_rule *rule = &table->rules[i];
        if (rule->body == NO_BODY)
            continue;
        uint8_t now = table->nodes[rule->body].known[question];
        changed = changed || now != rule->known[question];
        rule->known[question] = now;
    }
    return changed;
}

/* Answers a question for all reachable terms and rules: the least answers that agree with each
 * other. Only rules need more than one pass. What stays unknown then is no. Whether texts may be
 * empty is decided for all terms: a derivative may be equal to one that the root does not contain.
 */
static void answer(struct term_table *table, const struct reach *reach, enum question question)
{
    do
        ask_terms(table, reach, question);
    while (ask_rules(table, question));
    for (size_t i = 0; i < table->n_rules; i++)
        if (table->rules[i].known[question] == UNKNOWN)
            table->rules[i].known[question] = NO;
    for (size_t i = 1; i < reach->n && !table->status; i++)
        if (table->nodes[i].known[question] == UNKNOWN && (question == MAY_END || reach->has[i])) {
            bool yes = find(table, question, (term)i) == YES;
            table->nodes[i].known[question] = yes ? YES : NO;
        }
}

/* Marks the terms that `root` is made of. */
static bool mark_reachable(struct term_table *table, term root, struct reach *reach)
{
    size_t base = table->n_stack;
    bool there = smol_term_push(table, root);
    while (there && table->n_stack > base) {
        term a = table->stack[--table->n_stack];
        const struct term_node node = table->nodes[a];
        if (reach->has[a])
            continue;
        reach->has[a] = true;
        if (node.kind == KIND_ANY_OF || node.kind == KIND_ALL_OF)
            for (uint32_t i = 0; there && i < node.b; i++)
                there = smol_term_push(table, table->lists[node.a + i]);
        else if (node.kind == KIND_RULE)
            there =
                table->rules[node.a].body != NO_BODY
                    ? smol_term_push(table, table->rules[node.a].body)
                    : (smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "a rule is missing"), false);
        else if (node.kind >= KIND_THEN)
            there = smol_term_push(table, node.a) &&
                    (node.kind != KIND_THEN || smol_term_push(table, node.b));
    }
    table->n_stack = base;
    return there;
}

/* --- left recursion ------------------------------------------------------------------------ */

static bool left_recursion(struct term_table *table, struct reach *reach, term a);

/* Does what left_recursion does for a term that is no sequence. */
static bool search_parts(struct term_table *table, struct reach *reach,
                         const struct term_node *node)
{
    bool found = false;
    if (node->kind == KIND_ANY_OF)
        for (uint32_t i = 0; i < node->b && !found; i++)
            found = left_recursion(table, reach, table->lists[node->a + i]);
    else if (node->kind == KIND_REPEAT || node->kind == KIND_UNIT)
        found = left_recursion(table, reach, node->a);
    else if (node->kind == KIND_RULE) {
        struct term_rule *rule = &table->rules[node->a];
        if (rule->open)
            return true;
        rule->open = true;
        found = left_recursion(table, reach, rule->body);
        rule->open = false;
    }
    return found;
}

/* Returns whether one of the rules that texts of a term begin with can begin with itself. Terms are
 * parts of many others, so each is searched once. */
static bool left_recursion(struct term_table *table, struct reach *reach, term a)
{
    bool found = false, more = true;
    term end = a;
    if (++table->depth > TERM_MAX_DEPTH) {
        smol_term_fail(table, SMOL_ERROR_UNSUPPORTED, "it is nested too deeply");
        return false;
    }
    const struct term_node *nodes = table->nodes;
    while (more && !found && nodes[end].kind == KIND_THEN && !reach->searched[end]) {
        found = left_recursion(table, reach, nodes[end].a);
        more = nodes[nodes[end].a].known[MAY_END] == YES;
        end = more ? nodes[end].b : end;
    }
    if (more && !found && !reach->searched[end])
        found = search_parts(table, reach, &nodes[end]);
    for (; !found && a != end; a = nodes[a].b)
        reach->searched[a] = true;
    reach->searched[end] |= !found;
    table->depth--;
    return found;
}

/* --- all of it ----------------------------------------------------------------------------- */

static smol_status refuse_left_recursion(struct term_table *table, struct reach *reach,
                                         smol_error *error)
{
    for (size_t i = 1; i < reach->n; i++) {
        if (!reach->has[i] || table->nodes[i].kind != KIND_RULE)
            continue;
        table->depth = 0;
        if (left_recursion(table, reach, (term)i))
            return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "a rule can begin with itself");
    }
    table->depth = 0;
    return smol_terms_status(table, error);
}

static smol_status settle(struct term_table *table, struct reach *reach, smol_error *error)
{
    make_classes(table);
    if (!mark_reachable(table, table->root, reach))
        return smol_terms_status(table, error);
    answer(table, reach, MAY_END);
    smol_status status = refuse_left_recursion(table, reach, error);
    if (status)
        return status;
    answer(table, reach, HAS_TEXT);
    if (!table->status && !smol_term_alive(table, table->root))
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "the constraint allows no text at all");
    table->settled.n_nodes = table->n_nodes;
    table->settled.n_bytes = table->n_bytes;
    table->settled.n_lists = table->n_lists;
    return smol_terms_status(table, error);
}

smol_status smol_terms_finish(struct term_table *table, term root, smol_error *error)
{
    smol_status status = smol_terms_status(table, error);
    if (status)
        return status;
    struct reach reach = {table->n_nodes, smol_calloc(table->n_nodes, 2 * sizeof *reach.has), NULL};
    if (!reach.has)
        return smol_fail_memory(error, "a constraint");
    reach.searched = reach.has + reach.n;
    table->root = root;
    status = settle(table, &reach, error);
    smol_free(reach.has);
    return status;
}

term smol_terms_root(const struct term_table *table)
{
    return table->root;
}

/* Turns a pattern's tree into steps, see automaton_steps.h. Each part needs the step that follows
 * it, so steps are written from the end of the pattern to its start. */
#include "convert/tokenizer/automaton_steps.h"

#include <stdlib.h>

#include "common/memory.h"
#include "format/format.h"

struct builder {
    const struct pattern *pattern;
    struct steps *steps;
    uint32_t look; /* see struct step */
    smol_error *error;
};

static smol_status add_step(struct builder *b, struct step step, uint32_t *index)
{
    struct steps *steps = b->steps;
    if (steps->n == MAX_STEPS)
        return smol_fail(b->error, SMOL_ERROR_UNSUPPORTED, "has too many repetitions");
    if (!GROW(steps->steps, steps->n, &steps->capacity))
        return smol_fail_memory(b->error, "a pattern");
    step.look = b->look;
    steps->steps[steps->n] = step;
    *index = (uint32_t)steps->n++;
    return SMOL_OK;
}

/* Adds the steps of node `index`, which continue at *at, and sets *at to the first of them. */
static smol_status add_node(struct builder *b, uint32_t index, uint32_t *at);

static uint32_t symbols_of(uint32_t set, bool negated, bool edge)
{
    return 4 * set + 2 * negated + edge;
}

static smol_status add_symbols(struct builder *b, enum step_kind kind, uint32_t symbols,
                               uint32_t next, uint32_t *at)
{
    return add_step(b, (struct step){.kind = kind, .next = next, .symbols = symbols}, at);
}

static smol_status add_fork(struct builder *b, uint32_t first, uint32_t second, uint32_t *at)
{
    return add_step(b, (struct step){.kind = STEP_FORK, .next = first, .other = second}, at);
}

static smol_status add_choice(struct builder *b, const struct pattern_node *node, uint32_t *at)
{
    const struct pattern_node *nodes = b->pattern->nodes;
    const uint32_t next = *at;
    smol_status status = add_node(b, node->right, at);
    uint32_t left = node->left, entry;
    for (; !status && nodes[left].kind == PATTERN_CHOICE; left = nodes[left].left) {
        entry = next;
        status = add_node(b, nodes[left].right, &entry);
        if (!status)
            status = add_fork(b, entry, *at, at);
    }
    entry = next;
    if (!status)
        status = add_node(b, left, &entry);
    return status ? status : add_fork(b, entry, *at, at);
}

/* Adds a fork that prefers to repeat, or to continue if the node is lazy. */
static smol_status add_repeat_fork(struct builder *b, const struct pattern_node *node,
                                   uint32_t again, uint32_t on, uint32_t *at)
{
    return node->lazy ? add_fork(b, on, again, at) : add_fork(b, again, on, at);
}

/* Adds a loop: a fork to which the body returns. */
static smol_status add_loop(struct builder *b, const struct pattern_node *node, uint32_t *at)
{
    const uint32_t next = *at;
    uint32_t fork, body;
    smol_status status = add_repeat_fork(b, node, next, next, &fork);
    body = fork;
    if (!status)
        status = add_node(b, node->left, &body);
    if (status)
        return status;
    uint32_t *again = node->lazy ? &b->steps->steps[fork].other : &b->steps->steps[fork].next;
    *again = body;
    *at = fork;
    return SMOL_OK;
}

/* Expands a repetition: x{2,4} is xx(x(x)?)?, and x{2,} is xxx*. */
static smol_status add_repeat(struct builder *b, const struct pattern_node *node, uint32_t *at)
{
    const uint32_t next = *at;
    smol_status status = SMOL_OK;
    if (node->max == REPEAT_FOREVER)
        status = add_loop(b, node, at);
    else
        for (uint32_t i = node->min; !status && i < node->max; i++) {
            status = add_node(b, node->left, at);
            if (!status)
                status = add_repeat_fork(b, node, *at, next, at);
        }
    for (uint32_t i = 0; !status && i < node->min; i++)
        status = add_node(b, node->left, at);
    return status;
}

/* Returns whether the node can match a text in one way only. */
static bool has_one_way(const struct pattern_node *nodes, uint32_t index)
{
    const struct pattern_node *node = &nodes[index];
    for (; node->kind == PATTERN_CONCAT; node = &nodes[node->left])
        if (!has_one_way(nodes, node->right))
            return false;
    if (node->kind == PATTERN_ATOMIC || (node->kind == PATTERN_REPEAT && node->min == node->max))
        return has_one_way(nodes, node->left);
    return node->kind != PATTERN_CHOICE && node->kind != PATTERN_REPEAT;
}

/* Adds a possessive repetition of a set: after fewer characters than the maximum, the next
 * character must not be in the set. */
static smol_status add_possessive(struct builder *b, const struct pattern_node *node, uint32_t *at)
{
    const struct pattern_node *body = &b->pattern->nodes[node->left];
    const uint32_t next = *at;
    uint32_t on, more;
    smol_status status = add_symbols(b, STEP_AHEAD, symbols_of(body->set, true, true), next, &on);
    if (!status && node->max == REPEAT_FOREVER) {
        *at = on;
        status = add_loop(b, node, at);
    } else {
        for (uint32_t i = node->min; !status && i < node->max; i++) {
            status = add_symbols(b, STEP_TAKE, symbols_of(body->set, false, false), *at, &more);
            if (!status)
                status = add_fork(b, more, on, at);
        }
    }
    for (uint32_t i = 0; !status && i < node->min; i++)
        status = add_node(b, node->left, at);
    return status;
}

/* Adds an atomic group, which never backtracks. It equals an ordinary group if it can match in one
 * way only, or if nothing after it can fail. */
static smol_status add_atomic(struct builder *b, const struct pattern_node *node, uint32_t *at)
{
    const struct pattern_node *nodes = b->pattern->nodes, *body = &nodes[node->left];
    if (*at == MATCHED || has_one_way(nodes, node->left))
        return add_node(b, node->left, at);
    if (body->kind == PATTERN_REPEAT && !body->lazy && nodes[body->left].kind == PATTERN_SET)
        return add_possessive(b, body, at);
    return smol_fail(b->error, SMOL_ERROR_UNSUPPORTED,
                     "a possessive or atomic group of more than one character");
}

/* Adds a look-ahead at more than the next symbol, whose steps are apart. */
static smol_status add_look(struct builder *b, const struct pattern_node *node, uint32_t *at)
{
    struct steps *steps = b->steps;
    const uint32_t next = *at, outer = b->look, number = steps->n_looks;
    if (number == MAX_LOOKS || (outer == 0 && steps->n_bits == AHEAD_LOOK_BITS))
        return smol_fail(b->error, SMOL_ERROR_UNSUPPORTED, "looks ahead in too many places");
    steps->n_looks++;
    steps->looks[number].bit = outer ? NO_BIT : steps->n_bits++;
    b->look = number + 1;
    uint32_t start = 0;
    smol_status status = add_step(b, (struct step){.kind = STEP_MATCH}, &start);
    if (!status)
        status = add_node(b, node->left, &start);
    steps->looks[number].start = start;
    b->look = outer;
    const struct step look = {
        .kind = STEP_LOOK, .next = next, .other = node->negated, .symbols = number};
    return status ? status : add_step(b, look, at);
}

static smol_status add_node(struct builder *b, uint32_t index, uint32_t *at)
{
    const struct pattern_node *nodes = b->pattern->nodes, *node = &nodes[index];
    smol_status status = SMOL_OK;
    for (; !status && node->kind == PATTERN_CONCAT; node = &nodes[node->left])
        status = add_node(b, node->right, at);
    if (status)
        return status;
    switch (node->kind) {
    case PATTERN_SET:
        return add_symbols(b, STEP_TAKE, symbols_of(node->set, false, false), *at, at);
    case PATTERN_AHEAD:
        return add_symbols(b, STEP_AHEAD, symbols_of(node->set, false, node->edge), *at, at);
    case PATTERN_LOOKBEHIND:
        return add_symbols(b, STEP_LOOKBEHIND, symbols_of(node->set, false, node->edge), *at, at);
    case PATTERN_CHOICE:
        return add_choice(b, node, at);
    case PATTERN_REPEAT:
        return add_repeat(b, node, at);
    case PATTERN_ATOMIC:
        return add_atomic(b, node, at);
    case PATTERN_REST:
        return add_look(b, node, at);
    case PATTERN_BEFORE: /* not in DIALECT_SCANNER */
    case PATTERN_EMPTY:
    case PATTERN_CONCAT:
        break;
    }
    return SMOL_OK;
}

/* Creates four symbol sets for each code set: its symbols and their complement, each without and
 * with the edge of the text. */
static bool make_symbols(const struct pattern *pattern, const struct class_map *map,
                         struct steps *steps)
{
    steps->symbols = calloc(4 * pattern->n_sets + 1, sizeof *steps->symbols);
    if (!steps->symbols)
        return false;
    for (uint32_t i = 0; i < pattern->n_sets; i++) {
        struct symbol_set *variants = steps->symbols + symbols_of(i, false, false);
        smol_class_map_symbols(map, &pattern->sets[i], &variants[0]);
        for (uint32_t symbol = 0; symbol < map->n_classes; symbol++)
            if (!symbol_has(&variants[0], symbol))
                symbol_add(&variants[2], symbol);
        variants[1] = variants[0];
        variants[3] = variants[2];
        symbol_add(&variants[1], map->n_classes);
        symbol_add(&variants[3], map->n_classes);
    }
    return true;
}

smol_status smol_steps_make(const struct pattern *pattern, const struct class_map *map,
                            struct steps *steps, smol_error *error)
{
    struct builder b = {.pattern = pattern, .steps = steps, .error = error};
    if (!make_symbols(pattern, map, steps))
        return smol_fail_memory(error, "a pattern");
    smol_status status = add_step(&b, (struct step){.kind = STEP_MATCH}, &steps->start);
    return status ? status : add_node(&b, pattern->root, &steps->start);
}

void smol_steps_free(struct steps *steps)
{
    free(steps->steps);
    free(steps->symbols);
    *steps = (struct steps){0};
}

/* Turns steps into tables, see automaton.h. A state is a list of steps in order of preference, the
 * order in which a backtracking engine tries them. A match ends the list, because later steps are
 * less preferred. An assertion about the next character is checked when that character is read, and
 * a match is reported then too: one character late. */
#include "convert/tokenizer/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "convert/tokenizer/automaton_steps.h"
#include "format/format.h"

enum {
    MAX_LOOKBEHINDS = 16, /* different assertions about the previous character */
    MAX_STATES = 1 << 12, /* before equal states are merged */
    MAX_LISTED = 1 << 20, /* steps in the lists of all states */
    MAX_WORK = 1 << 26,   /* steps visited */
    N_BUCKETS = 1 << 10,
    NO_STATE = UINT32_MAX,
};

/* A state under construction. */
struct state {
    uint32_t first, n;   /* its steps: lists[first, first + n) */
    uint32_t lookbehind; /* bits: the assertions that hold for the previous character */
    uint32_t chain;      /* the next state of the same bucket, or NO_STATE */
};

struct maker {
    const struct steps *steps;
    uint32_t n_plain;   /* symbols: classes and the end */
    uint32_t n_symbols; /* the same for each set of look-aheads that hold */
    uint32_t n_lookbehinds, lookbehinds[MAX_LOOKBEHINDS]; /* their symbol sets */
    uint32_t lookbehind_of[SCANNER_MAX_CLASSES + 1]; /* bits of those that hold after a symbol */
    struct state *states;                            /* (MAX_STATES) */
    uint32_t n_states, n_starts; /* state 0 is dead; the next n_starts are start states */
    uint32_t *lists;             /* (MAX_LISTED) */
    uint32_t n_listed;
    uint16_t *next;                           /* (MAX_STATES, n_symbols) */
    uint16_t starts[SCANNER_MAX_CLASSES + 1]; /* by the previous symbol */
    uint32_t buckets[N_BUCKETS];
    uint32_t *stack;  /* (2 * n_steps) */
    uint32_t *seen;   /* (n_steps): the round in which a step was visited */
    uint32_t *listed; /* (n_steps): the round in which a step was listed */
    uint32_t round, n_work;
    bool empty; /* a match may have no character */
};

/* --- one transition ------------------------------------------------------------------------- */

static bool holds(const struct maker *m, const struct step *step, uint32_t lookbehind,
                  uint32_t symbol)
{
    if (step->kind == STEP_AHEAD)
        return symbol_has(&m->steps->symbols[step->symbols], symbol % m->n_plain);
    if (step->kind == STEP_LOOK)
        return (symbol / m->n_plain >> m->steps->looks[step->symbols].bit & 1) != step->other;
    uint32_t i = 0;
    while (m->lookbehinds[i] != step->symbols)
        i++;
    return lookbehind >> i & 1;
}

/* Appends the step to the new state's list, which starts at lists[n_listed]. */
static void list_step(struct maker *m, uint32_t step, uint32_t *n)
{
    if (m->listed[step] == m->round)
        return;
    m->listed[step] = m->round;
    if (m->n_listed + *n < MAX_LISTED)
        m->lists[m->n_listed + *n] = step;
    ++*n;
}

/* Follows a step without reading a character, the preferred branch first, and lists the successors
 * of steps that accept `symbol`. Returns true if it reaches a match. */
static bool follow(struct maker *m, uint32_t start, uint32_t lookbehind, uint32_t symbol,
                   uint32_t *n)
{
    uint32_t depth = 0;
    m->stack[depth++] = start;
    while (depth > 0) {
        uint32_t at = m->stack[--depth];
        const struct step *step = &m->steps->steps[at];
        if (m->seen[at] == m->round)
            continue;
        m->seen[at] = m->round;
        m->n_work++;
        if (step->kind == STEP_MATCH)
            return true;
        if (step->kind == STEP_TAKE) {
            if (symbol_has(&m->steps->symbols[step->symbols], symbol % m->n_plain))
                list_step(m, step->next, n);
            continue;
        }
        if (step->kind == STEP_FORK)
            m->stack[depth++] = step->other;
        else if (!holds(m, step, lookbehind, symbol))
            continue;
        m->stack[depth++] = step->next;
    }
    return false;
}

/* --- states --------------------------------------------------------------------------------- */

static bool same_list(const struct maker *m, const struct state *state, uint32_t n)
{
    return state->n == n &&
           memcmp(m->lists + state->first, m->lists + m->n_listed, n * sizeof *m->lists) == 0;
}

/* Returns the state with the new list of n steps. Creates it if it does not exist; returns NO_STATE
 * if there are too many. */
static uint32_t find_state(struct maker *m, uint32_t n, uint32_t lookbehind)
{
    uint32_t hash = lookbehind;
    for (uint32_t i = 0; i < n; i++)
        hash = (hash ^ m->lists[m->n_listed + i]) * 0x9e3779b1u;
    uint32_t *bucket = &m->buckets[hash >> 22];
    for (uint32_t i = *bucket; i != NO_STATE; i = m->states[i].chain)
        if (m->states[i].lookbehind == lookbehind && same_list(m, &m->states[i], n))
            return i;
    if (m->n_states == MAX_STATES)
        return NO_STATE;
    m->states[m->n_states] = (struct state){m->n_listed, n, lookbehind, *bucket};
    m->n_listed += n;
    return *bucket = m->n_states++;
}

/* Returns the state to which `symbol` leads, or NO_STATE if a limit is exceeded. */
static uint32_t make_transition(struct maker *m, struct state state, uint32_t symbol, bool *match)
{
    uint32_t n = 0;
    m->round++;
    *match = false;
    for (uint32_t i = 0; i < state.n && !*match; i++)
        *match = follow(m, m->lists[state.first + i], state.lookbehind, symbol, &n);
    if (n > MAX_LISTED - m->n_listed || m->n_work > MAX_WORK)
        return NO_STATE;
    return n == 0 ? 0 : find_state(m, n, m->lookbehind_of[symbol % m->n_plain]);
}

static smol_status too_large(smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "needs more than %d states", MAX_STATES);
}

static smol_status make_transitions(struct maker *m, smol_error *error)
{
    for (uint32_t i = 1; i < m->n_states; i++) {
        for (uint32_t symbol = 0; symbol < m->n_symbols; symbol++) {
            bool match;
            uint32_t to = make_transition(m, m->states[i], symbol, &match);
            if (to == NO_STATE)
                return too_large(error);
            m->empty |= match && i <= m->n_starts;
            m->next[(size_t)i * m->n_symbols + symbol] = (uint16_t)(to << 1 | match);
        }
    }
    return SMOL_OK;
}

/* --- start states --------------------------------------------------------------------------- */

/* Numbers the assertions about the previous character. */
static smol_status find_lookbehinds(struct maker *m, smol_error *error)
{
    for (size_t i = 0; i < m->steps->n; i++) {
        const struct step *step = &m->steps->steps[i];
        uint32_t k = 0;
        while (k < m->n_lookbehinds && m->lookbehinds[k] != step->symbols)
            k++;
        if (step->kind != STEP_LOOKBEHIND || step->look || k < m->n_lookbehinds)
            continue;
        if (m->n_lookbehinds == MAX_LOOKBEHINDS)
            return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "looks behind for too many classes");
        m->lookbehinds[m->n_lookbehinds++] = step->symbols;
    }
    for (uint32_t symbol = 0; symbol < m->n_plain; symbol++)
        for (uint32_t k = 0; k < m->n_lookbehinds; k++)
            if (symbol_has(&m->steps->symbols[m->lookbehinds[k]], symbol))
                m->lookbehind_of[symbol] |= 1u << k;
    return SMOL_OK;
}

/* Creates a start state for each set of assertions that may hold for the previous character. */
static void make_starts(struct maker *m)
{
    for (uint32_t symbol = 0; symbol < m->n_plain; symbol++) {
        uint32_t i = 1;
        while (i < m->n_states && m->states[i].lookbehind != m->lookbehind_of[symbol])
            i++;
        m->starts[symbol] = (uint16_t)i;
        if (i < m->n_states)
            continue;
        m->states[m->n_states++] = (struct state){0, 1, m->lookbehind_of[symbol], NO_STATE};
        m->n_starts++;
    }
}

static bool allocate(struct maker *m)
{
    size_t n_steps = m->steps->n;
    m->states = calloc(MAX_STATES, sizeof *m->states);
    m->lists = calloc(MAX_LISTED, sizeof *m->lists);
    m->next = calloc((size_t)MAX_STATES * m->n_symbols, sizeof *m->next);
    m->stack = calloc(2 * n_steps, sizeof *m->stack);
    m->seen = calloc(n_steps, sizeof *m->seen);
    m->listed = calloc(n_steps, sizeof *m->listed);
    return m->states && m->lists && m->next && m->stack && m->seen && m->listed;
}

static void release(struct maker *m)
{
    free(m->states);
    free(m->lists);
    free(m->next);
    free(m->stack);
    free(m->seen);
    free(m->listed);
    free(m);
}

static smol_status make_states(struct maker *m, smol_error *error)
{
    if (!allocate(m))
        return smol_fail_memory(error, "a pattern's states");
    smol_status status = find_lookbehinds(m, error);
    if (status)
        return status;
    memset(m->buckets, 0xff, sizeof m->buckets); /* NO_STATE */
    m->lists[m->n_listed++] = m->steps->start;
    m->n_states = 1;
    make_starts(m);
    return make_transitions(m, error);
}

/* --- equal states --------------------------------------------------------------------------- */

/* Groups of equal states, refined in rounds: states with different groups or with transitions to
 * different groups are split into separate groups (Moore, 1956). */
struct state_groups {
    const struct maker *m;
    uint32_t *of, *next_of; /* (n_states): the group of each state */
    uint32_t *first;        /* (n_states): the first state of each new group */
    uint32_t *chain;        /* (n_states): the next new group of the same bucket, or NO_STATE */
    uint32_t buckets[N_BUCKETS];
    uint32_t n;
};

static uint32_t leads_to(const struct state_groups *g, uint32_t state, uint32_t symbol)
{
    uint16_t entry = g->m->next[(size_t)state * g->m->n_symbols + symbol];
    return g->of[entry >> 1] << 1 | (entry & 1);
}

static bool are_equal(const struct state_groups *g, uint32_t a, uint32_t b)
{
    bool equal = g->of[a] == g->of[b];
    for (uint32_t symbol = 0; equal && symbol < g->m->n_symbols; symbol++)
        equal = leads_to(g, a, symbol) == leads_to(g, b, symbol);
    return equal;
}

/* Runs one round. Returns false if it changed nothing. Groups keep the order of their first
 * states. */
static bool tell_apart(struct state_groups *g)
{
    uint32_t n_before = g->n;
    memset(g->buckets, 0xff, sizeof g->buckets);
    g->n = 0;
    for (uint32_t state = 0; state < g->m->n_states; state++) {
        uint32_t hash = g->of[state];
        for (uint32_t symbol = 0; symbol < g->m->n_symbols; symbol++)
            hash = (hash ^ leads_to(g, state, symbol)) * 0x9e3779b1u;
        uint32_t *bucket = &g->buckets[hash >> 22], group = *bucket;
        while (group != NO_STATE && !are_equal(g, g->first[group], state))
            group = g->chain[group];
        if (group == NO_STATE) {
            group = g->n++;
            g->first[group] = state;
            g->chain[group] = *bucket;
            *bucket = group;
        }
        g->next_of[state] = group;
    }
    memcpy(g->of, g->next_of, g->m->n_states * sizeof *g->of);
    return g->n != n_before;
}

/* Refines the groups until they are stable. State 0 is group 0. Each start state has its own
 * group. */
static smol_status group_states(struct state_groups *g, smol_error *error)
{
    const struct maker *m = g->m;
    uint64_t work = 0;
    g->n = m->n_starts + 1;
    for (uint32_t i = 1; i <= m->n_starts; i++)
        g->of[i] = i;
    do {
        work += (uint64_t)m->n_states * m->n_symbols;
        if (work > 4 * (uint64_t)MAX_WORK)
            return too_large(error);
    } while (tell_apart(g));
    return SMOL_OK;
}

static smol_status write_tables(const struct state_groups *g, struct automaton *automaton,
                                smol_error *error)
{
    const struct maker *m = g->m;
    automaton->n_symbols = m->n_symbols;
    automaton->n_states = g->n;
    automaton->starts = calloc(m->n_plain + 1, sizeof *automaton->starts);
    automaton->next = calloc((size_t)g->n * m->n_symbols + 1, sizeof *automaton->next);
    if (!automaton->starts || !automaton->next)
        return smol_fail_memory(error, "a pattern's tables");
    memcpy(automaton->starts, m->starts, m->n_plain * sizeof *m->starts);
    for (uint32_t group = 0; group < g->n; group++)
        for (uint32_t symbol = 0; symbol < m->n_symbols; symbol++)
            automaton->next[(size_t)group * m->n_symbols + symbol] =
                (uint16_t)leads_to(g, g->first[group], symbol);
    return SMOL_OK;
}

static smol_status reduce(const struct maker *m, struct automaton *automaton, smol_error *error)
{
    struct state_groups g = {.m = m};
    g.of = calloc(m->n_states + 1, sizeof *g.of);
    g.next_of = calloc(m->n_states + 1, sizeof *g.next_of);
    g.first = calloc(m->n_states + 1, sizeof *g.first);
    g.chain = calloc(m->n_states + 1, sizeof *g.chain);
    smol_status status = g.of && g.next_of && g.first && g.chain
                             ? group_states(&g, error)
                             : smol_fail_memory(error, "a pattern's states");
    if (!status)
        status = write_tables(&g, automaton, error);
    free(g.of);
    free(g.next_of);
    free(g.first);
    free(g.chain);
    return status;
}

/* --- entry points --------------------------------------------------------------------------- */

smol_status smol_automaton_make(const struct pattern *pattern, const struct class_map *map,
                                struct automaton *automaton, smol_error *error)
{
    struct steps steps = {0};
    struct maker *m = calloc(1, sizeof *m);
    if (!m)
        return smol_fail_memory(error, "a pattern");
    m->steps = &steps;
    m->n_plain = map->n_classes + 1;
    smol_status status = smol_steps_make(pattern, map, &steps, error);
    m->n_symbols = m->n_plain << steps.n_bits;
    automaton->n_looks = steps.n_bits;
    if (!status && m->n_symbols > SCANNER_MAX_CLASSES + 1)
        status = smol_fail(error, SMOL_ERROR_UNSUPPORTED, "looks ahead with too many classes");
    if (!status)
        status = smol_ahead_make(&steps, m->n_plain, automaton, error);
    if (!status)
        status = make_states(m, error);
    if (!status)
        status = reduce(m, automaton, error);
    automaton->empty = m->empty;
    release(m);
    smol_steps_free(&steps);
    return status;
}

void smol_automaton_free(struct automaton *automaton)
{
    free(automaton->next);
    free(automaton->starts);
    free(automaton->ahead);
    *automaton = (struct automaton){0};
}

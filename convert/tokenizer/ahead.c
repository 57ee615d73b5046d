/* Compiles look-aheads, see automaton_steps.h. At a place of the text, a step of a look-ahead holds
 * if the look-ahead's match can be reached from it by the symbols that follow. These steps follow
 * from the next symbol and from those that hold one place later, so a set of steps is a state of an
 * automaton that reads backwards. A step that looks behind also depends on the symbol before the
 * place, which is read next: a state has one set for each way in which these assertions may turn
 * out. */
#include "convert/tokenizer/automaton_steps.h"

#include <stdlib.h>
#include <string.h>

#include "format/format.h"

enum {
    MAX_AHEAD_STEPS = 512,
    MAX_AHEAD_STATES = 1 << 9,
    MAX_AHEAD_LOOKBEHINDS = 3, /* different assertions about the previous symbol */
    MAX_AHEAD_WORK = 1 << 28,  /* steps examined */
};

struct maker {
    const struct steps *steps;
    uint32_t n_plain;
    uint32_t list[MAX_AHEAD_STEPS], n_list; /* the steps of look-aheads */
    uint32_t lookbehinds[MAX_AHEAD_LOOKBEHINDS], n_lookbehinds, n_ways;
    uint8_t *sets; /* (MAX_AHEAD_STATES, n_ways, n_steps): whether a step holds; state 0 has none */
    uint32_t n_states;
    uint64_t n_work;
    smol_error *error;
};

static smol_status refuse(const struct maker *m, const char *what)
{
    return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED, "looks ahead %s", what);
}

static uint8_t *set_of(const struct maker *m, uint32_t state, uint32_t way)
{
    return m->sets + ((size_t)state * m->n_ways + way) * m->steps->n;
}

static smol_status list_steps(struct maker *m)
{
    for (uint32_t i = 0; i < m->steps->n; i++) {
        const struct step *step = &m->steps->steps[i];
        uint32_t k = 0;
        if (step->look == 0)
            continue;
        if (m->n_list == MAX_AHEAD_STEPS)
            return refuse(m, "by too many repetitions");
        m->list[m->n_list++] = i;
        while (k < m->n_lookbehinds && m->lookbehinds[k] != step->symbols)
            k++;
        if (step->kind != STEP_LOOKBEHIND || k < m->n_lookbehinds)
            continue;
        if (m->n_lookbehinds == MAX_AHEAD_LOOKBEHINDS)
            return refuse(m, "and behind for too many classes");
        m->lookbehinds[m->n_lookbehinds++] = step->symbols;
    }
    m->n_ways = 1u << m->n_lookbehinds;
    return SMOL_OK;
}

/* Returns in which way the assertions turn out after a symbol. */
static uint32_t way_of(const struct maker *m, uint32_t symbol)
{
    uint32_t way = 0;
    for (uint32_t k = 0; k < m->n_lookbehinds; k++)
        if (symbol_has(&m->steps->symbols[m->lookbehinds[k]], symbol))
            way |= 1u << k;
    return way;
}

/* Returns whether a step holds before `symbol`, given those that hold after it, and here, as far as
 * known. */
static bool step_holds(const struct maker *m, const struct step *step, uint32_t symbol,
                       uint32_t way, const uint8_t *after, const uint8_t *here)
{
    uint32_t k = 0;
    switch (step->kind) {
    case STEP_MATCH:
        return true;
    case STEP_TAKE:
        return after[step->next] && symbol_has(&m->steps->symbols[step->symbols], symbol);
    case STEP_FORK:
        return here[step->next] || here[step->other];
    case STEP_AHEAD:
        return here[step->next] && symbol_has(&m->steps->symbols[step->symbols], symbol);
    case STEP_LOOKBEHIND:
        while (m->lookbehinds[k] != step->symbols)
            k++;
        return here[step->next] && (way >> k & 1);
    case STEP_LOOK:
        return here[step->next] && here[m->steps->looks[step->symbols].start] != step->other;
    }
    return false;
}

/* Fills `here` with the steps that hold before `symbol`. A look-ahead within another one comes
 * after it, and is known first. */
static void fill_set(struct maker *m, uint32_t symbol, uint32_t way, const uint8_t *after,
                     uint8_t *here)
{
    memset(here, 0, m->steps->n);
    for (uint32_t look = m->steps->n_looks; look > 0; look--) {
        for (bool more = true; more;) {
            more = false;
            for (uint32_t i = 0; i < m->n_list; i++) {
                const struct step *step = &m->steps->steps[m->list[i]];
                m->n_work++;
                if (step->look != look || here[m->list[i]] ||
                    !step_holds(m, step, symbol, way, after, here))
                    continue;
                here[m->list[i]] = 1;
                more = true;
            }
        }
    }
}

/* Returns the state with the sets of the new one, which is number n_states. Keeps it if there is
 * none. */
static uint32_t find_state(struct maker *m)
{
    size_t size = (size_t)m->n_ways * m->steps->n;
    uint32_t i = 1;
    while (memcmp(set_of(m, i, 0), set_of(m, m->n_states, 0), size) != 0)
        i++;
    m->n_states += i == m->n_states;
    return i;
}

/* Returns the look-aheads of the pattern itself that hold, as bits. */
static uint32_t looks_of(const struct maker *m, const uint8_t *set)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < m->steps->n_looks; i++)
        if (m->steps->looks[i].bit != NO_BIT && set[m->steps->looks[i].start])
            bits |= 1u << m->steps->looks[i].bit;
    return bits;
}

/* Makes the transition of a state by a symbol. The end of the text comes first, in state 0, and
 * again before the first character, which ends the reading. */
static smol_status make_transition(struct maker *m, uint32_t state, uint32_t symbol,
                                   uint16_t *entry)
{
    const bool end = symbol == m->n_plain - 1;
    const uint8_t *after = set_of(m, state, way_of(m, symbol));
    *entry = (uint16_t)looks_of(m, after); /* none in state 0 */
    if (state == 0 ? !end : end)
        return SMOL_OK;
    if (m->n_states == MAX_AHEAD_STATES || m->n_work > MAX_AHEAD_WORK)
        return refuse(m, "in too many ways");
    for (uint32_t way = 0; way < m->n_ways; way++)
        fill_set(m, symbol, way, after, set_of(m, m->n_states, way));
    *entry |= (uint16_t)(find_state(m) << AHEAD_LOOK_BITS);
    return SMOL_OK;
}

static smol_status make_transitions(struct maker *m, struct automaton *automaton)
{
    smol_status status = SMOL_OK;
    for (uint32_t state = 0; state < m->n_states && !status; state++)
        for (uint32_t symbol = 0; symbol < m->n_plain && !status; symbol++)
            status = make_transition(m, state, symbol,
                                     &automaton->ahead[(size_t)state * m->n_plain + symbol]);
    automaton->n_ahead_states = m->n_states;
    return status;
}

smol_status smol_ahead_make(const struct steps *steps, uint32_t n_plain,
                            struct automaton *automaton, smol_error *error)
{
    if (steps->n_looks == 0)
        return SMOL_OK;
    struct maker *m = calloc(1, sizeof *m);
    if (!m)
        return smol_fail_memory(error, "a pattern's look-aheads");
    *m = (struct maker){.steps = steps, .n_plain = n_plain, .n_states = 1, .error = error};
    smol_status status = list_steps(m);
    if (!status) {
        m->sets = calloc((size_t)MAX_AHEAD_STATES * m->n_ways, steps->n);
        automaton->ahead = calloc((size_t)MAX_AHEAD_STATES * n_plain, sizeof *automaton->ahead);
        status = m->sets && automaton->ahead ? make_transitions(m, automaton)
                                             : smol_fail_memory(error, "a pattern's look-aheads");
    }
    free(m->sets);
    free(m);
    return status;
}

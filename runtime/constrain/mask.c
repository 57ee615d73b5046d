/* Masks, see mask.h.
 *
 * A mask is a walk through the trie: a branch is left where nothing can follow. Most tokens fit
 * into a string, so such a walk visits most of the trie. But a state is a unit, such as the rest of
 * a string, and then what follows it. Which tokens stay within the unit, and at which nodes of the
 * trie it may end, depends on the unit alone: this is found once for each unit, and a mask then
 * only walks on from those ends. */
#include "runtime/constrain/mask.h"

#include <string.h>

#include "common/memory.h"
#include "runtime/constrain/term_table.h"

enum {
    WIDE = 2048,   /* nodes: what visits more is kept */
    KEPT_MASKS = 64, /* masks of whole states */
    FITS = 64, /* units */
};

/* How the vocabulary fits into a unit. */
struct fit {
    term unit;
    uint64_t *bits;  /* (n_words): tokens that stay within it; they may complete it */
    uint32_t *exits; /* (n_exits): nodes with descendants after which it may end */
    size_t n_exits, capacity;
};

/* The mask of a state. */
struct kept {
    term state;
    uint64_t *bits;
};

struct masks {
    struct term_table *table;
    const struct trie *vocabulary;
    const struct string_fit *strings;
    term inside; /* the rest of any string */
    term *path;  /* (2, longest + 1): what may follow the first bytes of a branch */
    struct fit fits[FITS];
    size_t n_fits;
    struct kept kept[KEPT_MASKS];
    size_t n_kept, next_kept;
    uint64_t *bits; /* (n_words): of the current state */
    size_t n_visited;
};

/* Sets whether a mask has a token and those with the same text. */
static void mark_tokens(const struct trie *v, uint32_t token, bool has, uint64_t *bits)
{
    for (; token != NO_TOKEN; token = v->twins[token]) {
        uint64_t bit = (uint64_t)1 << token % 64;
        bits[token / 64] = has ? bits[token / 64] | bit : bits[token / 64] & ~bit;
    }
}

static bool add_exit(struct masks *m, struct fit *fit, uint32_t node)
{
    if (m->vocabulary->nodes[node].end == node + 1)
        return true; /* no token goes on from here */
    if (!smol_term_grow(m->table, &fit->exits, &fit->capacity, fit->n_exits, sizeof *fit->exits))
        return false;
    fit->exits[fit->n_exits++] = node;
    return true;
}

/* Sets the bits of the tokens of nodes [from, end) that may follow, where `state` may follow the
 * bytes before these nodes. If there is a fit, notes where its unit may end. Returns false after an
 * error. */
static bool walk(struct masks *m, term state, uint32_t from, uint32_t end, uint64_t *bits,
                 struct fit *fit)
{
    const struct trie_node *nodes = m->vocabulary->nodes;
    if (from >= end)
        return true;
    uint32_t base = nodes[from].depth - 1u;
    m->path[base] = state;
    for (uint32_t i = from; i < end;) {
        const struct trie_node node = nodes[i];
        term next = smol_term_after(m->table, m->path[node.depth - 1], node.byte);
        m->n_visited++;
        if (next == TERM_NOTHING) {
            i = node.end;
            continue;
        }
        m->path[node.depth] = next;
        mark_tokens(m->vocabulary, node.token, true, bits);
        if (fit && smol_term_may_end(m->table, next) && !add_exit(m, fit, i))
            return false;
        i++;
    }
    return m->table->status == SMOL_OK;
}

static void free_fit(struct fit *fit)
{
    smol_free(fit->bits);
    smol_free(fit->exits);
    *fit = (struct fit){0};
}

/* --- strings -------------------------------------------------------------------------------- */

/* Returns whether a unit is the rest of a string of any characters, and how many it may have. */
static bool is_string(const struct masks *m, term unit, uint32_t *min, uint32_t *max)
{
    const struct term_node *nodes = m->table->nodes;
    const struct term_node any = nodes[nodes[m->inside].a], this = nodes[nodes[unit].a];
    if (this.kind != KIND_THEN || this.b != any.b || nodes[this.a].kind != KIND_REPEAT)
        return false;
    *min = nodes[this.a].b;
    *max = nodes[this.a].c;
    return nodes[this.a].a == nodes[any.a].a;
}

/* Fits the vocabulary into the rest of a string, from what is known of all strings. */
static bool fit_string(struct masks *m, struct fit *fit, uint32_t min, uint32_t max)
{
    const struct trie *v = m->vocabulary;
    const struct string_fit *strings = m->strings;
    bool any_length = max >= v->longest;
    m->n_visited += strings->n_ends;
    if (any_length)
        memcpy(fit->bits, strings->bits, v->n_words * sizeof *fit->bits);
    else
        for (uint32_t id = 0; id < v->n_tokens; id++)
            fit->bits[id / 64] |= (uint64_t)(strings->n_characters[id] <= max) << id % 64;
    for (size_t i = 0; i < strings->n_ends; i++) {
        struct string_end end = strings->ends[i];
        bool ends = end.n_characters >= min && end.n_characters <= max;
        mark_tokens(v, v->nodes[end.node].token, ends, fit->bits);
        if (ends && !add_exit(m, fit, end.node))
            return false;
    }
    return true;
}

/* Returns whether a unit goes on like any string after most characters, like the names of further
 * properties, which only must not be those of known ones. */
static bool is_nearly_string(struct masks *m, term unit)
{
    return smol_term_after(m->table, unit, 'q') == smol_term_after(m->table, m->inside, 'q') &&
           smol_term_after(m->table, unit, ' ') == smol_term_after(m->table, m->inside, ' ');
}

/* Notes the ends of strings among nodes [from, end) as exits. *next is the first end that was not
 * passed yet. */
static bool copy_ends(struct masks *m, struct fit *fit, size_t *next, uint32_t from, uint32_t end)
{
    const struct string_fit *strings = m->strings;
    for (; *next < strings->n_ends && strings->ends[*next].node < end; ++*next)
        if (strings->ends[*next].node >= from && !add_exit(m, fit, strings->ends[*next].node))
            return false;
    return true;
}

/* Fits the vocabulary into a unit that is nearly a string: walks only where it differs. */
static bool fit_nearly_string(struct masks *m, struct fit *fit, term unit)
{
    const struct trie *v = m->vocabulary;
    size_t next_end = 0;
    term *others = m->path + v->longest + 1;
    memcpy(fit->bits, m->strings->bits, v->n_words * sizeof *fit->bits);
    m->path[0] = unit;
    others[0] = m->inside;
    for (uint32_t i = 0; i < v->n_nodes;) {
        const struct trie_node node = v->nodes[i];
        term next = smol_term_after(m->table, m->path[node.depth - 1], node.byte);
        term other = smol_term_after(m->table, others[node.depth - 1], node.byte);
        m->n_visited++;
        if (next == other) {
            if (!copy_ends(m, fit, &next_end, i, node.end))
                return false;
            i = node.end;
            continue;
        }
        mark_tokens(v, node.token, next != TERM_NOTHING, fit->bits);
        if (smol_term_may_end(m->table, next) && !add_exit(m, fit, i))
            return false;
        m->path[node.depth] = next;
        others[node.depth] = other;
        i++;
    }
    return m->table->status == SMOL_OK;
}

/* --- units ------------------------------------------------------------------------------------ */

static bool fit_unit(struct masks *m, struct fit *fit, term unit)
{
    uint32_t min, max;
    if (is_string(m, unit, &min, &max))
        return fit_string(m, fit, min, max);
    if (is_nearly_string(m, unit))
        return fit_nearly_string(m, fit, unit);
    return walk(m, unit, 0, m->vocabulary->n_nodes, fit->bits, fit);
}

/* Returns how the vocabulary fits into a unit, found before or now, or NULL after an error. The
 * last place is for units that are not kept. */
static const struct fit *find_fit(struct masks *m, term unit)
{
    for (size_t i = 0; i < m->n_fits; i++)
        if (m->fits[i].unit == unit)
            return &m->fits[i];
    struct fit *fit = &m->fits[m->n_fits];
    if (!fit->bits)
        fit->bits = smol_reallocarray(NULL, m->vocabulary->n_words, sizeof *fit->bits);
    if (!fit->bits) {
        smol_term_fail(m->table, SMOL_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    memset(fit->bits, 0, m->vocabulary->n_words * sizeof *fit->bits);
    fit->n_exits = 0;
    size_t before = m->n_visited;
    if (!fit_unit(m, fit, unit))
        return NULL;
    if (m->n_visited - before >= WIDE && m->n_fits + 1 < FITS) {
        fit->unit = unit;
        m->n_fits++;
    }
    return fit;
}

/* Adds the tokens that may follow `unit` and then `rest`. */
static bool add_unit(struct masks *m, term unit, term rest)
{
    const struct fit *fit = find_fit(m, unit);
    if (!fit)
        return false;
    for (uint32_t i = 0; i < m->vocabulary->n_words; i++)
        m->bits[i] |= fit->bits[i];
    for (size_t i = 0; i < fit->n_exits; i++) {
        uint32_t exit = fit->exits[i];
        if (!walk(m, rest, exit + 1, m->vocabulary->nodes[exit].end, m->bits, NULL))
            return false;
    }
    return !smol_term_may_end(m->table, unit) ||
           walk(m, rest, 0, m->vocabulary->n_nodes, m->bits, NULL);
}

/* Splits a term that begins with a unit. Returns whether it does. */
static bool split_unit(const struct term_table *table, term a, term *unit, term *rest)
{
    const struct term_node node = table->nodes[a];
    bool then = node.kind == KIND_THEN;
    *unit = then ? node.a : a;
    *rest = then ? node.b : TERM_EMPTY;
    return table->nodes[*unit].kind == KIND_UNIT;
}

/* Finds the mask of a state, which is one or several alternatives: each that begins with a unit by
 * itself, and all others together. */
static bool find(struct masks *m, term state)
{
    struct term_table *table = m->table;
    const struct term_node node = table->nodes[state];
    bool several = node.kind == KIND_ANY_OF, fine = true;
    size_t base = table->n_stack;
    memset(m->bits, 0, m->vocabulary->n_words * sizeof *m->bits);
    m->n_visited = 0;
    for (uint32_t i = 0; fine && i < (several ? node.b : 1); i++) {
        term a = several ? table->lists[node.a + i] : state, unit, rest;
        if (!smol_term_alive(table, a))
            continue;
        fine =
            split_unit(table, a, &unit, &rest) ? add_unit(m, unit, rest) : smol_term_push(table, a);
    }
    term others = smol_term_combine(table, KIND_ANY_OF, base);
    return fine && walk(m, others, 0, m->vocabulary->n_nodes, m->bits, NULL);
}

/* Keeps the current mask in place of the oldest one. */
static void keep(struct masks *m, term state)
{
    size_t bytes = m->vocabulary->n_words * sizeof *m->bits;
    struct kept *kept = &m->kept[m->next_kept];
    if (!kept->bits)
        kept->bits = smol_malloc(bytes);
    if (!kept->bits)
        return;
    memcpy(kept->bits, m->bits, bytes);
    kept->state = state;
    m->next_kept = (m->next_kept + 1) % KEPT_MASKS;
    m->n_kept += m->n_kept < KEPT_MASKS;
}

const uint64_t *smol_masks_find(struct masks *m, term state)
{
    for (size_t i = 0; i < m->n_kept; i++)
        if (m->kept[i].state == state)
            return m->kept[i].bits;
    if (!find(m, state))
        return NULL;
    keep(m, state);
    return m->bits;
}

smol_status smol_masks_create(struct term_table *table, term inside, const struct trie *vocabulary,
                              const struct string_fit *strings, struct masks **masks,
                              smol_error *error)
{
    struct masks *m = *masks = smol_calloc(1, sizeof *m);
    if (m) {
        m->table = table;
        m->vocabulary = vocabulary;
        m->strings = strings;
        m->inside = inside;
        m->path = smol_reallocarray(NULL, (size_t)vocabulary->longest + 1, 2 * sizeof *m->path);
        m->bits = smol_reallocarray(NULL, vocabulary->n_words, sizeof *m->bits);
        if (m->path && m->bits)
            return SMOL_OK;
    }
    smol_masks_free(m);
    *masks = NULL;
    return smol_fail_memory(error, "masks of tokens");
}

void smol_masks_forget(struct masks *m)
{
    m->n_fits = m->n_kept = m->next_kept = 0;
}

void smol_masks_free(struct masks *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < FITS; i++)
        free_fit(&m->fits[i]);
    for (size_t i = 0; i < KEPT_MASKS; i++)
        smol_free(m->kept[i].bits);
    smol_free(m->path);
    smol_free(m->bits);
    smol_free(m);
}

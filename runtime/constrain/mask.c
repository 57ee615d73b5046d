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
    WIDE = 2048,     /* nodes: what visits more is kept */
    KEPT_MASKS = 64, /* masks of whole states */
    FITS = 64,       /* units */
    OWN_STRINGS = 8, /* kinds of characters */
    WALKS = 4,       /* through the trie for the units of a mask */
    NODE_STEPS = 8,  /* nodes that are a step of work */
    DEPTH = 64,      /* nested terms that are looked into for units, */
    PARTS = 1024,    /* and terms in all */
};

/* How the vocabulary fits into a unit. */
struct fit {
    term unit;
    uint64_t *bits;  /* (n_words): tokens that stay within it; they may complete it */
    uint32_t *exits; /* (n_exits): nodes with descendants after which it may end */
    size_t n_exits, capacity;
    size_t n_below; /* descendants of all exits */
};

/* The mask of a state. */
struct kept {
    term state;
    uint64_t *bits;
};

struct masks {
    struct term_table *table;
    const struct trie *vocabulary;
    struct any_string_fit *strings;
    term inside; /* the rest of any string, or TERM_NOTHING */
    term *path;  /* (2, longest + 1): what may follow the first bytes of a branch */
    struct own_strings {
        term character;
        struct string_fit fit;
    } own[OWN_STRINGS]; /* (n_own): of other characters */
    size_t n_own;
    struct fit fits[FITS + 1]; /* the last one is not kept */
    size_t next_fit;
    struct kept kept[KEPT_MASKS];
    size_t n_kept, next_kept;
    uint64_t *bits; /* (n_words): of the current state */
    size_t n_visited, depth, n_parts;
    uint64_t n_visited_before; /* nodes, for other states */
};

/* Sets whether a mask has the tokens of a node. */
static void mark_tokens(const struct trie *v, uint32_t node, bool has, uint64_t *bits)
{
    uint32_t token = v->nodes[node].token;
    for (; token != NO_TOKEN; token = v->nodes[node].has_twin ? v->twins[token] : NO_TOKEN) {
        uint64_t bit = (uint64_t)1 << token % 64;
        bits[token / 64] = has ? bits[token / 64] | bit : bits[token / 64] & ~bit;
    }
}

static bool add_exit(struct masks *m, struct fit *fit, uint32_t node)
{
    size_t n_below = m->vocabulary->nodes[node].end - (node + 1);
    if (n_below == 0)
        return true; /* no token continues from here */
    if (!smol_term_grow(m->table, &fit->exits, &fit->capacity, fit->n_exits, sizeof *fit->exits))
        return false;
    fit->exits[fit->n_exits++] = node;
    fit->n_below += n_below;
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
        term next = smol_term_step(m->table, m->path[node.depth - 1], node.byte);
        m->n_visited++;
        if (next == TERM_NOTHING) {
            i = node.end;
            continue;
        }
        m->path[node.depth] = next;
        mark_tokens(m->vocabulary, i, true, bits);
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

/* Returns whether no text of a term is the start of another, nor of a quote: then a string has one
 * way to be cut into them. */
static bool is_character(struct masks *m, term a)
{
    enum { MOST = 64 };
    term found[MOST] = {a};
    size_t n = 1;
    if (smol_term_after(m->table, a, '"') != TERM_NOTHING)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (smol_term_may_end(m->table, found[i]))
            return false;
        for (size_t c = 0; c < m->table->n_classes; c++) {
            term next = smol_term_after(m->table, found[i], m->table->of_class[c]);
            bool known = next <= TERM_EMPTY;
            for (size_t k = 0; k < n && !known; k++)
                known = found[k] == next;
            if (!known && n == MOST)
                return false;
            if (!known)
                found[n++] = next;
        }
    }
    return true;
}

/* Returns how the vocabulary fits into strings of these characters, found before or now, or NULL
 * if these are no characters, if there are too many kinds, or after an error. */
static const struct string_fit *find_strings(struct masks *m, term character)
{
    const struct term_node *nodes = m->table->nodes;
    struct own_strings *own = m->own;
    if (m->inside && character == nodes[nodes[nodes[m->inside].a].a].a)
        return smol_any_string_find(m->strings, m->vocabulary);
    for (; own < m->own + m->n_own; own++)
        if (own->character == character)
            return &own->fit;
    if (m->n_own == OWN_STRINGS || !is_character(m, character))
        return NULL;
    term inside = smol_string_inside(m->table, character, 0, TERM_FOREVER);
    if (smol_string_fit_make(m->vocabulary, m->table, inside, &own->fit, NULL))
        return NULL;
    m->n_visited += m->vocabulary->n_nodes;
    own->character = character;
    m->n_own++;
    return &own->fit;
}

/* Splits a unit that is the rest of a string of one kind of character, and of its quote. */
static bool split_string(const struct masks *m, term unit, struct term_node *repeat)
{
    const struct term_node *nodes = m->table->nodes;
    const struct term_node this = nodes[nodes[unit].a];
    if (this.kind != KIND_THEN)
        return false;
    const struct term_node end = nodes[this.b];
    if (end.kind != KIND_LITERAL || end.b != 1 || m->table->bytes[end.a] != '"')
        return false;
    *repeat = nodes[this.a];
    return repeat->kind == KIND_REPEAT;
}

/* Sets the tokens inside strings of at most max characters. */
static void set_inside(const struct masks *m, const struct string_fit *strings, uint32_t max,
                       uint64_t *bits)
{
    size_t bytes = m->vocabulary->n_words * sizeof *bits;
    if (max <= SHORT && max < m->vocabulary->longest) {
        memcpy(bits, strings->short_bits + max * (size_t)m->vocabulary->n_words, bytes);
        return;
    }
    memcpy(bits, strings->bits, bytes);
    for (size_t i = 0; i < strings->n_longer; i++)
        if (strings->longer[i].n_characters > max)
            bits[strings->longer[i].id / 64] &= ~((uint64_t)1 << strings->longer[i].id % 64);
}

/* Fits the vocabulary into the rest of a string, from what is known of all such strings. */
static bool fit_string(struct masks *m, const struct string_fit *strings, struct term_node repeat,
                       struct fit *fit)
{
    const struct trie *v = m->vocabulary;
    uint32_t min = repeat.b, max = repeat.c;
    set_inside(m, strings, max, fit->bits);
    if (min == 0 && max >= v->longest) {
        for (size_t i = 0; i < strings->n_exits; i++)
            if (!add_exit(m, fit, strings->exits[i]))
                return false;
        return true;
    }
    for (size_t i = 0; i < strings->n_ends; i++) {
        struct string_end end = strings->ends[i];
        bool ends = end.n_characters >= min && end.n_characters <= max;
        mark_tokens(v, end.node, ends, fit->bits);
        if (ends && !add_exit(m, fit, end.node))
            return false;
    }
    return true;
}

/* Returns whether a unit continues like any string after most characters, like the names of further
 * properties, which only must not be those of known ones. */
static bool is_nearly_string(struct masks *m, term unit)
{
    return m->inside &&
           smol_term_after(m->table, unit, 'q') == smol_term_after(m->table, m->inside, 'q') &&
           smol_term_after(m->table, unit, ' ') == smol_term_after(m->table, m->inside, ' ');
}

/* Notes the exits of strings among nodes [from, end). *next is the first one that was not passed
 * yet. */
static bool copy_exits(struct masks *m, const struct string_fit *strings, struct fit *fit,
                       size_t *next, uint32_t from, uint32_t end)
{
    for (; *next < strings->n_exits && strings->exits[*next] < end; ++*next)
        if (strings->exits[*next] >= from && !add_exit(m, fit, strings->exits[*next]))
            return false;
    return true;
}

/* Fits the vocabulary into a unit that is nearly a string: walks only where it differs. */
static bool fit_nearly_string(struct masks *m, const struct string_fit *strings, struct fit *fit,
                              term unit)
{
    const struct trie *v = m->vocabulary;
    size_t next_exit = 0;
    term *others = m->path + v->longest + 1;
    memcpy(fit->bits, strings->bits, v->n_words * sizeof *fit->bits);
    m->path[0] = unit;
    others[0] = m->inside;
    for (uint32_t i = 0; i < v->n_nodes;) {
        const struct trie_node node = v->nodes[i];
        term next = smol_term_step(m->table, m->path[node.depth - 1], node.byte);
        term other = smol_term_step(m->table, others[node.depth - 1], node.byte);
        m->n_visited++;
        if (next == other) {
            if (!copy_exits(m, strings, fit, &next_exit, i, node.end))
                return false;
            i = node.end;
            continue;
        }
        mark_tokens(v, i, next != TERM_NOTHING, fit->bits);
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
    struct term_node repeat;
    const struct string_fit *strings =
        split_string(m, unit, &repeat) ? find_strings(m, repeat.a) : NULL;
    if (strings)
        return fit_string(m, strings, repeat, fit);
    strings = is_nearly_string(m, unit) ? smol_any_string_find(m->strings, m->vocabulary) : NULL;
    if (strings)
        return fit_nearly_string(m, strings, fit, unit);
    memset(fit->bits, 0, m->vocabulary->n_words * sizeof *fit->bits);
    return walk(m, unit, 0, m->vocabulary->n_nodes, fit->bits, fit);
}

/* Returns how the vocabulary fits into a unit, found before or now, or NULL after an error. What
 * took long is kept, in place of the oldest; the last place is for all others. */
static const struct fit *find_fit(struct masks *m, term unit)
{
    for (size_t i = 0; i < FITS; i++)
        if (m->fits[i].unit == unit)
            return &m->fits[i];
    struct fit *fit = &m->fits[FITS];
    if (!fit->bits)
        fit->bits = smol_reallocarray(NULL, m->vocabulary->n_words, sizeof *fit->bits);
    if (!fit->bits) {
        smol_term_fail(m->table, SMOL_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    fit->n_exits = fit->n_below = 0;
    size_t before = m->n_visited;
    if (!fit_unit(m, fit, unit))
        return NULL;
    if (m->n_visited - before < WIDE)
        return fit;
    struct fit *place = &m->fits[m->next_fit], found = *fit;
    m->next_fit = (m->next_fit + 1) % FITS;
    *fit = *place;
    *place = found;
    place->unit = unit;
    return place;
}

/* Returns whether more walks through the trie would be too many, with n more nodes. */
static bool is_enough(const struct masks *m, size_t n)
{
    return m->n_visited + n > WALKS * (size_t)m->vocabulary->n_nodes;
}

/* Adds the tokens that may follow `unit` and then `rest`. */
static bool add_unit(struct masks *m, term unit, term rest)
{
    const struct fit *fit = is_enough(m, 0) ? NULL : find_fit(m, unit);
    if (!fit || is_enough(m, fit->n_below))
        return smol_term_push(m->table, smol_term_then(m->table, unit, rest));
    for (uint32_t i = 0; i < m->vocabulary->n_words; i++)
        m->bits[i] |= fit->bits[i];
    for (size_t i = 0; i < fit->n_exits; i++) {
        uint32_t exit = fit->exits[i];
        if (!walk(m, rest, exit + 1, m->vocabulary->nodes[exit].end, m->bits, NULL))
            return false;
    }
    return true;
}

static bool add(struct masks *m, term a, term rest);

/* Adds what follows a repetition's first item, and what follows the repetition if it may end. */
static bool add_repeat(struct masks *m, term a, term rest)
{
    const struct term_node node = m->table->nodes[a];
    term more = smol_term_then(m->table, smol_term_fewer(m->table, node), rest);
    return add(m, node.a, more) && (node.b > 0 || add(m, rest, TERM_EMPTY));
}

/* Adds the tokens that may follow `a` and then `rest`: units by themselves, the others are put on
 * the table's stack. */
static bool add(struct masks *m, term a, term rest)
{
    struct term_table *table = m->table;
    const struct term_node node = table->nodes[a];
    bool fine = true;
    if (!smol_term_alive(table, rest))
        return table->status == SMOL_OK;
    if (m->depth == DEPTH || m->n_parts++ >= PARTS ||
        (node.kind == KIND_REPEAT && smol_term_may_end(table, node.a)))
        return smol_term_push(table, smol_term_then(table, a, rest));
    m->depth++;
    if (node.kind == KIND_UNIT)
        fine = add_unit(m, a, rest) && (!smol_term_may_end(table, a) || add(m, rest, TERM_EMPTY));
    else if (node.kind == KIND_THEN)
        fine = add(m, node.a, smol_term_then(table, node.b, rest));
    else if (node.kind == KIND_RULE)
        fine = add(m, table->rules[node.a].body, rest);
    else if (node.kind == KIND_REPEAT)
        fine = add_repeat(m, a, rest);
    else if (node.kind == KIND_EMPTY && rest != TERM_EMPTY)
        fine = add(m, rest, TERM_EMPTY);
    else if (node.kind == KIND_ANY_OF)
        for (uint32_t i = 0; fine && i < node.b; i++)
            fine = add(m, table->lists[node.a + i], rest);
    else
        fine = smol_term_push(table, smol_term_then(table, a, rest));
    m->depth--;
    return fine;
}

/* Finds the mask of a state: that of each unit with which it may begin, and of all else together.
 */
static bool find(struct masks *m, term state)
{
    struct term_table *table = m->table;
    size_t base = table->n_stack;
    memset(m->bits, 0, m->vocabulary->n_words * sizeof *m->bits);
    m->n_visited_before += m->n_visited;
    m->n_visited = m->depth = m->n_parts = 0;
    bool fine = add(m, state, TERM_EMPTY);
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
                              struct any_string_fit *strings, struct masks **masks,
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

uint64_t smol_masks_steps(const struct masks *m)
{
    return smol_terms_steps(m->table) + (m->n_visited_before + m->n_visited) / NODE_STEPS;
}

void smol_masks_forget(struct masks *m)
{
    for (size_t i = 0; i < FITS; i++)
        m->fits[i].unit = TERM_NOTHING;
    for (size_t i = 0; i < m->n_own; i++)
        smol_string_fit_free(&m->own[i].fit);
    m->n_kept = m->next_kept = m->n_own = 0;
}

size_t smol_masks_bytes(const struct masks *m)
{
    size_t n_words = m->vocabulary->n_words, n_sets = 1;
    size_t bytes = sizeof *m + 2 * ((size_t)m->vocabulary->longest + 1) * sizeof *m->path;
    for (size_t i = 0; i < FITS + 1; i++) {
        n_sets += m->fits[i].bits != NULL;
        bytes += m->fits[i].capacity * sizeof *m->fits[i].exits;
    }
    for (size_t i = 0; i < KEPT_MASKS; i++)
        n_sets += m->kept[i].bits != NULL;
    for (size_t i = 0; i < m->n_own; i++)
        bytes += smol_string_fit_bytes(&m->own[i].fit, n_words);
    return bytes + n_sets * n_words * sizeof *m->bits;
}

void smol_masks_free(struct masks *m)
{
    if (!m)
        return;
    smol_masks_forget(m);
    for (size_t i = 0; i < FITS + 1; i++)
        free_fit(&m->fits[i]);
    for (size_t i = 0; i < KEPT_MASKS; i++)
        smol_free(m->kept[i].bits);
    smol_free(m->path);
    smol_free(m->bits);
    smol_free(m);
}

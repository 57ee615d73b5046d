/* The vocabulary inside strings, see string_fit.h: one walk through the trie. */
#include "runtime/constrain/string_fit.h"

#include <string.h>

#include "common/memory.h"
#include "runtime/constrain/json_terms.h"
#include "runtime/constrain/term_table.h"

term smol_string_inside(struct term_table *table, term character, uint32_t min, uint32_t max)
{
    term characters = smol_term_repeat(table, character, min, max);
    return smol_term_unit(table,
                          smol_term_then(table, characters, smol_term_literal(table, "\"", 1)));
}

struct walk {
    const struct trie *vocabulary;
    struct string_fit *fit;
    struct term_table *table;
    term inside;            /* what may follow a whole character */
    term *path;             /* (longest + 1): what may follow the first bytes of a branch */
    uint32_t *n_characters; /* (longest + 1): whole characters of these */
};

static void set_bit(uint64_t *bits, uint32_t id)
{
    bits[id / 64] |= (uint64_t)1 << id % 64;
}

/* Notes the tokens of a node inside strings, which have n characters. */
static bool add_tokens(const struct walk *w, uint32_t token, uint32_t n)
{
    struct string_fit *fit = w->fit;
    for (; token != NO_TOKEN; token = w->vocabulary->twins[token]) {
        set_bit(fit->bits, token);
        if (n <= SHORT) {
            set_bit(fit->short_bits + n * w->vocabulary->n_words, token);
            continue;
        }
        if (!smol_term_grow(w->table, &fit->longer, &fit->longer_capacity, fit->n_longer,
                            sizeof *fit->longer))
            return false;
        fit->longer[fit->n_longer++] = (struct string_token){token, n};
    }
    return true;
}

/* Notes the end of a string at node i, after n characters. */
static bool add_end(const struct walk *w, uint32_t i, uint32_t n)
{
    const struct trie_node *node = &w->vocabulary->nodes[i];
    struct string_fit *fit = w->fit;
    for (uint32_t token = node->token; token != NO_TOKEN; token = w->vocabulary->twins[token])
        set_bit(fit->bits, token);
    if (!smol_term_grow(w->table, &fit->ends, &fit->ends_capacity, fit->n_ends, sizeof *fit->ends))
        return false;
    fit->ends[fit->n_ends++] = (struct string_end){i, n};
    if (node->end == i + 1)
        return true;
    if (!smol_term_grow(w->table, &fit->exits, &fit->exits_capacity, fit->n_exits,
                        sizeof *fit->exits))
        return false;
    fit->exits[fit->n_exits++] = i;
    return true;
}

/* Visits node i. Returns whether a string continues after it. A token that ends within a character
 * counts as one that has all of it. */
static bool visit(const struct walk *w, uint32_t i)
{
    const struct trie_node *node = &w->vocabulary->nodes[i];
    term next = smol_term_step(w->table, w->path[node->depth - 1], node->byte);
    uint32_t n = w->n_characters[node->depth - 1];
    if (next == TERM_NOTHING)
        return false;
    if (next == TERM_EMPTY) { /* the quote */
        add_end(w, i, n);
        return false;
    }
    w->path[node->depth] = next;
    w->n_characters[node->depth] = next == w->inside ? n + 1 : n;
    return add_tokens(w, node->token, n + 1);
}

static void walk_all(const struct walk *w)
{
    const struct trie *v = w->vocabulary;
    w->path[0] = w->inside;
    w->n_characters[0] = 0;
    for (uint32_t i = 0; i < v->n_nodes;)
        i = visit(w, i) ? i + 1 : v->nodes[i].end;
    for (size_t i = v->n_words; i < (SHORT + 1) * (size_t)v->n_words; i++)
        w->fit->short_bits[i] |= w->fit->short_bits[i - v->n_words];
}

smol_status smol_string_fit_make(const struct trie *vocabulary, struct term_table *table,
                                 term inside, struct string_fit *fit, smol_error *error)
{
    struct walk w = {.vocabulary = vocabulary, .fit = fit, .table = table, .inside = inside};
    *fit = (struct string_fit){0};
    fit->bits = smol_calloc(vocabulary->n_words, sizeof *fit->bits);
    fit->short_bits = smol_calloc((SHORT + 1) * (size_t)vocabulary->n_words, sizeof *fit->bits);
    w.path = smol_calloc((size_t)vocabulary->longest + 1, sizeof *w.path);
    w.n_characters = smol_calloc((size_t)vocabulary->longest + 1, sizeof *w.n_characters);
    bool there = fit->bits && fit->short_bits && w.path && w.n_characters;
    if (there)
        walk_all(&w);
    smol_free(w.path);
    smol_free(w.n_characters);
    smol_status status = there ? smol_terms_status(table, error)
                               : smol_fail_memory(error, "the vocabulary's fit into strings");
    if (status)
        smol_string_fit_free(fit);
    return status;
}

size_t smol_string_fit_bytes(const struct string_fit *fit, size_t n_words)
{
    return (1 + SHORT + 1) * n_words * sizeof *fit->bits +
           fit->longer_capacity * sizeof *fit->longer + fit->ends_capacity * sizeof *fit->ends +
           fit->exits_capacity * sizeof *fit->exits;
}

void smol_string_fit_free(struct string_fit *fit)
{
    smol_free(fit->bits);
    smol_free(fit->short_bits);
    smol_free(fit->longer);
    smol_free(fit->ends);
    smol_free(fit->exits);
    *fit = (struct string_fit){0};
}

/* --- strings of any characters ---------------------------------------------------------------- */

void smol_any_string_init(struct any_string_fit *any)
{
    *any = (struct any_string_fit){.found = false};
    threads_mutex_init(&any->mutex);
}

void smol_any_string_free(struct any_string_fit *any)
{
    smol_string_fit_free(&any->fit);
    threads_mutex_destroy(&any->mutex);
}

static bool find_any(const struct trie *vocabulary, struct string_fit *fit)
{
    struct term_table *table;
    if (smol_terms_create(&table, NULL))
        return false;
    term inside = smol_string_inside(table, smol_json_any_character(table), 0, TERM_FOREVER);
    smol_status status = smol_terms_finish(table, inside, NULL);
    if (!status)
        status = smol_string_fit_make(vocabulary, table, inside, fit, NULL);
    smol_terms_free(table);
    return status == SMOL_OK;
}

const struct string_fit *smol_any_string_find(struct any_string_fit *any,
                                              const struct trie *vocabulary)
{
    threads_mutex_lock(&any->mutex);
    any->found = any->found || find_any(vocabulary, &any->fit);
    const struct string_fit *fit = any->found ? &any->fit : NULL;
    threads_mutex_unlock(&any->mutex);
    return fit;
}

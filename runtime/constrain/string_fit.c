/* The vocabulary inside strings, see string_fit.h: one walk through the trie, with the terms of any
 * string. */
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

static void set_token(const struct walk *w, uint32_t token, uint32_t n_characters)
{
    for (; token != NO_TOKEN; token = w->vocabulary->twins[token]) {
        w->fit->bits[token / 64] |= (uint64_t)1 << token % 64;
        w->fit->n_characters[token] = n_characters;
    }
}

/* Notes the end of a string at node i, after n characters. */
static bool add_end(const struct walk *w, uint32_t i, uint32_t n)
{
    struct string_fit *fit = w->fit;
    if (!smol_term_grow(w->table, &fit->ends, &fit->ends_capacity, fit->n_ends, sizeof *fit->ends))
        return false;
    fit->ends[fit->n_ends++] = (struct string_end){i, n};
    return true;
}

/* Visits node i. Returns whether a string continues after it. A token that ends within a character
 * counts as one that has all of it. */
static bool visit(const struct walk *w, uint32_t i)
{
    const struct trie_node *node = &w->vocabulary->nodes[i];
    term next = smol_term_after(w->table, w->path[node->depth - 1], node->byte);
    uint32_t n = w->n_characters[node->depth - 1];
    if (next == TERM_NOTHING)
        return false;
    if (next == TERM_EMPTY) { /* the quote */
        set_token(w, node->token, NOT_INSIDE);
        add_end(w, i, n);
        return false;
    }
    w->path[node->depth] = next;
    w->n_characters[node->depth] = next == w->inside ? n + 1 : n;
    set_token(w, node->token, n + 1);
    return true;
}

static void walk_all(const struct walk *w)
{
    const struct trie_node *nodes = w->vocabulary->nodes;
    w->path[0] = w->inside;
    w->n_characters[0] = 0;
    for (uint32_t i = 0; i < w->vocabulary->n_nodes;)
        i = visit(w, i) ? i + 1 : nodes[i].end;
}

/* Creates the table of any string after its first quote. */
static smol_status make_table(struct walk *w, smol_error *error)
{
    smol_status status = smol_terms_create(&w->table, error);
    if (status)
        return status;
    term any = smol_json_any_character(w->table);
    w->inside = smol_string_inside(w->table, any, 0, TERM_FOREVER);
    return smol_terms_finish(w->table, w->inside, NULL, NULL, error);
}

static smol_status allocate(const struct trie *v, struct string_fit *fit, struct walk *w,
                            smol_error *error)
{
    fit->bits = smol_calloc(v->n_words, sizeof *fit->bits);
    fit->n_characters = smol_reallocarray(NULL, (size_t)v->n_tokens + 1, sizeof *fit->n_characters);
    w->path = smol_calloc((size_t)v->longest + 1, sizeof *w->path);
    w->n_characters = smol_calloc((size_t)v->longest + 1, sizeof *w->n_characters);
    if (!fit->bits || !fit->n_characters || !w->path || !w->n_characters)
        return smol_fail_memory(error, "the vocabulary's fit into strings");
    memset(fit->n_characters, 0xff, v->n_tokens * sizeof *fit->n_characters);
    return SMOL_OK;
}

smol_status smol_string_fit_make(const struct trie *vocabulary, struct string_fit *fit,
                                 smol_error *error)
{
    struct walk w = {.vocabulary = vocabulary, .fit = fit};
    *fit = (struct string_fit){0};
    smol_status status = allocate(vocabulary, fit, &w, error);
    if (!status)
        status = make_table(&w, error);
    if (!status) {
        walk_all(&w);
        status = smol_terms_status(w.table, error);
    }
    smol_terms_free(w.table);
    smol_free(w.path);
    smol_free(w.n_characters);
    if (status)
        smol_string_fit_free(fit);
    return status;
}

void smol_string_fit_free(struct string_fit *fit)
{
    smol_free(fit->bits);
    smol_free(fit->n_characters);
    smol_free(fit->ends);
    *fit = (struct string_fit){0};
}

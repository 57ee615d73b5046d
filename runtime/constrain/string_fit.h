/* How a vocabulary fits into strings of JSON, found once for a model. Nearly every token fits into
 * a string, so finding this anew for each constraint would take longer than all its other masks. */
#ifndef SMOL_RUNTIME_STRING_FIT_H
#define SMOL_RUNTIME_STRING_FIT_H

#include "runtime/constrain/term.h"
#include "runtime/constrain/trie.h"

/* A node of the trie after the quote that ends a string. */
struct string_end {
    uint32_t node;
    uint32_t n_characters; /* before the quote */
};

struct string_fit {
    uint64_t *bits;          /* (n_words): tokens inside strings, and those that end one */
    uint32_t *n_characters;  /* (n_tokens): characters of a token inside a string, or NOT_INSIDE */
    struct string_end *ends; /* (n_ends), in order of nodes */
    size_t n_ends, ends_capacity;
};
#define NOT_INSIDE UINT32_MAX

/* Returns min to max more characters of a string, then its quote: a unit. */
term smol_string_inside(struct term_table *table, term character, uint32_t min, uint32_t max);

/* Errors: SMOL_ERROR_MEMORY. */
smol_status smol_string_fit_make(const struct trie *vocabulary, struct string_fit *fit,
                                 smol_error *error);
void smol_string_fit_free(struct string_fit *fit);

#endif

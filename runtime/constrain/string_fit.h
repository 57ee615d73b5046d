/* How a vocabulary fits into strings of one kind of character. Nearly every token fits into a
 * string of JSON, so this is found once for a model. */
#ifndef SMOL_RUNTIME_STRING_FIT_H
#define SMOL_RUNTIME_STRING_FIT_H

#include "common/threads.h"
#include "runtime/constrain/term.h"
#include "runtime/constrain/trie.h"

/* A node of the trie after the quote that ends a string. */
struct string_end {
    uint32_t node;
    uint32_t n_characters; /* before the quote */
};

/* A token inside a string. */
struct string_token {
    uint32_t id, n_characters;
};

enum { SHORT = 16 }; /* characters */

struct string_fit {
    uint64_t *bits;       /* (n_words): tokens inside strings, and those that end one */
    uint64_t *short_bits; /* (SHORT + 1, n_words): tokens inside, of at most so many characters */
    struct string_token *longer; /* (n_longer): tokens inside, of more than SHORT characters */
    size_t n_longer, longer_capacity;
    struct string_end *ends; /* (n_ends), in order of nodes */
    size_t n_ends, ends_capacity;
    uint32_t *exits; /* (n_exits): nodes of the ends with descendants */
    size_t n_exits, exits_capacity;
};

/* Returns min to max more characters of a string, then its quote: a unit. */
term smol_string_inside(struct term_table *table, term character, uint32_t min, uint32_t max);

/* Fits the vocabulary into a string of any length: `inside` is smol_string_inside of it, in a
 * settled table. Free with smol_string_fit_free. Errors: SMOL_ERROR_MEMORY, and those of
 * smol_terms_status. */
smol_status smol_string_fit_make(const struct trie *vocabulary, struct term_table *table,
                                 term inside, struct string_fit *fit, smol_error *error);

/* How a vocabulary fits into strings of any characters of JSON, found when this is first asked, by
 * any thread. */
struct any_string_fit {
    thread_mutex mutex;
    bool found;
    struct string_fit fit;
};

void smol_any_string_init(struct any_string_fit *any);
void smol_any_string_free(struct any_string_fit *any);

/* Returns the fit, or NULL if there is no memory. */
const struct string_fit *smol_any_string_find(struct any_string_fit *any,
                                              const struct trie *vocabulary);

/* Returns the bytes of memory that a fit takes, with sets of tokens of n_words. */
size_t smol_string_fit_bytes(const struct string_fit *fit, size_t n_words);
void smol_string_fit_free(struct string_fit *fit);

#endif

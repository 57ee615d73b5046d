/* Guesses of the next tokens: those that followed where the newest tokens occurred before, in the
 * prompt or the output (prompt lookup; Saxena, 2023). A guess that is evaluated together with the
 * newest token and turns out right saves a pass, a wrong one costs a part of one: its row, and in a
 * model with states the rows before it, which are evaluated again with the next token. The number
 * of guesses therefore follows their success so far. */
#ifndef SMOL_RUNTIME_LOOKUP_H
#define SMOL_RUNTIME_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOOKUP_TOKENS = 15, /* most guesses: with the newest token, a pass over 16 rows */
    LOOKUP_MATCH = 8,   /* tokens: if more agree, the latest place counts, not the longest */
};

struct lookup {
    bool has_states; /* the model */
    /* for each number of tokens that agree: the chance that the next one agrees too */
    float chance[LOOKUP_MATCH + 1];
    size_t n_agreeing; /* at the last guess */
    unsigned n_unused; /* places that were found and promised too little */
};

void smol_lookup_init(struct lookup *lookup, bool has_states);

/* Writes guesses of what follows ids[0..n) to out[0..most) and returns their number, which may be
 * 0. The time is proportional to n, a comparison for each id. */
size_t smol_lookup_guess(struct lookup *lookup, const uint32_t *ids, size_t n, uint32_t *out,
                         size_t most);

/* Tells that the first n_right of the n_guessed last guesses were right. */
void smol_lookup_learn(struct lookup *lookup, size_t n_guessed, size_t n_right);

#endif

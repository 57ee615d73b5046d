/* A pattern as a program of steps: the non-deterministic automaton between the pattern's tree and
 * the tables (Thompson, 1968). */
#ifndef SMOL_CONVERT_AUTOMATON_STEPS_H
#define SMOL_CONVERT_AUTOMATON_STEPS_H

#include "convert/tokenizer/automaton.h"

enum step_kind {
    STEP_MATCH,      /* the pattern has matched */
    STEP_TAKE,       /* reads a character of `symbols` */
    STEP_FORK,       /* continues at `next`; if that fails, at `other` */
    STEP_AHEAD,      /* continues if the next symbol is one of `symbols` */
    STEP_LOOKBEHIND, /* continues if the previous symbol is one of `symbols` */
    STEP_LOOK,       /* continues if look-ahead number `symbols` holds, or not, if `other` is 1 */
};

struct step {
    enum step_kind kind;
    uint32_t next, other;
    uint32_t symbols;
    uint32_t look; /* 0: of the pattern itself; i + 1: of look-ahead number i */
};

/* A look-ahead that needs more than the next symbol: what follows starts with a match of the steps
 * from `start` on. */
struct look {
    uint32_t start;
    uint32_t bit; /* among the look-aheads of the pattern itself; NO_BIT: within another one */
};
enum { MAX_LOOKS = 16, NO_BIT = 16 };

enum { MAX_STEPS = 1 << 13, MATCHED = 0 /* index of the STEP_MATCH step */ };

/* Initialize to zeros. */
struct steps {
    struct step *steps; /* (n), owned */
    size_t n, capacity;
    struct symbol_set *symbols; /* owned: four for each set of the pattern */
    uint32_t start;
    struct look looks[MAX_LOOKS]; /* (n_looks); those within another one come after it */
    uint32_t n_looks, n_bits;
};

/* Turns a pattern into steps. Call smol_steps_free, also after an error. Errors:
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_steps_make(const struct pattern *pattern, const struct class_map *map,
                            struct steps *steps, smol_error *error);

void smol_steps_free(struct steps *steps);

/* ahead.c: compiles the look-aheads that need more than the next symbol, if there are any: an
 * automaton (automaton->ahead, n_ahead_states) that reads a text backwards and tells at each place
 * which of them hold. n_plain is the number of symbols. The caller frees the automaton, also after
 * an error. Errors: SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_ahead_make(const struct steps *steps, uint32_t n_plain,
                            struct automaton *automaton, smol_error *error);

#endif

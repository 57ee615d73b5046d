/* Compiles patterns to deterministic automata: the tables that the runtime scans with. */
#ifndef SMOL_CONVERT_AUTOMATON_H
#define SMOL_CONVERT_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pattern/pattern.h"

/* Maps characters to classes. Characters that no pattern distinguishes share a class. Initialize to
 * zeros. */
struct class_map {
    uint32_t
        *starts; /* (n_starts), ascending, owned: the first code point of each run of one class */
    uint8_t *classes; /* (n_starts), owned */
    size_t n_starts;
    uint32_t n_classes; /* 1..SCANNER_MAX_CLASSES */
};

/* Creates the classes for patterns[0..n). Call smol_class_map_free, also after an error. Errors:
 * SMOL_ERROR_UNSUPPORTED (too many classes), SMOL_ERROR_MEMORY. */
smol_status smol_class_map_make(const struct pattern *patterns, size_t n, struct class_map *map,
                                smol_error *error);

/* A set of symbols. A symbol is a class, or n_classes for the start or end of the text. */
struct symbol_set {
    uint32_t bits[8];
};

static inline void symbol_add(struct symbol_set *set, uint32_t symbol)
{
    set->bits[symbol / 32] |= 1u << symbol % 32;
}

static inline bool symbol_has(const struct symbol_set *set, uint32_t symbol)
{
    return set->bits[symbol / 32] >> symbol % 32 & 1;
}

/* Sets *symbols to the symbols of a set. The set belongs to a pattern that the map was created
 * for. */
void smol_class_map_symbols(const struct class_map *map, const struct code_set *set,
                            struct symbol_set *symbols);

void smol_class_map_free(struct class_map *map);

/* The transitions of an automaton. For each state and symbol (a class; the last one is the end of
 * the text), the entry is state << 1 | match: the next state after a character of this class, and
 * whether a match ends before this character. State 0 is dead: no further match is possible.
 * Initialize to zeros. */
struct automaton {
    uint16_t *next;   /* (n_states, n_symbols), owned */
    uint16_t *starts; /* (n_symbols), owned: the start state after a character of each class; the
                         last one: at the start of the text. No transition leads to a start state */
    uint32_t n_states;
    /* the number of symbols times 2 for each look-ahead at more than the next symbol: an entry is
     * for symbol + looks * symbols, the bits of those that hold before the character */
    uint32_t n_symbols;
    uint16_t *ahead; /* (n_ahead_states, symbols), owned: of the text read backwards, see FORMAT.md;
                        NULL: none */
    uint32_t n_ahead_states, n_looks;
    bool empty; /* a match may be empty */
};

/* Compiles a pattern. The automaton finds the match that the reference's backtracking engine finds
 * first. Call smol_automaton_free, also after an error. Errors: SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_automaton_make(const struct pattern *pattern, const struct class_map *map,
                                struct automaton *automaton, smol_error *error);

void smol_automaton_free(struct automaton *automaton);

#endif

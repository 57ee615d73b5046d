/* Patterns as deterministic automata: the tables that the runtime scans with. */
#ifndef SMOL_CONVERT_AUTOMATON_H
#define SMOL_CONVERT_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/pattern.h"

/* The characters that no pattern tells apart share a class. Start from zeros. */
struct class_map {
    uint32_t
        *starts; /* (n_starts), ascending, owned: where a run of code points of a class starts */
    uint8_t *classes; /* (n_starts), owned */
    size_t n_starts;
    uint32_t n_classes; /* 1..SCANNER_MAX_CLASSES */
};

/* Makes the classes for patterns[0..n). Free in any case. Errors: SMOL_ERROR_UNSUPPORTED (they tell
 * too many characters apart), SMOL_ERROR_MEMORY. */
smol_status smol_class_map_make(const struct pattern *patterns, size_t n, struct class_map *map,
                                smol_error *error);

/* A set of symbols: classes, and, as number n_classes, the start or end of the text. */
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

/* The symbols of a set of one of the patterns that the map was made for. */
void smol_class_map_symbols(const struct class_map *map, const struct code_set *set,
                            struct symbol_set *symbols);

void smol_class_map_free(struct class_map *map);

/* For each state and each symbol (a class; the last one: the end of the text) state << 1 | match:
 * the state that a character of the class leads to, and whether a match ends before it. State 0 has
 * nothing more to find. Start from zeros. */
struct automaton {
    uint16_t *next;   /* (n_states, n_symbols), owned */
    uint16_t *starts; /* (n_symbols), owned: the state to start in after a character of that class;
                         the last one: at the start of the text. No transition leads to one */
    uint32_t n_states, n_symbols;
};

/* Compiles a pattern. What it matches first is what the reference's engine, which tries one way
 * after the other, finds first. Free in any case. Errors: SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_automaton_make(const struct pattern *pattern, const struct class_map *map,
                                struct automaton *automaton, smol_error *error);

void smol_automaton_free(struct automaton *automaton);

#endif

/* A regular expression of a pre-tokenizer as a tree. The language is Oniguruma's with its Ruby
 * syntax, which the reference's engine speaks, as far as an automaton without a stack can follow:
 * what it cannot do, or what we are not sure to read as that engine does, is refused. */
#ifndef SMOL_CONVERT_PATTERN_H
#define SMOL_CONVERT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/code_set.h"

enum {
    PATTERN_MAX_BYTES = 16384,
    PATTERN_MAX_DEPTH = 64,    /* groups within groups */
    PATTERN_MAX_REPEAT = 1000, /* the largest count in {n,m} */
};

enum pattern_kind {
    PATTERN_EMPTY,  /* matches nothing at all, everywhere */
    PATTERN_SET,    /* one character of `set` */
    PATTERN_CONCAT, /* left, then right; sequences grow on the left */
    PATTERN_CHOICE, /* left or else right; likewise */
    PATTERN_REPEAT, /* left, min to max times, as often as possible unless `lazy` */
    PATTERN_ATOMIC, /* left, without a second thought */
    PATTERN_AHEAD,  /* the next character is in `set`, or, if `edge`, there is none */
    PATTERN_BEHIND, /* the character before is in `set`, or, if `edge`, there is none */
};
#define REPEAT_FOREVER UINT32_MAX

struct pattern_node {
    enum pattern_kind kind;
    uint32_t left, right; /* nodes */
    uint32_t set;
    uint32_t min, max; /* max may be REPEAT_FOREVER */
    bool lazy, edge;
    bool nullable; /* may match without taking a character; smol_pattern_add sees to it */
};

/* Start from zeros. */
struct pattern {
    struct pattern_node *nodes; /* (n_nodes), owned */
    size_t n_nodes, nodes_capacity;
    struct code_set *sets; /* (n_sets), owned, each different */
    size_t n_sets, sets_capacity;
    uint32_t root;
    bool no_memory; /* that is why something could not be added */
};

/* Reads text[0..size), well-formed UTF-8. Of a refusal *error tells what and where; the caller
 * quotes the pattern. Free the pattern in any case. Errors: SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_pattern_parse(const char *text, size_t size, struct pattern *pattern,
                               smol_error *error);

/* As above, for a text that matches itself. */
smol_status smol_pattern_literal(const char *text, size_t size, struct pattern *pattern,
                                 smol_error *error);

void smol_pattern_free(struct pattern *pattern);

/* --- building, for the parser -------------------------------------------------------------- */

/* Adds a node; false when memory is short or there are too many. */
bool smol_pattern_add(struct pattern *pattern, struct pattern_node node, uint32_t *index);

/* Takes the set over, also on failure; an equal one that is there already is used instead. */
bool smol_pattern_add_set(struct pattern *pattern, struct code_set *set, uint32_t *index);

#endif

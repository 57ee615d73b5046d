/* A regular expression as a tree. The expressions of pre-tokenizers are read as the reference's
 * engine reads them, Oniguruma with Ruby's syntax, restricted to what an automaton without a stack
 * can match. The parser refuses other expressions, and any whose reading by that engine is
 * uncertain. Expressions that describe a set of texts need fewer restrictions. */
#ifndef SMOL_COMMON_PATTERN_H
#define SMOL_COMMON_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pattern/code_set.h"

enum {
    PATTERN_MAX_BYTES = 16384,
    PATTERN_MAX_DEPTH = 64,      /* nested groups */
    PATTERN_MAX_REPEAT = 1000,   /* the largest count in {n,m}, in DIALECT_SCANNER */
    PATTERN_MAX_COUNT = 1 << 24, /* the same elsewhere */
};

enum pattern_dialect {
    DIALECT_SCANNER, /* Ruby's syntax; finds what the reference finds */
    DIALECT_RUBY,    /* the same syntax; only the set of matching texts is of interest */
    DIALECT_ECMA,    /* ECMA-262, as JSON Schema's `pattern`; only the set is of interest */
};

enum pattern_kind {
    PATTERN_EMPTY,      /* matches the empty string */
    PATTERN_SET,        /* one character of `set` */
    PATTERN_CONCAT,     /* left, then right; sequences nest on the left */
    PATTERN_CHOICE,     /* left or else right; nests on the left */
    PATTERN_REPEAT,     /* left, min to max times, as often as possible unless `lazy` */
    PATTERN_ATOMIC,     /* left, without backtracking */
    PATTERN_AHEAD,      /* the next character is in `set`, or, if `edge`, the text ends */
    PATTERN_LOOKBEHIND, /* the previous character is in `set`, or, if `edge`, the text starts */
    PATTERN_REST,       /* left matches a start of what follows; if `negated`, it does not */
    PATTERN_BEFORE,     /* left matches an end of what precedes; if `negated`, it does not */
};
#define REPEAT_FOREVER UINT32_MAX

struct pattern_node {
    enum pattern_kind kind;
    uint32_t left, right; /* nodes */
    uint32_t set;
    uint32_t min, max; /* max may be REPEAT_FOREVER */
    uint32_t at;       /* the position in the pattern after the node, in bytes */
    bool lazy, edge, negated;
    /* set by smol_pattern_add: may match the empty string; contains a node that looks around */
    bool nullable, looks;
};

/* Initialize to zeros. */
struct pattern {
    struct pattern_node *nodes; /* (n_nodes), owned */
    size_t n_nodes, nodes_capacity;
    struct code_set *sets; /* (n_sets), owned, all different */
    size_t n_sets, sets_capacity;
    uint32_t root;
    enum pattern_dialect dialect; /* set by the caller; DIALECT_SCANNER adds no PATTERN_BEFORE */
    bool no_memory;               /* an element could not be added for lack of memory */
};

/* Parses text[0..size), well-formed UTF-8. On failure, *error contains the reason and the position;
 * the caller quotes the pattern. Call smol_pattern_free, also after an error. Errors:
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_pattern_parse(const char *text, size_t size, struct pattern *pattern,
                               smol_error *error);

/* Creates a pattern that matches text[0..size) literally; otherwise as above. */
smol_status smol_pattern_literal(const char *text, size_t size, struct pattern *pattern,
                                 smol_error *error);

void smol_pattern_free(struct pattern *pattern);

/* --- building, for the parser -------------------------------------------------------------- */

/* Adds a node. Returns false if out of memory or if there are too many. */
bool smol_pattern_add(struct pattern *pattern, struct pattern_node node, uint32_t *index);

/* Takes ownership of the set, also on failure. Reuses an equal set if one exists. */
bool smol_pattern_add_set(struct pattern *pattern, struct code_set *set, uint32_t *index);

#endif

/* The pattern parser, shared by pattern_parse.c, pattern_class.c and pattern_ecma.c. */
#ifndef SMOL_COMMON_PATTERN_PARSER_H
#define SMOL_COMMON_PATTERN_PARSER_H

#include "common/pattern/pattern.h"

struct pattern_parser {
    const uint8_t *text; /* (size), well-formed UTF-8 */
    size_t size, at;
    struct pattern *pattern;
    smol_error *error;
    bool ignore_case, dot_takes_newline;
    unsigned depth;
    uint32_t folds[3]; /* the last literals that ignore case, in order */
    size_t n_folds;
};

#define NO_CHARACTER UINT32_MAX

/* Returns the character at p->at and moves past it; NO_CHARACTER at the end. */
uint32_t smol_parser_next(struct pattern_parser *p);

static inline bool speaks(const struct pattern_parser *p, enum pattern_dialect dialect)
{
    return p->pattern->dialect == dialect;
}

/* Returns whether `word` is next. */
bool smol_parser_sees(const struct pattern_parser *p, const char *word);

/* Skips `word` if it is next; returns whether it was. */
bool smol_parser_skip(struct pattern_parser *p, const char *word);

/* Returns SMOL_ERROR_UNSUPPORTED with the message `what` and the position. */
smol_status smol_parser_refuse(const struct pattern_parser *p, const char *what);

/* Returns the error for a node or set that could not be added. */
smol_status smol_parser_full(const struct pattern_parser *p);

/* A pattern that matches one character: a set, or the character itself. */
struct class_member {
    uint32_t character;  /* NO_CHARACTER: it is a set */
    struct code_set set; /* owned; settled */
    bool negated;        /* matches the characters outside the set */
};

/* Parses an escape after its backslash, inside or outside a class. */
smol_status smol_parser_escape(struct pattern_parser *p, bool in_class, struct class_member *one);

/* Parses a class after its "[" into the set of characters that it matches. */
smol_status smol_parser_class(struct pattern_parser *p, struct code_set *set);

/* Reads up to `max` hexadecimal digits into *value, and returns their number. */
unsigned smol_parser_hex(struct pattern_parser *p, unsigned max, uint32_t *value);

/* Parse an escape and a class like smol_parser_escape and smol_parser_class, in ECMA-262's syntax.
 */
smol_status smol_ecma_escape(struct pattern_parser *p, bool in_class, struct class_member *one);
smol_status smol_ecma_class(struct pattern_parser *p, struct code_set *set);

/* Adds the characters that \d, \w or \s matches in ECMA-262. Returns false for other letters. */
bool smol_ecma_shorthand(uint32_t letter, struct code_set *set);

/* Returns whether a count such as {2,3} is next in ECMA-262's syntax, where other braces match
 * themselves. */
bool smol_ecma_counts(const struct pattern_parser *p);

/* Adds the other case of the set's characters if p ignores case. Refuses characters that equal
 * several others if case is ignored. */
smol_status smol_parser_fold(struct pattern_parser *p, struct code_set *set);

#endif

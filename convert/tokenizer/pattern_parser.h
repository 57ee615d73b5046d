/* The reader of patterns, for pattern_parse.c and pattern_class.c. */
#ifndef SMOL_CONVERT_PATTERN_PARSER_H
#define SMOL_CONVERT_PATTERN_PARSER_H

#include "convert/tokenizer/pattern.h"

struct pattern_parser {
    const uint8_t *text; /* (size), well-formed UTF-8 */
    size_t size, at;
    struct pattern *pattern;
    smol_error *error;
    bool ignore_case, dot_takes_newline;
    unsigned depth;
    uint32_t folds[3]; /* the last literals that ignore case, the latest last */
    size_t n_folds;
};

#define NO_CHARACTER UINT32_MAX

/* The character at p->at, which moves on; NO_CHARACTER at the end. */
uint32_t smol_parser_next(struct pattern_parser *p);

/* Whether the text continues with `word`, which is then skipped. */
bool smol_parser_skip(struct pattern_parser *p, const char *word);

/* SMOL_ERROR_UNSUPPORTED: `what`, with the place. */
smol_status smol_parser_refuse(const struct pattern_parser *p, const char *what);

/* The complaint that no node or set could be added. */
smol_status smol_parser_full(const struct pattern_parser *p);

/* A pattern of one character: a set, or the character itself. */
struct class_member {
    uint32_t character;  /* NO_CHARACTER: it is a set */
    struct code_set set; /* owned; settled */
    bool negated;        /* what is not in the set */
};

/* Reads an escape after its backslash, in classes and outside. */
smol_status smol_parser_escape(struct pattern_parser *p, bool in_class, struct class_member *one);

/* Reads a class after its "[": the set of characters that it matches. */
smol_status smol_parser_class(struct pattern_parser *p, struct code_set *set);

/* Lets the set take in the other case of its characters if p ignores case; refuses characters that
 * equal several others then. */
smol_status smol_parser_fold(struct pattern_parser *p, struct code_set *set);

#endif

/* Terms of one character out of a set. */
#ifndef SMOL_RUNTIME_CHARACTERS_H
#define SMOL_RUNTIME_CHARACTERS_H

#include "common/code_range.h"
#include "runtime/constrain/term.h"

/* Writes one character out of ranges[0..n), sorted and disjoint code points, as a term. Surrogates
 * (0xd800 to 0xdfff) in the ranges stand for nothing. No two characters may have a text in common,
 * nor may the text of one be the start of another's. */
typedef term character_term(void *user, struct term_table *table, const struct code_range *ranges,
                            size_t n);

/* The characters as UTF-8; `user` is not used. */
term smol_utf8_term(void *user, struct term_table *table, const struct code_range *ranges,
                    size_t n);

/* One character out of ranges (n), ascending and disjoint, inside a JSON string, in all spellings:
 * raw UTF-8, short escapes, \uXXXX, surrogate pairs. */
term smol_json_character(struct term_table *table, const struct code_range *ranges, size_t n);

/* Any one character inside a JSON string. */
term smol_json_any_character(struct term_table *table);

#endif

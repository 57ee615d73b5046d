/* Terms for characters and the parts of JSON that several front ends need. */
#ifndef SMOL_RUNTIME_JSON_TERMS_H
#define SMOL_RUNTIME_JSON_TERMS_H

#include "common/code_range.h"
#include "runtime/constrain/json_tree.h"
#include "runtime/constrain/term.h"

/* White space between the parts of a value. */
enum json_space {
    JSON_COMPACT,  /* none */
    JSON_SPACED,   /* one space after each comma and colon */
    JSON_INDENTED, /* one member or element per line, indented by two spaces per level */
};

/* Collects terms for one of them; cheaper than one smol_term_either after another. */
struct term_choices {
    struct term_table *table;
    term *terms; /* (n) */
    size_t n, capacity;
};

void smol_choices_add(struct term_choices *choices, term a);

/* Returns one of the terms, and frees the list. */
term smol_choices_end(struct term_choices *choices);

/* A string with min to max characters, a unit; max may be TERM_FOREVER. */
term smol_json_string_term(struct term_table *table, uint32_t min, uint32_t max);

/* Any number, a unit. */
term smol_json_number_term(struct term_table *table);

/* Any value, with JSON_COMPACT or JSON_SPACED white space. */
term smol_json_any_term(struct term_table *table, enum json_space white_space);

/* The text of a string with its quotes, each character in the usual spelling: raw where possible.
 */
term smol_json_literal_term(struct term_table *table, struct json_text text);

/* --- characters.c: one character out of a set ---------------------------------------------- */

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

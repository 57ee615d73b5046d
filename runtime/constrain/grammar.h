/* Grammars and lists of choices as terms.
 *
 * A grammar is text in llama.cpp's GBNF: rules such as `list ::= "- " item+`, of which `root` is
 * the whole text. Beside GBNF, a rule may have `:=`, `:` or `=` for `::=`, may end with `;` and may
 * continue on further lines; '...' is a literal too; and /.../ is a regular expression in the
 * syntax of pre-tokenizers (see regex.h). A rule must not begin with itself. */
#ifndef SMOL_RUNTIME_GRAMMAR_H
#define SMOL_RUNTIME_GRAMMAR_H

#include <stddef.h>

#include "common/error.h"
#include "runtime/constrain/term.h"

enum { GRAMMAR_MAX_BYTES = 1 << 20 };

/* Sets *root to the texts of the grammar text[0..size). smol_terms_finish finds those rules that
 * begin with themselves that this function does not. Errors: SMOL_ERROR_UNSUPPORTED (with line and
 * column), SMOL_ERROR_MEMORY. */
smol_status smol_grammar_term(struct term_table *table, const char *text, size_t size, term *root,
                              smol_error *error);

/* Sets *root to the texts in a JSON list. Errors: SMOL_ERROR_USAGE (not such a list),
 * SMOL_ERROR_MEMORY. */
smol_status smol_choices_term(struct term_table *table, const char *list, size_t size, term *root,
                              smol_error *error);

#endif

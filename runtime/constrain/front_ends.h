/* The languages of constraints, read as terms: regular expressions, grammars, lists of choices,
 * JSON Schemas, calls of tools, and reasoning before any of them. */
#ifndef SMOL_RUNTIME_FRONT_ENDS_H
#define SMOL_RUNTIME_FRONT_ENDS_H

#include <stddef.h>

#include "common/error.h"
#include "format/template.h"
#include "format/tokenizer.h"
#include "runtime/constrain/json_terms.h"
#include "runtime/constrain/spelling.h"
#include "runtime/constrain/term.h"
#include "smol.h"

/* --- regex.c: regular expressions ----------------------------------------------------------- */

enum regex_anchoring {
    REGEX_WHOLE,  /* the texts that match from start to end, in the syntax of pre-tokenizers (Ruby)
                   */
    REGEX_SEARCH, /* the texts that contain a match, in the syntax of ECMA-262 (JSON Schema) */
};

/* Sets *out to the texts of pattern[0..size), each character written by `character`. The term is
 * regular. Refuses what cannot be expressed: back-references, atomic groups, and what looks around
 * inside of repetitions or at several preceding characters, except in simple cases. Errors:
 * SMOL_ERROR_UNSUPPORTED (with the position in bytes; the caller quotes the pattern),
 * SMOL_ERROR_MEMORY. */
smol_status smol_regex_term(struct term_table *table, const char *pattern, size_t size,
                            enum regex_anchoring anchoring, character_term *character, void *user,
                            term *out, smol_error *error);

/* --- grammar.c: grammars and lists of choices ------------------------------------------------ */

/* A grammar is text in llama.cpp's GBNF: rules such as `list ::= "- " item+`, of which `root` is
 * the whole text. Beside GBNF, a rule may have `:=`, `:` or `=` for `::=`, may end with `;` and may
 * continue on further lines; '...' is a literal too; and /.../ is a regular expression in the
 * syntax of pre-tokenizers (REGEX_WHOLE). A rule must not begin with itself. */
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

/* --- schema.c: JSON Schemas ------------------------------------------------------------------ */

/* All drafts since 4 are read (docs/structured-output.md lists the keywords). A keyword that cannot
 * be enforced exactly is an error that names it and its place. */
struct schema_options {
    enum json_space white_space; /* of JSON */
    bool any_order; /* properties in any order, not in the schema's: for objects of few names */
    const struct spelling *spelling; /* by level, the value has 0; NULL: JSON */
};

enum {
    SCHEMA_MAX_SIZE = 16 << 20, /* bytes of a schema */
    SCHEMA_MAX_DEPTH = 200,     /* values within values, counted through references */
};

/* Sets *root to the term of the texts that are instances of the schema text[0..size), which is
 * untrusted. The caller calls smol_terms_finish, which reports a schema without instances. Errors:
 * SMOL_ERROR_USAGE (not JSON, or a keyword has a wrong value), SMOL_ERROR_UNSUPPORTED (a keyword
 * that cannot be enforced exactly, no instance, limits), SMOL_ERROR_MEMORY. */
smol_status smol_schema_term(struct term_table *table, const char *text, size_t size,
                             const struct schema_options *options, term *root, smol_error *error);

/* --- tools.c: answers that may call tools ---------------------------------------------------- */

enum { TOOLS_MAX = 1024 }; /* tools of a conversation */

/* An answer, and its parts that may end reasoning. */
struct answer_terms {
    term whole;
    term calls;      /* calls of tools alone, or TERM_NOTHING */
    bool may_be_cut; /* the answer may end anywhere */
};

/* Sets *answer to the answers with calls in the style `texts` of the tools in params->text, an
 * untrusted JSON list; those without calls are `text`, or if params has no answer_schema any text.
 * Special tokens of the style stand for themselves (see trie.h). Errors:
 * SMOL_ERROR_USAGE (not such a list; params->tool_choice is not one of its tools) and those of
 * smol_schema_term, with the tool's name. */
smol_status smol_tools_term(struct term_table *table, const struct tokenizer_tables *tokenizer,
                            const struct tool_style_texts *texts,
                            const smol_constraint_params *params, term text,
                            struct answer_terms *answer, smol_error *error);

/* --- reasoning.c: reasoning before an answer ------------------------------------------------- */

struct trie;

/* The markers of a model, at most 32 bytes each. Special tokens of the vocabulary with which they
 * begin stand for themselves. */
struct reasoning_texts {
    const char *open;  /* NULL: the prompt has it, so the answer begins within the reasoning */
    const char *close; /* only white space may come between it and the answer */
    const char *call;  /* begins calls, which end the reasoning too; NULL: none does */
};

/* Returns the answers with reasoning before them; with texts->open, also those without. */
term smol_reasoning_term(struct term_table *table, const struct trie *vocabulary,
                         const struct reasoning_texts *texts, const struct answer_terms *answer);

#endif

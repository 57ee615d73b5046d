/* JSON Schema as a term: the texts that are valid instances of a schema.
 *
 * All drafts since 4 are read (docs/structured-output.md lists the keywords). A keyword that cannot
 * be enforced exactly is an error that names it and its place. */
#ifndef SMOL_RUNTIME_SCHEMA_H
#define SMOL_RUNTIME_SCHEMA_H

#include "runtime/constrain/spelling.h"
#include "runtime/constrain/term.h"

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

#endif

/* Regular expressions as terms. */
#ifndef SMOL_RUNTIME_REGEX_H
#define SMOL_RUNTIME_REGEX_H

#include <stddef.h>

#include "common/error.h"
#include "runtime/constrain/characters.h"

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

#endif

/* Shared by the fuzz targets of constraints. */
#ifndef SMOL_TESTS_FUZZ_CONSTRAINT_H
#define SMOL_TESTS_FUZZ_CONSTRAINT_H

#include "runtime/constrain/term.h"
#include "tests/fuzz/fuzz.h"

/* Settles the table, whose root is a term, and follows one text: what follows a part of it is never
 * the end of all texts. Frees the table. */
static inline void follow_text(struct term_table *table, term root, uint8_t choice)
{
    enum { MAX_TEXT = 64 };
    smol_error error;
    if (smol_terms_finish(table, root, &error)) {
        smol_terms_free(table);
        return;
    }
    term at = smol_terms_root(table);
    for (size_t n = 0; n < MAX_TEXT && at != TERM_NOTHING; n++) {
        term next = TERM_NOTHING;
        for (unsigned i = 0; i < 256 && next == TERM_NOTHING; i++)
            next = smol_term_after(table, at, (uint8_t)(choice + 7 * n + i));
        CLAIM(next != TERM_NOTHING || smol_term_may_end(table, at) ||
              smol_terms_status(table, &error));
        at = next;
    }
    smol_terms_free(table);
}

#endif

/* Standard input line by line, in bounded memory. */
#ifndef SMOL_SMOLRUN_LINES_H
#define SMOL_SMOLRUN_LINES_H

#include <stdbool.h>

#include "smol.h"

enum { MAX_LINE = 1 << 20 }; /* bytes, without its end */

/* Zeroed: at the start. free(buffer) when done. */
struct lines {
    char
        *buffer; /* (MAX_LINE + 1): [at, size) is not used yet, [at, looked) has no end of a line */
    size_t at, looked, size;
    bool ended, skipping; /* skipping: what is left of a line that was too long */
};

enum line_kind {
    LINE_TEXT = 0,
    LINE_TOO_LONG, /* longer than MAX_LINE; it is skipped to its end */
    LINE_LATER,    /* none has come yet */
    LINE_END,
};

struct line {
    enum line_kind kind;
    const char *text; /* (size), without its end, until the next call; empty but for LINE_TEXT */
    size_t size;
};

/* The next line; the last one may lack its end. Without `wait`, LINE_LATER rather than waiting for
 * one. Errors: FILE, MEMORY. */
smol_status smol_lines_next(struct lines *lines, bool wait, struct line *line, smol_error *error);

#endif

/* Lines of standard input, read in bounded memory. */
#ifndef SMOL_SMOLRUN_LINES_H
#define SMOL_SMOLRUN_LINES_H

#include <stdbool.h>

#include "smol.h"

enum { MAX_LINE = 1 << 20 }; /* bytes, without the line end */

/* Zeros are the start of the input. The caller frees `buffer`. */
struct lines {
    char *buffer; /* (MAX_LINE + 1): [at, size) is unused, [at, looked) has no line end */
    size_t at, looked, size;
    bool ended, skipping; /* skipping: the rest of a line that is too long */
};

enum line_kind {
    LINE_TEXT = 0,
    LINE_TOO_LONG, /* longer than MAX_LINE; skipped to its end */
    LINE_LATER,    /* no line has arrived yet */
    LINE_END,
};

struct line {
    enum line_kind kind;
    const char *text; /* (size), without LF or CR LF, until the next call; only for LINE_TEXT */
    size_t size;
};

/* Reads the next line; the last one may lack its line end. Without `wait`, sets LINE_LATER if no
 * line has arrived. Errors: FILE, MEMORY. */
smol_status smol_lines_next(struct lines *lines, bool wait, struct line *line, smol_error *error);

#endif

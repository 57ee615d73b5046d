/* Text in memory: read from an argument, a file or standard input, or collected piece by piece
 * (struct buffer), and its UTF-8. */
#ifndef SMOL_CLI_TEXT_H
#define SMOL_CLI_TEXT_H

#include "cli/input.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/utf8.h"

struct text_in {
    const char *text; /* (size), not NULL */
    size_t size;
    char *owned; /* for the caller to free; NULL for an argument */
};

/* Returns the argument itself, or reads all of standard input if it is "-". Errors:
 * SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_text_read(const char *argument, struct text_in *in, smol_error *error);

/* Reads all of an open file and closes it. Errors: as smol_text_read. */
smol_status smol_text_read_input(struct input *input, struct text_in *in, smol_error *error);

#endif

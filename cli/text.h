/* Text in memory: read from an argument, a file or standard input, or growing piece by piece
 * (struct buffer), and its UTF-8. */
#ifndef SMOL_CLI_TEXT_H
#define SMOL_CLI_TEXT_H

#include "cli/input.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/utf8.h"

struct text_in {
    const char *text;
    size_t size;
    char *owned; /* for the caller to free; NULL for an argument */
};

/* The argument itself, or for "-" all of standard input. Errors: SMOL_ERROR_FILE,
 * SMOL_ERROR_MEMORY. */
smol_status smol_text_read(const char *argument, struct text_in *in, smol_error *error);

/* All of an open file, which it closes; the same errors. */
smol_status smol_text_read_input(struct input *input, struct text_in *in, smol_error *error);

#endif

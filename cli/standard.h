/* The standard streams of a program. */
#ifndef SMOL_CLI_STANDARD_H
#define SMOL_CLI_STANDARD_H

#include <stdio.h>

#include "common/buffer.h"
#include "common/error.h"

/* Opens the standard descriptors that the parent process left closed. Otherwise a file opened later
 * takes such a number, and is read as standard input or receives printed text. Reading and writing
 * these descriptors still fails. Call it first in main. */
void smol_standard_reserve(void);

/* Flushes standard output. After a failure, drops the rest, so that no text follows a gap. Call it
 * right after printing, while errno holds the reason of a failed write. Errors: SMOL_ERROR_FILE;
 * the message is empty if the reader has closed the pipe (`smolrun ... | head`). */
smol_status smol_standard_flush(smol_error *error);

/* Output that is printed whole or not at all. */
struct held_output {
    FILE *file; /* to print to */
    struct buffer text;
};

/* Starts holding output. After SMOL_OK, call one of the following functions once. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_held_start(struct held_output *held, smol_error *error);

/* Moves what is held to *text, to be freed with smol_free. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_held_take(struct held_output *held, struct buffer *text, smol_error *error);

/* Drops what is held. */
void smol_held_drop(struct held_output *held);

/* Prints what is held if `status` is SMOL_OK, drops it otherwise. Returns `status`, or
 * SMOL_ERROR_MEMORY if the memory did not suffice. */
smol_status smol_held_release(struct held_output *held, smol_status status, smol_error *error);

#endif

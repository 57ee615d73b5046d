/* The standard streams of a program. */
#ifndef SMOL_CLI_STANDARD_H
#define SMOL_CLI_STANDARD_H

#include "common/error.h"

/* Opens the standard descriptors that the parent process left closed. Otherwise a file opened later
 * takes such a number, and is read as standard input or receives printed text. Reading and writing
 * these descriptors still fails. Call it first in main. */
void smol_standard_reserve(void);

/* Flushes standard output. After a failure, drops the rest, so that no text follows a gap. Call it
 * right after printing, while errno holds the reason of a failed write. Errors: SMOL_ERROR_FILE;
 * the message is empty if the reader has closed the pipe (`smolrun ... | head`). */
smol_status smol_standard_flush(smol_error *error);

#endif

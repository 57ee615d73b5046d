/* The standard streams of a program. */
#ifndef SMOL_CLI_STANDARD_H
#define SMOL_CLI_STANDARD_H

#include "common/error.h"

/* Opens the standard descriptors that the parent process left closed, so that no file opened later
 * takes their numbers and is read as standard input or receives what is printed. Reading and
 * writing them fails, as before. Call it first in main. */
void smol_standard_reserve(void);

/* Writes out what was printed to standard output. After a failure it drops the rest, so that
 * nothing follows a gap. Call it right after printing, while errno holds the reason of a failed
 * write. Errors: SMOL_ERROR_FILE; the message is empty if the reader has closed the pipe
 * (`smolrun ... | head`). */
smol_status smol_standard_flush(smol_error *error);

#endif

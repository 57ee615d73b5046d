/* Failures of a program: the message and the exit status. */
#ifndef SMOL_CLI_PRINT_H
#define SMOL_CLI_PRINT_H

#include "common/error.h"

/* Prints "PROGRAM: MESSAGE" to standard error, unless the error has no message. */
void smol_print_failure(const char *program, const smol_error *error);

/* Prints a failure, if `status` is one. Returns the exit status that belongs to `status`: 0 to 8,
 * as --help lists them. */
int smol_exit_status(const char *program, smol_status status, const smol_error *error);

#endif

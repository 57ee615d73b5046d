/* Failures of a program: the message and the exit status. */
#ifndef SMOL_CLI_PRINT_H
#define SMOL_CLI_PRINT_H

#include "common/error.h"

/* Returns the exit status of a program that ended with `status`: 0 to 8, as --help lists them. */
int smol_exit_status(smol_status status);

/* Prints the message of a failure to standard error. Returns the exit status. */
int smol_command_status(smol_status status, const smol_error *error);

#endif

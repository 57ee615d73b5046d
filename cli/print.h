/* How a program reports its failure: a message and an exit status. */
#ifndef SMOL_CLI_PRINT_H
#define SMOL_CLI_PRINT_H

#include "common/error.h"

/* The exit status of a program whose work ended with `status`: 0 to 8, as --help lists them. */
int smol_exit_status(smol_status status);

/* Prints the message of a failure and returns the exit status. */
int smol_command_status(smol_status status, const smol_error *error);

#endif

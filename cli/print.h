/* How a program reports its failure. */
#ifndef SMOL_CLI_PRINT_H
#define SMOL_CLI_PRINT_H

#include "common/error.h"

/* Prints the message of a failure and returns the exit status. */
int smol_command_status(smol_status status, const smol_error *error);

#endif

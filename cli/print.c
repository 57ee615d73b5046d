/* Failure messages and exit statuses, see print.h. */
#include "cli/print.h"

#include <stdio.h>

static int number_of(smol_status status)
{
    switch (status) {
    case SMOL_OK:
        return 0;
    case SMOL_ERROR_MISMATCH:
        return 1;
    case SMOL_ERROR_USAGE:
        return 2;
    case SMOL_ERROR_FILE:
        return 3;
    case SMOL_ERROR_DAMAGED:
        return 4;
    case SMOL_ERROR_UNSUPPORTED:
        return 5;
    case SMOL_ERROR_MEMORY:
        return 6;
    case SMOL_ERROR_NUMERIC:
        return 7;
    case SMOL_ERROR_CONTEXT_FULL:
        return 8;
    case SMOL_ERROR_CANCELLED: /* no command returns it */
        break;
    }
    return 9;
}

void smol_print_failure(const char *program, const smol_error *error)
{
    if (error->message[0])
        fprintf(stderr, "%s: %s\n", program, error->message);
}

int smol_exit_status(const char *program, smol_status status, const smol_error *error)
{
    if (status)
        smol_print_failure(program, error);
    return number_of(status);
}

/* Reports of failures, see print.h. */
#include "cli/print.h"

#include <stdio.h>

int smol_command_status(smol_status status, const smol_error *error)
{
    if (status && error->message[0])
        fprintf(stderr, "smolrun: %s\n", error->message);
    return (int)status;
}

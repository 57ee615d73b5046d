/* The standard streams, see standard.h. */
#include "cli/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

void smol_standard_reserve(void)
{
    /* open returns the lowest free number, which is fd: the lower ones are in use. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/", O_PATH | O_CLOEXEC); /* always exists, and can be neither read nor written */
}

smol_status smol_standard_flush(smol_error *error)
{
    if (!ferror(stdout) && fflush(stdout) == 0)
        return SMOL_OK;
    int reason = errno;
    __fpurge(stdout);
    if (reason == EPIPE) {
        *error = (smol_error){.status = SMOL_ERROR_FILE};
        return SMOL_ERROR_FILE;
    }
    return smol_fail(error, SMOL_ERROR_FILE, "standard output: cannot write (%s)",
                     strerror(reason));
}

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
    /* A new descriptor gets the lowest free number: this one, as those below it are taken. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/", O_PATH | O_CLOEXEC); /* neither readable nor writable, and always there */
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

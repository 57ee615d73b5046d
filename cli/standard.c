/* Standard input, output and error, see standard.h. */
#include "cli/standard.h"

#include <fcntl.h>
#include <unistd.h>

void smol_standard_reserve(void)
{
    /* a new descriptor is the lowest one that is free: this one, as those before it are taken */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/", O_PATH | O_CLOEXEC); /* neither readable nor writable, and always there */
}

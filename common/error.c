/* Error reports, see error.h. */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status smol_fail(struct error *error, enum status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    for (char *c = error->message; *c; c++)
        if (is_control(*c))
            *c = '?';
    return status;
}

enum status smol_fail_errno(struct error *error, const char *path, const char *action)
{
    bool memory = errno == ENOMEM;
    return smol_fail(error, memory ? STATUS_MEMORY : STATUS_FILE, "%.300s: cannot %s (%s): %s",
                     path, action, strerror(errno),
                     memory ? "free some memory or use a smaller model"
                            : "check the path, its permissions and the disk");
}

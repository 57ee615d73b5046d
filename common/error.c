/* Error reports, see error.h. */
#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>

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

/* Error reports, see error.h. */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Returns whether a character from U+0080 to U+009F starts at `c`. Terminals obey these too, so
 * both bytes are replaced. */
static bool is_second_control(const char *c)
{
    return (uint8_t)c[0] == 0xc2 && ((uint8_t)c[1] & 0xe0) == 0x80;
}

smol_status smol_fail(smol_error *error, smol_status status, const char *format, ...)
{
    if (!error)
        return status;
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    for (char *c = error->message; *c; c++)
        if (is_control(*c))
            *c = '?';
        else if (is_second_control(c))
            c[0] = c[1] = '?';
    return status;
}

smol_status smol_fail_errno(smol_error *error, const char *path, const char *action)
{
    bool memory = errno == ENOMEM;
    return smol_fail(error, memory ? SMOL_ERROR_MEMORY : SMOL_ERROR_FILE,
                     "%.300s: cannot %s (%s): %s", path, action, strerror(errno),
                     memory ? "free memory or use a smaller model"
                            : "check the path, its permissions and the disk");
}

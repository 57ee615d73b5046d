/* Fills in smol_error, the one error type of the tree (smol.h). */
#ifndef SMOL_COMMON_ERROR_H
#define SMOL_COMMON_ERROR_H

#include <stdbool.h>

#include "smol.h"

/* Whether byte `c` could steer a terminal: text from files is shown with '?' in its place. */
static inline bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Fills *error, unless it is NULL, and returns `status`, so that a check reads
 * `return smol_fail(...)`. Messages that are too long are cut. Control bytes in the result are
 * replaced by '?': parts of it may come from hostile files. */
smol_status smol_fail(smol_error *error, smol_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Makes *error, unless it is NULL, that of a call without an error. Functions of the public header
 * do this first; what they call fills it in on failure and leaves it alone on success. */
static inline void error_clear(smol_error *error)
{
    if (error)
        error->status = SMOL_OK, error->message[0] = '\0';
}

/* The report for a failed allocation of `what`. Inline, so that callers' compilers and analyzers
 * see that the result is not SMOL_OK. */
static inline smol_status smol_fail_memory(smol_error *error, const char *what)
{
    smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for %s: free memory or use a smaller model",
              what);
    return SMOL_ERROR_MEMORY;
}

/* The report for a system call on the file `path` that failed, as errno says: "cannot `action`".
 * SMOL_ERROR_FILE, or SMOL_ERROR_MEMORY where that is the reason. */
smol_status smol_fail_errno(smol_error *error, const char *path, const char *action);

#endif

/* Fills in smol_error, the only error type of the project (smol.h). */
#ifndef SMOL_COMMON_ERROR_H
#define SMOL_COMMON_ERROR_H

#include <stdbool.h>

#include "smol.h"

/* Returns whether byte `c` could control a terminal. Messages show '?' in place of such bytes from
 * files. */
static inline bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Fills *error, unless it is NULL, and returns `status`, so that a check reads `return
 * smol_fail(...)`. Truncates long messages and replaces control bytes with '?', because parts of a
 * message may come from hostile files. */
smol_status smol_fail(smol_error *error, smol_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Sets *error, unless it is NULL, to "no error". Public functions call this first. Internal
 * functions fill in *error on failure and do not change it on success. */
static inline void error_clear(smol_error *error)
{
    if (error)
        error->status = SMOL_OK, error->message[0] = '\0';
}

/* Reports a failed allocation of `what`. Inline, so that compilers and analyzers see that the
 * result is not SMOL_OK. */
static inline smol_status smol_fail_memory(smol_error *error, const char *what)
{
    smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for %s: free memory or use a smaller model",
              what);
    return SMOL_ERROR_MEMORY;
}

/* Reports a failed system call on the file `path`, with the reason in errno: "cannot `action`".
 * Returns SMOL_ERROR_MEMORY if memory ran out, otherwise SMOL_ERROR_FILE. */
smol_status smol_fail_errno(smol_error *error, const char *path, const char *action);

#endif

/* Error reports: a status that is also the exit status of both tools, and a message. */
#ifndef SMOL_COMMON_ERROR_H
#define SMOL_COMMON_ERROR_H

#include <stdbool.h>

/* What kind of thing went wrong. The values are the exit statuses of smolconv and smolrun. */
enum status {
    STATUS_OK = 0,
    STATUS_NO = 1,           /* a well-formed question whose answer is no */
    STATUS_USAGE = 2,        /* the caller's arguments make no sense */
    STATUS_FILE = 3,         /* a file is missing, unreadable or unwritable */
    STATUS_DAMAGED = 4,      /* a file is damaged or breaks its format */
    STATUS_UNSUPPORTED = 5,  /* well-formed, but not something we run */
    STATUS_MEMORY = 6,       /* out of memory */
    STATUS_NUMERIC = 7,      /* NaN or infinity where a number was due */
    STATUS_CONTEXT_FULL = 8, /* no room for another token */
    STATUS_CANCELLED = 9,    /* the library's caller asked for it; no exit status */
};

/* Whether byte `c` could steer a terminal: text from files is shown with '?' in its place. */
static inline bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Room for a path, a place and a remedy; longer messages are cut, never overrun. */
enum { ERROR_MESSAGE_SIZE = 512 };

struct error {
    enum status status;
    char message[ERROR_MESSAGE_SIZE]; /* `file: what is wrong (where): what to do`, no newline */
};

/* Fills *error and returns `status`, so that a check reads `return smol_fail(...)`.
 * Control bytes in the result are replaced by '?': parts of it may come from hostile files. */
enum status smol_fail(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* The report for a failed allocation of `what`. Inline, so that callers' compilers and analyzers
 * see that the result is not STATUS_OK. */
static inline enum status smol_fail_memory(struct error *error, const char *what)
{
    smol_fail(error, STATUS_MEMORY, "out of memory for %s: free some or use a smaller model", what);
    return STATUS_MEMORY;
}

/* The report for a system call on the file `path` that failed, as errno says: "cannot `action`".
 * STATUS_FILE, or STATUS_MEMORY where that is the reason. */
enum status smol_fail_errno(struct error *error, const char *path, const char *action);

#endif

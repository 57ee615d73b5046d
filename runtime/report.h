/* Internal error reports as public ones. */
#ifndef SMOL_RUNTIME_REPORT_H
#define SMOL_RUNTIME_REPORT_H

#include <string.h>

#include "common/error.h"
#include "runtime/smol.h"

_Static_assert((int)SMOL_ERROR_USAGE == STATUS_USAGE && (int)SMOL_ERROR_FILE == STATUS_FILE &&
                   (int)SMOL_ERROR_DAMAGED == STATUS_DAMAGED &&
                   (int)SMOL_ERROR_UNSUPPORTED == STATUS_UNSUPPORTED &&
                   (int)SMOL_ERROR_MEMORY == STATUS_MEMORY &&
                   (int)SMOL_ERROR_NUMERIC == STATUS_NUMERIC &&
                   (int)SMOL_ERROR_CONTEXT_FULL == STATUS_CONTEXT_FULL &&
                   (int)SMOL_ERROR_CANCELLED == STATUS_CANCELLED,
               "public and internal statuses are the same numbers");
_Static_assert(sizeof((smol_error *)0)->message == ERROR_MESSAGE_SIZE, "messages fit");

/* Fills the caller's *error, where there is one, and returns the status. */
static inline smol_status report(smol_error *error, enum status status, const struct error *detail)
{
    if (error) {
        *error = (smol_error){.status = (smol_status)status};
        if (status)
            memcpy(error->message, detail->message, sizeof error->message);
    }
    return (smol_status)status;
}

#endif

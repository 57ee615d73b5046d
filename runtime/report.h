/* Internal error reports as public ones. */
#ifndef SMOL_RUNTIME_REPORT_H
#define SMOL_RUNTIME_REPORT_H

#include <string.h>

#include "common/error.h"
#include "smol.h"

/* Fills the caller's *error, where there is one, and returns the status. */
static inline smol_status report(smol_error *error, smol_status status, const smol_error *detail)
{
    if (error) {
        *error = (smol_error){.status = status};
        if (status)
            memcpy(error->message, detail->message, sizeof error->message);
    }
    return status;
}

#endif

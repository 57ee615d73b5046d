/* A blob that was put together, before it gets its name. */
#ifndef SMOL_CONVERT_BASE_RESULT_H
#define SMOL_CONVERT_BASE_RESULT_H

#include <stdint.h>

#include "cli/output.h"
#include "common/error.h"
#include "format/reader.h"

/* Looks at the output, or at its first `size` bytes when it has more, as whoever uses them will:
 * opens them as a blob. `name` is for messages. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_result_check(const struct output *output, uint64_t size, const char *name,
                              enum verify verify, smol_error *error);

#endif

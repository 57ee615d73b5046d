/* Checks a blob's bytes while they arrive one after the other, from a download or a patch: the
 * front as soon as it is there, then each chunk. So nothing damaged is taken in, and what has been
 * taken in is known to be good. */
#ifndef SMOL_CONVERT_BLOB_INTAKE_H
#define SMOL_CONVERT_BLOB_INTAKE_H

#include <stddef.h>
#include <stdint.h>

#include "cli/output.h"
#include "common/error.h"
#include "format/reader.h"

struct intake;

/* Waits for the first byte of a blob. `name` is for messages. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_intake_open(const char *name, struct intake **intake, smol_error *error);

/* Takes the next bytes. Memory: the front, at most BLOB_MAX_FRONT and less than three times what
 * has arrived, and one chunk. After an error nothing more may be taken. Errors: SMOL_ERROR_DAMAGED
 * (with section, tensor and offset), SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_intake_take(struct intake *intake, const void *data, size_t size,
                             smol_error *error);

/* Bytes from the start that are known to be good: 0, the front, or so many whole chunks more. */
uint64_t smol_intake_checked(const struct intake *intake);

/* The front once it has arrived (see smol_blob_open_front), until then NULL. The intake's. */
const struct blob *smol_intake_front(const struct intake *intake);

/* Whether all has arrived; if not, SMOL_ERROR_DAMAGED says how much is missing. */
smol_status smol_intake_finish(const struct intake *intake, smol_error *error);

/* NULL is fine. */
void smol_intake_close(struct intake *intake);

/* Looks at the output, or at its first `size` bytes when it has more, as whoever uses them will:
 * opens them as a blob. `name` is for messages. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_intake_check_output(const struct output *output, uint64_t size, const char *name,
                                     enum verify verify, smol_error *error);

#endif

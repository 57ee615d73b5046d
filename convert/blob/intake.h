/* Checks the bytes of a blob while they arrive in order from a download or a patch: the front once
 * it is complete, then each chunk. Damaged data is never accepted, and accepted data is known to be
 * good. */
#ifndef SMOL_CONVERT_BLOB_INTAKE_H
#define SMOL_CONVERT_BLOB_INTAKE_H

#include <stddef.h>
#include <stdint.h>

#include "cli/output.h"
#include "common/error.h"
#include "format/reader.h"

struct intake;

/* Opens an intake that expects the first byte of a blob. `name` is used in messages only. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_intake_open(const char *name, struct intake **intake, smol_error *error);

/* Takes the next bytes. Uses memory for one chunk and for the front, which is at most
 * BLOB_MAX_FRONT bytes and less than three times the bytes that have arrived. Must not be called
 * again after an error. Errors: SMOL_ERROR_DAMAGED (with section, tensor and offset),
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_intake_take(struct intake *intake, const void *data, size_t size,
                             smol_error *error);

/* Returns the number of bytes from the start that are known to be good: 0, or the front and a
 * number of whole chunks. */
uint64_t smol_intake_checked(const struct intake *intake);

/* Returns the front once it has arrived (see smol_blob_open_front), NULL before. It belongs to the
 * intake. */
const struct blob *smol_intake_front(const struct intake *intake);

/* Returns SMOL_OK if the whole blob has arrived. Otherwise returns SMOL_ERROR_DAMAGED, with the
 * missing part in the message. */
smol_status smol_intake_finish(const struct intake *intake, smol_error *error);

/* Frees the intake. NULL is allowed. */
void smol_intake_close(struct intake *intake);

/* Checks the output, or its first `size` bytes if it is longer, by opening them as a blob, as a
 * reader will. `name` is used in messages only. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_intake_check_output(const struct output *output, uint64_t size, const char *name,
                                     enum verify verify, smol_error *error);

#endif

/* Reads the tables of a section one after the other. Each table starts at the first multiple of
 * BLOB_ALIGN after the previous one, with zeros between. */
#ifndef SMOL_FORMAT_CURSOR_H
#define SMOL_FORMAT_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A section's bytes, and the end of the header and the tables read so far. */
struct cursor {
    const uint8_t *data;
    size_t size, end;
};

/* Returns the next table, of `count` entries of `each` bytes, and moves past it. `count` is a
 * number of 32 bits, or a product within a section's limits. Returns NULL and fills *error if there
 * is no room for the table, or the padding before it is not zero. `name` is for the message. */
const void *smol_cursor_take(struct cursor *cursor, const char *name, uint64_t count, size_t each,
                             smol_error *error);

/* Checks that the section ends with the last table. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_cursor_end(const struct cursor *cursor, smol_error *error);

#endif

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

/* Returns the start of the next table, of `size` bytes, or CURSOR_NO_ROOM. */
#define CURSOR_NO_ROOM UINT64_MAX
uint64_t smol_cursor_place(const struct cursor *cursor, uint64_t size);

/* Returns the table of `size` bytes at `start`, where it must fit, and moves past it. Returns NULL
 * and fills *error if the padding before the table is not zero. `name` is the table's name. */
const void *smol_cursor_take(struct cursor *cursor, const char *name, uint64_t start, uint64_t size,
                             smol_error *error);

#endif

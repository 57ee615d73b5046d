/* Tables of a section, one after the other: each starts at the first multiple of BLOB_ALIGN after
 * the one before, with zeros between. */
#ifndef SMOL_FORMAT_CURSOR_H
#define SMOL_FORMAT_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A section's bytes, and how many of them the header and the tables so far have taken. */
struct cursor {
    const uint8_t *data;
    size_t size, end;
};

/* Where a table of `size` bytes comes next, or CURSOR_NO_ROOM. */
#define CURSOR_NO_ROOM UINT64_MAX
uint64_t smol_cursor_place(const struct cursor *cursor, uint64_t size);

/* Takes the table of `size` bytes that has room at `start`. NULL, with *error filled: what lies
 * before the table, which is called `name`, is not zero. */
const void *smol_cursor_take(struct cursor *cursor, const char *name, uint64_t start, uint64_t size,
                             smol_error *error);

#endif

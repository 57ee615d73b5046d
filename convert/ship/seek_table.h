/* The seek table at the end of a packed file, see format/packed.h. */
#ifndef SMOL_CONVERT_SEEK_TABLE_H
#define SMOL_CONVERT_SEEK_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* The frames of a packed file so far. A new table is zeroed. It owns `sizes`. */
struct seek_table {
    uint32_t *sizes; /* (n): bytes of each frame */
    size_t n, capacity;
    uint64_t end; /* bytes of all frames */
};

/* Adds a frame of `size` bytes. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_seek_table_add(struct seek_table *table, uint32_t size, smol_error *error);

/* Removes the frames from number `n` on. */
void smol_seek_table_cut(struct seek_table *table, size_t n);

/* Encodes the table of frames that together hold `content` bytes of a blob. The caller frees
 * *bytes. Errors: SMOL_ERROR_MEMORY, SMOL_ERROR_UNSUPPORTED (more frames than the format can
 * count). */
smol_status smol_seek_table_encode(const struct seek_table *table, uint64_t content,
                                   uint8_t **bytes, size_t *size, smol_error *error);

void smol_seek_table_free(struct seek_table *table);

#endif

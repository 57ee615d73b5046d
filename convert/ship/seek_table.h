/* The frames of a packed file: the seek table at its end (format/packed.h), and the journal of an
 * unfinished output. */
#ifndef SMOL_CONVERT_SEEK_TABLE_H
#define SMOL_CONVERT_SEEK_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "cli/output.h"
#include "common/error.h"
#include "format/format.h"

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

/* The journal of an unfinished output: the ends of the frames in the packed file. It follows the
 * bytes of the finished blob, see format/PACKED.md. */
struct journal {
    size_t n;       /* entries */
    uint64_t place; /* of the next entry, in the output */
    uint64_t end;   /* of the last frame, in the packed file */
    uint64_t check; /* of the last entry */
};

/* Returns the empty journal of the blob with this header. */
struct journal smol_journal_start(const struct blob_header *header);

/* Advances past the entry of a frame of `size` bytes, which the output's journal already has. */
void smol_journal_pass(struct journal *journal, uint32_t size);

/* Writes the entry of a frame of `size` bytes, whose content must be in the output. Errors:
 * SMOL_ERROR_FILE. */
smol_status smol_journal_add(struct journal *journal, struct output *output, uint32_t size,
                             smol_error *error);

/* Adds the frames in the output's journal, which starts at `journal`, to an empty `table`, up to
 * the first invalid entry. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_journal_read(struct journal journal, const struct output *output,
                              struct seek_table *table, smol_error *error);

#endif

/* The journal of an unfinished output: the ends of the frames in the packed file. It follows the
 * bytes of the finished blob, see format/PACKED.md. */
#ifndef SMOL_CONVERT_JOURNAL_H
#define SMOL_CONVERT_JOURNAL_H

#include <stdint.h>

#include "cli/output.h"
#include "common/error.h"
#include "convert/ship/seek_table.h"
#include "format/format.h"

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

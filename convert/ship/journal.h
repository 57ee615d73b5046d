/* The journal of an unfinished output: where each frame ended in the packed file. It lies after the
 * end of the blob to be, see format/PACKED.md. */
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

/* The journal of the blob with this header, before its first entry. */
struct journal smol_journal_start(const struct blob_header *header);

/* Goes past the entry of a frame of `size` bytes, which the output has already. */
void smol_journal_pass(struct journal *journal, uint32_t size);

/* Adds a frame of `size` bytes, which is in the output by now. Errors: SMOL_ERROR_FILE. */
smol_status smol_journal_add(struct journal *journal, struct output *output, uint32_t size,
                             smol_error *error);

/* Adds the frames that the output's journal, which starts at `journal`, holds to an empty `table`,
 * up to the first entry that is not as it should be. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_journal_read(struct journal journal, const struct output *output,
                              struct seek_table *table, smol_error *error);

#endif

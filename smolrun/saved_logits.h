/* Logits in a file, for models to be compared: those after each scored token of a text, and the ids
 * that they are of. Little-endian; digests are XXH3 (common/hash.h):
 *
 *   struct saved_header       vocabulary, window, ids and rows counted, digests
 *   uint32_t ids[n_ids]       the whole text's
 *   n_rows times:
 *     float logits[vocab_size], finite
 *     uint64_t digest         of this row
 *
 * It is written whole or not at all, and read as a stream: a row is believed once its digest is
 * right, and memory does not depend on what the file says. */
#ifndef SMOL_SMOLRUN_SAVED_LOGITS_H
#define SMOL_SMOLRUN_SAVED_LOGITS_H

#include "cli/input.h"
#include "cli/output.h"
#include "smol.h"

/* What the logits are of: that of a file and that of a run must be the same. */
struct saved_text {
    const uint32_t *ids; /* (n_ids) */
    size_t n_ids, n_rows;
    uint32_t vocab_size, window;
};

struct saved_writer {
    struct output output;
    uint64_t offset;
    size_t row_size;
};

/* Starts the file `path`, or replaces it. After SMOL_OK either commit or discard is due. Errors:
 * FILE, as those that follow. */
smol_status smol_saved_create(const char *path, const struct saved_text *text,
                              struct saved_writer *writer, smol_error *error);
smol_status smol_saved_add(struct saved_writer *writer, const float *logits, smol_error *error);
smol_status smol_saved_commit(struct saved_writer *writer, smol_error *error);
void smol_saved_discard(struct saved_writer *writer);

struct saved_reader {
    struct input input;
    float *row; /* (vocab_size) */
    size_t row_size, n_read;
};

/* Starts reading *input, which must hold the logits of this very text; it belongs to the reader
 * from now on. Call smol_saved_close after errors too. Errors: FILE, DAMAGED (not such a file, cut
 * short, digests), UNSUPPORTED (another version), USAGE (logits of another text, vocabulary or
 * window, which are named), MEMORY. */
smol_status smol_saved_open(const struct input *input, const struct saved_text *text,
                            struct saved_reader *reader, smol_error *error);

/* Brings the next row to reader->row. Errors: FILE, DAMAGED. */
smol_status smol_saved_next(struct saved_reader *reader, smol_error *error);

/* After the last row: whether the file ends there. */
smol_status smol_saved_end(struct saved_reader *reader, smol_error *error);
void smol_saved_close(struct saved_reader *reader);

#endif

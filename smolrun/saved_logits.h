/* Files of logits, for comparing models. A file holds the token ids of a text, and the logits that
 * predict each of its scored tokens. Little-endian; digests are XXH3 (common/hash.h):
 *
 *   struct saved_header       vocabulary, window, numbers of ids and rows, digests
 *   uint32_t ids[n_ids]       of the whole text
 *   n_rows times:
 *     float logits[vocab_size], finite
 *     uint64_t digest         of this row
 *
 * A file is written whole or not at all, and read as a stream. A row is used only if its digest is
 * right, and memory use does not depend on the file's content. */
#ifndef SMOL_SMOLRUN_SAVED_LOGITS_H
#define SMOL_SMOLRUN_SAVED_LOGITS_H

#include "cli/input.h"
#include "cli/output.h"
#include "smol.h"

/* The text and the settings that logits belong to. Those of a file and of a run must be equal. */
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

/* Starts the file `path`, or its replacement. After SMOL_OK, the caller calls either
 * smol_saved_commit or smol_saved_discard. Errors of these functions: FILE, MEMORY. */
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

/* Starts reading *input, which must hold logits of the same text. The reader owns the input from
 * now on. Call smol_saved_close after errors too. Errors: FILE, DAMAGED (not such a file,
 * truncated, or a wrong digest), UNSUPPORTED (another version), USAGE (another text, vocabulary or
 * window, which the message names), MEMORY. */
smol_status smol_saved_open(const struct input *input, const struct saved_text *text,
                            struct saved_reader *reader, smol_error *error);

/* Reads the next row into reader->row. Errors: FILE, DAMAGED. */
smol_status smol_saved_next(struct saved_reader *reader, smol_error *error);

/* Checks, after the last row, that the file ends there. Errors: FILE, DAMAGED. */
smol_status smol_saved_end(struct saved_reader *reader, smol_error *error);
void smol_saved_close(struct saved_reader *reader);

#endif

/* Files of logits, see saved_logits.h. */
#include "smolrun/saved_logits.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "common/hash.h"

struct saved_header {
    uint8_t magic[8];
    uint32_t version, vocab_size, window, zero;
    uint64_t n_ids, n_rows;
    uint64_t ids_digest;
    uint64_t digest; /* of the header up to here */
};
_Static_assert(sizeof(struct saved_header) == 56, "no padding");

enum { VERSION = 1 };
/* A byte that is not text, and line ends, reveal damage in transfer, as in PNG. */
static const uint8_t magic[8] = {0x8b, 'L', 'O', 'G', 'I', 'T', '\r', '\n'};

static struct saved_header make_header(const struct saved_text *text)
{
    struct saved_header header = {
        .version = VERSION,
        .vocab_size = text->vocab_size,
        .window = text->window,
        .n_ids = text->n_ids,
        .n_rows = text->n_rows,
        .ids_digest = smol_digest(text->ids, text->n_ids * sizeof *text->ids),
    };
    memcpy(header.magic, magic, sizeof magic);
    header.digest = smol_digest(&header, offsetof(struct saved_header, digest));
    return header;
}

/* --- writing ------------------------------------------------------------------------------ */

static smol_status append(struct saved_writer *writer, const void *data, size_t size,
                          smol_error *error)
{
    smol_status status = smol_output_write(&writer->output, writer->offset, data, size, error);
    writer->offset += size;
    return status;
}

smol_status smol_saved_create(const char *path, const struct saved_text *text,
                              struct saved_writer *writer, smol_error *error)
{
    const struct saved_header header = make_header(text);
    *writer = (struct saved_writer){.row_size = text->vocab_size * sizeof(float)};
    smol_status status = smol_output_open(path, true, &writer->output, error);
    if (status)
        return status;
    status = append(writer, &header, sizeof header, error);
    if (!status)
        status = append(writer, text->ids, text->n_ids * sizeof *text->ids, error);
    if (status)
        smol_saved_discard(writer);
    return status;
}

smol_status smol_saved_add(struct saved_writer *writer, const float *logits, smol_error *error)
{
    const uint64_t digest = smol_digest(logits, writer->row_size);
    smol_status status = append(writer, logits, writer->row_size, error);
    return status ? status : append(writer, &digest, sizeof digest, error);
}

smol_status smol_saved_commit(struct saved_writer *writer, smol_error *error)
{
    return smol_output_commit(&writer->output, error);
}

void smol_saved_discard(struct saved_writer *writer)
{
    smol_output_discard(&writer->output);
}

/* --- reading ------------------------------------------------------------------------------ */

static smol_status take(struct saved_reader *reader, void *data, size_t size, smol_error *error)
{
    size_t n;
    smol_status status = smol_input_read(&reader->input, data, size, &n, error);
    if (status)
        return status;
    if (n == size)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%.300s: truncated (byte %" PRIu64 "): save the logits again",
                     reader->input.name, reader->input.position);
}

static smol_status check_header(const struct saved_reader *reader,
                                const struct saved_header *header, smol_error *error)
{
    const char *name = reader->input.name;
    if (memcmp(header->magic, magic, sizeof magic) != 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "%.300s: not a file that --save-logits wrote",
                         name);
    if (header->digest != smol_digest(header, offsetof(struct saved_header, digest)))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%.300s: damaged (digest of the header): save the logits again", name);
    if (header->version != VERSION || header->zero)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%.300s: saved logits of version %u: this release reads %d", name,
                         header->version, VERSION);
    return SMOL_OK;
}

/* Checks that the file's logits are of the same text. */
static smol_status check_text(const struct saved_reader *reader, const struct saved_header *header,
                              const struct saved_text *text, smol_error *error)
{
    const struct saved_header expected = make_header(text);
    const struct {
        const char *what;
        uint64_t found, expected;
    } counts[] = {
        {"tokens in the vocabulary", header->vocab_size, expected.vocab_size},
        {"tokens of text", header->n_ids, expected.n_ids},
        {"tokens in a window", header->window, expected.window},
        {"rows", header->n_rows, expected.n_rows},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].found != counts[i].expected)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "%.300s: has %" PRIu64 " %s, but this run has %" PRIu64
                             ": compare the same text with the same --ctx and "
                             "models of one tokenizer",
                             reader->input.name, counts[i].found, counts[i].what,
                             counts[i].expected);
    if (header->ids_digest != expected.ids_digest)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%.300s: has logits of other token ids: compare the same text with "
                         "models of the same tokenizer",
                         reader->input.name);
    return SMOL_OK;
}

/* Checks that the file's ids are those of the text. Reads them piece by piece, because there may be
 * many. */
static smol_status check_ids(struct saved_reader *reader, const struct saved_text *text,
                             smol_error *error)
{
    uint32_t ids[1024];
    for (size_t done = 0; done < text->n_ids;) {
        size_t rest = text->n_ids - done, n = rest < 1024 ? rest : 1024;
        smol_status status = take(reader, ids, n * sizeof *ids, error);
        if (status)
            return status;
        if (memcmp(ids, text->ids + done, n * sizeof *ids) != 0)
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "%.300s: damaged (token ids): save the logits again",
                             reader->input.name);
        done += n;
    }
    return SMOL_OK;
}

smol_status smol_saved_open(const struct input *input, const struct saved_text *text,
                            struct saved_reader *reader, smol_error *error)
{
    struct saved_header header;
    *reader = (struct saved_reader){.input = *input, .row_size = text->vocab_size * sizeof(float)};
    smol_status status = take(reader, &header, sizeof header, error);
    if (!status)
        status = check_header(reader, &header, error);
    if (!status)
        status = check_text(reader, &header, text, error);
    if (!status)
        status = check_ids(reader, text, error);
    if (status)
        return status;
    reader->row = malloc(reader->row_size);
    return reader->row ? SMOL_OK : smol_fail_memory(error, "logits");
}

smol_status smol_saved_next(struct saved_reader *reader, smol_error *error)
{
    uint64_t digest;
    smol_status status = take(reader, reader->row, reader->row_size, error);
    if (!status)
        status = take(reader, &digest, sizeof digest, error);
    if (status)
        return status;
    bool good = digest == smol_digest(reader->row, reader->row_size);
    for (size_t i = 0; good && i < reader->row_size / sizeof *reader->row; i++)
        good = isfinite(reader->row[i]);
    reader->n_read++;
    if (good)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED, "%.300s: damaged (row %zu): save the logits again",
                     reader->input.name, reader->n_read);
}

smol_status smol_saved_end(struct saved_reader *reader, smol_error *error)
{
    char more;
    size_t n;
    smol_status status = smol_input_read(&reader->input, &more, 1, &n, error);
    if (status)
        return status;
    if (n == 0)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%.300s: longer than its %zu rows: save the logits again", reader->input.name,
                     reader->n_read);
}

void smol_saved_close(struct saved_reader *reader)
{
    if (reader->row_size)
        smol_input_close(&reader->input);
    free(reader->row);
    *reader = (struct saved_reader){0};
}

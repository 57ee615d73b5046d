/* Writing a blob, see writer.h. */
#include "format/writer.h"

#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/hash.h"
#include "common/output.h"
#include "format/layout.h"

enum { N_SECTIONS = 9 };

struct blob_writer {
    struct blob_sink sink;
    struct output output; /* what the sink writes to; without a path when it is the caller's */
    uint8_t *front;       /* (data_offset) bytes */
    struct blob_header *header;
    uint64_t *digests; /* (n_chunks), within front */
    size_t n_digested;
    uint64_t written; /* bytes of the file before the partial chunk */
    size_t n_partial;
    uint8_t partial[BLOB_CHUNK_SIZE]; /* the start of a chunk whose rest is still to come */
};

/* A section on its way into the file; data NULL: filled in later. */
struct part {
    enum section_kind kind;
    const void *data;
    uint64_t size;
};

static uint64_t weights_size(const struct blob_model *model)
{
    uint64_t size = 0;
    struct tensor_key key = {ROLE_EMBED, 0};
    do {
        if (key.role != ROLE_OUTPUT || !model->tied_embeddings)
            size += smol_tensor_layout(model, key).size;
    } while (smol_tensor_next(model, &key));
    return size;
}

/* Lays the sections out in order; fills the table and returns the end of the last one. */
static uint64_t place_sections(const struct part parts[N_SECTIONS],
                               struct blob_section table[N_SECTIONS])
{
    uint64_t end = sizeof(struct blob_header) + N_SECTIONS * sizeof *table;
    for (size_t i = 0; i < N_SECTIONS; i++) {
        bool front = parts[i].kind < SECTION_FIRST_DATA;
        table[i] = (struct blob_section){
            .kind = parts[i].kind,
            .offset = round_up(end, front ? BLOB_ALIGN : BLOB_CHUNK_SIZE),
            .size = parts[i].size,
        };
        end = table[i].offset + table[i].size;
    }
    return end;
}

static void fill_tensor_table(const struct blob_model *model, uint64_t offset,
                              struct blob_tensor *table)
{
    const struct blob_tensor *embed = table;
    struct tensor_key key = {ROLE_EMBED, 0};
    do {
        *table = smol_tensor_layout(model, key);
        bool alias = key.role == ROLE_OUTPUT && model->tied_embeddings;
        table->offset = alias ? embed->offset : offset;
        offset += alias ? 0 : table->size;
        table++;
    } while (smol_tensor_next(model, &key));
}

/* The number of data chunks decides the size of the digest table, which lies in front of them
 * and cannot change it: the data starts at a chunk boundary whatever the front's size. */
static uint64_t count_chunks(const struct blob_contents *contents)
{
    uint64_t data =
        round_up(contents->n_tokenizer, BLOB_CHUNK_SIZE) + weights_size(contents->model);
    return round_up(data, BLOB_CHUNK_SIZE) / BLOB_CHUNK_SIZE;
}

static enum status build_front(struct blob_writer *writer, const struct blob_contents *contents,
                               struct error *error)
{
    const struct blob_model *model = contents->model;
    size_t n_tensors = smol_tensor_count(model);
    const struct part parts[N_SECTIONS] = {
        {SECTION_MODEL, model, sizeof *model},
        {SECTION_INV_FREQ, contents->inv_freq, model->head_dim / 2 * sizeof(float)},
        {SECTION_STOP, contents->stop, contents->n_stop * sizeof *contents->stop},
        {SECTION_GENERATION, contents->generation, sizeof *contents->generation},
        {SECTION_PROVENANCE, contents->provenance, contents->n_provenance},
        {SECTION_TENSORS, NULL, n_tensors * sizeof(struct blob_tensor)},
        {SECTION_DIGESTS, NULL, count_chunks(contents) * sizeof(uint64_t)},
        {SECTION_TOKENIZER, NULL, contents->n_tokenizer},
        {SECTION_WEIGHTS, NULL, weights_size(model)},
    };
    struct blob_section table[N_SECTIONS];
    uint64_t file_size = place_sections(parts, table);
    uint64_t data_offset = table[7].offset;
    writer->front = calloc(1, data_offset);
    if (!writer->front)
        return smol_fail_memory(error, "the blob's front");
    writer->header = (struct blob_header *)writer->front;
    *writer->header = (struct blob_header){
        .magic = BLOB_MAGIC,
        .major = BLOB_MAJOR,
        .minor = BLOB_MINOR,
        .n_sections = N_SECTIONS,
        .file_size = file_size,
        .data_offset = data_offset,
    };
    memcpy(writer->front + sizeof *writer->header, table, sizeof table);
    for (size_t i = 0; i < N_SECTIONS; i++)
        if (parts[i].data && parts[i].size)
            memcpy(writer->front + table[i].offset, parts[i].data, parts[i].size);
    fill_tensor_table(model, table[8].offset, (void *)(writer->front + table[5].offset));
    writer->digests = (void *)(writer->front + table[6].offset);
    writer->written = data_offset;
    return STATUS_OK;
}

/* Digests and writes whole chunks, or the last of all, which may be shorter. */
static enum status write_chunks(struct blob_writer *writer, const uint8_t *bytes, size_t size,
                                struct error *error)
{
    for (size_t at = 0; at < size; at += BLOB_CHUNK_SIZE) {
        size_t length = size - at < BLOB_CHUNK_SIZE ? size - at : BLOB_CHUNK_SIZE;
        writer->digests[writer->n_digested++] = smol_digest(bytes + at, length);
    }
    enum status status = writer->sink.put(writer->sink.target, writer->written, bytes, size, error);
    writer->written += size;
    return status;
}

/* Adds as many of the bytes to the partial chunk as it has room for, and returns how many. */
static size_t keep(struct blob_writer *writer, const uint8_t *bytes, size_t size)
{
    size_t room = sizeof writer->partial - writer->n_partial;
    size_t n = size < room ? size : room;
    memcpy(writer->partial + writer->n_partial, bytes, n);
    writer->n_partial += n;
    return n;
}

enum status smol_writer_append(struct blob_writer *writer, const void *data, size_t size,
                               struct error *error)
{
    const uint8_t *bytes = data;
    enum status status = STATUS_OK;
    size_t n = writer->n_partial > 0 ? keep(writer, bytes, size) : 0;
    if (writer->n_partial == sizeof writer->partial) {
        status = write_chunks(writer, writer->partial, sizeof writer->partial, error);
        writer->n_partial = 0;
    }
    size_t whole = (size - n) / BLOB_CHUNK_SIZE * BLOB_CHUNK_SIZE;
    if (!status) /* straight from the caller's memory */
        status = write_chunks(writer, bytes + n, whole, error);
    if (!status)
        keep(writer, bytes + n + whole, size - n - whole);
    return status;
}

static enum status append_tokenizer(struct blob_writer *writer,
                                    const struct blob_contents *contents, struct error *error)
{
    static const uint8_t zeros[BLOB_CHUNK_SIZE];
    size_t padded = round_up(contents->n_tokenizer, BLOB_CHUNK_SIZE);
    enum status status =
        smol_writer_append(writer, contents->tokenizer, contents->n_tokenizer, error);
    if (status)
        return status;
    return smol_writer_append(writer, zeros, padded - contents->n_tokenizer, error);
}

static struct blob_writer *new_writer(void)
{
    struct blob_writer *writer = calloc(1, sizeof *writer);
    if (writer)
        writer->output.fd = -1;
    return writer;
}

/* The sink is in place: what comes before the weights. On an error the writer is gone. */
static enum status start(struct blob_writer *writer, const struct blob_contents *contents,
                         struct blob_writer **out, struct error *error)
{
    enum status status = build_front(writer, contents, error);
    if (!status)
        status = append_tokenizer(writer, contents, error);
    if (status)
        smol_writer_abort(writer);
    else
        *out = writer;
    return status;
}

static enum status put_into_output(void *target, uint64_t offset, const void *data, size_t size,
                                   struct error *error)
{
    return smol_output_write(target, offset, data, size, error);
}

enum status smol_writer_open(const char *path, bool force, const struct blob_contents *contents,
                             struct blob_writer **out, struct error *error)
{
    *out = NULL;
    struct blob_writer *writer = new_writer();
    if (!writer)
        return smol_fail_memory(error, "the blob writer");
    enum status status = smol_output_open(path, force, &writer->output, error);
    if (status) {
        smol_writer_abort(writer);
        return status;
    }
    writer->sink = (struct blob_sink){put_into_output, &writer->output};
    return start(writer, contents, out, error);
}

enum status smol_writer_open_sink(const struct blob_sink *sink,
                                  const struct blob_contents *contents, struct blob_writer **out,
                                  struct error *error)
{
    *out = NULL;
    struct blob_writer *writer = new_writer();
    if (!writer)
        return smol_fail_memory(error, "the blob writer");
    writer->sink = *sink;
    return start(writer, contents, out, error);
}

enum status smol_writer_finish(struct blob_writer *writer, struct error *error)
{
    enum status status = write_chunks(writer, writer->partial, writer->n_partial, error);
    if (!status) {
        struct blob_header *header = writer->header;
        header->front_digest =
            smol_digest(writer->front + BLOB_DIGEST_START, header->data_offset - BLOB_DIGEST_START);
        status =
            writer->sink.put(writer->sink.target, 0, writer->front, header->data_offset, error);
    }
    if (!status && writer->output.path)
        status = smol_output_commit(&writer->output, error);
    smol_writer_abort(writer);
    return status;
}

void smol_writer_abort(struct blob_writer *writer)
{
    if (!writer)
        return;
    smol_output_discard(&writer->output);
    free(writer->front);
    free(writer);
}

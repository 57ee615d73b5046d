/* Applies a delta, see delta.h. The delta is untrusted input. The order of the checks is that of
 * format/DELTA.md. */
#include "convert/ship/delta.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/file.h"
#include "common/hash.h"
#include "convert/blob/intake.h"
#include "convert/ship/delta_coding.h"

enum { MAX_NAME_SIZE = 300 };

struct patching {
    const struct blob *old_blob;
    struct input *input;
    struct output *output; /* may be NULL */
    struct delta_header header;
    uint64_t made; /* bytes of NEW written so far */
    struct intake *intake;
    struct delta_decoder decoder;
    struct delta_record *record;
    uint8_t *bytes; /* (DELTA_MAX_NEW) of NEW */
};

static smol_status damaged(const struct patching *p, smol_error *error, const char *what,
                           uint64_t offset)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%.300s: %s (offset %" PRIu64 "): fetch a fresh copy of the delta",
                     p->input->name, what, offset);
}

/* Reads `size` bytes. Fewer are an error. */
static smol_status take(struct patching *p, void *data, size_t size, smol_error *error)
{
    size_t n = 0;
    smol_status status = smol_input_read(p->input, data, size, &n, error);
    if (!status && n < size)
        return damaged(p, error, "truncated", p->input->position);
    return status;
}

/* --- header ------------------------------------------------------------------------------- */

static smol_status check_magic(const struct patching *p, smol_error *error)
{
    const uint8_t *magic = p->header.magic;
    if (memcmp(magic, DELTA_MAGIC, BLOB_MAGIC_SIZE) == 0)
        return SMOL_OK;
    if (memcmp(magic, DELTA_MAGIC, 4) == 0)
        return damaged(p, error, "line endings were changed: copy it as a binary file", 4);
    if (memcmp(magic, BLOB_MAGIC, 4) == 0)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%.300s: a blob, not a delta: the order is OLD DELTA NEW", p->input->name);
    return damaged(p, error, "not a .smoldelta", 0);
}

static smol_status read_header(struct patching *p, smol_error *error)
{
    struct delta_header *header = &p->header;
    const size_t covered = offsetof(struct delta_header, major);
    size_t n = 0;
    smol_status status = smol_input_read(p->input, header, sizeof *header, &n, error);
    if (!status)
        status = check_magic(p, error);
    if (!status && n < sizeof *header)
        status = damaged(p, error, "truncated", n);
    if (status)
        return status;
    if (header->major != DELTA_MAJOR)
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%.300s: format version %u.%u, this program reads %d.x: use a matching release",
            p->input->name, header->major, header->minor, DELTA_MAJOR);
    if (smol_digest((const uint8_t *)header + covered, sizeof *header - covered) != header->digest)
        return damaged(p, error, "digest of the header does not match", 8);
    if (header->required_features)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%.300s: needs features 0x%" PRIx64 ": use a newer release",
                         p->input->name, header->required_features);
    if (header->reserved)
        return damaged(p, error, "a reserved field is not zero", 20);
    return SMOL_OK;
}

static bool is_blob(const struct blob *blob, const struct delta_blob *expected)
{
    return blob->header->front_digest == expected->front_digest &&
           blob->header->file_size == expected->file_size;
}

static smol_status check_old(const struct patching *p, smol_error *error)
{
    const struct delta_blob *old = &p->header.old_blob, *new = &p->header.new_blob;
    if (is_blob(p->old_blob, old))
        return SMOL_OK;
    if (is_blob(p->old_blob, new))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%.200s: already is the blob that %.200s makes: nothing to do",
                         p->old_blob->path, p->input->name);
    return smol_fail(error, SMOL_ERROR_USAGE,
                     "%.120s: not the blob that %.120s was made for (expected %" PRIu64
                     " bytes and front digest %016" PRIx64 ", found %" PRIu64 " and %016" PRIx64
                     "): use the blob that it was made for",
                     p->old_blob->path, p->input->name, old->file_size, old->front_digest,
                     p->old_blob->header->file_size, p->old_blob->header->front_digest);
}

/* --- parts -------------------------------------------------------------------------------- */

/* Returns whether the part's sizes are within the limits of its method, and its bytes of OLD and
 * NEW within the blobs. */
static bool sizes_are_valid(const struct patching *p, const struct delta_part *part)
{
    if (part->new_size == 0 || part->new_size > p->header.new_blob.file_size - p->made ||
        !range_within(part->old_offset, part->old_size, p->header.old_blob.file_size))
        return false;
    bool is_pair = part->old_size == part->new_size;
    switch ((enum delta_method)part->method) {
    case DELTA_COPY:
        return is_pair && part->coded_size == 0;
    case DELTA_ZSTD:
        return part->new_size <= DELTA_MAX_NEW && part->old_size <= DELTA_MAX_OLD &&
               (part->old_size > 0 || part->old_offset == 0);
    case DELTA_BYTES:
        return is_pair && part->new_size <= DELTA_MAX_NEW;
    case DELTA_HALVES:
        return is_pair && part->new_size <= DELTA_MAX_NEW && part->new_size % 2 == 0;
    case DELTA_METHODS:
        break;
    }
    return false;
}

static smol_status read_part(struct patching *p, smol_error *error)
{
    struct delta_record *record = p->record;
    const struct delta_part *part = &record->part;
    uint64_t place = p->input->position;
    smol_status status = take(p, &record->part, sizeof record->part, error);
    if (status)
        return status;
    if (part->coded_size > DELTA_MAX_CODED)
        return damaged(p, error, "a part is too large", place);
    status = take(p, record->coded, part->coded_size, error);
    if (status)
        return status;
    if (smol_delta_digest(record) != part->digest)
        return damaged(p, error, "digest of a part does not match", place);
    if (part->method >= DELTA_METHODS)
        return damaged(p, error, "a part has an unknown method", place);
    if (!sizes_are_valid(p, part))
        return damaged(p, error, "a part has invalid sizes", place);
    return SMOL_OK;
}

/* Checks that the bytes of OLD are those that the delta was made from. */
static smol_status check_old_bytes(const struct patching *p, uint64_t offset, uint64_t size,
                                   smol_error *error)
{
    uint64_t end = offset + size, data = p->old_blob->header->data_offset;
    if (end <= data)
        return SMOL_OK; /* the front was checked when the blob was opened */
    offset = offset < data ? data : offset;
    return smol_blob_check(p->old_blob, offset, end - offset, error);
}

/* Adds p->bytes[0..size) to NEW. */
static smol_status emit(struct patching *p, size_t size, smol_error *error)
{
    smol_status status = smol_intake_take(p->intake, p->bytes, size, error);
    if (!status && p->output)
        status = smol_output_write(p->output, p->made, p->bytes, size, error);
    p->made += size;
    return status;
}

/* Copies bytes of OLD to NEW. Uses p->bytes, so that the bytes that are checked are those that are
 * written. */
static smol_status copy(struct patching *p, uint64_t offset, uint64_t size, smol_error *error)
{
    smol_status status = SMOL_OK;
    while (!status && size > 0) {
        size_t n = size < DELTA_MAX_NEW ? size : DELTA_MAX_NEW;
        status = check_old_bytes(p, offset, n, error);
        if (status)
            return status;
        memcpy(p->bytes, p->old_blob->file.data + offset, n);
        status = emit(p, n, error);
        offset += n;
        size -= n;
    }
    return status;
}

static smol_status apply_part(struct patching *p, smol_error *error)
{
    const struct delta_part *part = &p->record->part;
    if (part->method == DELTA_COPY)
        return copy(p, part->old_offset, part->old_size, error);
    smol_status status = check_old_bytes(p, part->old_offset, part->old_size, error);
    if (status)
        return status;
    const uint8_t *old = p->old_blob->file.data + part->old_offset;
    status = smol_delta_decode(&p->decoder, p->record, old, p->bytes);
    if (status == SMOL_ERROR_MEMORY)
        return smol_fail_memory(error, "decompressing");
    if (status)
        return damaged(p, error, "a part cannot be decompressed",
                       p->input->position - part->coded_size);
    return emit(p, part->new_size, error);
}

/* --- the whole delta ---------------------------------------------------------------------- */

static smol_status check_end(const struct patching *p, smol_error *error)
{
    smol_status status = smol_intake_finish(p->intake, error);
    if (status)
        return status;
    if (!is_blob(smol_intake_front(p->intake), &p->header.new_blob))
        return damaged(p, error, "makes a blob other than its header names",
                       offsetof(struct delta_header, new_blob));
    uint8_t more;
    size_t n = 0;
    status = smol_input_read(p->input, &more, 1, &n, error);
    if (!status && (n > 0 || p->input->position != p->header.file_size))
        return damaged(p, error, n > 0 ? "bytes after the end" : "file_size is wrong",
                       p->input->position - n);
    return status;
}

static smol_status run(struct patching *p, smol_error *error)
{
    smol_status status = read_header(p, error);
    if (!status)
        status = check_old(p, error);
    while (!status && p->made < p->header.new_blob.file_size) {
        status = read_part(p, error);
        if (!status)
            status = apply_part(p, error);
    }
    return status ? status : check_end(p, error);
}

/* Names the new blob after the delta, because the remedy for an error is a fresh delta. */
static void name_result(const struct input *input, char name[MAX_NAME_SIZE])
{
    snprintf(name, MAX_NAME_SIZE, "%s: the new blob", input->name);
}

smol_status smol_delta_apply(const struct blob *old_blob, struct input *delta,
                             struct output *output, smol_error *error)
{
    struct patching p = {.old_blob = old_blob, .input = delta, .output = output};
    char name[MAX_NAME_SIZE];
    name_result(delta, name);
    p.record = malloc(sizeof *p.record);
    p.bytes = malloc(DELTA_MAX_NEW);
    smol_status status =
        p.record && p.bytes ? SMOL_OK : smol_fail_memory(error, "parts of a delta");
    if (!status)
        status = smol_intake_open(name, &p.intake, error);
    if (!status)
        status = smol_delta_decoder_open(&p.decoder, error);
    if (!status)
        status = run(&p, error);
    smol_delta_decoder_close(&p.decoder);
    smol_intake_close(p.intake);
    free(p.bytes);
    free(p.record);
    return status;
}

static smol_status write_new(const struct blob *old_blob, struct input *delta, const char *new_path,
                             bool force, smol_error *error)
{
    struct output output;
    char name[MAX_NAME_SIZE];
    name_result(delta, name);
    smol_status status = smol_output_open(new_path, force, &output, error);
    if (!status)
        status = smol_delta_apply(old_blob, delta, &output, error);
    status = file_settle(&old_blob->file, old_blob->path, status, error);
    if (!status) /* its digests were checked while it was made */
        status = smol_intake_check_output(&output, UINT64_MAX, name, VERIFY_OFF, error);
    if (!status)
        status = smol_output_commit(&output, error);
    smol_output_discard(&output);
    return status;
}

smol_status smol_patch(const char *old_path, const char *delta_path, const char *new_path,
                       bool force, smol_error *error)
{
    struct blob old_blob;
    struct input delta;
    if (smol_same_file(new_path, delta_path))
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: is the delta: name another output",
                         new_path);
    smol_status status = smol_blob_open(old_path, true, VERIFY_FIRST_USE, &old_blob, error);
    if (status)
        return status;
    status = smol_input_open(delta_path, &delta, error);
    if (!status)
        status = write_new(&old_blob, &delta, new_path, force, error);
    smol_input_close(&delta);
    smol_blob_close(&old_blob);
    return status;
}

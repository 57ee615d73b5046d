/* Checks an arriving blob, see intake.h. */
#include "convert/blob/intake.h"

#include <inttypes.h>
#include <string.h>

#include "common/checked.h"
#include "common/file.h"
#include "common/memory.h"

struct intake {
    char *name;
    uint8_t *front; /* (capacity); n_front bytes have arrived */
    size_t n_front, capacity;
    struct blob blob; /* open once the front is complete */
    bool is_open;
    uint64_t checked;
    size_t n_partial;
    uint8_t partial[BLOB_CHUNK_SIZE]; /* the start of an incomplete chunk */
};

smol_status smol_intake_open(const char *name, struct intake **out, smol_error *error)
{
    struct intake *intake = *out = smol_calloc(1, sizeof *intake);
    if (intake)
        intake->name = smol_strdup(name);
    if (intake && intake->name)
        return SMOL_OK;
    smol_intake_close(intake);
    *out = NULL;
    return smol_fail_memory(error, "the intake");
}

void smol_intake_close(struct intake *intake)
{
    if (!intake)
        return;
    smol_blob_close(&intake->blob);
    smol_free(intake->front);
    smol_free(intake->name);
    smol_free(intake);
}

/* --- the front ---------------------------------------------------------------------------- */

/* Makes room for `size` bytes of front. The capacity follows the bytes that have arrived, not the
 * size that the header claims. */
static smol_status grow(struct intake *intake, size_t size, smol_error *error)
{
    if (size <= intake->capacity)
        return SMOL_OK;
    size_t capacity = round_up(2 * size, BLOB_CHUNK_SIZE);
    uint8_t *front = smol_aligned_alloc(BLOB_ALIGN, capacity);
    if (!front)
        return smol_fail_memory(error, "the blob's front");
    if (intake->n_front)
        memcpy(front, intake->front, intake->n_front);
    smol_free(intake->front);
    intake->front = front;
    intake->capacity = capacity;
    return SMOL_OK;
}

/* Appends bytes until the front has `limit` bytes. Advances *data and reduces *size. */
static smol_status add_front(struct intake *intake, size_t limit, const uint8_t **data,
                             size_t *size, smol_error *error)
{
    size_t n = limit - intake->n_front < *size ? limit - intake->n_front : *size;
    smol_status status = grow(intake, intake->n_front + n, error);
    if (status || n == 0)
        return status;
    memcpy(intake->front + intake->n_front, *data, n);
    intake->n_front += n;
    *data += n;
    *size -= n;
    return SMOL_OK;
}

/* Takes the header first, because it holds the length of the front. */
static smol_status take_front(struct intake *intake, const uint8_t **data, size_t *size,
                              smol_error *error)
{
    const size_t header_size = sizeof(struct blob_header);
    smol_status status = SMOL_OK;
    if (intake->n_front < header_size) {
        status = add_front(intake, header_size, data, size, error);
        if (!status && intake->n_front == header_size)
            status = smol_blob_check_header(intake->front, header_size, intake->name, error);
        if (status || intake->n_front < header_size)
            return status;
    }
    size_t length = ((const struct blob_header *)intake->front)->data_offset;
    status = add_front(intake, length, data, size, error);
    if (status || intake->n_front < length)
        return status;
    status = smol_blob_open_front(intake->front, intake->name, &intake->blob, error);
    intake->is_open = !status;
    intake->checked = status ? 0 : length;
    return status;
}

/* --- chunks ------------------------------------------------------------------------------- */

/* Returns the length of the next chunk in bytes. */
static size_t chunk_length(const struct intake *intake)
{
    uint64_t rest = intake->blob.header->file_size - intake->checked;
    return rest < BLOB_CHUNK_SIZE ? (size_t)rest : BLOB_CHUNK_SIZE;
}

static smol_status take_chunk(struct intake *intake, const uint8_t *data, smol_error *error)
{
    size_t length = chunk_length(intake);
    size_t chunk = (intake->checked - intake->blob.header->data_offset) / BLOB_CHUNK_SIZE;
    smol_status status = smol_blob_check_chunk(&intake->blob, chunk, data, error);
    intake->checked += status ? 0 : length;
    return status;
}

smol_status smol_intake_take(struct intake *intake, const void *data, size_t size,
                             smol_error *error)
{
    const uint8_t *bytes = data;
    smol_status status = intake->is_open ? SMOL_OK : take_front(intake, &bytes, &size, error);
    while (!status && size > 0) {
        size_t length = chunk_length(intake), missing = length - intake->n_partial;
        if (length == 0)
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "%s: bytes after the end (offset %" PRIu64 "): fetch it again",
                             intake->name, intake->checked);
        size_t n = missing < size ? missing : size;
        if (n == length) { /* a whole chunk, checked in the caller's memory */
            status = take_chunk(intake, bytes, error);
        } else {
            memcpy(intake->partial + intake->n_partial, bytes, n);
            intake->n_partial += n;
            if (n == missing) {
                status = take_chunk(intake, intake->partial, error);
                intake->n_partial = 0;
            }
        }
        bytes += n;
        size -= n;
    }
    return status;
}

/* --- results ------------------------------------------------------------------------------ */

uint64_t smol_intake_checked(const struct intake *intake)
{
    return intake->checked;
}

const struct blob *smol_intake_front(const struct intake *intake)
{
    return intake->is_open ? &intake->blob : NULL;
}

smol_status smol_intake_finish(const struct intake *intake, smol_error *error)
{
    uint64_t arrived = intake->is_open ? intake->checked + intake->n_partial : intake->n_front;
    if (!intake->is_open)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: ends within the front (offset %" PRIu64 "): fetch it again",
                         intake->name, arrived);
    uint64_t size = intake->blob.header->file_size;
    if (arrived == size)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: ends after %" PRIu64 " of %" PRIu64 " bytes: fetch the rest",
                     intake->name, arrived, size);
}

smol_status smol_intake_check_output(const struct output *output, uint64_t size, const char *name,
                                     enum verify verify, smol_error *error)
{
    struct file_view view;
    struct blob blob;
    smol_status status = smol_file_map(smol_output_temporary(output), &view, error);
    if (status)
        return status;
    size_t n = size < view.size ? (size_t)size : view.size;
    status = smol_blob_open_bytes(view.data, n, name, verify, &blob, error);
    smol_blob_close(&blob);
    status = file_settle(&view, name, status, error);
    smol_file_close(&view);
    return status;
}

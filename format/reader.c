/* Opening a blob, see reader.h: magic, version and size first, then the front, then the tokenizer.
 */
#include "format/reader.h"

#include <inttypes.h>
#include <string.h>

#include "common/memory.h"
#include "format/delta.h"
#include "format/front.h"
#include "format/session.h"
#include "format/stats.h"

/* --- header ------------------------------------------------------------------------------- */

/* Other files that are often mistaken for blobs: their bytes at `offset`, and a message that says
 * what the file is and what to do. */
static const struct {
    const char *bytes;
    size_t n, offset;
    smol_status status;
    const char *text;
} other_kinds[] = {
    {"\x28\xb5\x2f\xfd", 4, 0, SMOL_ERROR_UNSUPPORTED,
     "compressed with zstd: use `smolconv unpack` first"},
    {DELTA_MAGIC, 4, 0, SMOL_ERROR_DAMAGED, /* or a blob with one bit flipped */
     "a .smoldelta, not a .smol blob (offset 3): see `smolconv patch`"},
    {SESSION_MAGIC, 4, 0, SMOL_ERROR_UNSUPPORTED,
     "a session, not a .smol blob: see smolrun --session"},
    {STATS_MAGIC, 4, 0, SMOL_ERROR_UNSUPPORTED,
     "calibration statistics, not a .smol blob: pass them to `smolconv --calibration`"},
    {"GGUF", 4, 0, SMOL_ERROR_UNSUPPORTED,
     "a GGUF file, not a .smol blob: make one with `smolconv FILE.gguf OUT.smol`"},
    {"\0\0{\"", 4, 6, SMOL_ERROR_UNSUPPORTED, /* a length below 2^48, and JSON */
     "a safetensors file, not a .smol blob: make one with `smolconv FOLDER OUT.smol` from the "
     "checkpoint's folder"},
};

static smol_status refuse_other_kind(const struct blob *blob, const uint8_t *data, uint64_t size,
                                     smol_error *error)
{
    for (size_t i = 0; i < sizeof other_kinds / sizeof other_kinds[0]; i++)
        if (size >= other_kinds[i].offset + other_kinds[i].n &&
            memcmp(data + other_kinds[i].offset, other_kinds[i].bytes, other_kinds[i].n) == 0)
            return smol_fail(error, other_kinds[i].status, "%s: %s", blob->path,
                             other_kinds[i].text);
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: not a .smol blob (offset 0): make one with smolconv", blob->path);
}

static smol_status check_magic(const struct blob *blob, const uint8_t *data, uint64_t size,
                               smol_error *error)
{
    if (size >= BLOB_MAGIC_SIZE && memcmp(data, BLOB_MAGIC, BLOB_MAGIC_SIZE) == 0)
        return size >= sizeof(struct blob_header)
                   ? SMOL_OK
                   : smol_damaged(blob, error, "truncated within the header", size);
    if (size > 0 && size < BLOB_MAGIC_SIZE && memcmp(data, BLOB_MAGIC, size) == 0)
        return smol_damaged(blob, error, "truncated within the header", size);
    if (size >= 4 && memcmp(data, BLOB_MAGIC, 4) == 0)
        return smol_damaged(blob, error, "line endings were changed: copy it as a binary file", 4);
    return refuse_other_kind(blob, data, size, error);
}

/* Checks the version, and the sizes of the file and its front. Sums with sizes within the file do
 * not overflow then, even if the size of the file is not known yet. */
static smol_status check_start(const struct blob *blob, const struct blob_header *header,
                               smol_error *error)
{
    if (header->major != BLOB_MAJOR)
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%s: format version %u.%u, this program reads %d.x: use a matching release", blob->path,
            header->major, header->minor, BLOB_MAJOR);
    if (header->file_size > INT64_MAX)
        return smol_damaged(blob, error, "file_size is out of range",
                            offsetof(struct blob_header, file_size));
    if (header->data_offset % BLOB_CHUNK_SIZE || header->data_offset > header->file_size ||
        header->data_offset > BLOB_MAX_FRONT || header->data_offset < sizeof *header)
        return smol_damaged(blob, error, "data_offset is out of range",
                            offsetof(struct blob_header, data_offset));
    return SMOL_OK;
}

/* --- open and close ----------------------------------------------------------------------- */

static smol_status check_size(const struct blob_header *header, size_t size, const char *name,
                              smol_error *error)
{
    if (header->file_size == size)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: has %zu bytes, expected %" PRIu64 " (%s): fetch it again", name, size,
                     header->file_size, size < header->file_size ? "truncated" : "bytes appended");
}

/* Locates the front at the start of the file. Copies the front of a mapped file, because the file
 * may change while it is open or its medium may fail, but checked data must not change. */
static smol_status take_front(struct blob *blob, smol_error *error)
{
    struct blob_header header;
    const struct file_view *file = &blob->file;
    smol_status status = smol_blob_check_header(file->data, file->size, blob->path, error);
    if (status)
        return status;
    memcpy(&header, file->data, sizeof header);
    status = check_size(&header, file->size, blob->path, error);
    if (status)
        return status;
    blob->front = file->data;
    if (file->hold != FILE_MAPPED)
        return SMOL_OK;
    status = check_start(blob, &header, error); /* checks this copy of the header */
    if (status)
        return status;
    blob->front_copy = smol_aligned_alloc(BLOB_ALIGN, header.data_offset);
    if (!blob->front_copy)
        return smol_fail_memory(error, "the blob's front");
    memcpy(blob->front_copy, &header, sizeof header);
    memcpy((uint8_t *)blob->front_copy + sizeof header, file->data + sizeof header,
           header.data_offset - sizeof header);
    blob->front = blob->front_copy;
    return SMOL_OK;
}

static smol_status open_checked(struct blob *blob, enum verify verify, smol_error *error)
{
    smol_status status = take_front(blob, error);
    if (!status)
        status = smol_front_check(blob, error);
    if (status)
        return status;
    blob->checked = smol_malloc(blob->n_chunks);
    if (!blob->checked)
        return smol_fail_memory(error, "the chunk table");
    for (size_t i = 0; i < blob->n_chunks; i++)
        atomic_init(&blob->checked[i], verify == VERIFY_OFF);
    status = smol_front_check_tokenizer(blob, error);
    if (!status && verify == VERIFY_AT_OPEN)
        status = smol_blob_verify(blob, NULL, error);
    return status;
}

/* Opens the file. If the file changed meanwhile, reports that instead of the damage found. */
static smol_status open_file(struct blob *blob, enum verify verify, smol_error *error)
{
    return file_settle(&blob->file, blob->path, open_checked(blob, verify, error), error);
}

/* Names the blob and opens it with `open`. Closes it after an error. */
static smol_status open_named(struct blob *blob, const char *name, enum verify verify,
                              smol_status (*open)(struct blob *, enum verify, smol_error *),
                              smol_error *error)
{
    blob->path = smol_strdup(name);
    smol_status status = blob->path ? open(blob, verify, error) : smol_fail_memory(error, "a name");
    if (status)
        smol_blob_close(blob);
    return status;
}

smol_status smol_blob_read(int fd, const char *path, struct file_view *file, smol_error *error)
{
    struct blob_header header;
    const char *name = smol_base_name(path);
    size_t n, size;
    smol_status status = smol_file_peek_fd(fd, path, &header, sizeof header, &n, &size, error);
    if (!status)
        status = smol_blob_check_header(&header, n, name, error);
    if (!status)
        status = check_size(&header, size, name, error);
    return status ? status : smol_file_read_fd(fd, path, size, file, error);
}

smol_status smol_blob_unopened(const char *path, smol_status status, smol_error *error)
{
    if (status != SMOL_ERROR_FILE || !smol_is_folder(path))
        return status;
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%s: a folder, not a .smol blob: convert a checkpoint with `smolconv FOLDER "
                     "OUT.smol`",
                     path);
}

smol_status smol_blob_open(const char *path, bool use_mmap, enum verify verify, struct blob *blob,
                           smol_error *error)
{
    struct file_view file;
    *blob = (struct blob){0};
    smol_status status =
        use_mmap ? smol_file_map(path, &file, error) : smol_blob_read(-1, path, &file, error);
    return status ? smol_blob_unopened(path, status, error)
                  : smol_blob_open_view(&file, path, verify, blob, error);
}

smol_status smol_blob_open_view(struct file_view *file, const char *path, enum verify verify,
                                struct blob *blob, smol_error *error)
{
    *blob = (struct blob){.file = *file};
    *file = (struct file_view){0};
    return open_named(blob, smol_base_name(path), verify, open_file, error);
}

smol_status smol_blob_open_bytes(const void *data, size_t size, const char *name,
                                 enum verify verify, struct blob *blob, smol_error *error)
{
    *blob = (struct blob){.file = {.data = data, .size = size}};
    return open_named(blob, name, verify, open_checked, error);
}

smol_status smol_blob_check_header(const void *data, size_t size, const char *name,
                                   smol_error *error)
{
    struct blob_header header;
    const struct blob blob = {.path = (char *)(uintptr_t)name}; /* for messages */
    smol_status status = check_magic(&blob, data, size, error);
    if (status)
        return status;
    memcpy(&header, data, sizeof header);
    return check_start(&blob, &header, error);
}

static smol_status open_front(struct blob *blob, enum verify verify, smol_error *error)
{
    (void)verify;
    return smol_front_check(blob, error);
}

smol_status smol_blob_open_front(const void *front, const char *name, struct blob *blob,
                                 smol_error *error)
{
    *blob = (struct blob){.front = front};
    return open_named(blob, name, VERIFY_FIRST_USE, open_front, error);
}

void smol_blob_close(struct blob *blob)
{
    smol_file_close(&blob->file);
    smol_free(blob->front_copy);
    smol_free(blob->model_copy);
    smol_free((void *)blob->checked);
    smol_free(blob->path);
    *blob = (struct blob){0};
}

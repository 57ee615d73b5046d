/* Reads a packed file, see packed_reader.h. */
#include "convert/ship/packed_reader.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "convert/ship/seek_table.h"
#include "format/format.h"

enum {
    CAPACITY = READER_FRAMES * PACKED_MAX_FRAME,
    MAX_FRAME_HEADER = 18, /* of zstd: magic, descriptor, window, dictionary, content size */
    LOOK_STEP = 4096,      /* bytes that must arrive before an incomplete frame is examined again */
    PATIENCE = 1, /* milliseconds to wait for more input before the bytes at hand are used */
};

/* --- opening and closing ------------------------------------------------------------------ */

smol_status smol_packed_open(const char *path, struct packed_reader *r, smol_error *error)
{
    struct stat info;
    *r = (struct packed_reader){0};
    smol_status status = smol_input_open(path, &r->input, error);
    if (!status && fstat(r->input.fd, &info))
        status = smol_fail_errno(error, path, "open");
    if (status)
        return status;
    r->is_file = S_ISREG(info.st_mode);
    r->data = malloc(CAPACITY);
    return r->data ? SMOL_OK : smol_fail_memory(error, "reading");
}

void smol_packed_close(struct packed_reader *r)
{
    smol_input_close(&r->input);
    free(r->data);
    r->data = NULL;
}

/* --- bytes -------------------------------------------------------------------------------- */

/* Reads once and appends to the bytes at hand. The buffer must not be full. */
static smol_status fill(struct packed_reader *r, smol_error *error)
{
    size_t n = 0;
    smol_status status =
        smol_input_read_some(&r->input, r->data + r->end, CAPACITY - r->end, &n, error);
    r->end += n;
    r->ended = !status && n == 0;
    return status;
}

/* Consumes up to `size` bytes that have arrived. Returns how many. */
static size_t pass(struct packed_reader *r, uint64_t size)
{
    size_t n = r->end - r->start < size ? r->end - r->start : (size_t)size;
    r->start += n;
    r->position += n;
    if (r->start == r->end)
        r->start = r->end = 0;
    return n;
}

smol_status smol_packed_skip(struct packed_reader *r, uint64_t size, smol_error *error)
{
    smol_status status = SMOL_OK;
    size -= pass(r, size);
    if (r->is_file && size > 0) {
        if (lseek(r->input.fd, (off_t)size, SEEK_CUR) < 0)
            return smol_fail_errno(error, r->input.name, "seek in");
        r->position += size;
        return SMOL_OK;
    }
    while (!status && size > 0 && !r->ended) {
        status = fill(r, error);
        size -= pass(r, size);
    }
    return status;
}

smol_status smol_packed_read(struct packed_reader *r, void *data, size_t size, size_t *n,
                             smol_error *error)
{
    uint8_t *out = data;
    smol_status status = SMOL_OK;
    for (*n = 0; !status && *n < size;) {
        const uint8_t *from = r->data + r->start;
        size_t got = pass(r, size - *n);
        memcpy(out + *n, from, got);
        *n += got;
        if (got == 0 && r->ended)
            break;
        if (got == 0)
            status = fill(r, error);
    }
    return status;
}

/* --- frames ------------------------------------------------------------------------------- */

/* Refuses a frame that is not part of a packed file, though zstd may accept it. */
static smol_status refuse(const struct packed_reader *r, const char *what, uint64_t offset,
                          smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s: %s (offset %" PRIu64
                     "), which `smolconv pack` does not make: use `zstd -d`",
                     r->input.name, what, offset);
}

static smol_status damaged(const struct packed_reader *r, const char *what, uint64_t offset,
                           smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED, "%s: %s (offset %" PRIu64 "): fetch it again",
                     r->input.name, what, offset);
}

static smol_status cut_off(const struct packed_reader *r, uint64_t offset, smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: ends within a frame (offset %" PRIu64 "): fetch the rest", r->input.name,
                     offset);
}

static smol_status refuse_magic(const struct packed_reader *r, const uint8_t *data, uint32_t magic,
                                uint64_t offset, smol_error *error)
{
    if (memcmp(data, BLOB_MAGIC, sizeof magic) == 0)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: a .smol blob, not packed: use it as is", r->input.name);
    if (magic >> 4 == SEEK_TABLE_MAGIC >> 4)
        return refuse(r, "a skippable frame", offset, error);
    if (magic >> 4 == ZSTD_MAGICNUMBER >> 4 || magic == 0xfd2fb51e)
        return refuse(r, "a frame in an old format of zstd", offset, error);
    return damaged(r, "not a zstd frame", offset, error);
}

/* Checks that the frame's header, which begins at data[0..size), is that of a packed file's
 * frame. */
static smol_status check_header(const struct packed_reader *r, const uint8_t *data, size_t size,
                                uint64_t offset, smol_error *error)
{
    unsigned long long content = ZSTD_getFrameContentSize(data, size);
    if (content == ZSTD_CONTENTSIZE_ERROR)
        return r->ended ? cut_off(r, offset, error)
                        : damaged(r, "a malformed frame", offset, error);
    if (content == ZSTD_CONTENTSIZE_UNKNOWN)
        return refuse(r, "a frame without its content size", offset, error);
    if (content > PACKED_PIECE)
        return refuse(r, "a frame of more than 262144 bytes", offset, error);
    if (content == 0)
        return refuse(r, "an empty frame", offset, error);
    if (ZSTD_getDictID_fromFrame(data, size))
        return refuse(r, "a frame that needs a dictionary", offset, error);
    return SMOL_OK;
}

static uint32_t read_u32(const uint8_t *data)
{
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

/* Examines the frame at r->data + at. frame->size is 0 if the frame is incomplete, at the seek
 * table (*is_table is set) or at the end of the input. */
static smol_status look(struct packed_reader *r, size_t at, struct packed_frame *frame,
                        bool *is_table, smol_error *error)
{
    const uint8_t *data = r->data + at;
    size_t size = r->end - at;
    uint64_t offset = r->position + (at - r->start);
    frame->size = 0;
    if (size == 0)
        return SMOL_OK;
    if (size < sizeof(uint32_t))
        return cut_off(r, offset, error);
    uint32_t magic = read_u32(data);
    *is_table = magic == SEEK_TABLE_MAGIC;
    if (*is_table)
        return SMOL_OK;
    if (magic != ZSTD_MAGICNUMBER)
        return refuse_magic(r, data, magic, offset, error);
    smol_status status = check_header(r, data, size, offset, error);
    if (status)
        return status;
    size_t n = ZSTD_findFrameCompressedSize(data, size);
    if (ZSTD_isError(n)) {
        if (ZSTD_getErrorCode(n) != ZSTD_error_srcSize_wrong || size >= PACKED_MAX_FRAME)
            return damaged(r, "a malformed frame", offset, error);
        return r->ended ? cut_off(r, offset, error) : SMOL_OK;
    }
    *frame = (struct packed_frame){data, n, ZSTD_getFrameContentSize(data, size)};
    return SMOL_OK;
}

/* Returns whether more input arrives within PATIENCE. If not, as on a slow link, the caller uses
 * the frames at hand without waiting. */
static bool comes_at_once(const struct packed_reader *r)
{
    struct pollfd one = {.fd = r->input.fd, .events = POLLIN};
    return !r->ended && r->end < CAPACITY && poll(&one, 1, PATIENCE) > 0;
}

static void make_room(struct packed_reader *r)
{
    memmove(r->data, r->data + r->start, r->end - r->start);
    r->end -= r->start;
    r->start = 0;
}

/* zstd scans a frame from its first byte each time. So a frame is examined only if enough bytes
 * have arrived since the last time, or if no input arrives for a while. An error after good frames
 * is found again, and reported, by the next call. */
smol_status smol_packed_frames(struct packed_reader *r, uint32_t max, struct packed_frame *frames,
                               uint32_t *n, smol_error *error)
{
    bool is_table = false;
    smol_status status = SMOL_OK;
    make_room(r);
    size_t at = 0, enough = MAX_FRAME_HEADER;
    *n = 0;
    while (!status && !is_table && *n < max) {
        struct packed_frame *frame = &frames[*n];
        bool more = comes_at_once(r);
        size_t size = r->end - at;
        frame->size = 0;
        if (r->ended || size >= enough || (size >= MAX_FRAME_HEADER && !more)) {
            status = look(r, at, frame, &is_table, error);
            enough = size + LOOK_STEP;
        }
        if (frame->size > 0) {
            at += frame->size;
            enough = MAX_FRAME_HEADER;
            ++*n;
        } else if (r->ended || (*n > 0 && !more)) {
            break;
        } else if (!status && !is_table) {
            status = fill(r, error);
        }
    }
    return *n > 0 ? SMOL_OK : status;
}

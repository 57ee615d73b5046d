/* Unpacks a blob, see pack.h. All threads decompress the frames that have arrived; one thread
 * then checks and writes them in order. */
#include "convert/ship/pack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "cli/output.h"
#include "common/pool.h"
#include "convert/base/progress.h"
#include "convert/blob/intake.h"
#include "convert/ship/packed_reader.h"
#include "convert/ship/seek_table.h"

struct unpacking {
    const struct unpack_options *options;
    struct packed_reader reader;
    struct output output;
    struct pool *pool;
    struct intake *intake;
    struct seek_table table; /* the frames that are in the output */
    uint64_t size;           /* bytes of blob in the output */
    struct journal journal;  /* of these frames; its place is 0 until the front is complete */
    bool is_whole;           /* the output is complete, but not renamed yet */
    bool can_go_on;          /* another call may continue the output */
    struct progress progress;
    uint8_t *content; /* (READER_FRAMES, PACKED_PIECE) */
    struct packed_frame frames[READER_FRAMES];
    uint32_t n_frames;
    size_t results[READER_FRAMES];      /* bytes of content, or zstd's error */
    ZSTD_DCtx *contexts[READER_FRAMES]; /* (threads) */
};

/* --- frames ------------------------------------------------------------------------------- */

static void decompress(void *argument, struct pool_thread *thread)
{
    struct unpacking *u = argument;
    struct pool_stage stage = pool_stage(thread, u->n_frames);
    while (smol_pool_claim(&stage)) {
        const struct packed_frame *frame = &u->frames[stage.item];
        u->results[stage.item] = ZSTD_decompressDCtx(u->contexts[thread->index],
                                                     u->content + (size_t)stage.item * PACKED_PIECE,
                                                     frame->content, frame->data, frame->size);
    }
}

/* Reads up to `max` frames and decompresses them. */
static smol_status next_frames(struct unpacking *u, uint32_t max, smol_error *error)
{
    smol_status status = smol_packed_frames(&u->reader, max, u->frames, &u->n_frames, error);
    if (!status)
        smol_pool_run(u->pool, decompress, u);
    return status;
}

static smol_status check_frame(const struct unpacking *u, uint32_t i, smol_error *error)
{
    uint64_t offset = u->reader.position;
    if (u->results[i] != u->frames[i].content)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: a damaged frame (offset %" PRIu64 ": %s): fetch it again",
                         u->reader.input.name, offset, ZSTD_getErrorName(u->results[i]));
    if (u->size % PACKED_PIECE)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: frames of different sizes (offset %" PRIu64
                         "), which `smolconv pack` does not make: use `zstd -d`",
                         u->reader.input.name, offset);
    return SMOL_OK;
}

/* Writes the journal: all frames so far once the front is complete, then each new frame. */
static smol_status keep_journal(struct unpacking *u, smol_error *error)
{
    const struct blob *front = smol_intake_front(u->intake);
    smol_status status = SMOL_OK;
    if (!front || !u->options->resume)
        return SMOL_OK;
    if (u->journal.place == 0)
        u->journal = smol_journal_start(front->header);
    while (!status && u->journal.n < u->table.n)
        status = smol_journal_add(&u->journal, &u->output, u->table.sizes[u->journal.n], error);
    return status;
}

/* Checks frame i, adds it to the output, and skips it in the input. */
static smol_status take_frame(struct unpacking *u, uint32_t i, smol_error *error)
{
    const struct packed_frame *frame = &u->frames[i];
    const uint8_t *content = u->content + (size_t)i * PACKED_PIECE;
    smol_status status = check_frame(u, i, error);
    if (!status)
        status = smol_intake_take(u->intake, content, frame->content, error);
    if (!status)
        status = smol_output_write(&u->output, u->size, content, frame->content, error);
    if (!status)
        status = smol_seek_table_add(&u->table, (uint32_t)frame->size, error);
    if (status)
        return status;
    u->size += frame->content;
    status = keep_journal(u, error);
    return status ? status : smol_packed_skip(&u->reader, frame->size, error);
}

static void show_progress(struct unpacking *u)
{
    const struct blob *front = smol_intake_front(u->intake);
    if (!front)
        return;
    if (u->progress.total == 0)
        u->progress = smol_progress_start(front->header->file_size, u->options->quiet);
    smol_progress_advance(&u->progress, u->size - u->progress.done);
}

static smol_status take_all_frames(struct unpacking *u, smol_error *error)
{
    smol_status status;
    do {
        status = next_frames(u, READER_FRAMES, error);
        for (uint32_t i = 0; !status && i < u->n_frames; i++)
            status = take_frame(u, i, error);
        show_progress(u);
    } while (!status && u->n_frames > 0);
    smol_progress_end(&u->progress);
    return status;
}

/* --- resuming an unfinished output -------------------------------------------------------- */

static smol_status start_over(struct unpacking *u, smol_error *error)
{
    struct intake *fresh;
    smol_status status = smol_intake_open(u->reader.input.name, &fresh, error);
    if (status)
        return status;
    smol_intake_close(u->intake);
    u->intake = fresh;
    u->size = 0;
    return SMOL_OK;
}

static uint64_t count_pieces(uint64_t size)
{
    return size / PACKED_PIECE + (size % PACKED_PIECE > 0);
}

/* Checks the first `n` pieces of the output. *good is the number of good pieces from the start. It
 * is 0 if the front is incomplete, because the pieces cannot be checked then. */
static smol_status take_kept(struct unpacking *u, uint64_t n, uint64_t file_size, uint64_t *good,
                             smol_error *error)
{
    smol_status status = start_over(u, error);
    for (*good = 0; !status && *good < n; ++*good) {
        uint64_t rest = file_size - u->size;
        size_t size = rest < PACKED_PIECE ? (size_t)rest : PACKED_PIECE, got = 0;
        status = smol_output_read(&u->output, u->size, u->content, size, &got, error);
        if (status || got < size)
            break;
        smol_status taken = smol_intake_take(u->intake, u->content, size, error);
        if (taken == SMOL_ERROR_MEMORY)
            status = taken; /* not a fault of the pieces */
        if (taken)
            break;
        u->size += size;
    }
    if (!smol_intake_front(u->intake))
        *good = 0;
    return status;
}

/* Resumes after the last frame that is both in the journal and good in the output. A power failure
 * may have lost any part of either. */
static smol_status take_journaled(struct unpacking *u, const struct blob_header *header,
                                  smol_error *error)
{
    smol_status status =
        smol_journal_read(smol_journal_start(header), &u->output, &u->table, error);
    uint64_t n, good = u->table.n;
    do {
        n = good;
        if (!status)
            status = take_kept(u, n, header->file_size, &good, error);
    } while (!status && good < n);
    smol_seek_table_cut(&u->table, good);
    u->journal = smol_journal_start(header);
    while (u->journal.n < u->table.n)
        smol_journal_pass(&u->journal, u->table.sizes[u->journal.n]);
    return status;
}

/* Checks whether the output is a complete blob that was interrupted just before it was renamed. */
static smol_status take_whole(struct unpacking *u, const struct blob_header *header,
                              smol_error *error)
{
    uint8_t byte;
    size_t n_after = 0;
    uint64_t n = count_pieces(header->file_size), good = 0;
    smol_status status =
        smol_output_read(&u->output, header->file_size, &byte, sizeof byte, &n_after, error);
    if (!status && n_after == 0)
        status = take_kept(u, n, header->file_size, &good, error);
    u->is_whole = good == n;
    return status;
}

static smol_status take_part(struct unpacking *u, const struct blob_header *start,
                             smol_error *error)
{
    uint64_t good;
    smol_status status =
        take_kept(u, count_pieces(start->data_offset), start->file_size, &good, error);
    if (status || good == 0)
        return status ? status : start_over(u, error);
    const struct blob_header header = *smol_intake_front(u->intake)->header;
    status = take_journaled(u, &header, error);
    if (!status && u->table.n == 0)
        status = take_whole(u, &header, error);
    return status || u->is_whole || u->table.n > 0 ? status : start_over(u, error);
}

/* Finds the data that an earlier call has left in the output. */
static smol_status find_kept(struct unpacking *u, smol_error *error)
{
    static const struct blob_header nothing; /* a power failure may leave zeros */
    struct blob_header start;
    smol_error reason;
    size_t n = 0;
    const char *part = smol_output_temporary(&u->output);
    smol_status status = smol_output_read(&u->output, 0, &start, sizeof start, &n, error);
    if (status || n == 0)
        return status;
    bool is_torn = n < sizeof start || memcmp(&start, &nothing, sizeof start) == 0;
    if (!is_torn && smol_blob_check_header(&start, sizeof start, part, &reason))
        return smol_fail(error, SMOL_ERROR_FILE,
                         "%.300s: not an unfinished blob: remove it or name another output", part);
    if (!is_torn)
        status = take_part(u, &start, error);
    if (!status && !u->options->quiet)
        smol_progress_resumes(part, u->size, u->is_whole, u->table.end);
    return status;
}

/* Finds the position of the input, which may continue where the output ends, or start again. In the
 * second case its first frame is the output's first frame, and the known frames are skipped. */
static smol_status find_place(struct unpacking *u, smol_error *error)
{
    uint8_t *first = u->content + PACKED_PIECE;
    size_t n = 0;
    u->reader.position = u->table.end;
    smol_status status = next_frames(u, 1, error);
    if (!status)
        status = smol_output_read(&u->output, 0, first, PACKED_PIECE, &n, error);
    size_t size = u->results[0];
    if (status || u->n_frames == 0 || ZSTD_isError(size) || size < BLOB_MAGIC_SIZE ||
        memcmp(u->content, BLOB_MAGIC, BLOB_MAGIC_SIZE) != 0)
        return status;
    if (size > n || memcmp(u->content, first, size) != 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: begins a blob other than the unfinished output",
                         u->reader.input.name);
    u->reader.position = 0;
    return smol_packed_skip(&u->reader, u->table.end, error);
}

static smol_status go_on(struct unpacking *u, smol_error *error)
{
    smol_status status = find_kept(u, error);
    u->can_go_on = !status && !u->is_whole;
    return status || u->table.n == 0 ? status : find_place(u, error);
}

/* --- the end ------------------------------------------------------------------------------ */

/* Checks that the seek table matches the frames, and that the input ends after it. */
static smol_status check_table(struct unpacking *u, smol_error *error)
{
    uint8_t *expected = NULL, *bytes = NULL;
    size_t size = 0, n = 0;
    smol_status status = smol_seek_table_encode(&u->table, u->size, &expected, &size, error);
    if (!status && !(bytes = malloc(size + 1)))
        status = smol_fail_memory(error, "the seek table");
    if (!status)
        status = smol_packed_read(&u->reader, bytes, size + 1, &n, error);
    if (!status && memcmp(bytes, expected, n < size ? n : size) != 0)
        status = smol_fail(error, SMOL_ERROR_DAMAGED,
                           "%s: its seek table does not match its frames (offset %" PRIu64
                           "): fetch it again",
                           u->reader.input.name, u->table.end);
    else if (!status && n != size)
        status =
            smol_fail(error, SMOL_ERROR_DAMAGED, "%s: %s the seek table (offset %" PRIu64 "): %s",
                      u->reader.input.name, n < size ? "ends within" : "bytes after",
                      u->table.end + n, n < size ? "fetch the rest" : "fetch it again");
    free(expected);
    free(bytes);
    return status;
}

static smol_status check_end(struct unpacking *u, smol_error *error)
{
    if (!smol_intake_finish(u->intake, error))
        return check_table(u, error);
    if (u->reader.start < u->reader.end)
        smol_fail(error, SMOL_ERROR_DAMAGED,
                  "%s: frames are missing before the seek table (offset %" PRIu64
                  "): fetch it again",
                  u->reader.input.name, u->reader.position);
    return error->status;
}

static smol_status finish(struct unpacking *u, smol_error *error)
{
    smol_status status =
        smol_intake_check_output(&u->output, u->size, u->reader.input.name, VERIFY_AT_OPEN, error);
    if (status == SMOL_ERROR_DAMAGED) { /* the digests match, so the blob breaks a rule */
        u->can_go_on = false;
        smol_output_forget(&u->output);
    }
    if (status)
        return status;
    u->can_go_on = false; /* truncation removes the journal */
    if (u->options->resume)
        status = smol_output_truncate(&u->output, u->size, error);
    return status ? status : smol_output_commit(&u->output, error);
}

/* --- the whole blob ----------------------------------------------------------------------- */

static smol_status prepare(struct unpacking *u, const char *input, const char *output,
                           smol_error *error)
{
    const struct unpack_options *options = u->options;
    unsigned n_threads = options->n_threads < READER_FRAMES ? options->n_threads : READER_FRAMES;
    smol_status status = smol_packed_open(input, &u->reader, error);
    if (!status)
        status = smol_pool_create(n_threads, &u->pool, error);
    if (!status)
        status = smol_intake_open(u->reader.input.name, &u->intake, error);
    u->content = malloc((size_t)READER_FRAMES * PACKED_PIECE);
    bool has_room = u->content;
    for (unsigned i = 0; i < n_threads; i++)
        has_room = (u->contexts[i] = ZSTD_createDCtx()) && has_room;
    if (!status && !has_room)
        status = smol_fail_memory(error, "decompressing");
    if (status)
        return status;
    return options->resume ? smol_output_resume(output, options->force, &u->output, error)
                           : smol_output_open(output, options->force, &u->output, error);
}

static smol_status unpack(struct unpacking *u, smol_error *error)
{
    smol_status status = u->options->resume ? go_on(u, error) : SMOL_OK;
    if (!status && !u->is_whole)
        status = take_all_frames(u, error);
    if (!status && !u->is_whole)
        status = check_end(u, error);
    return status ? status : finish(u, error);
}

/* Reports where to continue. Does not keep an output that cannot be continued. */
static void report_rest(struct unpacking *u, const char *output, struct unpack_rest *rest,
                        smol_error *error)
{
    rest->is_known = true;
    rest->position = u->journal.end;
    if (rest->position == 0) {
        smol_output_forget(&u->output);
        return;
    }
    smol_error reason = *error;
    smol_fail(error, reason.status,
              "%.250s; %.80s.part is kept: continue with byte %" PRIu64 " (curl -r %" PRIu64
              "- ...), or remove it if the packed file has changed",
              reason.message, smol_base_name(output), rest->position, rest->position);
}

static void release(struct unpacking *u)
{
    smol_output_discard(&u->output);
    smol_intake_close(u->intake);
    smol_pool_destroy(u->pool);
    smol_packed_close(&u->reader);
    smol_seek_table_free(&u->table);
    for (unsigned i = 0; i < READER_FRAMES; i++)
        ZSTD_freeDCtx(u->contexts[i]);
    free(u->content);
}

smol_status smol_unpack(const char *input, const char *output, const struct unpack_options *options,
                        struct unpack_rest *rest, smol_error *error)
{
    struct unpacking u = {.options = options, .output.fd = -1, .reader.input.fd = -1};
    *rest = (struct unpack_rest){0};
    smol_status status = prepare(&u, input, output, error);
    if (!status)
        status = unpack(&u, error);
    if (status && u.can_go_on)
        report_rest(&u, output, rest, error);
    if (!status && !options->quiet && !u.is_whole)
        smol_progress_sizes("unpacked", u.reader.position, u.size);
    release(&u);
    return status;
}

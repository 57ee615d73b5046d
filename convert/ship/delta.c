/* Makes a delta, see delta.h: plans the pieces of NEW, codes them in parallel and writes them in
 * order. */
#include "convert/ship/delta.h"

#include <stddef.h>
#include <stdlib.h>

#include "cli/input.h"
#include "cli/output.h"
#include "common/file.h"
#include "common/hash.h"
#include "common/pool.h"
#include "convert/base/progress.h"
#include "convert/ship/delta_coding.h"
#include "convert/ship/delta_plan.h"

enum {
    TRIAL_LEVEL = 1, /* of zstd; used to choose the method for a piece */
    LEVEL = 19,      /* of zstd; high, because a delta is made once and sent often */
    REACH = 1 << 18, /* bytes before and after a piece's counterpart that zstd may refer to */
    SLOTS_PER_THREAD = 4,
};
_Static_assert(DELTA_MAX_NEW + 2 * REACH <= DELTA_MAX_OLD, "reach");

/* A piece to be coded and written. */
struct piece_slot {
    struct delta_piece piece;
    struct delta_record record;
    smol_status status;
    smol_error error;
};

struct making {
    struct blob old_blob, new_blob;
    struct delta_plan *plan;
    struct pool *pool;
    struct piece_slot *slots; /* (capacity); n_slots are filled */
    uint32_t n_slots, capacity;
    struct output output;
    uint64_t size; /* bytes of the delta written so far */
};

/* --- coding a piece ----------------------------------------------------------------------- */

/* Returns a part that codes the piece by `method` from the same number of bytes at its place in
 * OLD. */
static struct delta_part as_pair(const struct delta_piece *piece, enum delta_method method)
{
    return (struct delta_part){.method = method,
                               .new_size = piece->size,
                               .old_offset = piece->old_offset,
                               .old_size = piece->size};
}

/* Returns a part that codes the piece with zstd. Its history is OLD's bytes around the counterpart;
 * it may be empty. */
static struct delta_part as_frame(const struct delta_piece *piece)
{
    uint64_t first = piece->region.old_offset, end = first + piece->region.old_size;
    uint64_t from = piece->old_offset, to = from + piece->size + REACH;
    from = from - first > REACH ? from - REACH : first;
    to = to < end ? to : end;
    struct delta_part part = {.method = DELTA_ZSTD, .new_size = piece->size};
    if (from < to) {
        part.old_offset = from;
        part.old_size = to - from;
    }
    return part;
}

static smol_status encode(const struct making *m, struct piece_slot *slot, int level)
{
    return smol_delta_encode(&slot->record, m->old_blob.file.data + slot->record.part.old_offset,
                             m->new_blob.file.data + slot->piece.offset, level, &slot->error);
}

/* Chooses the method with the smallest result. Differences are possible only if OLD's region covers
 * the whole piece. */
static smol_status choose(const struct making *m, struct piece_slot *slot)
{
    const struct delta_piece *piece = &slot->piece;
    const struct delta_region *region = &piece->region;
    struct delta_part frame = as_frame(piece);
    slot->record.part = frame;
    if (piece->old_offset + piece->size > region->old_offset + region->old_size)
        return SMOL_OK;
    smol_status status = encode(m, slot, TRIAL_LEVEL);
    uint32_t frame_size = slot->record.part.coded_size;
    slot->record.part = as_pair(piece, region->difference);
    if (!status)
        status = encode(m, slot, TRIAL_LEVEL);
    if (frame_size < slot->record.part.coded_size)
        slot->record.part = frame;
    return status;
}

static smol_status code(const struct making *m, struct piece_slot *slot)
{
    smol_status status = SMOL_OK;
    if (slot->piece.same) {
        slot->record.part = as_pair(&slot->piece, DELTA_COPY);
    } else {
        status = choose(m, slot);
        if (!status)
            status = encode(m, slot, LEVEL);
    }
    slot->record.part.digest = smol_delta_digest(&slot->record);
    return status;
}

static void work(void *argument, struct pool_thread *thread)
{
    struct making *m = argument;
    struct pool_stage stage = pool_stage(thread, m->n_slots);
    while (smol_pool_claim(&stage))
        m->slots[stage.item].status = code(m, &m->slots[stage.item]);
}

/* --- writing ------------------------------------------------------------------------------ */

static smol_status write_slots(struct making *m, struct progress *progress, smol_error *error)
{
    for (uint32_t i = 0; i < m->n_slots; i++) {
        const struct piece_slot *slot = &m->slots[i];
        if (slot->status) {
            *error = slot->error;
            return slot->status;
        }
        size_t size = sizeof slot->record.part + slot->record.part.coded_size;
        smol_status status = smol_output_write(&m->output, m->size, &slot->record, size, error);
        if (status)
            return status;
        m->size += size;
        smol_progress_advance(progress, slot->piece.size);
    }
    return SMOL_OK;
}

static smol_status write_parts(struct making *m, struct progress *progress, smol_error *error)
{
    smol_status status = SMOL_OK;
    m->size = sizeof(struct delta_header);
    do {
        m->n_slots = 0;
        while (m->n_slots < m->capacity &&
               smol_delta_plan_next(m->plan, &m->slots[m->n_slots].piece))
            m->n_slots++;
        smol_pool_run(m->pool, work, m);
        status = write_slots(m, progress, error);
    } while (!status && m->n_slots == m->capacity);
    return status;
}

static struct delta_blob identity(const struct blob *blob)
{
    return (struct delta_blob){blob->header->front_digest, blob->header->file_size};
}

static smol_status write_header(struct making *m, smol_error *error)
{
    struct delta_header header = {
        .magic = DELTA_MAGIC,
        .major = DELTA_MAJOR,
        .minor = DELTA_MINOR,
        .file_size = m->size,
        .old_blob = identity(&m->old_blob),
        .new_blob = identity(&m->new_blob),
    };
    const size_t covered = offsetof(struct delta_header, major);
    header.digest = smol_digest((const uint8_t *)&header + covered, sizeof header - covered);
    return smol_output_write(&m->output, 0, &header, sizeof header, error);
}

/* Applies the delta once. The files of the blobs may have changed since they were verified, or the
 * disk may return wrong data, and a delta is sent to many places. */
static smol_status try_out(const struct making *m, const char *path, smol_error *error)
{
    struct input input;
    smol_status status = smol_input_open(smol_output_temporary(&m->output), &input, error);
    input.name = smol_base_name(path);
    if (!status)
        status = smol_delta_apply(&m->old_blob, &input, NULL, error);
    smol_input_close(&input);
    return status;
}

/* --- the whole delta ---------------------------------------------------------------------- */

static smol_status open_all(struct making *m, const char *old_path, const char *new_path,
                            uint32_t n_threads, smol_error *error)
{
    smol_status status = smol_blob_open(old_path, true, VERIFY_AT_OPEN, &m->old_blob, error);
    if (!status)
        status = smol_blob_open(new_path, true, VERIFY_AT_OPEN, &m->new_blob, error);
    if (!status)
        status = smol_delta_plan_open(&m->old_blob, &m->new_blob, &m->plan, error);
    if (!status)
        status = smol_pool_create(n_threads, &m->pool, error);
    if (status)
        return status;
    m->capacity = n_threads * SLOTS_PER_THREAD;
    m->slots = calloc(m->capacity, sizeof *m->slots);
    return m->slots ? SMOL_OK : smol_fail_memory(error, "parts of a delta");
}

static smol_status write(struct making *m, const char *path, const struct delta_options *options,
                         smol_error *error)
{
    smol_status status = smol_output_open(path, options->force, &m->output, error);
    if (status)
        return status;
    struct progress progress = smol_progress_start(m->new_blob.header->file_size, options->quiet);
    status = write_parts(m, &progress, error);
    smol_progress_end(&progress);
    if (!status)
        status = write_header(m, error);
    if (!status)
        status = try_out(m, path, error);
    status = file_settle(&m->old_blob.file, m->old_blob.path, status, error);
    status = file_settle(&m->new_blob.file, m->new_blob.path, status, error);
    if (!status)
        status = smol_output_commit(&m->output, error);
    smol_output_discard(&m->output);
    return status;
}

static void release(struct making *m)
{
    free(m->slots);
    smol_pool_destroy(m->pool);
    smol_delta_plan_close(m->plan);
    smol_blob_close(&m->new_blob);
    smol_blob_close(&m->old_blob);
}

smol_status smol_delta(const char *old_path, const char *new_path, const char *delta_path,
                       const struct delta_options *options, smol_error *error)
{
    struct making making = {0};
    if (smol_same_file(delta_path, old_path) || smol_same_file(delta_path, new_path))
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: is one of the blobs: name another output",
                         delta_path);
    smol_status status = open_all(&making, old_path, new_path, options->n_threads, error);
    if (!status)
        status = write(&making, delta_path, options, error);
    if (!status && !options->quiet)
        smol_progress_delta(making.size, making.new_blob.header->file_size);
    release(&making);
    return status;
}

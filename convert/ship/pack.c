/* Packs a blob, see pack.h. All threads compress the frames of a batch, then one thread writes
 * them. */
#include "convert/ship/pack.h"

#include <stdlib.h>
#include <zstd.h>

#include "cli/output.h"
#include "common/pool.h"
#include "convert/base/progress.h"
#include "convert/ship/seek_table.h"
#include "format/packed.h"
#include "format/reader.h"

_Static_assert(ZSTD_COMPRESSBOUND(PACKED_PIECE) == PACKED_MAX_FRAME, "frame");

enum { BATCH_FRAMES = 64 }; /* enough to keep threads from waiting long for the last one */

struct packing {
    const struct pack_options *options;
    struct blob blob;
    struct output output;
    struct pool *pool;
    struct seek_table table;
    uint8_t *frames;            /* (BATCH_FRAMES, PACKED_MAX_FRAME) */
    size_t sizes[BATCH_FRAMES]; /* 0: out of memory */
    uint64_t start;             /* the offset of the batch in the blob */
    uint32_t n_frames;
};

/* --- a batch ------------------------------------------------------------------------------ */

/* Returns the size of frame i's piece of the blob, and its offset as *start. */
static size_t piece(const struct packing *p, uint32_t i, uint64_t *start)
{
    *start = p->start + (uint64_t)i * PACKED_PIECE;
    uint64_t rest = p->blob.file.size - *start;
    return rest < PACKED_PIECE ? (size_t)rest : PACKED_PIECE;
}

/* Compresses one frame with a new context. The state of a used context may change which matches are
 * found, but the bytes must not depend on which thread made which frames. Returns 0 when memory
 * runs out. */
static size_t compress(const void *data, size_t size, uint32_t level, void *frame)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (!context)
        return 0;
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, (int)level);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    size_t n = ZSTD_compress2(context, frame, PACKED_MAX_FRAME, data, size);
    ZSTD_freeCCtx(context);
    return ZSTD_isError(n) ? 0 : n; /* the buffer holds any frame, so memory ran out */
}

static void make_frames(void *argument, struct pool_thread *thread)
{
    struct packing *p = argument;
    struct pool_stage stage = pool_stage(thread, p->n_frames);
    while (smol_pool_claim(&stage)) {
        uint32_t i = stage.item;
        uint64_t start;
        size_t size = piece(p, i, &start);
        p->sizes[i] = compress(p->blob.file.data + start, size, p->options->level,
                               p->frames + (size_t)i * PACKED_MAX_FRAME);
    }
}

static smol_status write_frames(struct packing *p, smol_error *error)
{
    for (uint32_t i = 0; i < p->n_frames; i++) {
        if (p->sizes[i] == 0)
            return smol_fail_memory(error, "compressing");
        smol_status status = smol_output_write(
            &p->output, p->table.end, p->frames + (size_t)i * PACKED_MAX_FRAME, p->sizes[i], error);
        if (!status)
            status = smol_seek_table_add(&p->table, (uint32_t)p->sizes[i], error);
        if (status)
            return status;
    }
    return SMOL_OK;
}

/* --- the whole blob ----------------------------------------------------------------------- */

static smol_status write_all_frames(struct packing *p, smol_error *error)
{
    const uint64_t size = p->blob.file.size, batch = (uint64_t)BATCH_FRAMES * PACKED_PIECE;
    struct progress progress = smol_progress_start(size, p->options->quiet);
    smol_status status = SMOL_OK;
    while (!status && p->start < size) {
        uint64_t bytes = size - p->start < batch ? size - p->start : batch;
        p->n_frames = (uint32_t)((bytes + PACKED_PIECE - 1) / PACKED_PIECE);
        smol_pool_run(p->pool, make_frames, p);
        status = write_frames(p, error);
        p->start += bytes;
        smol_progress_advance(&progress, bytes);
    }
    smol_progress_end(&progress);
    return status;
}

static smol_status write_table(struct packing *p, smol_error *error)
{
    uint8_t *bytes;
    size_t size;
    smol_status status = smol_seek_table_encode(&p->table, p->blob.file.size, &bytes, &size, error);
    if (!status)
        status = smol_output_write(&p->output, p->table.end, bytes, size, error);
    free(bytes);
    return status;
}

static smol_status pack(struct packing *p, const char *output, smol_error *error)
{
    p->frames = malloc((size_t)BATCH_FRAMES * PACKED_MAX_FRAME);
    if (!p->frames)
        return smol_fail_memory(error, "compressing");
    smol_status status = smol_pool_create(p->options->n_threads, &p->pool, error);
    if (!status)
        status = smol_output_open(output, p->options->force, &p->output, error);
    if (!status)
        status = write_all_frames(p, error);
    status = file_settle(&p->blob.file, p->blob.path, status, error);
    if (!status)
        status = write_table(p, error);
    if (!status)
        status = smol_output_commit(&p->output, error);
    return status;
}

smol_status smol_pack(const char *input, const char *output, const struct pack_options *options,
                      smol_error *error)
{
    struct packing p = {.options = options, .output.fd = -1};
    smol_status status = smol_blob_open(input, true, VERIFY_AT_OPEN, &p.blob, error);
    if (!status)
        status = pack(&p, output, error);
    if (!status && !options->quiet)
        smol_progress_sizes("packed", p.blob.file.size, p.table.end);
    smol_output_discard(&p.output);
    smol_pool_destroy(p.pool);
    smol_blob_close(&p.blob);
    smol_seek_table_free(&p.table);
    free(p.frames);
    return status;
}

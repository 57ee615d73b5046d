/* Scans tensors, see scan.h. Threads claim the pieces of a batch one by one, and the results are
 * collected after the batch. Memory is limited to one batch, for tensors of any size. The division
 * of a tensor into chunks depends only on its shape. */
#include "convert/inspect/scan.h"

#include <stdlib.h>
#include <string.h>

#include "convert/base/progress.h"

enum { BATCH_PIECES = 512, PIECE_CHUNKS = 64 };

/* The division of a tensor into chunks. */
struct grid {
    uint64_t rows, cols;
    uint64_t parts;  /* chunks of a row; 1 if a chunk has whole rows */
    uint64_t height; /* rows of a chunk */
    uint64_t n_chunks;
};

struct piece {
    size_t tensor;
    uint64_t chunk; /* the first one */
};

struct chunk_batch {
    const struct tensor_scan *scan;
    const struct model_tensor *tensors;
    size_t n_tensors;
    size_t next_tensor; /* the start of the next batch */
    uint64_t next_chunk;
    uint32_t n_pieces;
    struct piece pieces[BATCH_PIECES];
    uint8_t *results; /* (BATCH_PIECES, result_size) */
};

static struct grid grid_of(const struct model_tensor *tensor)
{
    struct grid grid = {1, tensor->n_elements, 1, 1, 0};
    if (tensor->n_elements == 0 || !smol_tensor_is_number(tensor))
        return grid;
    if (tensor->rank == 2) {
        grid.rows = tensor->shape[0];
        grid.cols = tensor->shape[1];
    }
    grid.parts = (grid.cols - 1) / TENSOR_PIECE + 1;
    grid.height = grid.parts == 1 ? TENSOR_PIECE / grid.cols : 1;
    grid.n_chunks = grid.parts == 1 ? (grid.rows - 1) / grid.height + 1 : grid.rows * grid.parts;
    return grid;
}

/* --- a piece ------------------------------------------------------------------------------ */

static void read_chunk(const struct model_tensor *tensor, const struct grid *grid, uint64_t index,
                       struct scan_chunk *chunk)
{
    uint64_t rows_left, cols_left;
    chunk->row = index / grid->parts * grid->height;
    chunk->col = index % grid->parts * TENSOR_PIECE;
    rows_left = grid->rows - chunk->row;
    cols_left = grid->cols - chunk->col;
    chunk->rows = rows_left < grid->height ? rows_left : grid->height;
    chunk->cols = cols_left < TENSOR_PIECE ? cols_left : TENSOR_PIECE;
    chunk->start = chunk->row * grid->cols + chunk->col;
    chunk->n = chunk->rows * chunk->cols;
    if (tensor->raw) { /* rows are contiguous */
        smol_tensor_read(tensor, tensor->n_elements, 0, chunk->start, chunk->n, chunk->values);
        return;
    }
    for (uint64_t r = 0; r < chunk->rows; r++)
        smol_tensor_read(tensor, grid->cols, chunk->row + r, chunk->col, chunk->cols,
                         chunk->values + r * chunk->cols);
}

static void do_piece(const struct chunk_batch *batch, uint32_t index)
{
    const struct piece *piece = &batch->pieces[index];
    const struct model_tensor *tensor = &batch->tensors[piece->tensor];
    struct grid grid = grid_of(tensor);
    struct scan_chunk chunk = {.tensor = piece->tensor};
    for (uint64_t i = 0; i < PIECE_CHUNKS && piece->chunk + i < grid.n_chunks; i++) {
        read_chunk(tensor, &grid, piece->chunk + i, &chunk);
        batch->scan->add(batch->scan->context, &chunk,
                         batch->results + index * batch->scan->result_size);
    }
}

static void work(void *argument, struct pool_thread *thread)
{
    const struct chunk_batch *batch = argument;
    struct pool_stage stage = pool_stage(thread, batch->n_pieces);
    while (smol_pool_claim(&stage))
        do_piece(batch, stage.item);
}

/* --- batches ------------------------------------------------------------------------------ */

/* Fills the batch with the next pieces, or none at the end. Returns the bytes of the tensors that
 * end in it. */
static uint64_t plan(struct chunk_batch *batch)
{
    uint64_t bytes = 0;
    batch->n_pieces = 0;
    while (batch->next_tensor < batch->n_tensors && batch->n_pieces < BATCH_PIECES) {
        const struct model_tensor *tensor = &batch->tensors[batch->next_tensor];
        struct grid grid = grid_of(tensor);
        if (batch->next_chunk < grid.n_chunks)
            batch->pieces[batch->n_pieces++] =
                (struct piece){batch->next_tensor, batch->next_chunk};
        if (grid.n_chunks > PIECE_CHUNKS && batch->next_chunk < grid.n_chunks - PIECE_CHUNKS) {
            batch->next_chunk += PIECE_CHUNKS;
            continue;
        }
        bytes += smol_tensor_size(tensor);
        batch->next_chunk = 0;
        batch->next_tensor++;
    }
    memset(batch->results, 0, batch->n_pieces * batch->scan->result_size);
    return bytes;
}

static void collect(const struct chunk_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_pieces; i++)
        batch->scan->collect(batch->scan->context, batch->pieces[i].tensor,
                             batch->results + i * batch->scan->result_size);
}

static void run(struct chunk_batch *batch, struct pool *pool, bool quiet)
{
    uint64_t total = 0, bytes;
    for (size_t i = 0; i < batch->n_tensors; i++)
        total += smol_tensor_size(&batch->tensors[i]);
    struct progress progress = smol_progress_start(total, quiet);
    do {
        bytes = plan(batch);
        smol_pool_run(pool, work, batch);
        collect(batch);
        smol_progress_advance(&progress, bytes);
    } while (batch->next_tensor < batch->n_tensors);
    smol_progress_end(&progress);
}

smol_status smol_scan(const struct tensor_scan *scan, const struct model_tensor *tensors, size_t n,
                      struct pool *pool, bool quiet, smol_error *error)
{
    struct chunk_batch *batch = calloc(1, sizeof *batch);
    uint8_t *results = calloc(BATCH_PIECES, scan->result_size);
    smol_status status = SMOL_OK;
    if (batch && results) {
        batch->scan = scan;
        batch->tensors = tensors;
        batch->n_tensors = n;
        batch->results = results;
        run(batch, pool, quiet);
    } else {
        status = smol_fail_memory(error, "statistics");
    }
    free(results);
    free(batch);
    return status;
}

/* Streams the weights, see weights.h.
 *
 * The weights section is a sequence of pieces: row blocks of matrices and whole vectors. All
 * threads convert a batch of pieces; one of them first writes the previous batch. Two batches
 * alternate, so memory use does not grow with the model. */
#include "convert/weights/weights.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/checked.h"
#include "convert/base/progress.h"
#include "convert/weights/feedback.h"
#include "convert/weights/inputs.h"

enum {
    BATCH_BYTES = 2 << 20, /* small enough to stay in the cache until it is written */
    BATCH_PIECES = 512,
};

/* A tensor, or rows of a matrix with inputs of their own, and how it is converted. */
struct task {
    struct weight weight;
    uint64_t row, end;     /* of a matrix; of a vector the last is 1 */
    struct tile_rule rule; /* for int6, int5 and int4 */
    size_t record;         /* of the statistics, or NO_RECORD */
};

/* A row block of a matrix, or a whole vector. */
struct tile_piece {
    const struct task *task;
    uint64_t row;    /* the first row */
    uint64_t offset; /* of the piece in the batch */
};

struct tile_batch {
    uint8_t *bytes; /* (capacity) */
    uint64_t size;
    uint32_t n_pieces;
    struct tile_piece pieces[BATCH_PIECES];
};

/* The first fault that one thread found in the batch. */
struct finding {
    uint32_t piece;
    struct tile_fault fault;
};

struct weight_stream {
    struct task *tasks; /* (n_tasks), in the order of rows, without a tied output */
    size_t n_tasks;
    struct level_search *searches; /* for each table of the mix */
    size_t next_task;              /* where the next batch begins */
    uint64_t next_row;             /* counted from the task's first */
    uint64_t capacity;             /* bytes of a batch */
    struct tile_batch *made, *written;
    struct tile_batch batches[2];
    uint64_t max_cols;
    float *scratch; /* (n_threads, scratch_size) */
    uint64_t scratch_size;
    struct inputs inputs; /* with the record of the pieces of a batch */
    bool changes;         /* an adapter or folding changes a matrix before it is tiled */
    float *changed;       /* (n_threads, TILE_ROWS, max_cols), if so */
    struct finding findings[POOL_MAX_THREADS];
    struct blob_writer *writer;
    smol_status write_status;
    smol_error *error;
};

/* --- batches ------------------------------------------------------------------------------ */

static uint64_t piece_bytes(const struct blob_tensor *layout)
{
    return layout->layout == LAYOUT_TILES ? smol_block_bytes(layout->dtype, layout->cols)
                                          : layout->size;
}

/* Fills the batch with the next pieces. It is empty at the end. */
static void plan_batch(struct weight_stream *s, struct tile_batch *batch)
{
    batch->n_pieces = 0;
    batch->size = 0;
    while (s->next_task < s->n_tasks && batch->n_pieces < BATCH_PIECES) {
        const struct task *task = &s->tasks[s->next_task];
        uint64_t bytes = piece_bytes(&task->weight.layout);
        bool other_record = task->record != NO_RECORD && task->record != s->inputs.record;
        if (bytes > s->capacity - batch->size || other_record)
            return;
        batch->pieces[batch->n_pieces++] =
            (struct tile_piece){task, task->row + s->next_row, batch->size};
        batch->size += bytes;
        s->next_row += TILE_ROWS;
        if (task->row + s->next_row >= task->end) {
            s->next_row = 0;
            s->next_task++;
        }
    }
}

/* Converts a row block of a changed matrix, as if the checkpoint contained the result in f32. */
static struct tile_fault make_changed(struct weight_stream *s, const struct tile_piece *piece,
                                      unsigned thread)
{
    const struct weight *weight = &piece->task->weight;
    struct blob_tensor layout = weight->layout;
    float *rows = s->changed + thread * TILE_ROWS * s->max_cols;
    layout.rows = rows_in_block(piece->row, layout.rows);
    smol_weight_rows(weight, piece->row, layout.rows, rows);
    const struct safetensors_tensor changed = {.dtype = ST_F32, .data = (const uint8_t *)rows};
    struct tile_fault fault =
        smol_tile_block(&changed, &layout, &piece->task->rule, 0,
                        s->scratch + thread * s->scratch_size, s->made->bytes + piece->offset);
    fault.index += piece->row * layout.cols;
    return fault;
}

static struct tile_fault make_piece(struct weight_stream *s, const struct tile_piece *piece,
                                    unsigned thread)
{
    const struct weight *weight = &piece->task->weight;
    uint8_t *out = s->made->bytes + piece->offset;
    if (weight->layout.layout != LAYOUT_TILES)
        return smol_weight_vector(weight, out);
    if (weight_is_changed(weight))
        return make_changed(s, piece, thread);
    return smol_tile_block(weight->source, &weight->layout, &piece->task->rule, piece->row,
                           s->scratch + thread * s->scratch_size, out);
}

/* Item 0 writes the previous batch; each other item converts a piece of the next one. A thread that
 * has found a fault converts only pieces before it. So the first fault of the batch is found,
 * whatever the order in which pieces are claimed. */
static void work(void *argument, struct pool_thread *thread)
{
    struct weight_stream *s = argument;
    struct finding *found = &s->findings[thread->index];
    struct pool_stage stage = pool_stage(thread, 1 + s->made->n_pieces);
    while (smol_pool_claim(&stage)) {
        uint32_t piece = stage.item - 1;
        if (stage.item == 0)
            s->write_status =
                smol_writer_append(s->writer, s->written->bytes, s->written->size, s->error);
        else if (!found->fault.status || piece < found->piece) {
            struct tile_fault fault = make_piece(s, &s->made->pieces[piece], thread->index);
            if (fault.status)
                *found = (struct finding){piece, fault};
        }
    }
}

/* --- faults ------------------------------------------------------------------------------- */

/* Returns the fault with the lowest piece, so that the report does not depend on the threads, or
 * NULL. */
static const struct finding *first_finding(const struct weight_stream *s, unsigned n_threads)
{
    const struct finding *first = NULL;
    for (unsigned i = 0; i < n_threads; i++) {
        const struct finding *found = &s->findings[i];
        if (found->fault.status && (!first || found->piece < first->piece))
            first = found;
    }
    return first;
}

static smol_status report(const struct weight_stream *s, const struct finding *found)
{
    const struct tile_fault *fault = &found->fault;
    const struct weight *weight = &s->made->pieces[found->piece].task->weight;
    /* a source that cannot be converted is not a failure of the program: exit status 4 or 5 */
    smol_status status = fault->status == SMOL_ERROR_NUMERIC ? SMOL_ERROR_DAMAGED : fault->status;
    const char *broken =
        weight->lora ? "the checkpoint or the adapter is broken" : "the checkpoint is broken";
    return smol_fail(s->error, status, "%s: tensor %s: element %" PRIu64 " (%g) %s: %s",
                     weight->source->path, weight->source->name, fault->index, (double)fault->value,
                     fault->reason, status == SMOL_ERROR_DAMAGED ? broken : "use --dtype f32");
}

/* Sets how a matrix is quantized with the help of statistics. */
static void use_inputs(struct weight_stream *s, const struct blob_model *model, struct task *task)
{
    const struct blob_tensor *layout = &task->weight.layout;
    task->record = layout->dtype > DTYPE_INT8
                       ? smol_inputs_record(&s->inputs, layout, model, task->row)
                       : NO_RECORD;
    if (task->record == NO_RECORD)
        return;
    task->rule.importance = s->inputs.importance;
    if (s->inputs.stats->header.kind == STATS_GRAM)
        task->rule.factor = &s->inputs.factor;
}

/* --- all batches -------------------------------------------------------------------------- */

/* Returns the prepared table of a matrix. */
static const struct level_search *prepare_levels(struct weight_stream *s, const struct mix *mix,
                                                 const struct blob_tensor *layout)
{
    struct level_search *search = &s->searches[layout->levels];
    if (search->n == 0)
        smol_levels_prepare(search, &mix->levels[layout->levels], layout->dtype);
    return search;
}

/* Adds a tensor to the tasks, each part of it as one. */
static void add_tasks(struct weight_stream *s, const struct weights *weights,
                      const struct weight *weight)
{
    const struct blob_tensor *layout = &weight->layout;
    uint64_t rows = layout->layout == LAYOUT_TILES ? layout->rows : 1;
    uint32_t n_parts = smol_inputs_parts(weights->model, layout->role);
    for (uint32_t i = 0; i < n_parts; i++) {
        struct task *task = &s->tasks[s->n_tasks++];
        task->weight = *weight;
        task->row = rows / n_parts * i;
        task->end = rows / n_parts * (i + 1);
        if (layout->dtype > DTYPE_INT8)
            task->rule.levels = prepare_levels(s, weights->mix, layout);
        use_inputs(s, weights->model, task);
    }
    s->changes = s->changes || weight_is_changed(weight);
    if (layout->cols > s->max_cols)
        s->max_cols = layout->cols;
    if (piece_bytes(layout) > s->capacity)
        s->capacity = piece_bytes(layout);
}

static size_t count_tasks(const struct blob_model *model)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t n = 0;
    do
        n += smol_inputs_parts(model, key.role);
    while (smol_tensor_next(model, &key));
    return n;
}

static smol_status list_tasks(struct weight_stream *s, const struct weights *weights)
{
    const struct blob_model *model = weights->model;
    s->capacity = BATCH_BYTES;
    s->max_cols = 1;
    s->tasks = calloc(count_tasks(model), sizeof *s->tasks);
    s->searches = calloc(weights->mix->n_levels + 1, sizeof *s->searches);
    if (!s->tasks || !s->searches)
        return smol_fail_memory(s->error, "the tensor list");
    struct tensor_key key = {.role = ROLE_EMBED};
    for (size_t i = 0, more = 1; more; more = smol_tensor_next(model, &key), i++) {
        const struct weight weight = smol_weight_get(weights, i, key, &s->inputs.fold);
        if (weight.source)
            add_tasks(s, weights, &weight);
    }
    return SMOL_OK;
}

static smol_status allocate_batches(struct weight_stream *s, unsigned n_threads)
{
    const struct stats_file *stats = s->inputs.stats;
    bool feeds_back = stats && stats->header.kind == STATS_GRAM;
    s->scratch_size = feeds_back ? smol_feedback_scratch(s->max_cols) : s->max_cols;
    s->scratch = calloc(n_threads, s->scratch_size * sizeof *s->scratch);
    if (s->changes)
        s->changed = calloc((size_t)n_threads * TILE_ROWS, s->max_cols * sizeof *s->changed);
    for (int i = 0; i < 2; i++)
        s->batches[i].bytes = aligned_alloc(BLOB_ALIGN, round_up(s->capacity, BLOB_ALIGN));
    return s->scratch && (s->changed || !s->changes) && s->batches[0].bytes && s->batches[1].bytes
               ? SMOL_OK
               : smol_fail_memory(s->error, "tiles");
}

static smol_status run_batches(struct weight_stream *s, struct pool *pool,
                               struct progress *progress)
{
    smol_status status;
    s->made = &s->batches[0];
    s->written = &s->batches[1];
    do {
        size_t record = s->next_task < s->n_tasks ? s->tasks[s->next_task].record : NO_RECORD;
        status = smol_inputs_load(&s->inputs, record, pool, s->error);
        if (status)
            return status;
        plan_batch(s, s->made);
        smol_pool_run(pool, work, s);
        const struct finding *found = first_finding(s, smol_pool_size(pool));
        status = s->write_status; /* of the previous batch, which precedes the finding */
        if (!status && found)
            status = report(s, found);
        smol_progress_advance(progress, s->written->size);
        struct tile_batch *made = s->made;
        s->made = s->written;
        s->written = made;
    } while (!status && s->written->size > 0);
    return status;
}

smol_status smol_weights_write(const struct weights *weights, struct pool *pool,
                               struct blob_writer *writer, bool quiet, smol_error *error)
{
    struct weight_stream *s = calloc(1, sizeof *s);
    if (!s)
        return smol_fail_memory(error, "tiles");
    s->writer = writer;
    s->error = error;
    smol_status status = smol_inputs_open(&s->inputs, weights->stats, weights->model, error);
    if (!status)
        status = list_tasks(s, weights);
    if (!status)
        status = allocate_batches(s, smol_pool_size(pool));
    if (!status) {
        uint64_t total = 0;
        for (size_t i = 0; i < s->n_tasks; i++)
            total += piece_bytes(&s->tasks[i].weight.layout) *
                     count_blocks(s->tasks[i].end - s->tasks[i].row);
        struct progress progress = smol_progress_start(total, quiet);
        status = run_batches(s, pool, &progress);
        smol_progress_end(&progress);
    }
    free(s->batches[0].bytes);
    free(s->batches[1].bytes);
    free(s->scratch);
    smol_inputs_close(&s->inputs);
    free(s->changed);
    free(s->searches);
    free(s->tasks);
    free(s);
    return status;
}

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
#include "convert/checkpoint/checkpoint.h"
#include "convert/weights/feedback.h"
#include "convert/weights/fold.h"
#include "convert/weights/tile.h"
#include "format/layout.h"

enum {
    BATCH_BYTES = 2 << 20, /* small enough to stay in the cache until it is written */
    BATCH_PIECES = 512,
};
#define NO_RECORD SIZE_MAX

/* A tensor to convert. */
struct weight {
    const struct safetensors_tensor *source;
    struct blob_tensor layout;
    float offset;                 /* added to a vector's elements */
    const struct lora_pair *lora; /* NULL: no adapter */
    struct fold_factors fold;     /* that its elements are multiplied by */
    struct tile_rule rule;        /* for int6, int5 and int4 */
    size_t record;                /* of the statistics, or NO_RECORD */
};

/* A row block of a matrix, or a whole vector. */
struct tile_piece {
    const struct weight *tensor;
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
    struct weight *tensors; /* (n_tensors), without a tied output */
    size_t n_tensors;
    struct level_search *searches; /* for each table of the mix */
    size_t next_tensor;            /* where the next batch begins */
    uint64_t next_row;
    uint64_t capacity; /* bytes of a batch */
    struct tile_batch *made, *written;
    struct tile_batch batches[2];
    uint64_t max_cols;
    float *scratch; /* (n_threads, scratch_size) */
    uint64_t scratch_size;
    /* of the record that the pieces of a batch belong to */
    const struct stats_file *stats; /* or NULL */
    struct fold fold;
    size_t record;
    float *importance; /* (the widest record) */
    struct factor factor;
    bool changes;   /* an adapter or folding changes a matrix before it is tiled */
    float *changed; /* (n_threads, TILE_ROWS, max_cols), if so */
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
    while (s->next_tensor < s->n_tensors && batch->n_pieces < BATCH_PIECES) {
        const struct weight *tensor = &s->tensors[s->next_tensor];
        uint64_t bytes = piece_bytes(&tensor->layout);
        bool other_record = tensor->record != NO_RECORD && tensor->record != s->record;
        if (bytes > s->capacity - batch->size || other_record)
            return;
        batch->pieces[batch->n_pieces++] = (struct tile_piece){tensor, s->next_row, batch->size};
        batch->size += bytes;
        s->next_row += TILE_ROWS; /* a vector is one row */
        if (s->next_row >= tensor->layout.rows) {
            s->next_row = 0;
            s->next_tensor++;
        }
    }
}

/* Converts a vector, adds its offset, which never makes a finite number infinite, and folds. */
static struct tile_fault make_vector(const struct weight *tensor, uint8_t *out)
{
    struct tile_fault fault = smol_tile_vector(tensor->source, &tensor->layout, out);
    float *values = (float *)(void *)out;
    for (uint64_t i = 0; tensor->offset != 0 && i < tensor->layout.cols; i++)
        values[i] += tensor->offset;
    for (uint64_t i = 0; tensor->fold.cols && i < tensor->layout.cols; i++)
        values[i] *= tensor->fold.cols[i];
    return fault;
}

/* Multiplies rows [row, row + n_rows) of a matrix by their factors. */
static void fold_rows(const struct weight *tensor, uint64_t row, uint64_t n_rows, float *rows)
{
    const struct fold_factors *fold = &tensor->fold;
    uint64_t cols = tensor->layout.cols;
    for (uint64_t r = 0; r < n_rows; r++, rows += cols) {
        for (uint64_t i = 0; fold->cols && i < cols; i++)
            rows[i] *= fold->cols[i];
        for (uint64_t i = 0; fold->rows && i < cols; i++)
            rows[i] *= fold->rows[row + r];
    }
}

/* Converts a row block after the adapter's change was added and factors were folded in, as if the
 * checkpoint contained the result in f32. */
static struct tile_fault make_changed(struct weight_stream *s, const struct tile_piece *piece,
                                      unsigned thread)
{
    const struct weight *tensor = piece->tensor;
    const struct safetensors_tensor *source = tensor->source;
    struct blob_tensor layout = tensor->layout;
    float *rows = s->changed + thread * TILE_ROWS * s->max_cols;
    layout.rows = rows_in_block(piece->row, layout.rows);
    if (tensor->lora)
        smol_lora_merge(tensor->lora, source, piece->row, layout.rows, rows);
    else
        element_widen(source->dtype, source->data, piece->row * layout.cols,
                      layout.rows * layout.cols, rows);
    fold_rows(tensor, piece->row, layout.rows, rows);
    const struct safetensors_tensor changed = {.dtype = ST_F32, .data = (const uint8_t *)rows};
    struct tile_fault fault =
        smol_tile_block(&changed, &layout, &tensor->rule, 0, s->scratch + thread * s->scratch_size,
                        s->made->bytes + piece->offset);
    fault.index += piece->row * layout.cols;
    return fault;
}

static bool is_changed(const struct weight *tensor)
{
    return tensor->lora || tensor->fold.rows || tensor->fold.cols;
}

static struct tile_fault make_piece(struct weight_stream *s, const struct tile_piece *piece,
                                    unsigned thread)
{
    const struct weight *tensor = piece->tensor;
    uint8_t *out = s->made->bytes + piece->offset;
    if (tensor->layout.layout == LAYOUT_VECTOR)
        return make_vector(tensor, out);
    if (is_changed(tensor))
        return make_changed(s, piece, thread);
    return smol_tile_block(tensor->source, &tensor->layout, &tensor->rule, piece->row,
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
    const struct weight *tensor = s->made->pieces[found->piece].tensor;
    /* a source that cannot be converted is not a failure of the program: exit status 4 or 5 */
    smol_status status = fault->status == SMOL_ERROR_NUMERIC ? SMOL_ERROR_DAMAGED : fault->status;
    const char *broken =
        tensor->lora ? "the checkpoint or the adapter is broken" : "the checkpoint is broken";
    return smol_fail(s->error, status, "%s: tensor %s: element %" PRIu64 " (%g) %s: %s",
                     tensor->source->path, tensor->source->name, fault->index, (double)fault->value,
                     fault->reason, status == SMOL_ERROR_DAMAGED ? broken : "use --dtype f32");
}

/* --- calibration -------------------------------------------------------------------------- */

/* Returns the record that describes the inputs of a matrix. An embedding has none, unless it is
 * the output layer too. */
static size_t record_of(const struct blob_tensor *layout, const struct blob_model *model,
                        size_t n_records)
{
    static const unsigned char inputs[ROLE_COUNT] = {
        [ROLE_ATTN_Q] = STATS_ATTENTION, [ROLE_ATTN_K] = STATS_ATTENTION,
        [ROLE_ATTN_V] = STATS_ATTENTION, [ROLE_ATTN_O] = STATS_ATTENDED,
        [ROLE_MLP_GATE] = STATS_MLP,     [ROLE_MLP_UP] = STATS_MLP,
        [ROLE_MLP_DOWN] = STATS_GATED,
    };
    if (layout->role == ROLE_OUTPUT || (layout->role == ROLE_EMBED && model->tied_embeddings))
        return n_records - 1;
    if (layout->role == ROLE_EMBED)
        return NO_RECORD;
    return layout->layer * STATS_PER_LAYER + inputs[layout->role];
}

/* Returns the sum of squares of input i, after folding. */
static double folded_square(const struct weight_stream *s, const float *values,
                            const float *inverses, size_t i)
{
    double square = stats_diagonal(s->stats, s->record, values, i);
    return inverses ? square * inverses[i] * inverses[i] : square;
}

/* Sets the importance of each input: its mean square, damped, relative to the largest. With error
 * feedback the factor's D would be the weights of the errors, but these measure better. */
static void set_importance(struct weight_stream *s, const float *values, const float *inverses,
                           size_t width)
{
    double sum = 0, largest = 0;
    for (size_t i = 0; i < width; i++) {
        double square = folded_square(s, values, inverses, i);
        sum += square;
        largest = square > largest ? square : largest;
    }
    double damping = sum > 0 ? FACTOR_DAMPING * sum / (double)width : 1;
    for (size_t i = 0; i < width; i++) {
        double square = folded_square(s, values, inverses, i);
        s->importance[i] = (float)((square + damping) / (largest + damping));
    }
}

/* Prepares the record of the next tensor, unless it is the current one. */
static smol_status prepare_record(struct weight_stream *s, struct pool *pool)
{
    const float *values;
    const struct weight *next = &s->tensors[s->next_tensor];
    if (s->next_tensor == s->n_tensors || next->record == NO_RECORD || next->record == s->record)
        return SMOL_OK;
    s->record = next->record;
    smol_factor_free(&s->factor);
    smol_status status = smol_stats_read(s->stats, s->record, &values, s->error);
    if (status)
        return status;
    size_t width = (size_t)next->layout.cols;
    const float *inverses = smol_fold_inverses(&s->fold, s->record);
    if (s->stats->header.kind == STATS_GRAM)
        status = smol_factor_make(values, inverses, width, pool, &s->factor, s->error);
    if (!status)
        set_importance(s, values, inverses, width);
    return status;
}

/* Adds what the statistics have for a matrix to its rule. */
static void use_stats(struct weight_stream *s, const struct blob_model *model,
                      struct weight *tensor)
{
    tensor->record = NO_RECORD;
    if (!s->stats || tensor->layout.dtype <= DTYPE_INT8)
        return;
    tensor->record = record_of(&tensor->layout, model, smol_stats_count(&s->stats->header));
    if (tensor->record == NO_RECORD)
        return;
    tensor->rule.importance = s->importance;
    if (s->stats->header.kind == STATS_GRAM)
        tensor->rule.factor = &s->factor;
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

static smol_status list_tensors(struct weight_stream *s, const struct weights *weights)
{
    const struct blob_model *model = weights->model;
    s->capacity = BATCH_BYTES;
    s->max_cols = 1;
    s->tensors = calloc(smol_tensor_count(model), sizeof *s->tensors);
    s->searches = calloc(weights->mix->n_levels + 1, sizeof *s->searches);
    if (!s->tensors || !s->searches)
        return smol_fail_memory(s->error, "the tensor list");
    struct tensor_key key = {ROLE_EMBED, 0};
    for (size_t i = 0, more = 1; more; more = smol_tensor_next(model, &key), i++) {
        const struct lora_pair *pair = weights->lora ? &weights->lora[i] : NULL;
        struct weight tensor = {
            .source = weights->sources[i],
            .layout = smol_tensor_layout(model, key, mix_storage(weights->mix, i)),
            .offset = smol_checkpoint_offset(weights->family, key.role),
            .lora = pair && pair->a ? pair : NULL,
            .fold = smol_fold_factors(&s->fold, key),
        };
        if (!tensor.source)
            continue;
        if (tensor.layout.dtype > DTYPE_INT8)
            tensor.rule.levels = prepare_levels(s, weights->mix, &tensor.layout);
        use_stats(s, model, &tensor);
        s->changes = s->changes || is_changed(&tensor);
        s->tensors[s->n_tensors++] = tensor;
        if (tensor.layout.cols > s->max_cols)
            s->max_cols = tensor.layout.cols;
        if (piece_bytes(&tensor.layout) > s->capacity)
            s->capacity = piece_bytes(&tensor.layout);
    }
    return SMOL_OK;
}

static smol_status allocate_batches(struct weight_stream *s, unsigned n_threads)
{
    bool feeds_back = s->stats && s->stats->header.kind == STATS_GRAM;
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
        status = prepare_record(s, pool);
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

/* Returns the largest width of a record. */
static size_t widest(const struct stats_file *stats)
{
    size_t most = 0;
    for (size_t i = 0; i < STATS_PER_LAYER; i++)
        most = stats->header.widths[i] > most ? stats->header.widths[i] : most;
    return most;
}

static smol_status prepare_stats(struct weight_stream *s, const struct blob_model *model)
{
    s->importance = calloc(widest(s->stats), sizeof *s->importance);
    return s->importance ? smol_fold_make(s->stats, model, &s->fold, s->error)
                         : smol_fail_memory(s->error, "the importance of inputs");
}

smol_status smol_weights_write(const struct weights *weights, struct pool *pool,
                               struct blob_writer *writer, bool quiet, smol_error *error)
{
    struct weight_stream *s = calloc(1, sizeof *s);
    if (!s)
        return smol_fail_memory(error, "tiles");
    s->writer = writer;
    s->error = error;
    s->stats = weights->stats;
    s->record = NO_RECORD;
    smol_status status = s->stats ? prepare_stats(s, weights->model) : SMOL_OK;
    if (!status)
        status = list_tensors(s, weights);
    if (!status)
        status = allocate_batches(s, smol_pool_size(pool));
    if (!status) {
        uint64_t total = 0;
        for (size_t i = 0; i < s->n_tensors; i++)
            total += s->tensors[i].layout.size;
        struct progress progress = smol_progress_start(total, quiet);
        status = run_batches(s, pool, &progress);
        smol_progress_end(&progress);
    }
    free(s->batches[0].bytes);
    free(s->batches[1].bytes);
    free(s->scratch);
    free(s->importance);
    smol_factor_free(&s->factor);
    smol_fold_free(&s->fold);
    free(s->changed);
    free(s->searches);
    free(s->tensors);
    free(s);
    return status;
}

/* The losses of matrices, see losses.h. */
#include "convert/weights/losses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/weights/feedback.h"
#include "convert/weights/inputs.h"
#include "convert/weights/untile.h"
#include "convert/weights/weights.h"

const enum blob_dtype smol_choices[N_CHOICES] = {DTYPE_INT4, DTYPE_INT5, DTYPE_INT6, DTYPE_INT8};

enum {
    COARSE = N_CHOICES, /* the rounding of the statistics, beside the choices */
    N_ROUNDINGS,
    SAMPLE_LEAST = 4,  /* row blocks of a matrix that are measured, */
    SAMPLE_SHARE = 64, /* or one of so many, if that is more */
};

static const double LOST = 1e30; /* nats */

/* The sums of squared errors of a row block. */
struct block_errors {
    const struct weight *weight;
    uint64_t row;
    double products[N_ROUNDINGS]; /* of its products with the inputs of the record */
    double weights[N_ROUNDINGS];
};

struct loss_meter {
    struct inputs inputs;
    struct level_search searches[N_CHOICES]; /* int8 has none */
    struct block_errors *blocks;             /* (n_blocks): of the current matrix */
    size_t n_blocks;
    size_t first, n_measured;      /* blocks whose inputs are those of the current record */
    bool has_inputs;               /* it is known */
    double coarse[N_EXPERT_ROLES]; /* errors of coarse rounding, over all experts of the layer */
    size_t max_cols;
    float *scratch; /* (n_threads, scratch_size) */
    size_t scratch_size;
};

/* One thread's part of the scratch. */
struct loss_scratch {
    float *rows, *rounded; /* (TILE_ROWS, cols) */
    float *errors;         /* (cols, TILE_ROWS) */
    float *tiling;         /* of smol_tile_block */
    uint8_t *bytes;        /* of a row block */
};

/* --- one row block ------------------------------------------------------------------------ */

static size_t sample_size(uint64_t rows)
{
    size_t n = (size_t)count_blocks(rows), share = n / SAMPLE_SHARE;
    size_t least = n < SAMPLE_LEAST ? n : SAMPLE_LEAST;
    return share > least ? share : least;
}

static size_t scratch_floats(size_t cols)
{
    size_t bytes = (size_t)smol_block_bytes(DTYPE_INT8, cols);
    return 3 * TILE_ROWS * cols + (size_t)smol_feedback_scratch(cols) + bytes / sizeof(float) + 1;
}

static struct loss_scratch scratch_of(const struct loss_meter *meter, unsigned thread)
{
    size_t block = TILE_ROWS * meter->max_cols;
    struct loss_scratch scratch = {.rows = meter->scratch + thread * meter->scratch_size};
    scratch.rounded = scratch.rows + block;
    scratch.errors = scratch.rounded + block;
    scratch.tiling = scratch.errors + block;
    scratch.bytes = (uint8_t *)(scratch.tiling + smol_feedback_scratch(meter->max_cols));
    return scratch;
}

/* Returns the sum over rows of e G eT, G the Gram matrix whose upper triangle is `gram`, or a
 * diagonal. */
static double product_errors(const struct inputs *inputs, const float *errors, size_t cols)
{
    bool is_gram = inputs->stats->header.kind == STATS_GRAM;
    const float *gram = inputs->values;
    double total = 0;
    for (size_t i = 0; i < cols; i++) {
        float sums[TILE_ROWS] = {0}, diagonal = *gram++;
        const float *e = errors + i * TILE_ROWS;
        for (size_t k = i + 1; is_gram && k < cols; k++, gram++)
            for (size_t r = 0; r < TILE_ROWS; r++)
                sums[r] += *gram * errors[k * TILE_ROWS + r];
        for (size_t r = 0; r < TILE_ROWS; r++)
            total += (double)e[r] * (double)(diagonal * e[r] + 2 * sums[r]);
    }
    return total;
}

/* Adds up the errors of a rounding, from the rows before and after. Both were multiplied by the
 * factors of `fold`. */
static void add_errors(const struct loss_meter *meter, struct block_errors *block, size_t rounding,
                       const struct loss_scratch *scratch, const struct fold_factors *fold)
{
    size_t cols = (size_t)block->weight->layout.cols;
    size_t n = (size_t)rows_in_block(block->row, block->weight->layout.rows);
    memset(scratch->errors, 0, cols * TILE_ROWS * sizeof(float));
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < cols; i++) {
            float e = scratch->rows[r * cols + i] - scratch->rounded[r * cols + i];
            e = fold->cols ? e / fold->cols[i] : e;
            e = fold->rows ? e / fold->rows[block->row + r] : e;
            scratch->errors[i * TILE_ROWS + r] = e;
            block->weights[rounding] += (double)e * (double)e;
        }
    if (meter->has_inputs)
        block->products[rounding] = product_errors(&meter->inputs, scratch->errors, cols);
}

static void round_coarsely(const struct loss_meter *meter, struct block_errors *block,
                           const struct loss_scratch *scratch)
{
    const struct weight *weight = block->weight;
    const struct fold_factors unfolded = {NULL, NULL};
    size_t cols = (size_t)weight->layout.cols;
    size_t n = (size_t)rows_in_block(block->row, weight->layout.rows);
    smol_weight_merged(weight, block->row, n, scratch->rows);
    memcpy(scratch->rounded, scratch->rows, n * cols * sizeof(float));
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < cols; i += GROUP_INPUTS)
            smol_stats_round(scratch->rounded + r * cols + i,
                             cols - i < GROUP_INPUTS ? cols - i : GROUP_INPUTS);
    add_errors(meter, block, COARSE, scratch, &unfolded);
}

/* Converts the block as a conversion would. A fault is left to the conversion. */
static void round_as(const struct loss_meter *meter, struct block_errors *block, size_t choice,
                     const struct loss_scratch *scratch)
{
    const struct inputs *inputs = &meter->inputs;
    bool has_inputs = meter->has_inputs;
    const struct level_search *search = &meter->searches[choice];
    const struct tile_rule rule = {
        .levels = search,
        .importance = has_inputs ? inputs->importance : NULL,
        .factor = has_inputs && inputs->factor.n > 0 ? &inputs->factor : NULL,
    };
    struct blob_tensor layout = block->weight->layout;
    const struct safetensors_tensor rows = {.dtype = ST_F32,
                                            .data = (const uint8_t *)scratch->rows};
    layout.dtype = smol_choices[choice];
    layout.rows = rows_in_block(block->row, layout.rows);
    struct tile_fault fault =
        smol_tile_block(&rows, &layout, &rule, 0, scratch->tiling, scratch->bytes);
    if (fault.status)
        return;
    for (uint64_t r = 0; r < layout.rows; r++)
        smol_untile(&layout, search->levels.values, scratch->bytes, r, 0, layout.cols,
                    scratch->rounded + r * layout.cols);
    add_errors(meter, block, choice, scratch, &block->weight->fold);
}

static void measure_blocks(void *argument, struct pool_thread *thread)
{
    const struct loss_meter *meter = argument;
    const struct loss_scratch scratch = scratch_of(meter, thread->index);
    struct pool_stage stage = pool_stage(thread, (uint32_t)meter->n_measured);
    while (smol_pool_claim(&stage)) {
        struct block_errors *block = &meter->blocks[meter->first + stage.item];
        round_coarsely(meter, block, &scratch);
        smol_weight_rows(block->weight, block->row,
                         rows_in_block(block->row, block->weight->layout.rows), scratch.rows);
        for (size_t choice = 0; choice < N_CHOICES; choice++)
            round_as(meter, block, choice, &scratch);
    }
}

/* --- one matrix --------------------------------------------------------------------------- */

/* Adds up the errors of all blocks, of products or of weights. */
static void sum_errors(const struct loss_meter *meter, bool products, double errors[N_ROUNDINGS])
{
    for (size_t i = 0; i < meter->n_blocks; i++)
        for (size_t k = 0; k < N_ROUNDINGS; k++)
            errors[k] += products ? meter->blocks[i].products[k] : meter->blocks[i].weights[k];
}

/* Adds to the losses what a sensitivity and errors imply. Errors overflow only if the statistics
 * are no model's: the matrix is then lost in any dtype. */
static void add_losses(const double *errors, double coarse, double sensitivity,
                       struct dtype_losses *losses)
{
    for (size_t k = 0; k < N_CHOICES; k++) {
        if (errors[k] <= 0 || coarse <= 0)
            continue;
        double loss = sensitivity * errors[k] / coarse;
        losses->nats[k] += isfinite(loss) && loss < LOST ? loss : LOST;
    }
}

/* Returns the record about the inputs of block `i` of the current matrix. */
static size_t record_of(const struct loss_meter *meter, const struct weights *weights, size_t i)
{
    const struct block_errors *block = &meter->blocks[i];
    return smol_inputs_record(&meter->inputs, &block->weight->layout, weights->model, block->row);
}

/* Measures the errors of a matrix, those of rows with the same inputs at once. */
static smol_status measure_matrix(struct loss_meter *meter, const struct weights *weights,
                                  const struct weight *weight, struct pool *pool, smol_error *error)
{
    size_t n = sample_size(weight->layout.rows), total = (size_t)count_blocks(weight->layout.rows);
    smol_status status = SMOL_OK;
    meter->n_blocks = n;
    for (size_t i = 0; i < n; i++)
        meter->blocks[i] = (struct block_errors){.weight = weight,
                                                 .row = total * (2 * i + 1) / (2 * n) * TILE_ROWS};
    for (size_t end, i = 0; !status && i < n; i = end) {
        size_t record = record_of(meter, weights, i);
        for (end = i + 1; end < n && record_of(meter, weights, end) == record;)
            end++;
        status = smol_inputs_load(&meter->inputs, record, pool, error);
        meter->has_inputs = record != NO_RECORD;
        meter->first = i;
        meter->n_measured = end - i;
        if (!status)
            smol_pool_run(pool, measure_blocks, meter);
    }
    return status;
}

/* Measures the errors of an expert's matrix, which stand in the place of its losses until those of
 * all experts of the layer are known. An expert that no token has reached has none. */
static smol_status measure_expert(struct loss_meter *meter, const struct weights *weights,
                                  const struct weight *weight, struct pool *pool,
                                  struct dtype_losses *losses, smol_error *error)
{
    const struct blob_tensor *t = &weight->layout;
    double errors[N_ROUNDINGS] = {0};
    const struct stats_place place = {STATS_EXPERT, t->layer, t->expert};
    if (!smol_stats_reaches(weights->stats, place))
        return SMOL_OK;
    smol_status status = measure_matrix(meter, weights, weight, pool, error);
    if (status)
        return status;
    sum_errors(meter, true, errors);
    memcpy(losses->nats, errors, sizeof losses->nats);
    meter->coarse[t->role - ROLE_EXPERT_GATE] += errors[COARSE];
    return SMOL_OK;
}

/* Turns the errors of all experts of a layer into losses. The sensitivities are of a matrix of all
 * experts, of which each one's errors are a part. */
static void finish_experts(struct loss_meter *meter, const struct blob_model *model, uint32_t layer,
                           const float *sensitivities, struct dtype_losses *losses)
{
    const struct stats_header *header = &meter->inputs.stats->header;
    size_t n_matrices = expert_matrices(model);
    for (size_t i = 0; i < model->experts.n_experts * n_matrices; i++) {
        enum tensor_role role = (enum tensor_role)(first_expert_role(model) + i % n_matrices);
        size_t matrix = role - ROLE_EXPERT_GATE;
        const struct dtype_losses errors = losses[i];
        losses[i] = (struct dtype_losses){{0}};
        add_losses(errors.nats, meter->coarse[matrix],
                   (double)sensitivities[smol_stats_matrix(header, role, layer)], &losses[i]);
    }
    memset(meter->coarse, 0, sizeof meter->coarse);
}

/* --- all matrices ------------------------------------------------------------------------- */

/* Measures a matrix that is no expert's. */
static smol_status measure_one(struct loss_meter *meter, const struct weights *weights,
                               const struct weight *weight, const float *sensitivities,
                               struct pool *pool, struct dtype_losses *losses, smol_error *error)
{
    const struct stats_header *header = &weights->stats->header;
    enum tensor_role role = (enum tensor_role)weight->layout.role;
    size_t number = smol_stats_matrix(header, role, weight->layout.layer);
    size_t output = smol_stats_matrix(header, ROLE_OUTPUT, 0);
    double errors[N_ROUNDINGS] = {0}, looked_up[N_ROUNDINGS] = {0};
    smol_status status = measure_matrix(meter, weights, weight, pool, error);
    if (status)
        return status;
    sum_errors(meter, true, errors);
    sum_errors(meter, false, looked_up);
    if (role != ROLE_EMBED && role != ROLE_INPUT_EMBED)
        add_losses(errors, errors[COARSE], (double)sensitivities[number], losses);
    else
        add_losses(looked_up, looked_up[COARSE], (double)sensitivities[number], losses);
    if (role == ROLE_EMBED && weights->model->tied_embeddings)
        add_losses(errors, errors[COARSE], (double)sensitivities[output], losses);
    return SMOL_OK;
}

static smol_status measure_all(struct loss_meter *meter, const struct weights *weights,
                               const float *sensitivities, struct pool *pool,
                               struct dtype_losses *losses, smol_error *error)
{
    const struct blob_model *model = weights->model;
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t i = 0;
    smol_status status = SMOL_OK;
    do {
        const struct weight weight = smol_weight_get(weights, i, key, &meter->inputs.fold);
        bool is_experts = smol_role_is_per_expert(key.role);
        losses[i] = (struct dtype_losses){{0}};
        if (is_experts)
            status = measure_expert(meter, weights, &weight, pool, &losses[i], error);
        else if (has_storage(&weight.layout) && weight.source)
            status = measure_one(meter, weights, &weight, sensitivities, pool, &losses[i], error);
        i++;
        if (key.role == ROLE_EXPERT_DOWN && key.expert + 1 == model->experts.n_experts)
            finish_experts(meter, model, key.layer, sensitivities,
                           losses + i - (size_t)model->experts.n_experts * expert_matrices(model));
    } while (!status && smol_tensor_next(model, &key));
    return status;
}

static smol_status allocate(struct loss_meter *meter, const struct blob_model *model,
                            struct pool *pool, smol_error *error)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t blocks = 1;
    do {
        const struct blob_tensor layout = smol_tensor_layout(model, key, NULL);
        meter->max_cols = layout.cols > meter->max_cols ? (size_t)layout.cols : meter->max_cols;
        blocks = sample_size(layout.rows) > blocks ? sample_size(layout.rows) : blocks;
    } while (smol_tensor_next(model, &key));
    meter->scratch_size = scratch_floats(meter->max_cols);
    meter->blocks = calloc(blocks, sizeof *meter->blocks);
    meter->scratch = calloc(smol_pool_size(pool), meter->scratch_size * sizeof *meter->scratch);
    return meter->blocks && meter->scratch ? SMOL_OK
                                           : smol_fail_memory(error, "samples of weights");
}

smol_status smol_losses_measure(const struct weights *weights, struct pool *pool,
                                struct dtype_losses *losses, smol_error *error)
{
    struct loss_meter *meter = calloc(1, sizeof *meter);
    const float *sensitivities = NULL;
    if (!meter)
        return smol_fail_memory(error, "samples of weights");
    for (size_t i = 0; smol_choices[i] != DTYPE_INT8; i++) {
        const struct blob_levels levels = smol_levels_default(smol_choices[i]);
        smol_levels_prepare(&meter->searches[i], &levels, smol_choices[i]);
    }
    smol_status status = smol_inputs_open(&meter->inputs, weights->stats, weights->model, error);
    if (!status)
        status = smol_stats_read(weights->stats, smol_stats_sensitivities(&weights->stats->header),
                                 &sensitivities, error);
    if (!status)
        status = allocate(meter, weights->model, pool, error);
    if (!status)
        status = measure_all(meter, weights, sensitivities, pool, losses, error);
    smol_inputs_close(&meter->inputs);
    free(meter->blocks);
    free(meter->scratch);
    free(meter);
    return status;
}

/* Sensitivities of matrices, see sensitivity.h and format/STATS.md. A matrix of layer l does not
 * change what enters the layer, so passes start there, from the residual stream that the layers
 * before have left. */
#include "runtime/sensitivity.h"

#include <string.h>

#include "common/memory.h"
#include "common/number.h"
#include "format/stats.h"
#include "runtime/engine/fpenv.h"
#include "runtime/kernels/math.h"

struct probe {
    struct sensitivity_trial of;
    smol_context *context;
    const struct network *network;
    size_t vocab_size, n_logits;
    float *residual;    /* (of.n, hidden_size): what enters layer n_done */
    size_t n_done;      /* layers */
    float *logits;      /* (n_logits, vocab_size): of the model as it is */
    float *probability; /* likewise */
    float *moved;       /* likewise: the logits with a matrix rounded */
    uint8_t *rounded;   /* (largest matrix) */
    sensitivity_progress *progress;
    void *user;
    smol_error *error;
};

/* Returns whether the trial measures a tensor: the first expert's matrix stands for those of all.
 */
static bool is_measured(const struct sensitivity_trial *trial, const struct blob_tensor *tensor,
                        size_t *number)
{
    *number = smol_stats_matrix(trial->header, tensor->role, tensor->layer);
    return has_storage(tensor) && tensor->expert == 0 && *number % trial->step == 0;
}

/* --- a matrix, rounded -------------------------------------------------------------------- */

/* Rounds n inputs of a row, from `col`, of a row block. */
static void round_group(enum blob_dtype dtype, const void *block, size_t row, size_t col, size_t n,
                        void *out)
{
    float values[GROUP_INPUTS];
    for (size_t i = 0; i < n; i++) {
        size_t at = tile_index(dtype, row, col + i);
        values[i] = dtype == DTYPE_F32 ? ((const float *)block)[at]
                                       : f32_from_bf16(((const uint16_t *)block)[at]);
    }
    smol_stats_round(values, n);
    for (size_t i = 0; i < n; i++) {
        size_t at = tile_index(dtype, row, col + i);
        if (dtype == DTYPE_F32)
            ((float *)out)[at] = values[i];
        else
            ((uint16_t *)out)[at] = bf16_from_f32(values[i]);
    }
}

/* Writes the rounded matrix to out. */
static smol_status round_matrix(const struct probe *m, const struct blob_tensor *tensor,
                                uint8_t *out)
{
    const struct blob *blob = m->network->blob;
    uint64_t bytes = smol_block_bytes(tensor->dtype, tensor->cols);
    smol_status status = smol_blob_check(blob, tensor->offset, tensor->size, m->error);
    if (status)
        return status;
    memset(out, 0, tensor->size);
    for (uint64_t row = 0; row < tensor->rows; row += TILE_ROWS) {
        uint64_t at = row / TILE_ROWS * bytes;
        const uint8_t *block = blob->file.data + tensor->offset + at;
        for (size_t r = 0; r < rows_in_block(row, tensor->rows); r++)
            for (size_t col = 0; col < tensor->cols; col += GROUP_INPUTS) {
                size_t rest = tensor->cols - col;
                round_group(tensor->dtype, block, r, col, rest < GROUP_INPUTS ? rest : GROUP_INPUTS,
                            out + at);
            }
    }
    return SMOL_OK;
}

/* Returns how many tensors a measured one stands for. They are apart by the number of matrices of
 * an expert. */
static size_t count_alike(const struct blob_model *model, const struct blob_tensor *tensor)
{
    return smol_role_is_per_expert(tensor->role) ? model->experts.n_experts : 1;
}

/* Writes the matrix, and those that it stands for, rounded to m->rounded. */
static smol_status round_matrices(const struct probe *m, const struct blob_tensor *tensor)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < count_alike(&m->network->model, tensor); i++)
        status = round_matrix(m, tensor + i * expert_matrices(&m->network->model),
                              m->rounded + i * tensor->size);
    return status;
}

/* --- what it changes ---------------------------------------------------------------------- */

/* Fills the model's own probabilities. */
static void fill_probabilities(const struct probe *m)
{
    for (size_t t = 0; t < m->n_logits; t++) {
        const float *logits = m->logits + t * m->vocab_size;
        float *p = m->probability + t * m->vocab_size, most = logits[0];
        double sum = 0;
        for (size_t i = 1; i < m->vocab_size; i++)
            most = logits[i] > most ? logits[i] : most;
        for (size_t i = 0; i < m->vocab_size; i++)
            sum += (double)(p[i] = math_exp(logits[i] - most));
        for (size_t i = 0; i < m->vocab_size; i++)
            p[i] = (float)((double)p[i] / sum);
    }
}

/* Returns the mean over tokens of half the variance of the logits' change: the divergence of the
 * predictions, in nats, to the second order. */
static float divergence(const struct probe *m)
{
    double total = 0;
    for (size_t t = 0; t < m->n_logits; t++) {
        size_t at = t * m->vocab_size;
        const float *before = m->logits + at, *after = m->moved + at;
        const float *p = m->probability + at;
        double mean = 0, variance = 0;
        for (size_t i = 0; i < m->vocab_size; i++)
            mean += (double)p[i] * ((double)after[i] - (double)before[i]);
        for (size_t i = 0; i < m->vocab_size; i++) {
            double deviation = (double)after[i] - (double)before[i] - mean;
            variance += (double)p[i] * (deviation * deviation);
        }
        total += 0.5 * variance;
    }
    return (float)(total / (double)m->n_logits);
}

/* --- passes ------------------------------------------------------------------------------- */

/* Runs the tokens through the layers that the observer names. `logits` may be NULL. */
static smol_status run(const struct probe *m, const struct observer *observer, float *logits)
{
    smol_context_truncate(m->context, 0);
    return smol_eval_observed(m->context, m->of.ids, m->of.n, logits ? m->n_logits : 0, logits,
                              observer, m->error);
}

/* Brings the residual stream forward to what enters `layer`. */
static smol_status advance(struct probe *m, size_t layer)
{
    const struct observer observer = {
        .first_layer = m->n_done,
        .n_layers = layer,
        .before = m->n_done > 0 ? m->residual : NULL,
        .after = m->residual,
    };
    if (m->n_done == layer)
        return SMOL_OK;
    m->n_done = layer;
    return run(m, &observer, NULL);
}

static size_t layer_of(const struct blob_model *model, const struct blob_tensor *tensor)
{
    return tensor->role == ROLE_EMBED    ? 0
           : tensor->role == ROLE_OUTPUT ? model->n_layers
                                         : tensor->layer;
}

/* Returns the tokens whose evaluation takes as long as n tokens from `layer` on. */
static size_t work_from(const struct blob_model *model, size_t layer, size_t n)
{
    return n * (model->n_layers - layer + 1) / (model->n_layers + 1);
}

/* Measures a matrix and adds the result to *sum. */
static smol_status measure(struct probe *m, const struct blob_tensor *tensor, float *sum)
{
    const struct blob_model *model = &m->network->model;
    size_t layer = layer_of(model, tensor);
    fenv_t saved;
    smol_status status = advance(m, layer);
    if (status)
        return status;
    fpenv_enter(&saved);
    status = round_matrices(m, tensor);
    fpenv_leave(&saved);
    const struct observer observer = {
        .first_layer = layer,
        .n_layers = model->n_layers,
        .before = layer > 0 ? m->residual : NULL,
        .replaced = tensor,
        .replacement = m->rounded,
    };
    if (!status)
        status = run(m, &observer, m->moved);
    if (status)
        return status;
    fpenv_enter(&saved);
    *sum += divergence(m);
    fpenv_leave(&saved);
    return m->progress(m->user, work_from(model, layer, m->of.n));
}

/* Evaluates the model as it is. */
static smol_status start(struct probe *m)
{
    const struct observer all = {.n_layers = m->network->model.n_layers};
    fenv_t saved;
    smol_status status = run(m, &all, m->logits);
    if (status)
        return status;
    fpenv_enter(&saved);
    fill_probabilities(m);
    fpenv_leave(&saved);
    return SMOL_OK;
}

/* --- all matrices ------------------------------------------------------------------------- */

static const struct blob_tensor *tensor_of(const struct network *network, struct tensor_key key)
{
    const struct layer *layer =
        smol_role_is_per_layer(key.role) ? &network->layers[key.layer] : &network->outer;
    return layer->tensor[key.role];
}

uint64_t smol_sensitivity_work(const struct blob_model *model,
                               const struct sensitivity_trial *trial)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    uint64_t work = 0;
    do {
        const struct blob_tensor layout = smol_tensor_layout(model, key, NULL);
        size_t number;
        if (is_measured(trial, &layout, &number))
            work += work_from(model, layer_of(model, &layout), trial->n);
    } while (smol_tensor_next(model, &key));
    return work;
}

static smol_status measure_all(struct probe *m, float *sums)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    smol_status status = start(m);
    do {
        const struct blob_tensor *tensor = tensor_of(m->network, key);
        size_t number;
        if (!status && key.expert == 0 && is_measured(&m->of, tensor, &number))
            status = measure(m, tensor, &sums[number]);
    } while (smol_tensor_next(&m->network->model, &key));
    smol_context_truncate(m->context, 0);
    return status;
}

/* Returns the bytes of the largest matrix, or of that of all experts of a layer. */
static size_t largest_matrix(const struct blob *blob)
{
    uint64_t most = 0;
    for (size_t i = 0; i < blob->n_tensors; i++) {
        uint64_t size = blob->tensors[i].size * count_alike(blob->model, &blob->tensors[i]);
        most = size > most ? size : most;
    }
    return most <= SIZE_MAX / 2 ? (size_t)most : SIZE_MAX / 2;
}

smol_status smol_sensitivities(smol_context *context, const struct sensitivity_trial *trial,
                               float *sums, sensitivity_progress *progress, void *user,
                               smol_error *error)
{
    const struct network *network = &context->model->network;
    size_t n_logits = (trial->n + 1) / 2, n_values = n_logits * network->model.vocab_size;
    size_t matrix = largest_matrix(network->blob);
    struct probe m = {
        .of = *trial,
        .context = context,
        .network = network,
        .vocab_size = network->model.vocab_size,
        .n_logits = n_logits,
        .residual = smol_calloc(trial->n * network->model.hidden_size, sizeof(float)),
        .logits = smol_calloc(3 * n_values, sizeof(float)),
        .rounded = smol_zeros_new(matrix),
        .progress = progress,
        .user = user,
        .error = error,
    };
    smol_status status = smol_fail_memory(error, "a rounded matrix and its logits");
    if (m.residual && m.logits && m.rounded) {
        m.probability = m.logits + n_values;
        m.moved = m.probability + n_values;
        status = measure_all(&m, sums);
    }
    smol_free(m.residual);
    smol_free(m.logits);
    if (m.rounded)
        smol_zeros_free(m.rounded, matrix);
    return status;
}

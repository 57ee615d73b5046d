/* Folding, see fold.h. */
#include "convert/weights/fold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the offset of a record's factors. */
static size_t offset_of(const struct fold *fold, size_t record)
{
    size_t offset = 0, of_layer = 0;
    for (size_t i = 0; i < STATS_PER_LAYER; i++) {
        size_t width = fold->header->widths[i];
        of_layer += width;
        offset += i < record % STATS_PER_LAYER ? width : 0;
    }
    return offset + record / STATS_PER_LAYER * of_layer;
}

/* Returns whether the input of a record is computed by weights that can take the factors up. The
 * residual stream itself has no norm, a norm for two inputs would have two factors, an activation
 * without a gate is not linear in its input, and a tied embedding is looked up too. What a
 * state gives is left as it is. */
static bool can_fold(const struct blob_model *model, size_t record)
{
    if (record == (size_t)model->n_layers * STATS_PER_LAYER)
        return !model->tied_embeddings;
    if (record % STATS_PER_LAYER == STATS_ATTENDED)
        return !layer_has_state(model, (uint32_t)(record / STATS_PER_LAYER));
    if (record % STATS_PER_LAYER == STATS_GATED)
        return !(model->blocks & BLOCK_NO_GATE);
    return !(model->blocks & (BLOCK_NO_INPUT_NORMS | BLOCK_ONE_NORM));
}

/* Gives the channels of a value head, which several query heads read, the mean of their squares. */
static void share_heads(const struct blob_model *model, float *squares)
{
    size_t dim = model->head_dim, shared = model->n_heads / model->n_kv_heads;
    for (size_t head = 0; head < model->n_kv_heads; head++)
        for (size_t i = 0; i < dim; i++) {
            float *first = squares + head * shared * dim + i;
            double sum = 0;
            for (size_t k = 0; k < shared; k++)
                sum += (double)first[k * dim];
            for (size_t k = 0; k < shared; k++)
                first[k * dim] = (float)(sum / (double)shared);
        }
}

/* Turns sums of squares into factors. Channels of almost nothing count as 2^-20 of the mean, which
 * limits the factors to 1/32 and above. */
static void make_factors(float *squares, size_t n, float *inverses)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)squares[i];
    float mean = (float)(sum / (double)n), least = mean * 0x1p-20f;
    for (size_t i = 0; i < n; i++) {
        float square = squares[i] > least ? squares[i] : least;
        squares[i] = least > 0 ? sqrtf(sqrtf(square / mean)) : 1;
        inverses[i] = 1 / squares[i];
    }
}

static smol_status fill_record(const struct stats_file *stats, const struct fold *fold,
                               size_t record, smol_error *error)
{
    size_t n = smol_stats_width(fold->header, record), offset = offset_of(fold, record);
    const float *values;
    smol_status status = smol_stats_read(stats, record, &values, error);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        fold->factors[offset + i] = stats_diagonal(stats, record, values, i);
    if (record < (size_t)fold->model->n_layers * STATS_PER_LAYER &&
        record % STATS_PER_LAYER == STATS_ATTENDED)
        share_heads(fold->model, fold->factors + offset);
    make_factors(fold->factors + offset, n, fold->inverses + offset);
    return SMOL_OK;
}

/* Copies the inverses that query heads share to the value heads that they read. */
static void fill_values(const struct fold *fold)
{
    const struct blob_model *model = fold->model;
    size_t dim = model->head_dim, shared = model->n_heads / model->n_kv_heads;
    float *value = fold->values;
    for (uint32_t layer = 0; layer < model->n_layers; layer++) {
        size_t offset = offset_of(fold, stats_record(STATS_ATTENDED, layer));
        for (size_t head = 0; head < model->n_kv_heads; head++, value += dim)
            memcpy(value, fold->inverses + offset + head * shared * dim, dim * sizeof *value);
    }
}

smol_status smol_fold_make(const struct stats_file *stats, const struct blob_model *model,
                           struct fold *fold, smol_error *error)
{
    *fold = (struct fold){.model = model, .header = &stats->header};
    size_t output = stats_output(&stats->header);
    size_t n = offset_of(fold, output) + model->hidden_size;
    size_t n_values = (size_t)model->n_layers * model->n_kv_heads * model->head_dim;
    fold->factors = calloc(n, sizeof *fold->factors);
    fold->inverses = calloc(n, sizeof *fold->inverses);
    fold->values = calloc(n_values, sizeof *fold->values);
    smol_status status = SMOL_OK;
    if (!fold->factors || !fold->inverses || !fold->values)
        status = smol_fail_memory(error, "the factors of the inputs");
    for (size_t i = 0; !status && i <= output; i++)
        if (can_fold(model, i))
            status = fill_record(stats, fold, i, error);
    if (status)
        smol_fold_free(fold);
    else
        fill_values(fold);
    return status;
}

static const float *factors_of(const struct fold *fold, enum stats_input input, uint32_t layer)
{
    size_t record = stats_record(input, layer);
    return can_fold(fold->model, record) ? fold->factors + offset_of(fold, record) : NULL;
}

const float *smol_fold_inverses(const struct fold *fold, size_t record)
{
    return fold->model && can_fold(fold->model, record) ? fold->inverses + offset_of(fold, record)
                                                        : NULL;
}

static const float *inverses_of(const struct fold *fold, enum stats_input input, uint32_t layer)
{
    return smol_fold_inverses(fold, stats_record(input, layer));
}

struct fold_factors smol_fold_factors(const struct fold *fold, struct tensor_key key)
{
    struct fold_factors none = {NULL, NULL};
    uint32_t layer = key.layer;
    if (!fold->model)
        return none;
    const struct blob_model *m = fold->model;
    const float *values = fold->values + (size_t)layer * m->n_kv_heads * m->head_dim;
    switch (key.role) {
    case ROLE_ATTN_NORM:
    case ROLE_ATTN_NORM_BIAS:
        return (struct fold_factors){NULL, inverses_of(fold, STATS_ATTENTION, layer)};
    case ROLE_ATTN_Q:
    case ROLE_ATTN_K:
    case ROLE_MIXER_IN:
        return (struct fold_factors){NULL, factors_of(fold, STATS_ATTENTION, layer)};
    case ROLE_ATTN_V:
        return (struct fold_factors){values, factors_of(fold, STATS_ATTENTION, layer)};
    case ROLE_ATTN_V_BIAS:
        return (struct fold_factors){NULL, values};
    case ROLE_ATTN_O:
        return (struct fold_factors){NULL, factors_of(fold, STATS_ATTENDED, layer)};
    case ROLE_MLP_NORM:
    case ROLE_MLP_NORM_BIAS:
        return (struct fold_factors){NULL, inverses_of(fold, STATS_MLP, layer)};
    case ROLE_MLP_GATE:
        return (struct fold_factors){NULL, factors_of(fold, STATS_MLP, layer)};
    case ROLE_MLP_UP:
        return (struct fold_factors){inverses_of(fold, STATS_GATED, layer),
                                     factors_of(fold, STATS_MLP, layer)};
    case ROLE_MLP_UP_BIAS:
        return (struct fold_factors){NULL, inverses_of(fold, STATS_GATED, layer)};
    case ROLE_MLP_DOWN:
        return (struct fold_factors){NULL, factors_of(fold, STATS_GATED, layer)};
    case ROLE_FINAL_NORM:
    case ROLE_FINAL_NORM_BIAS:
        return (struct fold_factors){NULL, inverses_of(fold, STATS_OUTPUT, m->n_layers)};
    case ROLE_OUTPUT:
        return (struct fold_factors){NULL, factors_of(fold, STATS_OUTPUT, m->n_layers)};
    default:
        return none;
    }
}

void smol_fold_free(struct fold *fold)
{
    free(fold->factors);
    free(fold->inverses);
    free(fold->values);
    *fold = (struct fold){0};
}

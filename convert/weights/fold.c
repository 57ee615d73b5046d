/* Folding, see fold.h. */
#include "convert/weights/fold.h"
#include "format/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether a record is about the activations of an expert. */
static bool is_of_expert(const struct fold *fold, size_t record)
{
    size_t output = stats_output(fold->header);
    return fold->header->n_experts > 0 && record > output && (record - output) % 2 == 0;
}

/* Returns whether a record is about what a state gives. */
static bool is_of_state(const struct fold *fold, size_t record)
{
    const struct blob_model *model = fold->model;
    if (model->hybrid.parallel)
        return record > stats_output(fold->header);
    return record < stats_output(fold->header) && record % STATS_PER_LAYER == STATS_ATTENDED &&
           layer_has_state(model, smol_stats_layer(fold->header, record));
}

/* Returns whether a record is about the input of the last matrix of queries, after its norm. */
static bool is_of_query(const struct fold *fold, size_t record)
{
    size_t output = stats_output(fold->header);
    return record > output && record - output <= stats_queries(fold->header);
}

/* Returns whether a record is about what a head has attended to. */
static bool is_of_latent(const struct fold *fold, size_t record)
{
    size_t first = stats_output(fold->header) + 1 + stats_queries(fold->header);
    return model_has_latent(fold->model) && record >= first && (record - first) % 2 == 1;
}

static size_t query_record(const struct fold *fold, uint32_t layer)
{
    return smol_stats_record(fold->header, (struct stats_place){STATS_QUERY, layer, 0});
}

/* Returns the record about what a layer's state gives. */
static size_t state_record(const struct fold *fold, uint32_t layer)
{
    const struct stats_place place = {stats_state_input(fold->model), layer, 0};
    return smol_stats_record(fold->header, place);
}

/* Returns the offset of a record's factors. The inputs of experts have those of their layer. */
static size_t offset_of(const struct fold *fold, size_t record)
{
    const struct stats_header *header = fold->header;
    size_t offset = 0, output = stats_output(header);
    for (size_t i = 0; i < record && i <= output; i++)
        offset += smol_stats_width(header, i);
    if (record > output && model_has_latent(fold->model)) {
        size_t n = record - output - 1, most = stats_queries(header);
        return offset + (n < most ? n : most) * header->query_rank;
    }
    if (record > output)
        offset += fold->model->hybrid.parallel ? (record - output - 1) * header->state_width
                                               : (record - output - 1) / 2 * header->expert_width;
    return offset;
}

/* Returns whether what a state gives can take factors up: one of Mamba2's last steps is a norm with
 * a weight for each channel. */
static bool state_folds(const struct blob_model *model)
{
    return model->states.kind == STATE_MAMBA2 && model->hybrid.norm != MIXER_NORM_NONE;
}

/* Returns whether the input of a record is computed by weights that can take the factors up. The
 * residual stream itself has no norm, a norm for two inputs would have two factors, an activation
 * without a gate is not linear in its input, nor are values that are clipped or normalized, and a
 * tied embedding is looked up too. The queries of heads are left alone. */
static bool can_fold(const struct fold *fold, size_t record)
{
    const struct blob_model *model = fold->model;
    if (smol_stats_width(fold->header, record) == 0)
        return false;
    if (is_of_query(fold, record))
        return true;
    if (is_of_expert(fold, record))
        return !(model->blocks & BLOCK_NO_GATE);
    if (record > stats_output(fold->header) && (model_has_latent(model) || model_is_varied(model)))
        return false;
    if (record == stats_output(fold->header))
        return !model->tied_embeddings;
    if (is_of_state(fold, record))
        return state_folds(model);
    if (record % STATS_PER_LAYER == STATS_ATTENDED)
        return model->experts.qkv_clip <= 0 && !model_is_varied(model);
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
    if (record < stats_output(fold->header) && record % STATS_PER_LAYER == STATS_ATTENDED &&
        !is_of_state(fold, record) && !model_has_latent(fold->model))
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
    if (model_has_latent(model) || model_is_varied(model))
        return;
    for (uint32_t layer = 0; layer < model->n_layers; layer++) {
        size_t offset = offset_of(fold, stats_record(STATS_ATTENDED, layer));
        if (!layer_attends(model, layer)) {
            value += model->n_kv_heads * dim;
            continue;
        }
        for (size_t head = 0; head < model->n_kv_heads; head++, value += dim)
            memcpy(value, fold->inverses + offset + head * shared * dim, dim * sizeof *value);
    }
}

/* Adds the squares of what each head of a layer attends to, and makes factors of their means. */
static smol_status fill_latents(const struct stats_file *stats, const struct fold *fold,
                                uint32_t layer, smol_error *error)
{
    size_t rank = fold->model->latent.kv_rank, n_heads = fold->model->n_heads;
    float *factors = fold->keys + layer * n_heads * rank;
    struct stats_place place = {STATS_HEAD_LATENT, layer, 0};
    smol_status status = SMOL_OK;
    for (; !status && place.part < n_heads; place.part++) {
        size_t record = smol_stats_record(fold->header, place);
        const float *values;
        status = smol_stats_read(stats, record, &values, error);
        for (size_t i = 0; !status && i < rank; i++)
            factors[place.part * rank + i] = stats_diagonal(stats, record, values, i);
    }
    for (size_t i = 0; i < rank; i++) {
        double sum = 0;
        for (size_t head = 0; head < n_heads; head++)
            sum += (double)factors[head * rank + i];
        factors[i] = (float)(sum / (double)n_heads);
    }
    make_factors(factors, rank, fold->latents + layer * rank);
    for (size_t head = 1; head < n_heads; head++)
        memcpy(factors + head * rank, factors, rank * sizeof *factors);
    return status;
}

/* Derives the factors of latent vectors. */
static smol_status make_latents(const struct stats_file *stats, struct fold *fold,
                                smol_error *error)
{
    const struct blob_model *model = fold->model;
    size_t n = (size_t)model->n_layers * model->latent.kv_rank;
    smol_status status = SMOL_OK;
    if (!model_has_latent(model))
        return SMOL_OK;
    fold->keys = calloc(n, model->n_heads * sizeof *fold->keys);
    fold->latents = calloc(n, sizeof *fold->latents);
    if (!fold->keys || !fold->latents)
        return smol_fail_memory(error, "the factors of latent vectors");
    for (uint32_t layer = 0; !status && layer < model->n_layers; layer++)
        status = fill_latents(stats, fold, layer, error);
    return status;
}

smol_status smol_fold_make(const struct stats_file *stats, const struct blob_model *model,
                           struct fold *fold, smol_error *error)
{
    *fold = (struct fold){.model = model, .header = &stats->header};
    size_t end = smol_stats_sensitivities(&stats->header), n = offset_of(fold, end);
    size_t n_values = (size_t)model->n_layers * model->n_kv_heads * model->head_dim;
    fold->factors = calloc(n, sizeof *fold->factors);
    fold->inverses = calloc(n, sizeof *fold->inverses);
    fold->values = calloc(n_values, sizeof *fold->values);
    smol_status status = SMOL_OK;
    if (!fold->factors || !fold->inverses || !fold->values)
        status = smol_fail_memory(error, "the factors of the inputs");
    for (size_t i = 0; !status && i < end; i++)
        if ((i <= stats_output(&stats->header) || is_of_expert(fold, i) || is_of_state(fold, i) ||
             is_of_query(fold, i)) &&
            can_fold(fold, i))
            status = fill_record(stats, fold, i, error);
    if (!status)
        status = make_latents(stats, fold, error);
    if (status)
        smol_fold_free(fold);
    else
        fill_values(fold);
    return status;
}

static const float *record_factors(const struct fold *fold, size_t record)
{
    return can_fold(fold, record) ? fold->factors + offset_of(fold, record) : NULL;
}

static const float *factors_of(const struct fold *fold, enum stats_input input, uint32_t layer)
{
    return record_factors(fold, stats_record(input, layer));
}

const float *smol_fold_inverses(const struct fold *fold, size_t record)
{
    if (!fold->model)
        return NULL;
    if (is_of_latent(fold, record))
        return fold->latents +
               (size_t)smol_stats_layer(fold->header, record) * fold->model->latent.kv_rank;
    if (record > stats_output(fold->header) && !is_of_expert(fold, record) &&
        !is_of_state(fold, record) && !model_has_latent(fold->model) &&
        !model_is_varied(fold->model))
        record = stats_record(STATS_MLP, smol_stats_layer(fold->header, record));
    return can_fold(fold, record) ? fold->inverses + offset_of(fold, record) : NULL;
}

static const float *inverses_of(const struct fold *fold, enum stats_input input, uint32_t layer)
{
    return smol_fold_inverses(fold, stats_record(input, layer));
}

/* Returns the factors of the inputs of experts and the router: those of the MLP, unless they have
 * norms of their own. */
static const float *expert_inputs(const struct fold *fold, uint32_t layer)
{
    return fold->model->experts.own_norms ? NULL : factors_of(fold, STATS_MLP, layer);
}

/* Returns the factors of an expert's matrices. */
static struct fold_factors expert_factors(const struct fold *fold, struct tensor_key key)
{
    size_t record = smol_stats_record(
        fold->header, (struct stats_place){STATS_EXPERT_GATED, key.layer, key.expert});
    if (key.role == ROLE_EXPERT_DOWN)
        return (struct fold_factors){NULL, record_factors(fold, record)};
    return (struct fold_factors){key.role == ROLE_EXPERT_UP ? smol_fold_inverses(fold, record)
                                                            : NULL,
                                 expert_inputs(fold, key.layer)};
}

struct fold_factors smol_fold_factors(const struct fold *fold, struct tensor_key key)
{
    struct fold_factors none = {NULL, NULL};
    uint32_t layer = key.layer;
    if (!fold->model)
        return none;
    const struct blob_model *m = fold->model;
    bool shares_values = can_fold(fold, stats_record(STATS_ATTENDED, layer));
    const float *values =
        shares_values ? fold->values + (size_t)layer * m->n_kv_heads * m->head_dim : NULL;
    const float *keys =
        fold->keys ? fold->keys + (size_t)layer * m->n_heads * m->latent.kv_rank : NULL;
    switch (key.role) {
    case ROLE_ATTN_NORM:
    case ROLE_ATTN_NORM_BIAS:
        return (struct fold_factors){NULL, inverses_of(fold, STATS_ATTENTION, layer)};
    case ROLE_ATTN_Q:
        if (m->latent.q_rank > 0)
            return (struct fold_factors){NULL, record_factors(fold, query_record(fold, layer))};
        return (struct fold_factors){NULL, factors_of(fold, STATS_ATTENTION, layer)};
    case ROLE_ATTN_Q_DOWN_NORM:
        return (struct fold_factors){NULL, smol_fold_inverses(fold, query_record(fold, layer))};
    case ROLE_ATTN_LATENT_NORM:
        return (struct fold_factors){NULL, fold->latents + (size_t)layer * m->latent.kv_rank};
    case ROLE_ATTN_K_UP:
        return (struct fold_factors){keys, NULL};
    case ROLE_ATTN_V_UP:
        return (struct fold_factors){inverses_of(fold, STATS_ATTENDED, layer), keys};
    case ROLE_ATTN_Q_DOWN:
    case ROLE_ATTN_K:
    case ROLE_ATTN_GATE:
    case ROLE_MIXER_IN:
    case ROLE_MIXER_GATE:
    case ROLE_MIXER_STEP:
    case ROLE_MIXER_RATE:
        return (struct fold_factors){NULL, factors_of(fold, STATS_ATTENTION, layer)};
    case ROLE_ATTN_V:
        return (struct fold_factors){values, factors_of(fold, STATS_ATTENTION, layer)};
    case ROLE_ATTN_V_BIAS:
        return (struct fold_factors){NULL, values};
    case ROLE_MIXER_NORM:
        return (struct fold_factors){NULL, smol_fold_inverses(fold, state_record(fold, layer))};
    case ROLE_MIXER_OUT:
        return (struct fold_factors){NULL, record_factors(fold, state_record(fold, layer))};
    case ROLE_ATTN_O:
        return (struct fold_factors){NULL, factors_of(fold, STATS_ATTENDED, layer)};
    case ROLE_MLP_NORM:
    case ROLE_MLP_NORM_BIAS:
        return (struct fold_factors){NULL, inverses_of(fold, STATS_MLP, layer)};
    case ROLE_ROUTER:
        return (struct fold_factors){NULL, expert_inputs(fold, layer)};
    case ROLE_MLP_GATE:
    case ROLE_SHARED_GATE:
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
    case ROLE_EXPERT_GATE:
    case ROLE_EXPERT_UP:
    case ROLE_EXPERT_DOWN:
        return expert_factors(fold, key);
    default:
        return none;
    }
}

void smol_fold_free(struct fold *fold)
{
    free(fold->factors);
    free(fold->inverses);
    free(fold->values);
    free(fold->keys);
    free(fold->latents);
    *fold = (struct fold){0};
}

/* Mixtures of experts, see model.h. */
#include "format/model.h"

#include <stddef.h>

#include "common/checked.h"
#include "format/layout.h"

bool smol_layer_is_sparse(const struct blob_model *model, uint32_t layer)
{
    return model->experts.n_experts > 0 && !layers_have(model->experts.dense, layer);
}

uint32_t smol_experts_layers(const struct blob_model *model)
{
    uint32_t n = 0;
    for (uint32_t layer = 0; layer < model->n_layers; layer++)
        n += smol_layer_is_sparse(model, layer);
    return n;
}

bool smol_has_dense(const struct blob_model *model)
{
    bool has = false;
    for (uint32_t layer = 0; layer < model->n_layers; layer++)
        has |= layer_has_mlp(model, layer) && !smol_layer_is_sparse(model, layer);
    return has;
}

uint32_t smol_mlp_width(const struct blob_model *model, uint32_t layer)
{
    if (!layer_has_mlp(model, layer))
        return 0;
    if (smol_layer_is_sparse(model, layer))
        return model->experts.shared_width;
    return smol_kv_source(model, layer) == layer ? model->intermediate_size
                                                 : model->varied.shared_width;
}

uint64_t smol_experts_active(const struct blob_model *model)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    uint64_t n = 0;
    do {
        const struct blob_tensor tensor = smol_tensor_layout(model, key, NULL);
        bool tied = key.role == ROLE_OUTPUT && model->tied_embeddings;
        if (!tied && (!smol_role_is_per_expert(key.role) || key.expert < model->experts.n_used))
            n += tensor.rows * tensor.cols;
    } while (smol_tensor_next(model, &key));
    return n;
}

/* --- checks ------------------------------------------------------------------------------- */

static smol_status check_numbers(const struct blob_experts *x, smol_error *error)
{
    bool of_chosen = x->scoring == SCORE_SOFTMAX_CHOSEN;
    const struct field_range ranges[] = {
        {"n_experts", x->n_experts, 1, MODEL_MAX_EXPERTS},
        {"n_used", x->n_used, 1, x->n_experts},
        {"width", x->width, 1, MODEL_MAX_INTERMEDIATE},
        {"shared_width", x->shared_width, 0, MODEL_MAX_INTERMEDIATE},
        {"scoring", x->scoring, 0, SCORE_COUNT - 1},
        {"normalizes", x->normalizes, 0, !of_chosen},
        {"choice_bias", x->choice_bias, 0, !of_chosen},
        {"own_norms", x->own_norms, 0, x->shared_width > 0},
        {"shared_gate", x->shared_gate, 0, x->shared_width > 0 && !x->own_norms},
    };
    smol_status status = smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    if (status)
        return status;
    const struct field_real reals[] = {
        {"sum_epsilon", x->sum_epsilon, true},
        {"scale", x->scale, false},
        {"qkv_clip", x->qkv_clip, true},
    };
    status = smol_check_reals(reals, sizeof reals / sizeof reals[0], error);
    if (!status && !x->normalizes && x->sum_epsilon != 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "sum_epsilon is %g: must be 0 where normalizes is",
                         (double)x->sum_epsilon);
    return status;
}

/* Checks the set of dense layers: each is one of the model's, and at least one layer is sparse. If
 * all MLPs are, intermediate_size describes none: it must equal the width of an expert. */
static smol_status check_dense(const struct blob_model *m, smol_error *error)
{
    for (uint32_t i = m->n_layers; i < MODEL_MAX_LAYERS; i++)
        if (layers_have(m->experts.dense, i))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "layer %u is dense: there is no such layer",
                             i);
    if (smol_experts_layers(m) == 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no layer has experts");
    if (!smol_has_dense(m) && m->intermediate_size != m->experts.width)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "width is %u: must be intermediate_size %u, because no layer is dense",
                         m->experts.width, m->intermediate_size);
    return SMOL_OK;
}

smol_status smol_experts_check(const struct blob_model *m, smol_error *error)
{
    const struct blob_experts *x = &m->experts;
    smol_status status = check_numbers(x, error);
    if (status)
        return status;
    if (!all_zero(x->reserved, sizeof x->reserved))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a reserved field is not zero");
    const uint32_t others = BLOCK_PARALLEL | (smol_model_is_partial(m) ? 0 : BLOCK_NO_GATE);
    if (m->blocks & others || m->mlp_bias || m->hybrid.parallel)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "with experts, MLPs have gates, unless layers lack a block, and no "
                         "biases, and come after attention");
    const uint32_t norms = BLOCK_NO_INPUT_NORMS | BLOCK_LAYER_NORM | BLOCK_NORM_STREAM;
    if (x->own_norms && (m->blocks & (norms | BLOCK_NORM_OUTPUTS)) != BLOCK_NORM_OUTPUTS)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "experts with norms of their own need RMS norms before and after blocks");
    if (x->own_norms && !model_is_varied(m))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "experts with norms of their own need layers that differ in shape");
    return check_dense(m, error);
}

const char *smol_scoring_name(enum expert_scoring scoring)
{
    switch (scoring) {
    case SCORE_SOFTMAX:
        return "softmax";
    case SCORE_SOFTMAX_CHOSEN:
        return "softmax_chosen";
    case SCORE_SIGMOID:
        return "sigmoid";
    case SCORE_COUNT:
        break;
    }
    return "?";
}

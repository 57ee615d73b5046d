/* Attention to latent vectors, see model.h. */
#include "format/model.h"

#include "common/checked.h"
#include "common/number.h"
#include "format/layout.h"

uint64_t smol_query_width(const struct blob_model *model, uint32_t layer)
{
    uint64_t dim = model_has_latent(model) ? (uint64_t)model->latent.query_dim + model->rotary_dim
                                           : smol_head_dim(model, layer);
    return model->n_heads * dim;
}

uint64_t smol_attended_width(const struct blob_model *model, uint32_t layer)
{
    return (uint64_t)model->n_heads *
           (model_has_latent(model) ? model->latent.value_dim : smol_head_dim(model, layer));
}

static smol_status check_sizes(const struct blob_latent *latent, smol_error *error)
{
    const struct {
        const char *name;
        uint32_t value, low, high, multiple;
    } sizes[] = {
        {"kv_rank", latent->kv_rank, TILE_ROWS, MAX_HEAD_DIM, TILE_ROWS},
        {"q_rank", latent->q_rank, 0, MODEL_MAX_HIDDEN, 1},
        {"query_dim", latent->query_dim, 1, MAX_HEAD_DIM, 1},
        {"value_dim", latent->value_dim, TILE_ROWS, MAX_HEAD_DIM, TILE_ROWS},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < sizes[i].low || sizes[i].value > sizes[i].high ||
            sizes[i].value % sizes[i].multiple)
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "%s is %u: must be a multiple of %u from %u to %u", sizes[i].name,
                             sizes[i].value, sizes[i].multiple, sizes[i].low, sizes[i].high);
    if (f32_bits(latent->norm_eps) >= f32_bits(1))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "norm_eps is %g: must be at least 0 and below 1",
                         (double)latent->norm_eps);
    if (!all_zero(latent->reserved, sizeof latent->reserved))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a reserved field is not zero");
    return SMOL_OK;
}

smol_status smol_latent_check(const struct blob_model *m, smol_error *error)
{
    smol_status status = check_sizes(&m->latent, error);
    if (status)
        return status;
    if (smol_model_is_plain(m) || m->n_kv_heads != 1 ||
        m->head_dim != m->latent.kv_rank + m->rotary_dim)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "n_kv_heads is %u and head_dim %u: latent vectors need one key head of "
                         "kv_rank %u and rotary_dim %u channels",
                         m->n_kv_heads, m->head_dim, m->latent.kv_rank, m->rotary_dim);
    if (m->experts.n_experts > 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "latent vectors come with no experts");
    if (m->states.kind != STATE_NONE || m->attention_bias != BIAS_NONE || m->query_growth != 0 ||
        m->attention_softcap != 0 ||
        m->blocks & (BLOCK_QK_NORM_HEADS | BLOCK_QK_NORM_ALL | BLOCK_ATTENTION_GATE))
        return smol_fail(
            error, SMOL_ERROR_DAMAGED,
            "latent vectors come with no states, and no biases, norms, caps or gates of "
            "heads");
    return SMOL_OK;
}

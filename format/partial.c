/* Layers that lack a block, see model.h. */
#include "common/checked.h"
#include "format/layout.h"
#include "format/model.h"

bool smol_model_is_partial(const struct blob_model *model)
{
    return !all_zero(&model->partial, sizeof model->partial);
}

static smol_status check_layer(const struct blob_model *m, const uint8_t *layers, uint32_t layer,
                               smol_error *error)
{
    bool has_mixer = layer_has_mixer(m, layer), has_mlp = layer_has_mlp(m, layer);
    if (layer >= m->n_layers && !(has_mixer && has_mlp))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "layer %u lacks a block, but there is no such layer", layer);
    if (!has_mixer && !has_mlp)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "layer %u has no block", layer);
    if (!has_mixer && (layer_has_state(m, layer) || layers[layer]))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "layer %u has no first block, but a state, or bits for attention", layer);
    if (!has_mlp && smol_layer_is_sparse(m, layer))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "layer %u has no MLP, but experts", layer);
    return SMOL_OK;
}

smol_status smol_partial_check(const struct blob_model *m, const uint8_t *layers, smol_error *error)
{
    const uint32_t others = BLOCK_NORM_OUTPUTS | BLOCK_NO_INPUT_NORMS | BLOCK_LAYER_NORM |
                            BLOCK_PARALLEL | BLOCK_ONE_NORM | BLOCK_NORM_STREAM;
    bool has_mlp = false;
    smol_status status = SMOL_OK;
    if (smol_model_is_plain(m) || m->hybrid.parallel || model_has_latent(m) || model_is_varied(m) ||
        m->blocks & others)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "layers that lack a block come with an RMSNorm before each block, and "
                         "with no latent vectors, states beside attention or other blocks");
    if (!smol_model_is_partial(m))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no layer lacks a block");
    for (uint32_t i = 0; i < STATES_MAX_LAYERS && !status; i++) {
        status = check_layer(m, layers, i, error);
        has_mlp |= i < m->n_layers && layer_has_mlp(m, i);
    }
    if (!status && (!has_mlp || !smol_model_attends(m)))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no layer %s: one must",
                         has_mlp ? "attends" : "has an MLP");
    return status;
}

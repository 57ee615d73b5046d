/* Layers that differ in shape, see model.h. */
#include "common/checked.h"
#include "format/layout.h"
#include "format/model.h"

uint32_t smol_head_dim(const struct blob_model *model, uint32_t layer)
{
    return layer_is_second(model, layer) ? model->varied.head_dim : model->head_dim;
}

uint32_t smol_kv_heads(const struct blob_model *model, uint32_t layer)
{
    return layer_is_second(model, layer) ? model->varied.n_kv_heads : model->n_kv_heads;
}

uint32_t smol_most_head_dim(const struct blob_model *model)
{
    uint32_t first = model->head_dim, second = model->varied.head_dim;
    return first > second ? first : second;
}

uint64_t smol_most_key_width(const struct blob_model *model)
{
    uint64_t first = (uint64_t)model->n_kv_heads * model->head_dim;
    uint64_t second = (uint64_t)model->varied.n_kv_heads * model->varied.head_dim;
    return first > second ? first : second;
}

bool smol_values_are_keys(const struct blob_model *model, uint32_t layer)
{
    return model->varied.keys_are_values && layer_is_second(model, layer);
}

uint32_t smol_kv_source(const struct blob_model *model, uint32_t layer)
{
    uint32_t source = layer;
    if (!model_is_varied(model) || layer < model->varied.first_shared)
        return layer;
    while (source >= model->varied.first_shared ||
           layer_is_second(model, source) != layer_is_second(model, layer))
        source--;
    return source;
}

/* --- checks ------------------------------------------------------------------------------- */

static smol_status check_sizes(const struct blob_model *m, smol_error *error)
{
    const struct blob_varied *v = &m->varied;
    const struct field_range ranges[] = {
        {"head_dim", v->head_dim, 2, MAX_HEAD_DIM},
        {"n_kv_heads", v->n_kv_heads, 1, MODEL_MAX_HEADS},
        {"keys_are_values", v->keys_are_values, 0, 1},
        {"first_shared", v->first_shared, 1, m->n_layers},
        {"shared_width", v->shared_width, 1, MODEL_MAX_INTERMEDIATE},
        {"input_width", v->input_width, 0, VARIED_MAX_INPUT},
    };
    smol_status status = smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    bool none = v->input_width == 0;
    const struct field_real reals[] = {
        {"input_scale", v->input_scale, none},
        {"projection_scale", v->projection_scale, none},
        {"sum_scale", v->sum_scale, none},
    };
    if (!status)
        status = smol_check_reals(reals, sizeof reals / sizeof reals[0], error);
    if (status)
        return status;
    if (v->head_dim % 2 || m->n_heads % v->n_kv_heads)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "head_dim is %u and n_kv_heads %u: must be even, and divide n_heads %u",
                         v->head_dim, v->n_kv_heads, m->n_heads);
    if ((none && (v->input_scale != 0 || v->projection_scale != 0 || v->sum_scale != 0)) ||
        (v->first_shared == m->n_layers && v->shared_width != m->intermediate_size) ||
        !all_zero(v->reserved, sizeof v->reserved))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a field without a purpose is not zero");
    return SMOL_OK;
}

/* Checks that layers of the second kind are those of the second table, and that each layer that
 * shares has one of its kind before it. */
static smol_status check_kinds(const struct blob_model *m, const uint8_t *layers, smol_error *error)
{
    bool has[2] = {false, false};
    for (uint32_t i = 0; i < STATES_MAX_LAYERS; i++) {
        bool second = layer_is_second(m, i);
        bool marked = i < m->n_layers && layers[i] & LAYER_SECOND_TABLE;
        if (second != marked)
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "layer %u: its kind and its bits contradict each other", i);
        if (i < m->n_layers && i >= m->varied.first_shared && !has[second])
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "layer %u shares keys and values, but none before it has such", i);
        if (i < m->n_layers && (layers[i] ^ layers[smol_kv_source(m, i)]) & LAYER_WINDOWED)
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "layer %u shares keys and values, but not their window", i);
        has[second] |= i < m->varied.first_shared;
    }
    return SMOL_OK;
}

smol_status smol_varied_check(const struct blob_model *m, const uint8_t *layers, smol_error *error)
{
    const uint32_t others = BLOCK_QK_NORM_ALL | BLOCK_QK_NORM_LATE | BLOCK_ROTATE_NEIGHBOURS |
                            BLOCK_LAYER_NORM | BLOCK_NO_GATE | BLOCK_PARALLEL | BLOCK_POSITIONS |
                            BLOCK_NORM_STREAM | BLOCK_RELATIVE | BLOCK_ATTENTION_GATE;
    if (smol_model_is_plain(m) || m->n_rope_tables != 2 || m->rotary_dim != m->head_dim)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "layers of two kinds need two rotary embeddings of whole heads");
    bool experts = m->experts.n_experts > 0 && (!m->experts.own_norms || m->varied.input_width > 0);
    if (m->states.kind || experts || model_has_latent(m) || m->query_period || m->blocks & others ||
        !(m->blocks & BLOCK_QK_NORM_HEADS))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "layers that differ in shape need norms of heads, and have no states, "
                         "latent vectors or other blocks; experts need norms of their own, and no "
                         "inputs of layers");
    smol_status status = check_sizes(m, error);
    return status ? status : check_kinds(m, layers, error);
}

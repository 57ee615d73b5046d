/* Tensors and tiles, see layout.h. */
#include "format/layout.h"

#include <stdio.h>

#include "common/checked.h"
#include "format/model.h"

/* The properties of a role. rows and cols name the hyper-parameters that determine its shape. */
enum extent {
    ONE,
    HIDDEN,
    QUERY,
    QUERY_INPUT,
    QUERY_GATES,
    ATTENDED,
    KEY_VALUE,
    QUERY_NORM,
    KEY_NORM,
    INTERMEDIATE,
    VOCAB,
    CONTEXT,
    TAPS,
    MIXER_INPUTS,
    MIXER_CHANNELS,
    MIXER_WIDTH,
    MIXER_HEADS,
    MIXER_NORM,
    EXPERTS,
    EXPERT_WIDTH,
    QUERY_RANK,
    LATENT,
    LATENT_QUERIES,
    QUERY_DIM,
    LATENT_VALUES,
    BUCKETS,
    HEADS,
    INPUT_ROWS,
    INPUTS,
    INPUT
};
enum presence {
    ALWAYS,
    WITH_ATTENTION,
    WITH_INPUT_NORMS,
    WITH_MLP_INPUT_NORM,
    WITH_OUTPUT_NORMS,
    WITH_QK_NORMS,
    WITH_QKV_BIAS,
    WITH_O_BIAS,
    WITH_MLP,
    WITH_MLP_BIAS,
    WITH_GATE,
    WITH_GATE_BIAS,
    WITH_LAYER_NORM,
    WITH_TWO_LAYER_NORMS,
    WITH_POSITIONS,
    WITH_OUTPUT_BIAS,
    WITH_STATE,
    WITH_STATE_BIAS,
    WITH_EXPERTS,
    WITH_EXPERT_GATE,
    WITH_CHOICE_BIAS,
    WITH_MIXER_IN_BIAS,
    WITH_MIXER_OUT_BIAS,
    WITH_PARTS_BIAS,
    WITH_MIXER_NORM,
    WITH_SHARED_GATE,
    WITH_RECURRENCE,
    WITH_MAMBA2,
    WITH_DELTA,
    WITH_ATTENTION_GATE,
    WITH_ATTENTION_GATE_BIAS,
    WITH_KEYS,
    WITH_VALUES,
    WITH_LATENT,
    WITH_QUERY_RANK,
    WITH_RELATIVE,
    WITH_KEY_NORM,
    WITH_KEY_BIAS,
    WITH_VALUE_BIAS,
    WITH_INPUT,
    WITH_LAYER_SCALE,
    WITH_SINKS,
    WITH_OWN_NORMS,
};
static const struct role_info {
    const char *name;
    bool matrix, per_layer; /* matrix: in tiles, of the model's dtype; others are f32 */
    enum presence presence;
    enum extent rows, cols;
} roles[ROLE_COUNT] = {
    [ROLE_EMBED] = {"embed", true, false, ALWAYS, VOCAB, HIDDEN},
    [ROLE_ATTN_NORM] = {"attn_norm", false, true, WITH_INPUT_NORMS, ONE, HIDDEN},
    [ROLE_ATTN_Q] = {"attn_q", true, true, WITH_ATTENTION, QUERY, QUERY_INPUT},
    [ROLE_ATTN_K] = {"attn_k", true, true, WITH_KEYS, KEY_VALUE, HIDDEN},
    [ROLE_ATTN_V] = {"attn_v", true, true, WITH_VALUES, KEY_VALUE, HIDDEN},
    [ROLE_ATTN_O] = {"attn_o", true, true, WITH_ATTENTION, HIDDEN, ATTENDED},
    [ROLE_ATTN_Q_BIAS] = {"attn_q_bias", false, true, WITH_QKV_BIAS, ONE, QUERY},
    [ROLE_ATTN_K_BIAS] = {"attn_k_bias", false, true, WITH_KEY_BIAS, ONE, KEY_VALUE},
    [ROLE_ATTN_V_BIAS] = {"attn_v_bias", false, true, WITH_VALUE_BIAS, ONE, KEY_VALUE},
    [ROLE_ATTN_O_BIAS] = {"attn_o_bias", false, true, WITH_O_BIAS, ONE, HIDDEN},
    [ROLE_MLP_NORM] = {"mlp_norm", false, true, WITH_MLP_INPUT_NORM, ONE, HIDDEN},
    [ROLE_MLP_GATE] = {"mlp_gate", true, true, WITH_GATE, INTERMEDIATE, HIDDEN},
    [ROLE_MLP_UP] = {"mlp_up", true, true, WITH_MLP, INTERMEDIATE, HIDDEN},
    [ROLE_MLP_DOWN] = {"mlp_down", true, true, WITH_MLP, HIDDEN, INTERMEDIATE},
    [ROLE_MLP_GATE_BIAS] = {"mlp_gate_bias", false, true, WITH_GATE_BIAS, ONE, INTERMEDIATE},
    [ROLE_MLP_UP_BIAS] = {"mlp_up_bias", false, true, WITH_MLP_BIAS, ONE, INTERMEDIATE},
    [ROLE_MLP_DOWN_BIAS] = {"mlp_down_bias", false, true, WITH_MLP_BIAS, ONE, HIDDEN},
    [ROLE_FINAL_NORM] = {"final_norm", false, false, ALWAYS, ONE, HIDDEN},
    [ROLE_OUTPUT] = {"output", true, false, ALWAYS, VOCAB, HIDDEN},
    [ROLE_ATTN_Q_NORM] = {"attn_q_norm", false, true, WITH_QK_NORMS, ONE, QUERY_NORM},
    [ROLE_ATTN_K_NORM] = {"attn_k_norm", false, true, WITH_KEY_NORM, ONE, KEY_NORM},
    [ROLE_ATTN_OUT_NORM] = {"attn_out_norm", false, true, WITH_OUTPUT_NORMS, ONE, HIDDEN},
    [ROLE_MLP_OUT_NORM] = {"mlp_out_norm", false, true, WITH_OUTPUT_NORMS, ONE, HIDDEN},
    [ROLE_POSITIONS] = {"positions", false, false, WITH_POSITIONS, CONTEXT, HIDDEN},
    [ROLE_ATTN_NORM_BIAS] = {"attn_norm_bias", false, true, WITH_LAYER_NORM, ONE, HIDDEN},
    [ROLE_MLP_NORM_BIAS] = {"mlp_norm_bias", false, true, WITH_TWO_LAYER_NORMS, ONE, HIDDEN},
    [ROLE_FINAL_NORM_BIAS] = {"final_norm_bias", false, false, WITH_LAYER_NORM, ONE, HIDDEN},
    [ROLE_OUTPUT_BIAS] = {"output_bias", false, false, WITH_OUTPUT_BIAS, ONE, VOCAB},
    [ROLE_ATTN_GATE] = {"attn_gate", true, true, WITH_ATTENTION_GATE, QUERY_GATES, HIDDEN},
    [ROLE_ATTN_GATE_BIAS] = {"attn_gate_bias", false, true, WITH_ATTENTION_GATE_BIAS, ONE, QUERY},
    [ROLE_MIXER_IN] = {"mixer_in", true, true, WITH_STATE, MIXER_INPUTS, HIDDEN},
    [ROLE_MIXER_IN_BIAS] = {"mixer_in_bias", false, true, WITH_MIXER_IN_BIAS, ONE, MIXER_INPUTS},
    [ROLE_MIXER_CONV] = {"mixer_conv", false, true, WITH_STATE, TAPS, MIXER_CHANNELS},
    [ROLE_MIXER_CONV_BIAS] = {"mixer_conv_bias", false, true, WITH_STATE_BIAS, ONE, MIXER_CHANNELS},
    [ROLE_MIXER_OUT] = {"mixer_out", true, true, WITH_STATE, HIDDEN, MIXER_WIDTH},
    [ROLE_MIXER_OUT_BIAS] = {"mixer_out_bias", false, true, WITH_MIXER_OUT_BIAS, ONE, HIDDEN},
    [ROLE_MIXER_GATE] = {"mixer_gate", true, true, WITH_RECURRENCE, MIXER_WIDTH, HIDDEN},
    [ROLE_MIXER_STEP] = {"mixer_step", true, true, WITH_RECURRENCE, MIXER_HEADS, HIDDEN},
    [ROLE_MIXER_RATE] = {"mixer_rate", true, true, WITH_DELTA, MIXER_HEADS, HIDDEN},
    [ROLE_MIXER_STEP_BIAS] = {"mixer_step_bias", false, true, WITH_RECURRENCE, ONE, MIXER_HEADS},
    [ROLE_MIXER_DECAY] = {"mixer_decay", false, true, WITH_RECURRENCE, ONE, MIXER_HEADS},
    [ROLE_MIXER_SKIP] = {"mixer_skip", false, true, WITH_MAMBA2, ONE, MIXER_HEADS},
    [ROLE_MIXER_NORM] = {"mixer_norm", false, true, WITH_MIXER_NORM, ONE, MIXER_NORM},
    [ROLE_ROUTER] = {"router", true, true, WITH_EXPERTS, EXPERTS, HIDDEN},
    [ROLE_ROUTER_BIAS] = {"router_bias", false, true, WITH_CHOICE_BIAS, ONE, EXPERTS},
    [ROLE_SHARED_GATE] = {"shared_gate", true, true, WITH_SHARED_GATE, ONE, HIDDEN},
    [ROLE_EXPERT_GATE] = {"gate", true, true, WITH_EXPERT_GATE, EXPERT_WIDTH, HIDDEN},
    [ROLE_EXPERT_UP] = {"up", true, true, WITH_EXPERTS, EXPERT_WIDTH, HIDDEN},
    [ROLE_EXPERT_DOWN] = {"down", true, true, WITH_EXPERTS, HIDDEN, EXPERT_WIDTH},
    [ROLE_MIXER_GATE_BIAS] = {"mixer_gate_bias", false, true, WITH_PARTS_BIAS, ONE, MIXER_WIDTH},
    [ROLE_MIXER_STEP_IN_BIAS] = {"mixer_step_in_bias", false, true, WITH_PARTS_BIAS, ONE,
                                 MIXER_HEADS},
    [ROLE_ATTN_Q_DOWN] = {"attn_q_down", true, true, WITH_QUERY_RANK, QUERY_RANK, HIDDEN},
    [ROLE_ATTN_Q_DOWN_NORM] = {"attn_q_down_norm", false, true, WITH_QUERY_RANK, ONE, QUERY_RANK},
    [ROLE_ATTN_LATENT_NORM] = {"attn_latent_norm", false, true, WITH_LATENT, ONE, LATENT},
    [ROLE_ATTN_K_UP] = {"attn_k_up", true, true, WITH_LATENT, LATENT_QUERIES, QUERY_DIM},
    [ROLE_ATTN_V_UP] = {"attn_v_up", true, true, WITH_LATENT, LATENT_VALUES, LATENT},
    [ROLE_RELATIVE] = {"relative", false, false, WITH_RELATIVE, BUCKETS, HEADS},
    [ROLE_ATTN_SINKS] = {"attn_sinks", false, true, WITH_SINKS, ONE, HEADS},
    [ROLE_INPUT_EMBED] = {"input_embed", true, false, WITH_INPUT, INPUT_ROWS, INPUT},
    [ROLE_INPUT_PROJECTION] = {"input_projection", true, false, WITH_INPUT, INPUTS, HIDDEN},
    [ROLE_INPUT_NORM] = {"input_norm", false, false, WITH_INPUT, ONE, INPUT},
    [ROLE_INPUT_GATE] = {"input_gate", true, true, WITH_INPUT, INPUT, HIDDEN},
    [ROLE_INPUT_OUT] = {"input_out", true, true, WITH_INPUT, HIDDEN, INPUT},
    [ROLE_INPUT_OUT_NORM] = {"input_out_norm", false, true, WITH_INPUT, ONE, HIDDEN},
    [ROLE_LAYER_SCALE] = {"layer_scale", false, true, WITH_LAYER_SCALE, ONE, ONE},
    [ROLE_SHARED_OUT_NORM] = {"shared_out_norm", false, true, WITH_OWN_NORMS, ONE, HIDDEN},
    [ROLE_ROUTER_NORM] = {"router_norm", false, true, WITH_OWN_NORMS, ONE, HIDDEN},
    [ROLE_ROUTER_SCALE] = {"router_scale", false, true, WITH_OWN_NORMS, ONE, EXPERTS},
    [ROLE_EXPERT_NORM] = {"expert_norm", false, true, WITH_OWN_NORMS, ONE, HIDDEN},
    [ROLE_EXPERT_OUT_NORM] = {"expert_out_norm", false, true, WITH_OWN_NORMS, ONE, HIDDEN},
};

/* The role after each role, in the order in which a layer uses them. The last role of a layer is
 * followed by the first role after all layers. */
static const enum tensor_role next_role[ROLE_COUNT] = {
    [ROLE_EMBED] = ROLE_POSITIONS,
    [ROLE_POSITIONS] = ROLE_RELATIVE,
    [ROLE_RELATIVE] = ROLE_INPUT_EMBED,
    [ROLE_INPUT_EMBED] = ROLE_INPUT_PROJECTION,
    [ROLE_INPUT_PROJECTION] = ROLE_INPUT_NORM,
    [ROLE_INPUT_NORM] = ROLE_ATTN_NORM,
    [ROLE_ATTN_NORM] = ROLE_ATTN_NORM_BIAS,
    [ROLE_ATTN_NORM_BIAS] = ROLE_ATTN_Q_DOWN,
    [ROLE_ATTN_Q_DOWN] = ROLE_ATTN_Q_DOWN_NORM,
    [ROLE_ATTN_Q_DOWN_NORM] = ROLE_ATTN_Q,
    [ROLE_ATTN_Q] = ROLE_ATTN_K,
    [ROLE_ATTN_K] = ROLE_ATTN_LATENT_NORM,
    [ROLE_ATTN_LATENT_NORM] = ROLE_ATTN_K_UP,
    [ROLE_ATTN_K_UP] = ROLE_ATTN_V_UP,
    [ROLE_ATTN_V_UP] = ROLE_ATTN_V,
    [ROLE_ATTN_V] = ROLE_ATTN_O,
    [ROLE_ATTN_O] = ROLE_ATTN_Q_BIAS,
    [ROLE_ATTN_Q_BIAS] = ROLE_ATTN_K_BIAS,
    [ROLE_ATTN_K_BIAS] = ROLE_ATTN_V_BIAS,
    [ROLE_ATTN_V_BIAS] = ROLE_ATTN_O_BIAS,
    [ROLE_ATTN_O_BIAS] = ROLE_ATTN_Q_NORM,
    [ROLE_ATTN_Q_NORM] = ROLE_ATTN_K_NORM,
    [ROLE_ATTN_K_NORM] = ROLE_ATTN_SINKS,
    [ROLE_ATTN_SINKS] = ROLE_ATTN_GATE,
    [ROLE_ATTN_GATE] = ROLE_ATTN_GATE_BIAS,
    [ROLE_ATTN_GATE_BIAS] = ROLE_MIXER_GATE,
    [ROLE_MIXER_GATE] = ROLE_MIXER_GATE_BIAS,
    [ROLE_MIXER_GATE_BIAS] = ROLE_MIXER_IN,
    [ROLE_MIXER_IN] = ROLE_MIXER_IN_BIAS,
    [ROLE_MIXER_IN_BIAS] = ROLE_MIXER_CONV,
    [ROLE_MIXER_CONV] = ROLE_MIXER_CONV_BIAS,
    [ROLE_MIXER_CONV_BIAS] = ROLE_MIXER_STEP,
    [ROLE_MIXER_STEP] = ROLE_MIXER_STEP_IN_BIAS,
    [ROLE_MIXER_STEP_IN_BIAS] = ROLE_MIXER_RATE,
    [ROLE_MIXER_RATE] = ROLE_MIXER_STEP_BIAS,
    [ROLE_MIXER_STEP_BIAS] = ROLE_MIXER_DECAY,
    [ROLE_MIXER_DECAY] = ROLE_MIXER_SKIP,
    [ROLE_MIXER_SKIP] = ROLE_MIXER_NORM,
    [ROLE_MIXER_NORM] = ROLE_MIXER_OUT,
    [ROLE_MIXER_OUT] = ROLE_MIXER_OUT_BIAS,
    [ROLE_MIXER_OUT_BIAS] = ROLE_ATTN_OUT_NORM,
    [ROLE_ATTN_OUT_NORM] = ROLE_MLP_NORM,
    [ROLE_MLP_NORM] = ROLE_MLP_NORM_BIAS,
    [ROLE_MLP_NORM_BIAS] = ROLE_MLP_GATE,
    [ROLE_MLP_GATE] = ROLE_MLP_UP,
    [ROLE_MLP_UP] = ROLE_MLP_DOWN,
    [ROLE_MLP_DOWN] = ROLE_MLP_GATE_BIAS,
    [ROLE_MLP_GATE_BIAS] = ROLE_MLP_UP_BIAS,
    [ROLE_MLP_UP_BIAS] = ROLE_MLP_DOWN_BIAS,
    [ROLE_MLP_DOWN_BIAS] = ROLE_SHARED_OUT_NORM,
    [ROLE_SHARED_OUT_NORM] = ROLE_ROUTER_NORM,
    [ROLE_ROUTER_NORM] = ROLE_ROUTER,
    [ROLE_ROUTER] = ROLE_ROUTER_BIAS,
    [ROLE_ROUTER_BIAS] = ROLE_ROUTER_SCALE,
    [ROLE_ROUTER_SCALE] = ROLE_SHARED_GATE,
    [ROLE_SHARED_GATE] = ROLE_EXPERT_NORM,
    [ROLE_EXPERT_NORM] = ROLE_EXPERT_GATE,
    [ROLE_EXPERT_GATE] = ROLE_EXPERT_UP,
    [ROLE_EXPERT_UP] = ROLE_EXPERT_DOWN,
    [ROLE_EXPERT_DOWN] = ROLE_EXPERT_OUT_NORM,
    [ROLE_EXPERT_OUT_NORM] = ROLE_MLP_OUT_NORM,
    [ROLE_MLP_OUT_NORM] = ROLE_INPUT_GATE,
    [ROLE_INPUT_GATE] = ROLE_INPUT_OUT,
    [ROLE_INPUT_OUT] = ROLE_INPUT_OUT_NORM,
    [ROLE_INPUT_OUT_NORM] = ROLE_LAYER_SCALE,
    [ROLE_LAYER_SCALE] = ROLE_FINAL_NORM,
    [ROLE_FINAL_NORM] = ROLE_FINAL_NORM_BIAS,
    [ROLE_FINAL_NORM_BIAS] = ROLE_OUTPUT_BIAS,
    [ROLE_OUTPUT_BIAS] = ROLE_OUTPUT,
    [ROLE_OUTPUT] = ROLE_COUNT,
};

static uint64_t extent_of(const struct blob_model *model, uint32_t layer, enum extent extent)
{
    switch (extent) {
    case HIDDEN:
        return model->hidden_size;
    case QUERY:
        return smol_query_width(model, layer);
    case QUERY_INPUT:
        return model->latent.q_rank ? model->latent.q_rank : model->hidden_size;
    case QUERY_GATES:
        return gate_width(model);
    case ATTENDED:
        return smol_attended_width(model, layer);
    case QUERY_RANK:
        return model->latent.q_rank;
    case LATENT:
        return model->latent.kv_rank;
    case LATENT_QUERIES:
        return (uint64_t)model->n_heads * model->latent.kv_rank;
    case QUERY_DIM:
        return model->latent.query_dim;
    case LATENT_VALUES:
        return (uint64_t)model->n_heads * model->latent.value_dim;
    case BUCKETS:
        return RELATIVE_BUCKETS;
    case HEADS:
        return model->n_heads;
    case KEY_VALUE:
        return (uint64_t)smol_kv_heads(model, layer) * smol_head_dim(model, layer);
    case QUERY_NORM:
        return (model->blocks & BLOCK_QK_NORM_ALL ? (uint64_t)model->n_heads : 1) *
               smol_head_dim(model, layer);
    case KEY_NORM:
        return (model->blocks & BLOCK_QK_NORM_ALL ? (uint64_t)model->n_kv_heads : 1) *
               smol_head_dim(model, layer);
    case INTERMEDIATE:
        return smol_mlp_width(model, layer);
    case VOCAB:
        return model->vocab_size;
    case CONTEXT:
        return model->context_length;
    case TAPS:
        return model->states.taps;
    case EXPERTS:
        return model->experts.n_experts;
    case EXPERT_WIDTH:
        return model->experts.width;
    case MIXER_INPUTS:
        return smol_states_inputs(model);
    case MIXER_CHANNELS:
        return smol_states_channels(model);
    case MIXER_WIDTH:
        return smol_states_width(model);
    case MIXER_HEADS:
        return model->states.n_heads;
    case MIXER_NORM:
        return model->states.kind == STATE_DELTA ? model->states.head_dim
                                                 : smol_states_width(model);
    case INPUT_ROWS:
        return (uint64_t)model->vocab_size * model->n_layers;
    case INPUTS:
        return (uint64_t)model->n_layers * model->varied.input_width;
    case INPUT:
        return model->varied.input_width;
    case ONE:
        break;
    }
    return 1;
}

/* Returns whether the layer, or the model if the role is not per layer, has such a tensor. */
static bool has_role(const struct blob_model *model, enum tensor_role role, uint32_t layer)
{
    if (!roles[role].name)
        return false; /* a number without a role */
    bool attends = layer_attends(model, layer), has_state = layer_has_state(model, layer);
    bool keeps = attends && smol_kv_source(model, layer) == layer;
    bool values = keeps && !model_has_latent(model) && !smol_values_are_keys(model, layer);
    bool normed = model->blocks & (BLOCK_QK_NORM_HEADS | BLOCK_QK_NORM_ALL);
    const struct blob_hybrid *hybrid = &model->hybrid;
    switch (roles[role].presence) {
    case WITH_INPUT_NORMS:
        return layer_has_mixer(model, layer) && !(model->blocks & BLOCK_NO_INPUT_NORMS);
    case WITH_MLP_INPUT_NORM:
        return layer_has_mlp(model, layer) &&
               !(model->blocks & (BLOCK_NO_INPUT_NORMS | BLOCK_ONE_NORM));
    case WITH_OUTPUT_NORMS:
        return model->blocks & BLOCK_NORM_OUTPUTS;
    case WITH_QK_NORMS:
        return attends && normed;
    case WITH_KEY_NORM:
        return keeps && normed;
    case WITH_KEYS:
        return keeps;
    case WITH_KEY_BIAS:
        return keeps && model->attention_bias != BIAS_NONE;
    case WITH_VALUE_BIAS:
        return values && model->attention_bias != BIAS_NONE;
    case WITH_ATTENTION:
        return attends;
    case WITH_VALUES:
        return values;
    case WITH_LATENT:
        return attends && model_has_latent(model);
    case WITH_QUERY_RANK:
        return attends && model->latent.q_rank;
    case WITH_STATE:
        return has_state;
    case WITH_STATE_BIAS:
        return has_state && model->states.biases;
    case WITH_MIXER_IN_BIAS:
        return has_state && (model->states.kind == STATE_SHORT_CONV ? model->states.biases
                                                                    : hybrid->input_biases);
    case WITH_MIXER_OUT_BIAS:
        return has_state && (model->states.kind == STATE_SHORT_CONV ? model->states.biases
                                                                    : hybrid->output_bias);
    case WITH_PARTS_BIAS:
        return has_state && hybrid->input_biases;
    case WITH_MIXER_NORM:
        return has_state && model->states.kind != STATE_SHORT_CONV &&
               hybrid->norm != MIXER_NORM_NONE;
    case WITH_RECURRENCE:
        return has_state && model->states.kind != STATE_SHORT_CONV;
    case WITH_MAMBA2:
        return has_state && model->states.kind == STATE_MAMBA2;
    case WITH_ATTENTION_GATE:
        return attends && model->blocks & BLOCK_ATTENTION_GATE;
    case WITH_ATTENTION_GATE_BIAS:
        return attends && model->blocks & BLOCK_ATTENTION_GATE &&
               !(model->blocks & BLOCK_GATE_HEADS) && model->attention_bias != BIAS_NONE;
    case WITH_DELTA:
        return has_state && model->states.kind == STATE_DELTA;
    case WITH_QKV_BIAS:
        return attends && model->attention_bias != BIAS_NONE;
    case WITH_O_BIAS:
        return attends && model->attention_bias == BIAS_QKVO;
    case WITH_MLP_BIAS:
        return model->mlp_bias && layer_has_mlp(model, layer);
    case WITH_MLP:
        return smol_mlp_width(model, layer) > 0;
    case WITH_GATE:
        return smol_mlp_width(model, layer) > 0 && !(model->blocks & BLOCK_NO_GATE);
    case WITH_GATE_BIAS:
        return model->mlp_bias && !(model->blocks & BLOCK_NO_GATE);
    case WITH_LAYER_NORM:
        return model->blocks & BLOCK_LAYER_NORM;
    case WITH_TWO_LAYER_NORMS:
        return model->blocks & BLOCK_LAYER_NORM && !(model->blocks & BLOCK_ONE_NORM);
    case WITH_POSITIONS:
        return model->blocks & BLOCK_POSITIONS;
    case WITH_RELATIVE:
        return model->blocks & BLOCK_RELATIVE;
    case WITH_SINKS:
        return attends && model->blocks & BLOCK_SINKS;
    case WITH_OUTPUT_BIAS:
        return model->blocks & BLOCK_OUTPUT_BIAS;
    case WITH_EXPERTS:
        return smol_layer_is_sparse(model, layer);
    case WITH_EXPERT_GATE:
        return smol_layer_is_sparse(model, layer) && !(model->blocks & BLOCK_NO_GATE);
    case WITH_CHOICE_BIAS:
        return smol_layer_is_sparse(model, layer) && model->experts.choice_bias;
    case WITH_SHARED_GATE:
        return smol_layer_is_sparse(model, layer) && model->experts.shared_gate;
    case WITH_OWN_NORMS:
        return smol_layer_is_sparse(model, layer) && model->experts.own_norms;
    case WITH_INPUT:
        return model->varied.input_width > 0;
    case WITH_LAYER_SCALE:
        return model_is_varied(model);
    case ALWAYS:
        break;
    }
    return true;
}

bool smol_tensor_next(const struct blob_model *model, struct tensor_key *key)
{
    do {
        if (key->role == ROLE_EXPERT_DOWN && smol_layer_is_sparse(model, key->layer) &&
            key->expert + 1 < model->experts.n_experts) {
            key->role = first_expert_role(model);
            key->expert++;
            return true;
        }
        if (key->role == ROLE_EXPERT_DOWN)
            key->expert = 0;
        if (key->role == ROLE_LAYER_SCALE && key->layer + 1 < model->n_layers) {
            key->role = ROLE_ATTN_NORM;
            key->layer++;
        } else {
            key->role = next_role[key->role];
            if (key->role == ROLE_COUNT)
                return false;
            if (!roles[key->role].per_layer)
                key->layer = 0;
        }
    } while (!has_role(model, key->role, key->layer));
    return true;
}

bool smol_tensor_exists(const struct blob_model *model, struct tensor_key key)
{
    return has_role(model, key.role, key.layer);
}

bool smol_role_is_per_layer(enum tensor_role role)
{
    return roles[role].per_layer;
}

bool smol_role_is_per_expert(enum tensor_role role)
{
    return role >= ROLE_EXPERT_GATE && role <= ROLE_EXPERT_DOWN;
}

size_t smol_tensor_count(const struct blob_model *model)
{
    size_t n = 0;
    for (enum tensor_role role = 0; role < ROLE_COUNT; role++)
        for (uint32_t layer = 0; layer < (roles[role].per_layer ? model->n_layers : 1); layer++)
            if (has_role(model, role, layer))
                n += smol_role_is_per_expert(role) ? model->experts.n_experts : 1;
    return n;
}

const char *smol_tensor_name(struct tensor_key key, char name[MAX_NAME])
{
    if (smol_role_is_per_expert(key.role))
        snprintf(name, MAX_NAME, "layers.%u.experts.%u.%s", key.layer, key.expert,
                 roles[key.role].name);
    else if (roles[key.role].per_layer)
        snprintf(name, MAX_NAME, "layers.%u.%s", key.layer, roles[key.role].name);
    else
        snprintf(name, MAX_NAME, "%s", roles[key.role].name);
    return name;
}

uint64_t smol_block_bytes(enum blob_dtype dtype, uint64_t cols)
{
    if (dtype == DTYPE_F32)
        return cols * TILE_ROWS * sizeof(float);
    if (dtype == DTYPE_BF16)
        return (cols + 1) / 2 * TILE_ROWS * sizeof(uint32_t);
    return grouped_block_bytes(dtype, count_groups(cols));
}

struct blob_tensor smol_tensor_layout(const struct blob_model *model, struct tensor_key key,
                                      const struct storage *storage)
{
    const struct role_info *info = &roles[key.role];
    struct blob_tensor tensor = {
        .role = key.role,
        .layer = key.layer,
        .dtype = DTYPE_F32,
        .rows = extent_of(model, key.layer, info->rows),
        .cols = extent_of(model, key.layer, info->cols),
        .expert = key.expert,
    };
    if (!info->matrix) {
        tensor.layout = info->rows == ONE ? LAYOUT_VECTOR : LAYOUT_ROWS;
        tensor.size = round_up(tensor.rows * tensor.cols * sizeof(float), BLOB_ALIGN);
        return tensor;
    }
    tensor.layout = LAYOUT_TILES;
    if (has_storage(&tensor)) {
        tensor.dtype = storage ? storage->dtype : model->dtype;
        tensor.levels = storage ? storage->levels : 0;
    }
    tensor.size = count_blocks(tensor.rows) * smol_block_bytes(tensor.dtype, tensor.cols);
    return tensor;
}

const char *smol_dtype_name(enum blob_dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return "f32";
    case DTYPE_BF16:
        return "bf16";
    case DTYPE_INT8:
        return "int8";
    case DTYPE_INT6:
        return "int6";
    case DTYPE_INT5:
        return "int5";
    case DTYPE_INT4:
        return "int4";
    }
    return "?";
}

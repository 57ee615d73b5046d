/* Tensors and tiles, see layout.h. */
#include "format/layout.h"

#include <stdio.h>

#include "common/checked.h"

/* The ranges keep products small: rows and cols of at most 2^24 and 2^22, so that a tensor has less
 * than 2^49 bytes and a model of 2^10 layers less than 2^64. */
struct range {
    const char *name;
    uint32_t value, low, high;
};

enum status smol_model_check(const struct blob_model *m, struct error *error)
{
    const struct range ranges[] = {
        {"family", m->family, FAMILY_LLAMA, FAMILY_LLAMA},
        {"n_layers", m->n_layers, 1, 1 << 10},
        {"hidden_size", m->hidden_size, 1, 1 << 20},
        {"intermediate_size", m->intermediate_size, 1, 1 << 22},
        {"n_heads", m->n_heads, 1, 1 << 12},
        {"n_kv_heads", m->n_kv_heads, 1, 1 << 12},
        {"head_dim", m->head_dim, 2, MAX_HEAD_DIM},
        {"vocab_size", m->vocab_size, 1, 1 << 24},
        {"context_length", m->context_length, 1, 1 << 24},
        {"tied_embeddings", m->tied_embeddings, 0, 1},
        {"attention_bias", m->attention_bias, 0, 1},
        {"mlp_bias", m->mlp_bias, 0, 1},
        {"reserved", m->reserved0, 0, 0},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return smol_fail(error, STATUS_DAMAGED, "%s is %u: must be %u to %u", ranges[i].name,
                             ranges[i].value, ranges[i].low, ranges[i].high);
    if (m->dtype != DTYPE_F32 && m->dtype != DTYPE_BF16 && m->dtype != DTYPE_INT8)
        return smol_fail(error, STATUS_DAMAGED, "dtype is %u: unknown", m->dtype);
    if (m->n_heads % m->n_kv_heads)
        return smol_fail(error, STATUS_DAMAGED, "n_heads is %u: not a multiple of n_kv_heads %u",
                         m->n_heads, m->n_kv_heads);
    if (m->head_dim % 2)
        return smol_fail(error, STATUS_DAMAGED, "head_dim is %u: must be even", m->head_dim);
    if (m->bos_id != NO_TOKEN && m->bos_id >= m->vocab_size)
        return smol_fail(error, STATUS_DAMAGED, "bos_id is %u: not below vocab_size %u", m->bos_id,
                         m->vocab_size);
    if (!(m->rms_norm_eps >= 0 && m->rms_norm_eps < 1))
        return smol_fail(error, STATUS_DAMAGED, "rms_norm_eps is %g: must be 0 to 1",
                         (double)m->rms_norm_eps);
    if (!(m->rope_theta >= 1 && m->rope_theta <= 1e30))
        return smol_fail(error, STATUS_DAMAGED, "rope_theta is %g: must be 1 to 1e30",
                         m->rope_theta);
    for (size_t i = 0; i < sizeof m->reserved; i++)
        if (m->reserved[i])
            return smol_fail(error, STATUS_DAMAGED, "reserved byte %zu of the model is not 0", i);
    return STATUS_OK;
}

/* What a role is; rows and cols name the hyper-parameters that give its shape. */
enum extent { ONE, HIDDEN, QUERY, KEY_VALUE, INTERMEDIATE, VOCAB };
enum presence { ALWAYS, WITH_ATTENTION_BIAS, WITH_MLP_BIAS };
static const struct role_info {
    const char *name;
    bool matrix, per_layer;
    enum presence presence;
    enum extent rows, cols;
} roles[ROLE_COUNT] = {
    [ROLE_EMBED] = {"embed", true, false, ALWAYS, VOCAB, HIDDEN},
    [ROLE_ATTN_NORM] = {"attn_norm", false, true, ALWAYS, ONE, HIDDEN},
    [ROLE_ATTN_Q] = {"attn_q", true, true, ALWAYS, QUERY, HIDDEN},
    [ROLE_ATTN_K] = {"attn_k", true, true, ALWAYS, KEY_VALUE, HIDDEN},
    [ROLE_ATTN_V] = {"attn_v", true, true, ALWAYS, KEY_VALUE, HIDDEN},
    [ROLE_ATTN_O] = {"attn_o", true, true, ALWAYS, HIDDEN, QUERY},
    [ROLE_ATTN_Q_BIAS] = {"attn_q_bias", false, true, WITH_ATTENTION_BIAS, ONE, QUERY},
    [ROLE_ATTN_K_BIAS] = {"attn_k_bias", false, true, WITH_ATTENTION_BIAS, ONE, KEY_VALUE},
    [ROLE_ATTN_V_BIAS] = {"attn_v_bias", false, true, WITH_ATTENTION_BIAS, ONE, KEY_VALUE},
    [ROLE_ATTN_O_BIAS] = {"attn_o_bias", false, true, WITH_ATTENTION_BIAS, ONE, HIDDEN},
    [ROLE_MLP_NORM] = {"mlp_norm", false, true, ALWAYS, ONE, HIDDEN},
    [ROLE_MLP_GATE] = {"mlp_gate", true, true, ALWAYS, INTERMEDIATE, HIDDEN},
    [ROLE_MLP_UP] = {"mlp_up", true, true, ALWAYS, INTERMEDIATE, HIDDEN},
    [ROLE_MLP_DOWN] = {"mlp_down", true, true, ALWAYS, HIDDEN, INTERMEDIATE},
    [ROLE_MLP_GATE_BIAS] = {"mlp_gate_bias", false, true, WITH_MLP_BIAS, ONE, INTERMEDIATE},
    [ROLE_MLP_UP_BIAS] = {"mlp_up_bias", false, true, WITH_MLP_BIAS, ONE, INTERMEDIATE},
    [ROLE_MLP_DOWN_BIAS] = {"mlp_down_bias", false, true, WITH_MLP_BIAS, ONE, HIDDEN},
    [ROLE_FINAL_NORM] = {"final_norm", false, false, ALWAYS, ONE, HIDDEN},
    [ROLE_OUTPUT] = {"output", true, false, ALWAYS, VOCAB, HIDDEN},
};

static uint64_t extent_of(const struct blob_model *model, enum extent extent)
{
    switch (extent) {
    case HIDDEN:
        return model->hidden_size;
    case QUERY:
        return (uint64_t)model->n_heads * model->head_dim;
    case KEY_VALUE:
        return (uint64_t)model->n_kv_heads * model->head_dim;
    case INTERMEDIATE:
        return model->intermediate_size;
    case VOCAB:
        return model->vocab_size;
    case ONE:
        break;
    }
    return 1;
}

static bool has_role(const struct blob_model *model, enum tensor_role role)
{
    switch (roles[role].presence) {
    case WITH_ATTENTION_BIAS:
        return model->attention_bias;
    case WITH_MLP_BIAS:
        return model->mlp_bias;
    case ALWAYS:
        break;
    }
    return true;
}

bool smol_tensor_next(const struct blob_model *model, struct tensor_key *key)
{
    do {
        if (key->role == ROLE_MLP_DOWN_BIAS && key->layer + 1 < model->n_layers) {
            key->role = ROLE_ATTN_NORM;
            key->layer++;
        } else {
            key->role++;
            if (key->role == ROLE_COUNT)
                return false;
            if (!roles[key->role].per_layer)
                key->layer = 0;
        }
    } while (!has_role(model, key->role));
    return true;
}

size_t smol_tensor_count(const struct blob_model *model)
{
    size_t per_layer = 9 + (model->attention_bias ? 4u : 0u) + (model->mlp_bias ? 3u : 0u);
    return 3 + per_layer * model->n_layers;
}

const char *smol_tensor_name(struct tensor_key key, char name[MAX_NAME])
{
    if (roles[key.role].per_layer)
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
    return int8_block_bytes(count_groups(cols));
}

struct blob_tensor smol_tensor_layout(const struct blob_model *model, struct tensor_key key)
{
    const struct role_info *info = &roles[key.role];
    struct blob_tensor tensor = {
        .role = key.role,
        .layer = key.layer,
        .dtype = info->matrix ? model->dtype : DTYPE_F32,
        .layout = info->matrix ? LAYOUT_TILES : LAYOUT_VECTOR,
        .rows = extent_of(model, info->rows),
        .cols = extent_of(model, info->cols),
    };
    if (info->matrix)
        tensor.size = count_blocks(tensor.rows) * smol_block_bytes(model->dtype, tensor.cols);
    else
        tensor.size = round_up(tensor.cols * sizeof(float), BLOB_ALIGN);
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
    }
    return "?";
}

/* Hyper-parameters, see model.h. */
#include "format/model.h"

#include <math.h>
#include <string.h>

#include "common/number.h"
#include "format/layout.h"

/* Returns whether the fields from `blocks` on have the same bytes; 0 and -0 differ. */
static bool same_blocks(const struct blob_model *a, const struct blob_model *b)
{
    const size_t start = offsetof(struct blob_model, blocks);
    return memcmp((const char *)a + start, (const char *)b + start, MODEL_SECTION_SIZE - start) ==
           0;
}

bool smol_model_is_plain(const struct blob_model *model)
{
    static const struct blob_model zero;
    return same_blocks(model, &zero);
}

bool smol_model_has_components(const struct blob_model *model)
{
    return model->blocks >= FIRST_COMPONENT_BIT || model->activation >= ACTIVATION_GELU ||
           f32_bits(model->query_growth) || model->query_period;
}

bool smol_encoder_needs_around(const struct blob_model *model, const struct blob_encoder *encoder)
{
    return model->context_length > ENCODER_SHORT || model->sliding_window > 0 ||
           encoder->norms_embedding;
}

/* --- ranges ------------------------------------------------------------------------------- */

smol_status smol_check_ranges(const struct field_range *ranges, size_t n, smol_error *error)
{
    for (size_t i = 0; i < n; i++)
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return smol_fail(error, SMOL_ERROR_DAMAGED, "%s is %u: must be from %u to %u",
                             ranges[i].name, ranges[i].value, ranges[i].low, ranges[i].high);
    return SMOL_OK;
}

smol_status smol_check_reals(const struct field_real *reals, size_t n, smol_error *error)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = f32_bits(reals[i].value), low = reals[i].may_be_zero ? 0 : 1;
        if (bits < low || bits >= f32_bits(INFINITY))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "%s is %g: must be finite and %s",
                             reals[i].name, (double)reals[i].value, low ? "above 0" : "0 or more");
    }
    return SMOL_OK;
}

static smol_status check_sizes(const struct blob_model *m, smol_error *error)
{
    bool plain = smol_model_is_plain(m);
    const struct field_range ranges[] = {
        {"family", m->family, FAMILY_LLAMA, FAMILY_LLAMA},
        {"n_layers", m->n_layers, 1, MODEL_MAX_LAYERS},
        {"hidden_size", m->hidden_size, 1, MODEL_MAX_HIDDEN},
        {"intermediate_size", m->intermediate_size, 1, MODEL_MAX_INTERMEDIATE},
        {"n_heads", m->n_heads, 1, MODEL_MAX_HEADS},
        {"n_kv_heads", m->n_kv_heads, 1, MODEL_MAX_HEADS},
        {"head_dim", m->head_dim, 2, MAX_HEAD_DIM},
        {"vocab_size", m->vocab_size, 1, MODEL_MAX_VOCAB},
        {"context_length", m->context_length, 1, MODEL_MAX_CONTEXT},
        {"tied_embeddings", m->tied_embeddings, 0, 1},
        {"attention_bias", m->attention_bias, 0, plain ? BIAS_QKVO : BIAS_QKV},
        {"mlp_bias", m->mlp_bias, 0, 1},
        {"activation", m->activation, 0, plain ? ACTIVATION_SILU : ACTIVATION_GELU},
    };
    return smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
}

/* Checks that the bits of `blocks` go together. The messages have the numbers of FORMAT.md, 5.1. */
static smol_status check_bits(uint32_t blocks, smol_error *error)
{
    static const struct {
        uint32_t bit, excluded, needed; /* with `bit`: none of the one kind, one of the other */
        const char *reason;
    } rules[] = {
        {BLOCK_QK_NORM_HEADS, BLOCK_QK_NORM_ALL, 0,
         "bits 4 and 8, norms of each head and of all heads, exclude each other"},
        {BLOCK_QK_NORM_LATE, 0, BLOCK_QK_NORM_HEADS | BLOCK_QK_NORM_ALL,
         "bit 16, norms after RoPE, needs bit 4 or 8"},
        {BLOCK_LAYER_NORM, BLOCK_NORM_OUTPUTS | BLOCK_NO_INPUT_NORMS, 0,
         "bit 64, LayerNorms, excludes bits 1 and 2"},
        {BLOCK_ONE_NORM, BLOCK_NO_INPUT_NORMS, BLOCK_PARALLEL,
         "bit 512, one norm for attention and the MLP, needs bit 256 and excludes bit 2"},
        {BLOCK_GATE_HEADS, 0, BLOCK_ATTENTION_GATE,
         "bit 32768, a gate of each head, needs bit 8192"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (blocks & rules[i].bit &&
            (blocks & rules[i].excluded || (rules[i].needed && !(blocks & rules[i].needed))))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "blocks is %u: %s", blocks,
                             rules[i].reason);
    return SMOL_OK;
}

/* Checks the fields that FEATURE_BLOCKS and FEATURE_COMPONENTS add. */
static smol_status check_blocks(const struct blob_model *m, smol_error *error)
{
    const struct field_range ranges[] = {
        {"blocks", m->blocks, 0, ALL_BLOCK_BITS},
        {"sliding_window", m->sliding_window, 0, MODEL_MAX_CONTEXT},
        {"rotary_dim", m->rotary_dim, 2, m->head_dim},
        {"n_rope_tables", m->n_rope_tables, 1, 2},
        {"query_period", m->query_period, 0, MODEL_MAX_CONTEXT},
    };
    smol_status status = smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    if (status)
        return status;
    status = check_bits(m->blocks, error);
    if (status)
        return status;
    if (m->rotary_dim % 2)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "rotary_dim is %u: must be even",
                         m->rotary_dim);
    if (m->n_rope_tables == 1 && f32_bits(m->rope_scale[1]))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "rope_scale[1] is %g: must be 0 without a second table",
                         (double)m->rope_scale[1]);
    if (m->query_period == 0 && f32_bits(m->query_growth))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "query_growth is %g: must be 0 without a query_period",
                         (double)m->query_growth);
    const struct field_real reals[] = {
        {"embedding_scale", m->embedding_scale, false},
        {"residual_scale", m->residual_scale, false},
        {"attention_scale", m->attention_scale, false},
        {"attention_softcap", m->attention_softcap, true},
        {"logit_divisor", m->logit_divisor, false},
        {"logit_softcap", m->logit_softcap, true},
        {"rope_scale", m->rope_scale[0], false},
        {"rope_scale[1]", m->rope_scale[1], m->n_rope_tables == 1},
        {"query_growth", m->query_growth, m->query_period == 0},
    };
    return smol_check_reals(reals, sizeof reals / sizeof reals[0], error);
}

smol_status smol_model_check(const struct blob_model *m, smol_error *error)
{
    smol_status status = check_sizes(m, error);
    if (!status && !smol_model_is_plain(m))
        status = check_blocks(m, error);
    if (status)
        return status;
    if (m->dtype != DTYPE_F32 && m->dtype != DTYPE_BF16 && m->dtype != DTYPE_INT8)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "dtype is %u: unknown type", m->dtype);
    if (m->n_heads % m->n_kv_heads)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "n_heads is %u: not a multiple of n_kv_heads %u", m->n_heads,
                         m->n_kv_heads);
    if (m->head_dim % 2)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "head_dim is %u: must be even", m->head_dim);
    if (m->bos_id != NO_TOKEN && m->bos_id >= m->vocab_size)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "bos_id is %u: not below vocab_size %u",
                         m->bos_id, m->vocab_size);
    if (!(m->rms_norm_eps >= 0 && m->rms_norm_eps < 1))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "rms_norm_eps is %g: must be at least 0 and below 1",
                         (double)m->rms_norm_eps);
    if (!(m->rope_theta >= 1 && m->rope_theta <= 1e30))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "rope_theta is %g: must be from 1 to 1e30",
                         m->rope_theta);
    return SMOL_OK;
}

/* --- layers ------------------------------------------------------------------------------- */

smol_status smol_layers_check(const struct blob_model *m, const uint8_t *layers, smol_error *error)
{
    unsigned used = 0;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        used |= layers[i];
        if (layers[i] > ALL_LAYER_BITS ||
            ((layers[i] & LAYER_NO_ROTATION) && (layers[i] & LAYER_SECOND_TABLE)))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "layer %u has invalid bits %u", i,
                             layers[i]);
    }
    if (!(used & LAYER_WINDOWED) != !m->sliding_window)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "sliding_window is %u, but %s layer is windowed", m->sliding_window,
                         used & LAYER_WINDOWED ? "a" : "no");
    if (!(used & LAYER_SECOND_TABLE) != (m->n_rope_tables < 2))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "n_rope_tables is %u, but %s layer uses a second", m->n_rope_tables,
                         used & LAYER_SECOND_TABLE ? "a" : "no");
    return SMOL_OK;
}

/* --- the plain block ---------------------------------------------------------------------- */

void smol_model_fill(struct blob_model *model)
{
    if (!smol_model_is_plain(model))
        return;
    model->embedding_scale = model->residual_scale = model->logit_divisor = 1;
    model->attention_scale = 1.0f / sqrtf((float)model->head_dim);
    model->rotary_dim = model->head_dim;
    model->n_rope_tables = 1;
    model->rope_scale[0] = 1;
}

/* Returns the model with its fields from `blocks` on set to zero. */
static struct blob_model unsaid(const struct blob_model *model)
{
    const size_t start = offsetof(struct blob_model, blocks);
    struct blob_model copy = *model;
    memset((char *)&copy + start, 0, MODEL_SECTION_SIZE - start);
    return copy;
}

bool smol_model_reduce(struct blob_model *model, const uint8_t *layers)
{
    struct blob_model plain = unsaid(model), full = *model;
    smol_model_fill(&plain);
    smol_model_fill(&full);
    bool needs = model->activation != ACTIVATION_SILU || model->attention_bias > BIAS_QKVO ||
                 !same_blocks(&plain, &full);
    for (uint32_t i = 0; layers && i < model->n_layers; i++)
        needs |= layers[i] != 0;
    *model = needs ? full : unsaid(model);
    return needs;
}

const char *smol_activation_name(enum activation activation)
{
    switch (activation) {
    case ACTIVATION_SILU:
        return "silu";
    case ACTIVATION_GELU_TANH:
        return "gelu_tanh";
    case ACTIVATION_GELU:
        return "gelu";
    }
    return "?";
}

size_t smol_inv_freq_count(const struct blob_model *m)
{
    if (model_is_varied(m))
        return m->rotary_dim / 2 + m->varied.head_dim / 2;
    return smol_model_is_plain(m) ? m->head_dim / 2
                                  : (size_t)m->n_rope_tables * (m->rotary_dim / 2);
}

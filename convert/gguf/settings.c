/* The settings of a GGUF file, see settings.h. */
#include "convert/gguf/settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/checkpoint/gguf_tensors.h"
#include "convert/gguf/maker.h"
#include "format/format.h"

/* --- keys of the architecture ------------------------------------------------------------- */

enum key_kind {
    KEY_INTEGER, /* becomes `setting` */
    KEY_WINDOW,  /* likewise, but 0 is null */
    KEY_REAL,
    KEY_FLAG,
    KEY_TEXT,
    KEY_USED,    /* read elsewhere */
    KEY_IGNORED, /* changes no result */
};

/* The first entry for a key and an architecture counts. */
static const struct {
    const char *key; /* after the architecture's name and a dot */
    const char *setting;
    enum key_kind kind;
    unsigned archs;
} keys[] = {
    {"attention.key_length", "global_head_dim", KEY_INTEGER, OF_GEMMA4},
    {"attention.key_length_swa", "head_dim", KEY_INTEGER, OF_GEMMA4},
    {"attention.value_length_swa", NULL, KEY_USED, OF_GEMMA4},
    {"attention.shared_kv_layers", "num_kv_shared_layers", KEY_INTEGER, OF_GEMMA4},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", KEY_INTEGER, OF_GEMMA4},
    {"feed_forward_length", NULL, KEY_USED, OF_GEMMA4},
    {"rope.dimension_count_swa", NULL, KEY_USED, OF_GEMMA4},
    {"block_count", "num_hidden_layers", KEY_INTEGER, OF_ALL},
    {"context_length", "max_position_embeddings", KEY_INTEGER, OF_ALL},
    {"embedding_length", "hidden_size", KEY_INTEGER, OF_ALL},
    {"feed_forward_length", "intermediate_size", KEY_INTEGER, OF_ALL},
    {"attention.head_count", "num_attention_heads", KEY_INTEGER, OF_ALL},
    {"attention.key_length", "head_dim", KEY_INTEGER, OF_ALL},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", KEY_REAL, OF_ALL},
    {"attention.layer_norm_epsilon", "rms_norm_eps", KEY_REAL, OF_LAYER_NORMS},
    {"use_parallel_residual", "use_parallel_residual", KEY_FLAG, OF_GPTNEOX},
    {"use_parallel_residual", NULL, KEY_USED, OF_STABLELM}, /* see take_tensors */
    {"rope.freq_base", "rope_theta", KEY_REAL, OF_ALL},
    {"rope.freq_base_swa", "rope_local_base_freq", KEY_REAL, OF_GEMMA3},
    {"rope.freq_base_swa", "local_rope_theta", KEY_REAL, OF_MODERNBERT},
    {"attention.sliding_window", "local_attention", KEY_INTEGER, OF_MODERNBERT},
    {"attention.sliding_window_pattern", "global_attn_every_n_layers", KEY_INTEGER, OF_MODERNBERT},
    {"hidden_activation", "hidden_activation", KEY_TEXT, OF_MODERNBERT},
    {"attention.causal", NULL, KEY_USED, OF_POOLED},   /* see take_unstated */
    {"pooling_type", NULL, KEY_USED, OF_POOLED},       /* see embedder.c */
    {"dense_2_feat_in", NULL, KEY_IGNORED, OF_GEMMA3}, /* the tensors have shapes */
    {"dense_2_feat_out", NULL, KEY_IGNORED, OF_GEMMA3},
    {"dense_3_feat_in", NULL, KEY_IGNORED, OF_GEMMA3},
    {"dense_3_feat_out", NULL, KEY_IGNORED, OF_GEMMA3},
    {"attention.sliding_window", "sliding_window", KEY_WINDOW,
     OF_GEMMA2 | OF_GEMMA3 | OF_PHI3 | OF_PATTERNS},
    {"attention.sliding_window_pattern", NULL, KEY_USED, OF_PATTERNS},
    {"attention.temperature_scale", NULL, KEY_USED, OF_MISTRAL3},
    {"attention.scale", "attention_multiplier", KEY_REAL, OF_GRANITES},
    {"embedding_scale", "embedding_multiplier", KEY_REAL, OF_SCALED},
    {"residual_scale", "residual_multiplier", KEY_REAL, OF_SCALED},
    {"logit_scale", "logits_scaling", KEY_REAL, OF_SCALED},
    {"attn_logit_softcapping", "attn_logit_softcapping", KEY_REAL, OF_GEMMA2 | OF_GEMMA3},
    {"final_logit_softcapping", "final_logit_softcapping", KEY_REAL,
     OF_GEMMA2 | OF_GEMMA3 | OF_GEMMA4},
    {"rope.scaling.original_context_length", "original_max_position_embeddings", KEY_INTEGER,
     OF_PHI3},
    {"expert_count", "num_local_experts", KEY_INTEGER, OF_HYBRID | OF_GRANITEMOE},
    {"expert_count", "num_experts", KEY_INTEGER, OF_EXPERTS},
    {"expert_used_count", "num_experts_per_tok", KEY_INTEGER, OF_EXPERTS & ~OF_GEMMA4},
    {"expert_used_count", "top_k_experts", KEY_INTEGER, OF_GEMMA4},
    {"expert_feed_forward_length", "moe_intermediate_size", KEY_INTEGER,
     OF_LFM2MOE | OF_QWEN3MOE | OF_GATED | OF_GEMMA4},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", KEY_INTEGER, OF_GATED},
    {"expert_shared_feed_forward_length", "shared_intermediate_size", KEY_INTEGER, OF_GRANITEMOE},
    {"expert_weights_norm", "norm_topk_prob", KEY_FLAG, OF_LFM2MOE | OF_QWEN3MOE | OF_OLMOE},
    {"leading_dense_block_count", "num_dense_layers", KEY_INTEGER, OF_LFM2MOE},
    {"shortconv.l_cache", "conv_L_cache", KEY_INTEGER, OF_LFM2 | OF_LFM2MOE},
    {"full_attention_interval", "full_attention_interval", KEY_INTEGER, OF_DELTA},
    {"ssm.conv_kernel", "linear_conv_kernel_dim", KEY_INTEGER, OF_DELTA},
    {"ssm.state_size", "linear_key_head_dim", KEY_INTEGER, OF_DELTA},
    {"ssm.group_count", "linear_num_key_heads", KEY_INTEGER, OF_DELTA},
    {"ssm.time_step_rank", "linear_num_value_heads", KEY_INTEGER, OF_DELTA},
    {"ssm.conv_kernel", "mamba_d_conv", KEY_INTEGER, OF_MAMBA2},
    {"ssm.state_size", "mamba_d_state", KEY_INTEGER, OF_MAMBA2},
    {"ssm.group_count", "mamba_n_groups", KEY_INTEGER, OF_MAMBA2},
    {"ssm.time_step_rank", "mamba_n_heads", KEY_INTEGER, OF_MAMBA2},
    {"ssm.inner_size", "mamba_d_ssm", KEY_INTEGER, OF_FALCONH1},
    {"ssm.inner_size", NULL, KEY_USED, OF_HYBRID | OF_DELTA},
    {"attention.recurrent_layers", NULL, KEY_USED, OF_DELTA},
    {"nextn_predict_layers", NULL, KEY_USED, OF_DELTA},
    {"rope.dimension_sections", NULL, KEY_USED, OF_QWEN35 | OF_QWEN35MOE | OF_QWENVL},
    {"n_deepstack_layers", NULL, KEY_IGNORED, OF_QWENVL}, /* about pictures */
    {"expert_shared_feed_forward_length", NULL, KEY_USED, OF_GRANITE | OF_HYBRID},
    {"expert_gating_func", NULL, KEY_USED, OF_EXPERTS},
    {"rope.scaling.finetuned", NULL, KEY_USED, OF_GRANITES},
    {"attention.head_count_kv", NULL, KEY_USED, OF_ALL},
    {"rope.scaling.original_context_length", NULL, KEY_USED, OF_ALL},
    {"rope.scaling.type", NULL, KEY_USED, OF_ALL},
    {"rope.scaling.factor", NULL, KEY_USED, OF_ALL},
    {"rope.scaling.yarn_ext_factor", NULL, KEY_USED, OF_ALL},
    {"rope.scaling.yarn_attn_factor", NULL, KEY_USED, OF_ALL},
    {"rope.scaling.yarn_beta_fast", NULL, KEY_USED, OF_ALL},
    {"rope.scaling.yarn_beta_slow", NULL, KEY_USED, OF_ALL},
    {"rope.scaling.yarn_log_multiplier", NULL, KEY_USED, OF_ALL},
    {"rope.freq_base_swa", NULL, KEY_USED, OF_OLMO2 | OF_GEMMA4},
    {"rope.dimension_count", NULL, KEY_USED, OF_ALL},
    {"attention.value_length", NULL, KEY_USED, OF_ALL},
    {"expert_count", NULL, KEY_USED, OF_ALL},
    {"ssm.conv_kernel", NULL, KEY_IGNORED,
     OF_GRANITE | OF_GRANITEMOE}, /* Granite 4.0 whose layers all attend */
    {"ssm.state_size", NULL, KEY_IGNORED, OF_GRANITE | OF_GRANITEMOE},
    {"ssm.group_count", NULL, KEY_IGNORED, OF_GRANITE | OF_GRANITEMOE},
    {"ssm.time_step_rank", NULL, KEY_IGNORED, OF_GRANITE | OF_GRANITEMOE},
    {"ssm.inner_size", NULL, KEY_IGNORED, OF_GRANITE | OF_GRANITEMOE},
    {"vocab_size", NULL, KEY_IGNORED, OF_ALL},                /* the embedding has as many rows */
    {"rope.scaling.finetuned", NULL, KEY_IGNORED, OF_ALL},    /* about training */
    {"rope.scaling.attn_factor", NULL, KEY_IGNORED, OF_PHI3}, /* follows from the contexts */
    {"expert_used_count", NULL, KEY_IGNORED, OF_ALL},         /* expert_count is 0 */
    {"tensor_data_layout", NULL, KEY_IGNORED, OF_ALL},        /* an old note of the converter */
};

static smol_status take_key(struct maker *m, size_t i, const struct gguf_value *value)
{
    uint64_t integer;
    double real;
    bool flag;
    switch (keys[i].kind) {
    case KEY_INTEGER:
    case KEY_WINDOW:
        if (!smol_gguf_integer(value, &integer) || integer > UINT32_MAX)
            return smol_maker_fail_value(m, value, "an integer");
        smol_maker_put(m, m->object, keys[i].setting,
                       keys[i].kind == KEY_WINDOW && integer == 0
                           ? json_null()
                           : json_integer((json_int_t)integer));
        return SMOL_OK;
    case KEY_REAL:
        if (!smol_gguf_real(value, &real) || !isfinite(real))
            return smol_maker_fail_value(m, value, "a number");
        smol_maker_put(m, m->object, keys[i].setting, json_real(real));
        return SMOL_OK;
    case KEY_FLAG:
        if (!smol_gguf_flag(value, &flag))
            return smol_maker_fail_value(m, value, "a flag");
        smol_maker_put(m, m->object, keys[i].setting, json_boolean(flag));
        return SMOL_OK;
    case KEY_TEXT:
        if (value->type != GGUF_STRING)
            return smol_maker_fail_value(m, value, "a text");
        smol_maker_put(m, m->object, keys[i].setting, smol_maker_text(m, smol_gguf_string(value)));
        return SMOL_OK;
    default:
        return SMOL_OK;
    }
}

/* Takes a key of the architecture, or refuses one that might change the model. */
static smol_status take_known_key(struct maker *m, const struct gguf_value *value)
{
    size_t prefix = strlen(m->arch->name) + 1;
    const struct gguf_text key = {value->key.data + prefix, value->key.size - prefix};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].archs & m->arch->kind && gguf_text_is(key, keys[i].key))
            return take_key(m, i, value);
    return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: key %.*s is not supported: convert the original checkpoint",
                     m->gguf->path, gguf_shown(value->key), value->key.data);
}

static smol_status take_keys(struct maker *m)
{
    size_t n = strlen(m->arch->name);
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < m->gguf->n_values && !status; i++) {
        const struct gguf_value *value = &m->gguf->values[i];
        if (value->key.size > n && value->key.data[n] == '.' &&
            memcmp(value->key.data, m->arch->name, n) == 0)
            status = take_known_key(m, value);
    }
    return status;
}

/* A key that files of these architectures must have. */
struct needed_key {
    const char *key;
    unsigned archs;
};

static smol_status require(const struct maker *m, const struct needed_key *needed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (needed[i].archs & m->arch->kind && !smol_maker_find(m, needed[i].key))
            return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                             "%s: %s.%s is missing: download the file again", m->gguf->path,
                             m->arch->name, needed[i].key);
    return SMOL_OK;
}

/* Refuses a file without a key that llama.cpp's converter always writes, and that has no value that
 * would be right for all models. */
static smol_status check_needed(const struct maker *m)
{
    static const struct needed_key needed[] = {
        {"block_count", OF_ALL},
        {"context_length", OF_ALL},
        {"embedding_length", OF_ALL},
        {"attention.head_count", OF_ALL},
        {"attention.layer_norm_rms_epsilon", OF_ALL & ~OF_LAYER_NORMS},
        {"attention.layer_norm_epsilon", OF_LAYER_NORMS},
        {"expert_count", OF_GATED},
        {"expert_feed_forward_length", OF_GATED},
        {"expert_shared_feed_forward_length", OF_GATED},
        {"ssm.conv_kernel", OF_MAMBA2 | OF_DELTA},
        {"ssm.state_size", OF_MAMBA2 | OF_DELTA},
        {"ssm.group_count", OF_MAMBA2 | OF_DELTA},
        {"ssm.time_step_rank", OF_MAMBA2 | OF_DELTA},
        {"ssm.inner_size", OF_MAMBA2 | OF_DELTA},
        {"feed_forward_length", OF_GEMMA4},
        {"attention.key_length", OF_GEMMA4},
        {"attention.key_length_swa", OF_GEMMA4},
        {"attention.sliding_window", OF_GEMMA4},
        {"attention.shared_kv_layers", OF_GEMMA4},
        {"embedding_length_per_layer_input", OF_GEMMA4},
        {"rope.freq_base", OF_GEMMA4},
        {"rope.freq_base_swa", OF_GEMMA4},
        {"embedding_scale", OF_MINICPM},
        {"residual_scale", OF_MINICPM},
        {"logit_scale", OF_MINICPM},
    };
    /* of models with experts */
    static const struct needed_key of_experts[] = {
        {"expert_used_count", OF_EXPERTS},
        {"expert_feed_forward_length", OF_GEMMA4},
    };
    uint64_t experts = 0;
    smol_status status = require(m, needed, sizeof needed / sizeof needed[0]);
    if (!status)
        status = smol_maker_integer(m, "expert_count", &experts);
    return status || experts == 0
               ? status
               : require(m, of_experts, sizeof of_experts / sizeof of_experts[0]);
}

/* --- what keys state together ------------------------------------------------------------- */

/* Reads the size of a head, and the part of it that rotates. */
static smol_status take_head(struct maker *m)
{
    uint64_t heads = smol_maker_setting(m, "num_attention_heads"),
             size = smol_maker_setting(m, "head_dim");
    uint64_t rotating = 0, of_values = 0;
    smol_status status = smol_maker_integer(m, "rope.dimension_count", &rotating);
    if (!status)
        status = smol_maker_integer(m, "attention.value_length", &of_values);
    if (status)
        return status;
    if (size == 0)
        size = heads && m->arch->order == ORDER_PAIRED && rotating ? rotating
               : heads ? smol_maker_setting(m, "hidden_size") / heads
                       : 0;
    if (rotating == 0)
        rotating = size;
    bool may_rotate_part =
        m->arch->kind & (OF_PHI3 | OF_DELTA | OF_STABLELM | OF_PHI2 | OF_GPTNEOX | OF_GLM);
    if ((of_values > 0 && of_values != size) || (rotating != size && !may_rotate_part))
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: keys, values and rotary embedding of different sizes are not "
                         "supported: convert the original checkpoint",
                         m->gguf->path);
    if (size > 0)
        smol_maker_put_integer(m, "head_dim", size);
    if (may_rotate_part && size > 0) { /* its product with the size is rounded down */
        double factor = (double)rotating / (double)size;
        smol_maker_put(m, m->object, "partial_rotary_factor",
                       json_real(rotating == size ? 1 : nextafter(factor, 2)));
    }
    return SMOL_OK;
}

/* Checks whether tokens see the whole text, which the architecture tells. */
static smol_status take_direction(struct maker *m)
{
    const struct gguf_value *value = smol_maker_find(m, "attention.causal");
    bool of_gemma = strcmp(m->arch->name, "gemma-embedding") == 0;
    bool encodes = of_gemma || m->arch->kind & OF_ENCODERS, causal = !encodes;
    if (value && (!smol_gguf_flag(value, &causal) || causal == encodes))
        return smol_maker_fail_value(m, value, encodes ? "false" : "true");
    if (of_gemma)
        smol_maker_put(m, m->object, "use_bidirectional_attention", json_true());
    return SMOL_OK;
}

/* Reads what llama.cpp knows about an architecture without a key. */
static smol_status take_unstated(struct maker *m)
{
    if (!json_object_get(m->object, "rope_theta"))
        smol_maker_put(m, m->object, "rope_theta", json_real(10000));
    uint64_t experts = 0, heads = smol_maker_setting(m, "num_attention_heads");
    smol_status status = smol_maker_integer(m, "expert_count", &experts);
    if (!status && experts > 0 && !(m->arch->kind & OF_EXPERTS))
        return smol_fail(
            m->error, SMOL_ERROR_UNSUPPORTED,
            "%s: %s.expert_count is %llu: mixtures of experts of this architecture are "
            "not supported",
            m->gguf->path, m->arch->name, (unsigned long long)experts);
    if (m->arch->kind == OF_GEMMA4)
        smol_maker_put(m, m->object, "enable_moe_block", json_boolean(experts > 0));
    if (m->arch->kind == OF_MINICPM && smol_maker_setting(m, "head_dim") > 0)
        smol_maker_put(m, m->object, "attention_multiplier",
                       json_real(1 / sqrt((double)smol_maker_setting(m, "head_dim"))));
    if (m->arch->kind == OF_FALCONH1) /* its other scales are in the weights */
        smol_maker_put(m, m->object, "mamba_norm_before_gate", json_false());
    if (!status && (m->arch->kind & OF_GRANITES) && !smol_maker_find(m, "attention.scale"))
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: %s.attention.scale is missing: convert the original checkpoint",
                         m->gguf->path, m->arch->name);
    if (!status && m->arch->kind & (OF_GEMMA2 | OF_GEMMA3) &&
        heads > 0) { /* the scale of attention scores */
        uint64_t layers = smol_maker_setting(m, "num_hidden_layers");
        bool largest = layers == (m->arch->kind == OF_GEMMA2 ? 46 : 62);
        uint64_t scalar = largest ? smol_maker_setting(m, "hidden_size") / heads
                                  : smol_maker_setting(m, "head_dim");
        smol_maker_put_integer(m, "query_pre_attn_scalar", scalar);
    }
    return status;
}

/* --- config.json -------------------------------------------------------------------------- */

/* Gives settings the keys that the family has in place of the usual ones. */
static void use_keys(struct maker *m, const struct family *family)
{
    const char *const keys_of[][2] = {
        {"hidden_size", family->size_keys[0]},
        {"intermediate_size", family->size_keys[1]},
        {"num_hidden_layers", family->size_keys[2]},
        {"num_attention_heads", family->size_keys[3]},
        {"num_key_value_heads", family->size_keys[FAMILY_KV_HEADS]},
        {"head_dim", family->size_keys[FAMILY_HEAD_DIM]},
        {"max_position_embeddings", family->size_keys[7]},
        {"rms_norm_eps", family->norm_eps_key},
        {"rope_theta", family->theta_key},
        {"partial_rotary_factor", family->rotary_factor_key},
    };
    for (size_t i = 0; i < sizeof keys_of / sizeof keys_of[0]; i++) {
        json_t *value = json_object_get(m->object, keys_of[i][0]);
        const char *own = keys_of[i][1];
        if (!own || !value || json_object_get(m->object, own))
            continue;
        if (*own) /* otherwise it follows from others */
            smol_maker_put(m, m->object, own, json_incref(value));
        json_object_del(m->object, keys_of[i][0]);
    }
}

/* Returns whether a layer has a tensor. */
static bool has_tensor(const struct maker *m, const struct safetensors *tensors, const char *name)
{
    uint64_t n = smol_maker_setting(m, "num_hidden_layers");
    char whole[128];
    for (uint64_t i = 0; i < n && i < tensors->n_tensors; i++) {
        snprintf(whole, sizeof whole, "model.layers.%llu.%s", (unsigned long long)i, name);
        if (smol_safetensors_find(tensors, whole))
            return true;
    }
    return false;
}

static smol_status take_tensors(struct maker *m, const struct safetensors *tensors)
{
    static const struct {
        const char *setting, *names[3];
    } told[] = {
        {"attention_bias", {"self_attn.q_proj.bias", "self_attn.qkv_proj.bias", "attn.Wqkv.bias"}},
        {"use_qkv_bias", {"self_attn.q_proj.bias", "self_attn.qkv_proj.bias", NULL}},
        {"use_bias", {"self_attn.q_proj.bias", "self_attn.qkv_proj.bias", NULL}},
        {"mlp_bias", {"mlp.up_proj.bias", "feed_forward.gate_proj.bias", "mlp.Wi.bias"}},
        {"norm_bias", {"mlp_norm.bias", NULL, NULL}},
        {"conv_bias", {"conv.in_proj.bias", NULL, NULL}},
        {"mamba_conv_bias", {"mamba.conv1d.bias", NULL, NULL}},
        {"mamba_rms_norm", {"mamba.norm.weight", NULL, NULL}},
        {"use_expert_bias", {"feed_forward.expert_bias", NULL, NULL}},
    };
    const struct family *family = smol_family_by_architecture(m->arch->architecture);
    const struct safetensors_tensor *embed =
        smol_safetensors_find(tensors, family->names[ROLE_EMBED]);
    const char *output = family->names[ROLE_OUTPUT];
    bool tied = !output || !smol_safetensors_find(tensors, output);
    if (!embed || embed->rank != 2)
        return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                         "%s: tensor token_embd.weight is missing: download the file again",
                         m->gguf->path);
    smol_maker_put_integer(m, "vocab_size", embed->shape[0]);
    smol_maker_put(m, m->object, "tie_word_embeddings", json_boolean(tied));
    smol_maker_put(m, m->object, "tie_embedding", json_boolean(tied)); /* LFM2's name of it */
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        bool has = false;
        for (size_t j = 0; j < 3 && told[i].names[j] && !has; j++)
            has = has_tensor(m, tensors, told[i].names[j]);
        smol_maker_put(m, m->object, told[i].setting, json_boolean(has));
    }
    bool parallel = !has_tensor(m, tensors, "post_attention_layernorm.weight");
    if (m->arch->kind != OF_GPTNEOX)
        smol_maker_put(m, m->object, "use_parallel_residual", json_boolean(parallel));
    use_keys(m, family);
    return SMOL_OK;
}

/* Takes the ids of tokens that begin and end a text. */
static smol_status take_ids(struct maker *m)
{
    static const char *const ends[] = {"eos", "eot", "eom"};
    json_t *list = json_array();
    uint64_t id;
    bool found;
    const struct gguf_value *kind = smol_gguf_find(m->gguf, "tokenizer.ggml.model");
    bool of_words = gguf_text_is(smol_gguf_string(kind), "bert"); /* BERT's has none */
    smol_status status = smol_maker_token_id(m, "bos", &id, &found);
    smol_maker_put(m, m->object, "bos_token_id",
                   found && !of_words ? json_integer((json_int_t)id) : json_null());
    for (size_t i = 0; i < sizeof ends / sizeof ends[0] && !status; i++) {
        status = smol_maker_token_id(m, ends[i], &id, &found);
        if (!status && found)
            smol_maker_append(m, list, json_integer((json_int_t)id));
    }
    smol_maker_put(m, m->object, "eos_token_id", list);
    return status;
}

static smol_status check_kind(struct maker *m)
{
    const struct gguf_value *type = smol_gguf_find(m->gguf, "general.type");
    const struct gguf_value *name = smol_gguf_find(m->gguf, "general.architecture");
    if (type && !gguf_text_is(smol_gguf_string(type), "model"))
        return smol_maker_fail_value(m, type, "model");
    if (!name || name->type != GGUF_STRING)
        return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                         "%s: general.architecture is missing: download the file again",
                         m->gguf->path);
    char list[GGUF_ARCH_LIST];
    if (!m->arch)
        return smol_maker_fail_value(m, name, smol_gguf_arch_list(list));
    smol_maker_put(m, m->object, "architectures", json_pack("[s]", m->arch->architecture));
    return SMOL_OK;
}

smol_status smol_gguf_config(const struct gguf *gguf, const struct safetensors *tensors,
                             struct json_settings *config, smol_error *error)
{
    struct maker m = smol_maker(gguf, config, error);
    smol_status status = check_kind(&m);
    if (!status)
        status = take_keys(&m);
    if (!status)
        status = check_needed(&m);
    if (!status)
        status = smol_gguf_take_layers(&m);
    if (!status)
        status = m.arch->kind == OF_GEMMA4 ? smol_gguf_take_varied(&m, tensors) : take_head(&m);
    if (!status)
        status = take_direction(&m);
    if (!status)
        status = take_unstated(&m);
    if (!status)
        status = smol_gguf_take_rope(&m, tensors);
    if (!status)
        status = take_tensors(&m, tensors);
    if (!status)
        status = take_ids(&m);
    return smol_maker_finish(&m, status);
}

/* --- tokenizer_config.json ---------------------------------------------------------------- */

static smol_status take_special(struct maker *m)
{
    static const char *const tokens[][2] = {{"bos", "bos_token"},
                                            {"eos", "eos_token"},
                                            {"unknown", "unk_token"},
                                            {"padding", "pad_token"}};
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0] && !status; i++) {
        uint64_t id;
        bool found;
        status = smol_maker_token_id(m, tokens[i][0], &id, &found);
        if (!status && found)
            smol_maker_put(m, m->object, tokens[i][1], smol_maker_text(m, smol_maker_token(m, id)));
    }
    return status;
}

/* Adds the template of a key "tokenizer.chat_template" or "tokenizer.chat_template.NAME". */
static void take_template(struct maker *m, json_t *list, const struct gguf_value *value)
{
    static const char prefix[] = "tokenizer.chat_template";
    const size_t n = sizeof prefix - 1;
    const struct gguf_text key = value->key;
    if (value->type != GGUF_STRING || key.size < n || memcmp(key.data, prefix, n) != 0 ||
        (key.size > n && (key.data[n] != '.' || key.size == n + 1)))
        return;
    const struct gguf_text name = key.size > n
                                      ? (struct gguf_text){key.data + n + 1, key.size - n - 1}
                                      : (struct gguf_text){"default", strlen("default")};
    json_t *entry = json_object();
    smol_maker_put(m, entry, "name", smol_maker_text(m, name));
    smol_maker_put(m, entry, "template", smol_maker_text(m, smol_gguf_string(value)));
    smol_maker_append(m, list, entry);
}

smol_status smol_gguf_tokenizer_config(const struct gguf *gguf, struct json_settings *config,
                                       smol_error *error)
{
    struct maker m = smol_maker(gguf, config, error);
    json_t *templates = json_array();
    for (size_t i = 0; i < gguf->n_values; i++)
        take_template(&m, templates, &gguf->values[i]);
    if (json_array_size(templates) > 0)
        smol_maker_put(&m, m.object, "chat_template", json_incref(templates));
    json_decref(templates);
    smol_maker_put(&m, m.object, "added_tokens_decoder", json_object());
    return smol_maker_finish(&m, take_special(&m));
}

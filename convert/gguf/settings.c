/* The settings of a GGUF file, see settings.h. */
#include "convert/gguf/settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/checkpoint/gguf_tensors.h"
#include "convert/gguf/maker.h"
#include "format/format.h"

/* --- keys of the architecture ------------------------------------------------------------- */

/* The architectures that have a key, as bits. */
enum {
    OF_OTHERS = 1,
    OF_GRANITE = 2,
    OF_GEMMA2 = 4,
    OF_GEMMA3 = 8,
    OF_PHI3 = 16,
    OF_LFM2 = 32,
    OF_LFM2MOE = 64,
    OF_HYBRID = 128,
    OF_GRANITEMOE = 256,
    OF_QWEN3MOE = 512,
    OF_OLMOE = 1024,
    OF_QWEN35 = 2048,
    OF_QWEN35MOE = 4096,
    OF_QWEN3NEXT = 8192,
    OF_OLMO2 = 16384,
    OF_MISTRAL3 = 32768,
    OF_EXAONE4 = 65536,
    OF_MINICPM = 131072,
    OF_FALCONH1 = 262144,
    OF_STABLELM = 524288,
    OF_PHI2 = 1048576,
    OF_GPTNEOX = 2097152,
    OF_GPT2 = 4194304,
    OF_BERT = 8388608,
    OF_MODERNBERT = 16777216,
    OF_QWEN3 = 33554432,
    OF_ALL = 67108863,
    OF_LAYER_NORMS = OF_STABLELM | OF_PHI2 | OF_GPTNEOX | OF_GPT2 | OF_BERT | OF_MODERNBERT,
    OF_POOLED = OF_BERT | OF_MODERNBERT | OF_GEMMA3 | OF_QWEN3, /* may be models of embeddings */
    OF_GRANITES = OF_GRANITE | OF_HYBRID | OF_GRANITEMOE,
    OF_GATED = OF_QWEN35MOE | OF_QWEN3NEXT, /* an MLP with a gate, beside experts */
    OF_DELTA = OF_QWEN35 | OF_GATED,
    OF_MAMBA2 = OF_HYBRID | OF_FALCONH1,
    OF_SCALED = OF_GRANITES | OF_MINICPM,
    OF_PATTERNS = OF_OLMO2 | OF_EXAONE4, /* windows in some of the layers */
    OF_EXPERTS = OF_LFM2MOE | OF_HYBRID | OF_GRANITEMOE | OF_QWEN3MOE | OF_OLMOE | OF_GATED,
};

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
    {"final_logit_softcapping", "final_logit_softcapping", KEY_REAL, OF_GEMMA2 | OF_GEMMA3},
    {"rope.scaling.original_context_length", "original_max_position_embeddings", KEY_INTEGER,
     OF_PHI3},
    {"expert_count", "num_local_experts", KEY_INTEGER, OF_HYBRID | OF_GRANITEMOE},
    {"expert_count", "num_experts", KEY_INTEGER, OF_EXPERTS},
    {"expert_used_count", "num_experts_per_tok", KEY_INTEGER, OF_EXPERTS},
    {"expert_feed_forward_length", "moe_intermediate_size", KEY_INTEGER,
     OF_LFM2MOE | OF_QWEN3MOE | OF_GATED},
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
    {"rope.dimension_sections", NULL, KEY_USED, OF_QWEN35 | OF_QWEN35MOE},
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
    {"rope.freq_base_swa", NULL, KEY_USED, OF_OLMO2},
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

static unsigned bit_of(const struct gguf_arch *arch)
{
    static const struct {
        const char *name;
        unsigned bit;
    } bits[] = {{"granite", OF_GRANITE},
                {"gemma2", OF_GEMMA2},
                {"gemma3", OF_GEMMA3},
                {"gemma-embedding", OF_GEMMA3},
                {"phi3", OF_PHI3},
                {"lfm2", OF_LFM2},
                {"lfm2moe", OF_LFM2MOE},
                {"granitehybrid", OF_HYBRID},
                {"granitemoe", OF_GRANITEMOE},
                {"qwen3moe", OF_QWEN3MOE},
                {"olmoe", OF_OLMOE},
                {"qwen35", OF_QWEN35},
                {"qwen35moe", OF_QWEN35MOE},
                {"qwen3next", OF_QWEN3NEXT},
                {"olmo2", OF_OLMO2},
                {"mistral3", OF_MISTRAL3},
                {"exaone4", OF_EXAONE4},
                {"minicpm", OF_MINICPM},
                {"stablelm", OF_STABLELM},
                {"phi2", OF_PHI2},
                {"falcon-h1", OF_FALCONH1},
                {"gptneox", OF_GPTNEOX},
                {"gpt2", OF_GPT2},
                {"bert", OF_BERT},
                {"modern-bert", OF_MODERNBERT},
                {"qwen3", OF_QWEN3}};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        if (strcmp(bits[i].name, arch->name) == 0)
            return bits[i].bit;
    return OF_OTHERS;
}

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
        if (keys[i].archs & bit_of(m->arch) && gguf_text_is(key, keys[i].key))
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

/* Refuses a file without a key that llama.cpp's converter always writes, and that has no value that
 * would be right for all models. */
static smol_status check_needed(const struct maker *m)
{
    static const struct {
        const char *key;
        unsigned archs;
    } needed[] = {
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
        {"embedding_scale", OF_MINICPM},
        {"residual_scale", OF_MINICPM},
        {"logit_scale", OF_MINICPM},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i].archs & bit_of(m->arch) && !smol_maker_find(m, needed[i].key))
            return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                             "%s: %s.%s is missing: download the file again", m->gguf->path,
                             m->arch->name, needed[i].key);
    uint64_t experts = 0;
    smol_status status = smol_maker_integer(m, "expert_count", &experts);
    if (!status && experts > 0 && bit_of(m->arch) & OF_EXPERTS &&
        !smol_maker_find(m, "expert_used_count"))
        status = smol_fail(m->error, SMOL_ERROR_DAMAGED,
                           "%s: %s.expert_used_count is missing: download the file again",
                           m->gguf->path, m->arch->name);
    return status;
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
        bit_of(m->arch) & (OF_PHI3 | OF_DELTA | OF_STABLELM | OF_PHI2 | OF_GPTNEOX);
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
    bool encodes = of_gemma || bit_of(m->arch) & (OF_BERT | OF_MODERNBERT), causal = !encodes;
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
    if (!status && experts > 0 && !(bit_of(m->arch) & OF_EXPERTS))
        return smol_fail(
            m->error, SMOL_ERROR_UNSUPPORTED,
            "%s: %s.expert_count is %llu: mixtures of experts of this architecture are "
            "not supported",
            m->gguf->path, m->arch->name, (unsigned long long)experts);
    if (bit_of(m->arch) == OF_MINICPM && smol_maker_setting(m, "head_dim") > 0)
        smol_maker_put(m, m->object, "attention_multiplier",
                       json_real(1 / sqrt((double)smol_maker_setting(m, "head_dim"))));
    if (bit_of(m->arch) == OF_FALCONH1) /* its other scales are in the weights */
        smol_maker_put(m, m->object, "mamba_norm_before_gate", json_false());
    if (!status && (bit_of(m->arch) & OF_GRANITES) && !smol_maker_find(m, "attention.scale"))
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: %s.attention.scale is missing: convert the original checkpoint",
                         m->gguf->path, m->arch->name);
    if (!status && bit_of(m->arch) & (OF_GEMMA2 | OF_GEMMA3) &&
        heads > 0) { /* the scale of attention scores */
        uint64_t layers = smol_maker_setting(m, "num_hidden_layers");
        bool largest = layers == (strcmp(m->arch->name, "gemma2") == 0 ? 46 : 62);
        uint64_t scalar = largest ? smol_maker_setting(m, "hidden_size") / heads
                                  : smol_maker_setting(m, "head_dim");
        smol_maker_put_integer(m, "query_pre_attn_scalar", scalar);
    }
    return status;
}

/* --- rotary embedding --------------------------------------------------------------------- */

/* Puts the number of a key into an object, if the file has the key. */
static smol_status put_real(struct maker *m, json_t *object, const char *key, const char *setting)
{
    const struct gguf_value *value = smol_maker_find(m, key);
    double real = 0;
    if (value && (!smol_gguf_real(value, &real) || !isfinite(real)))
        return smol_maker_fail_value(m, value, "a number");
    if (value)
        smol_maker_put(m, object, setting, json_real(real));
    return SMOL_OK;
}

/* Reads what yarn has besides a factor. llama.cpp has no key for mscale, and takes it for 1. */
static smol_status take_yarn(struct maker *m, json_t *scaling)
{
    static const char *const names[][2] = {
        {"rope.scaling.yarn_attn_factor", "attention_factor"},
        {"rope.scaling.yarn_beta_fast", "beta_fast"},
        {"rope.scaling.yarn_beta_slow", "beta_slow"},
        {"rope.scaling.yarn_log_multiplier", "mscale_all_dim"},
        {"attention.temperature_scale", "llama_4_scaling_beta"},
    };
    const struct gguf_value *extrapolation = smol_maker_find(m, "rope.scaling.yarn_ext_factor");
    double real = 1;
    if (extrapolation && (!smol_gguf_real(extrapolation, &real) || real != 1))
        return smol_maker_fail_value(m, extrapolation, "1");
    uint64_t original = 0;
    smol_status status = smol_maker_integer(m, "rope.scaling.original_context_length", &original);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !status; i++)
        status = put_real(m, scaling, names[i][0], names[i][1]);
    if (original > 0)
        smol_maker_put(m, scaling, "original_max_position_embeddings",
                       json_integer((json_int_t)original));
    if (json_object_get(scaling, "mscale_all_dim"))
        smol_maker_put(m, scaling, "mscale", json_real(1));
    return status;
}

/* Reads the type, which without a key is linear, and the factor. */
static smol_status take_scaling(struct maker *m)
{
    const struct gguf_value *type = smol_maker_find(m, "rope.scaling.type");
    const struct gguf_text name = smol_gguf_string(type);
    bool yarn = gguf_text_is(name, "yarn");
    if (gguf_text_is(name, "none") || gguf_text_is(name, "longrope")) /* see take_longrope */
        return SMOL_OK;
    if (!type && !smol_maker_find(m, "rope.scaling.factor"))
        return SMOL_OK;
    if (type && !yarn && !gguf_text_is(name, "linear"))
        return smol_maker_fail_value(m, type, "none, linear, longrope or yarn");
    json_t *scaling = json_pack("{s:s}", "rope_type", yarn ? "yarn" : "linear");
    smol_maker_put(m, m->object, "rope_scaling", scaling);
    smol_status status = put_real(m, scaling, "rope.scaling.factor", "factor");
    return status || !yarn ? status : take_yarn(m, scaling);
}

static double factor_at(const struct safetensors_tensor *factors, uint64_t i)
{
    float value;
    memcpy(&value, factors->data + i * sizeof value, sizeof value);
    return (double)value;
}

/* Finds a list of factors, (n) of f32. *factors is NULL if there is none. */
static smol_status find_factors(const struct maker *m, const struct safetensors *tensors,
                                const char *name, const struct safetensors_tensor **factors)
{
    const struct safetensors_tensor *found = smol_safetensors_find(tensors, name);
    *factors = found;
    bool good =
        !found || (found->rank == 1 && found->dtype == ST_F32 && found->shape[0] <= MAX_HEAD_DIM);
    for (uint64_t i = 0; found && good && i < found->shape[0]; i++)
        good = isfinite(factor_at(found, i));
    return good ? SMOL_OK
                : smol_fail(m->error, SMOL_ERROR_DAMAGED,
                            "%s: tensor %s must be a list of at most %d finite numbers in F32: "
                            "download the file again",
                            m->gguf->path, name, MAX_HEAD_DIM);
}

/* Returns the factor of pair `i` of `n` by Llama 3's rule, with its published settings. */
static double llama3_factor(double theta, double factor, uint64_t i, uint64_t n)
{
    const double original = 8192, low = 1, high = 4, pi = 3.14159265358979323846;
    double wave = 2 * pi * pow(theta, (double)i / (double)n);
    double smooth = (original / wave - low) / (high - low);
    if (wave < original / high)
        return 1;
    return wave > original / low ? factor : 1 / ((1 - smooth) / factor + smooth);
}

/* Files of Llama 3.1 and later state the factor of each pair, not the rule. Recognizes the rule,
 * and refuses factors that do not follow it. */
static smol_status take_llama3(struct maker *m, const struct safetensors *tensors)
{
    const struct safetensors_tensor *factors;
    smol_status status = find_factors(m, tensors, "rope_freqs.weight", &factors);
    if (status || !factors)
        return status;
    if (json_object_get(m->object, "rope_scaling"))
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: rope_freqs.weight and rope.scaling.type are both set: convert the "
                         "original checkpoint",
                         m->gguf->path);
    uint64_t n = factors->shape[0];
    double theta = json_real_value(json_object_get(m->object, "rope_theta"));
    double factor = factor_at(factors, n - 1);
    bool follows = n == smol_maker_setting(m, "head_dim") / 2 && factor >= 1;
    for (uint64_t i = 0; i < n && follows; i++) {
        double expected = llama3_factor(theta, factor, i, n);
        follows = fabs(factor_at(factors, i) - expected) <= 1e-4 * expected;
    }
    if (!follows)
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: the factors in rope_freqs.weight do not follow Llama 3's rule: "
                         "convert the original checkpoint",
                         m->gguf->path);
    smol_maker_put(m, m->object, "rope_scaling",
                   json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", factor,
                             "low_freq_factor", 1.0, "high_freq_factor", 4.0,
                             "original_max_position_embeddings", 8192));
    return SMOL_OK;
}

static json_t *list_factors(struct maker *m, const struct safetensors_tensor *factors)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < factors->shape[0]; i++)
        smol_maker_append(m, list, json_real(factor_at(factors, i)));
    return list;
}

static smol_status take_longrope(struct maker *m, const struct safetensors *tensors)
{
    const struct safetensors_tensor *of_long, *of_short;
    smol_status status = find_factors(m, tensors, "rope_factors_long.weight", &of_long);
    if (!status)
        status = find_factors(m, tensors, "rope_factors_short.weight", &of_short);
    if (status || (!of_long && !of_short))
        return status;
    if (!of_long || !of_short || json_object_get(m->object, "rope_scaling"))
        return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                         "%s: only one of the lists of rotary factors, or another scaling beside "
                         "them: download the file again",
                         m->gguf->path);
    json_t *scaling = json_pack("{s:s}", "type", "longrope");
    smol_maker_put(m, scaling, "long_factor", list_factors(m, of_long));
    smol_maker_put(m, scaling, "short_factor", list_factors(m, of_short));
    smol_maker_put(m, m->object, "rope_scaling", scaling);
    return SMOL_OK;
}

/* Takes how frequencies are shared out to the coordinates of pictures, which are equal in texts. */
static smol_status take_sections(struct maker *m)
{
    const struct gguf_value *list = smol_maker_find(m, "rope.dimension_sections");
    json_t *sections = json_array(), *scaling = json_object_get(m->object, "rope_scaling");
    uint64_t n = 0;
    bool valid = list && list->type == GGUF_ARRAY && (list->n == 3 || list->n == 4);
    for (uint64_t i = 0; valid && i < list->n; i++) {
        valid = smol_gguf_integer_at(list, i, &n) && n <= UINT32_MAX && (i < 3 || n == 0);
        if (i < 3)
            smol_maker_append(m, sections, json_integer((json_int_t)n));
    }
    if (list && valid && scaling)
        smol_maker_put(m, scaling, "mrope_section", json_incref(sections));
    else if (list && valid)
        smol_maker_put(m, m->object, "rope_scaling",
                       json_pack("{s:s, s:O}", "rope_type", "default", "mrope_section", sections));
    json_decref(sections);
    return !list || valid ? SMOL_OK
                          : smol_maker_fail_value(m, list, "three sizes, and perhaps a 0");
}

/* Gives windowed layers of OLMo 3 an embedding of their own, which is not scaled. */
static smol_status split_rope(struct maker *m)
{
    json_t *theta = json_object_get(m->object, "rope_theta");
    json_t *scaling = json_object_get(m->object, "rope_scaling");
    if (strcmp(m->arch->architecture, "Olmo3ForCausalLM") != 0)
        return SMOL_OK;
    json_t *full = json_pack("{s:s, s:O}", "rope_type", "default", "rope_theta", theta);
    json_t *windowed = json_pack("{s:s, s:O}", "rope_type", "default", "rope_theta", theta);
    if (scaling)
        json_object_update(full, scaling);
    smol_status status = put_real(m, windowed, "rope.freq_base_swa", "rope_theta");
    smol_maker_put(m, m->object, "rope_parameters",
                   json_pack("{s:o, s:o}", "full_attention", full, "sliding_attention", windowed));
    json_object_del(m->object, "rope_theta");
    json_object_del(m->object, "rope_scaling");
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
        {"mlp_bias", {"mlp.gate_proj.bias", "feed_forward.gate_proj.bias", "mlp.Wi.bias"}},
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
    if (bit_of(m->arch) != OF_GPTNEOX)
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
    smol_status status = smol_maker_token_id(m, "bos", &id, &found);
    smol_maker_put(m, m->object, "bos_token_id",
                   found && bit_of(m->arch) != OF_BERT ? json_integer((json_int_t)id)
                                                       : json_null());
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
        status = take_head(&m);
    if (!status)
        status = take_direction(&m);
    if (!status)
        status = take_unstated(&m);
    if (!status)
        status = take_scaling(&m);
    if (!status)
        status = take_llama3(&m, tensors);
    if (!status)
        status = take_longrope(&m, tensors);
    if (!status)
        status = take_sections(&m);
    if (!status)
        status = split_rope(&m);
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

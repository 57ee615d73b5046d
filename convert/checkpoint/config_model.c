/* The model that config.json describes, see config_model.h. Defaults and precedence are those of
 * transformers; convert/families holds the differences between families. Keys that transformers
 * ignores for a family (pretraining_tp, ...) are ignored here too. */
#include <float.h>
#include <math.h>

#include "convert/checkpoint/config_model.h"
#include "convert/checkpoint/embedder.h"
#include "convert/checkpoint/nested.h"
#include "format/model.h"

/* Reads whether each token sees the whole text. A model of logits has only causal attention. */
static smol_status read_direction(const struct json_settings *config, struct config *result)
{
    const char *key = result->family->encodes_key;
    uint32_t encodes = result->family->encodes;
    smol_status status = key ? smol_setting_flag(config, key, &encodes) : SMOL_OK;
    result->encodes = encodes;
    if (!status && key && encodes && result->head != HEAD_NONE)
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key,
                                 "only causal attention is supported, except for a model of "
                                 "embeddings without an output layer");
    return status;
}

/* Reads whether tokens have types where they may have none. */
static smol_status read_types(const struct json_settings *config, struct config *result)
{
    uint32_t n = 1;
    if (!result->family->may_lack_types)
        return SMOL_OK;
    smol_status status = smol_setting_integer(config, "type_vocab_size", 0, UINT32_MAX, &n);
    result->lacks_types = n == 0;
    return status;
}

/* Checks what layers with states need: their activation is SiLU. (Single blocks have a key of their
 * own for it.) */
static smol_status check_recurrences(const struct json_settings *config,
                                     const struct config *result)
{
    if (result->model.states.kind > STATE_SHORT_CONV && !result->family->has_single_blocks &&
        result->model.activation != ACTIVATION_SILU)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: hidden_act must be silu in this family", config->path);
    return SMOL_OK;
}

/* ---- the block ---- */

/* Reads the activation that `key` names, if it is there. */
static smol_status find_activation(const struct json_settings *config, const struct family *family,
                                   const char *key, uint32_t *activation)
{
    static const char *const names[] = {
        "silu", "swish", "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu", "relu2", NULL};
    static const uint32_t activations[] = {
        ACTIVATION_SILU,      ACTIVATION_SILU, ACTIVATION_GELU_TANH,   ACTIVATION_GELU_TANH,
        ACTIVATION_GELU_TANH, ACTIVATION_GELU, ACTIVATION_RELU_SQUARED};
    uint32_t chosen = UINT32_MAX;
    smol_status status = smol_setting_choice(
        config, key, names, "silu, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh or relu2", &chosen);
    if (chosen != UINT32_MAX)
        *activation = activations[chosen];
    if (family->gelu_is_tanh && *activation == ACTIVATION_GELU)
        *activation = ACTIVATION_GELU_TANH;
    return status;
}

static smol_status read_activation(const struct json_settings *config, const struct family *family,
                                   struct blob_model *model)
{
    const char *old = family->old_activation_key;
    model->activation = family->activation;
    if (!family->activation_key)
        return SMOL_OK;
    smol_status status =
        find_activation(config, family, family->activation_key, &model->activation);
    uint32_t other = model->activation;
    if (!status && old && smol_setting(config, old))
        status = find_activation(config, family, old, &other);
    if (!status && other != model->activation)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: %s and %s differ, and releases of transformers differ in which one "
                         "counts: correct one of them",
                         config->path, family->activation_key, old);
    return status;
}

smol_status smol_config_read_flag(const struct json_settings *config,
                                  const struct family_flag *flag, uint32_t *value)
{
    *value = flag->fallback;
    return flag->key ? smol_setting_flag(config, flag->key, value) : SMOL_OK;
}

static smol_status read_biases(const struct json_settings *config, const struct family *family,
                               struct blob_model *model)
{
    uint32_t biased = 0;
    smol_status status = smol_config_read_flag(config, &family->attention_biased, &biased);
    model->attention_bias = biased ? family->attention_bias : BIAS_NONE;
    if (!status)
        status = smol_config_read_flag(config, &family->mlp_biased, &model->mlp_bias);
    return status;
}

static smol_status read_flags(const struct json_settings *config, const struct family *family,
                              struct blob_model *model)
{
    const char *key = family->norm_eps_key ? family->norm_eps_key : "rms_norm_eps";
    double epsilon = family->norm_eps;
    model->tied_embeddings = family->tied_embeddings;
    smol_status status = smol_setting_flag(config, "tie_word_embeddings", &model->tied_embeddings);
    if (!status && family->tied_key)
        status = smol_setting_flag(config, family->tied_key, &model->tied_embeddings);
    if (!status && *key)
        status = smol_setting_fraction(config, key, FLT_MIN, 1, &epsilon);
    if (!status && family->norm_eps_alias)
        status = smol_setting_fraction(config, family->norm_eps_alias, FLT_MIN, 1, &epsilon);
    model->rms_norm_eps = (float)epsilon;
    return status;
}

/* ---- scales ---- */

/* The functions that read a scale leave the model's value unchanged if the family has no such
 * number. */
static smol_status read_scale(const struct json_settings *config,
                              const struct family_number *number, float *value)
{
    double found = number->fallback;
    if (!number->key)
        return SMOL_OK;
    smol_status status = smol_setting_real(config, number->key, FLT_MIN, FLT_MAX, &found);
    *value = (float)found;
    return status;
}

/* Reads a softcap. null means that there is none. */
static smol_status read_softcap(const struct json_settings *config,
                                const struct family_number *number, float *value)
{
    if (!number->key)
        return SMOL_OK;
    double found = smol_setting_is_null(config, number->key) ? 0 : number->fallback;
    smol_status status = smol_setting_fraction(config, number->key, FLT_MIN, FLT_MAX, &found);
    *value = (float)found;
    return status;
}

static smol_status read_query_scalar(const struct json_settings *config,
                                     const struct family_number *number, float *scale)
{
    uint32_t scalar = (uint32_t)number->fallback;
    if (!number->key)
        return SMOL_OK;
    smol_status status = smol_setting_integer(config, number->key, 1, UINT32_MAX, &scalar);
    *scale = (float)pow(scalar, -0.5);
    return status;
}

/* Reads the scale that logits are multiplied by. */
static smol_status read_logit_scale(const struct json_settings *config,
                                    const struct family_number *number, float *divisor)
{
    double scale = number->fallback;
    if (!number->key)
        return SMOL_OK;
    smol_status status = smol_setting_fraction(config, number->key, 0x1p-64, 0x1p64, &scale);
    *divisor = (float)(1 / scale);
    return status;
}

/* Reads scales that MiniCPM derives from the depth and the width. */
static smol_status read_derived_scales(const struct json_settings *config,
                                       const struct family *family, struct blob_model *model)
{
    double depth = family->depth_scale.fallback;
    uint32_t width = family->base_width.fallback;
    const char *depth_key = family->depth_scale.key, *width_key = family->base_width.key;
    bool may_be_null = family->latent.kv_rank > 0; /* which is a scale of 1 */
    smol_status status = SMOL_OK;
    if (!depth_key)
        return SMOL_OK;
    if (may_be_null && smol_setting_is_null(config, depth_key))
        depth = sqrt(model->n_layers);
    else
        status = smol_setting_real(config, depth_key, FLT_MIN, FLT_MAX, &depth);
    if (!status && may_be_null && smol_setting_is_null(config, width_key))
        width = model->hidden_size;
    else if (!status)
        status = smol_setting_integer(config, width_key, 1, MODEL_MAX_HIDDEN, &width);
    model->residual_scale = (float)(depth / sqrt(model->n_layers));
    model->logit_divisor = (float)((double)model->hidden_size / width);
    return status;
}

/* Reads the scales of the family. The model already has those of the plain block. */
static smol_status read_scales(const struct json_settings *config, const struct family *family,
                               struct blob_model *model)
{
    smol_status status = read_scale(config, &family->embedding_scale, &model->embedding_scale);
    if (family->scales_by_root)
        model->embedding_scale = (float)sqrt(model->hidden_size);
    if (!status)
        status = read_scale(config, &family->residual_scale, &model->residual_scale);
    if (!status)
        status = read_derived_scales(config, family, model);
    if (!status)
        status = read_scale(config, &family->attention_scale, &model->attention_scale);
    if (!status)
        status = read_query_scalar(config, &family->query_scalar, &model->attention_scale);
    if (!status)
        status = read_scale(config, &family->logit_divisor, &model->logit_divisor);
    if (!status)
        status = read_logit_scale(config, &family->logit_scale, &model->logit_divisor);
    if (!status)
        status = read_softcap(config, &family->attention_softcap, &model->attention_softcap);
    if (!status)
        status = read_softcap(config, &family->logit_softcap, &model->logit_softcap);
    return status;
}

/* ---- token ids ---- */

/* Reads bos_token_id. The family's default applies if it is absent. null means that there is
 * none. */
static smol_status read_bos(const struct json_settings *config, const struct family *family,
                            struct blob_model *model)
{
    bool none = smol_setting_is_null(config, "bos_token_id") || family->bos_id >= model->vocab_size;
    model->bos_id = none ? NO_TOKEN : family->bos_id;
    smol_status status =
        smol_setting_integer(config, "bos_token_id", 0, NO_TOKEN - 1, &model->bos_id);
    if (!status && model->bos_id != NO_TOKEN && model->bos_id >= model->vocab_size)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: bos_token_id %u is not below vocab_size %u: correct one of them",
                         config->path, model->bos_id, model->vocab_size);
    return status;
}

/* ---- the whole model ---- */

/* Sets the bits of blocks. */
static smol_status read_switched(const struct json_settings *config, const struct family *family,
                                 struct blob_model *model)
{
    smol_status status = SMOL_OK;
    model->blocks = family->blocks;
    for (size_t i = 0; i < FAMILY_MAX_SWITCHED && !status; i++) {
        uint32_t is_on;
        status = smol_config_read_flag(config, &family->switched[i].flag, &is_on);
        model->blocks |= is_on ? family->switched[i].bits : 0;
    }
    return status;
}

static smol_status read_block(const struct json_settings *config, struct config *result)
{
    struct blob_model *model = &result->model;
    result->max_positions = model->context_length;
    smol_model_fill(model);
    smol_status status = read_switched(config, result->family, model);
    if (!status)
        status = read_activation(config, result->family, model);
    if (!status)
        status = read_biases(config, result->family, model);
    uint32_t norm_biased = 1;
    if (!status && result->family->norm_biased.key)
        status = smol_config_read_flag(config, &result->family->norm_biased, &norm_biased);
    result->norm_biased = norm_biased;
    if (!status)
        status = read_flags(config, result->family, model);
    if (!status)
        status = read_scales(config, result->family, model);
    if (!status)
        status = smol_config_scale_hybrid(config, result);
    if (!status)
        status = smol_config_read_experts(config, result);
    if (!status)
        status = smol_config_read_layers(config, result);
    if (!status)
        status = smol_config_read_rope(config, result);
    return status ? status : smol_config_read_latent(config, result);
}

/* Reads the flag of a model that contains this one, which ties embeddings whatever text_config
 * says. Such a model has no cap on logits in transformers. */
static smol_status read_outer_flags(const struct json_settings *outer,
                                    const struct json_settings *text, struct config *result)
{
    static const char key[] = "final_logit_softcapping";
    const char *tied_key = result->family->tied_key;
    const struct nest *nest = result->nest;
    uint32_t ties = nest->ties;
    if (result->model.logit_softcap != 0 && !model_is_varied(&result->model))
        return smol_setting_fail(text, SMOL_ERROR_UNSUPPORTED, key,
                                 "transformers ignores it here: remove it");
    smol_status status = smol_setting_flag(outer, "tie_word_embeddings", &ties);
    if (!status && tied_key)
        status = smol_setting_flag(outer, tied_key, &ties);
    result->model.tied_embeddings = ties || (nest->inner_ties && result->model.tied_embeddings);
    return status;
}

/* Reads what sentence-transformers makes of a score: a number from 0 to 1 unless the model says
 * otherwise. The key has moved. */
static smol_status read_score(const struct json_settings *config, enum embedder_score *score)
{
    struct json_settings inside = *config;
    inside.object = smol_setting(config, "sentence_transformers");
    inside.within = "sentence_transformers.";
    *score = SCORE_LOGISTIC;
    smol_status status =
        smol_embedder_activation(config, "sbert_ce_default_activation_function", score);
    return status ? status : smol_embedder_activation(&inside, "activation_fn", score);
}

/* Reads what is between an encoder's last layer and its score. */
static smol_status read_classifier(const struct json_settings *config, struct config *result)
{
    static const enum encoder_pooling kinds[] = {ENCODER_FIRST, ENCODER_MEAN};
    static const char *const poolings[] = {"cls", "mean", NULL};
    static const char *const activations[] = {"gelu", NULL};
    uint32_t chosen = 0, ignored;
    result->score_pooling = ENCODER_FIRST;
    if (!result->family->norms_score)
        return SMOL_OK;
    smol_status status =
        smol_setting_choice(config, "classifier_pooling", poolings, "cls or mean", &chosen);
    result->score_pooling = kinds[chosen];
    if (!status)
        status =
            smol_setting_choice(config, "classifier_activation", activations, "gelu", &ignored);
    return status ? status : smol_setting_flag(config, "classifier_bias", &result->score_biased);
}

/* The keys that may be null, as transformers' classes declare them. Keys that hold objects or lists
 * may be null too. */
static const char *const nullable[] = {
    "rope_theta",
    "rope_local_base_freq",
    "architectures",
    "model_type",
    "bos_token_id",
    "dtype",
    "torch_dtype",
    "use_bidirectional_attention",
    "use_bias",
    "n_inner",
    "q_lora_rank",
    "v_head_dim",
    "sliding_window_pattern",
    "num_key_value_heads",
    "head_dim",
    "sliding_window",
    "moe_latent_size",
    "position_embedding_type",
    "attn_logit_softcapping",
    "clip_qkv",
    "mlp_only_layers",
    "final_logit_softcapping",
    NULL,
};

smol_status smol_config_read_model(const struct json_settings *file, struct config *result)
{
    struct json_settings settings, outer = *file, *config = &settings;
    struct blob_model *model = &result->model;
    outer.nullable = nullable;
    smol_status status = smol_nested_find(&outer, config, &result->nest);
    if (!status)
        status = result->nest ? smol_nested_family(config, result->nest, &result->family)
                              : smol_config_find_family(config, &result->family, &result->head);
    if (!status && result->nest)
        status = smol_config_check_dtypes(&outer);
    if (!status && result->family->has_old_keys)
        status = smol_config_rename_nomic(config);
    if (!status)
        status = smol_config_check_supported(config, result->family);
    if (!status)
        status = smol_config_read_scales(config, &result->scales);
    if (!status && result->nest && !result->scales.scaled)
        status = smol_config_read_scales(&outer, &result->scales);
    if (!status)
        status = read_direction(config, result);
    if (!status)
        status = read_types(config, result);
    if (!status)
        status = smol_config_read_sizes(config, result);
    if (!status)
        status = smol_config_read_hybrid(config, result);
    if (!status)
        status = smol_config_read_states(config, result);
    if (!status)
        status = read_block(config, result);
    if (!status && result->nest)
        status = read_outer_flags(&outer, config, result);
    if (!status && result->head == HEAD_SCORE)
        status = read_score(config, &result->score);
    if (!status && result->head == HEAD_SCORE)
        status = read_classifier(config, result);
    if (!status)
        status = check_recurrences(config, result);
    if (!status)
        status = read_bos(config, result->family, model);
    model->family = FAMILY_LLAMA;
    if (status)
        return status;
    smol_config_drop_idle_windows(result);
    smol_model_reduce(model, result->layers);
    return SMOL_OK;
}

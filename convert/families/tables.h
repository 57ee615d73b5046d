/* The tables of families, one for each file, and names of tensors and settings that families of
 * several files share. */
#ifndef SMOL_CONVERT_FAMILY_TABLES_H
#define SMOL_CONVERT_FAMILY_TABLES_H

#include "convert/families/family.h"

/* The families of one file. */
struct family_table {
    const struct family *families;
    size_t n;
};
extern const struct family_table smol_llama_families, smol_qwen_families, smol_granite_families,
    smol_olmo_families, smol_latent_families, smol_lfm_families, smol_mamba_families,
    smol_gemma_families, smol_layer_norm_families, smol_encoder_families;
#define FAMILY_TABLE(families)                                                                     \
    {                                                                                              \
        (families), sizeof(families) / sizeof(families)[0]                                         \
    }

/* clang-format off */
/* A weight and its bias, by the name of their module: in .names, and by themselves. */
#define PAIR(role, name) [ROLE_##role] = (name ".weight"), [ROLE_##role##_BIAS] = (name ".bias")
#define BOTH(name) {(name ".weight"), (name ".bias")}
#define LAYERS "model.layers.%u."
#define LAYER(name) (LAYERS name)

/* Names of most families, without those of norms within layers. */
#define ATTENTION_NAMES                                                                            \
    PAIR(ATTN_Q, LAYERS "self_attn.q_proj"), PAIR(ATTN_K, LAYERS "self_attn.k_proj"),              \
    PAIR(ATTN_V, LAYERS "self_attn.v_proj"), PAIR(ATTN_O, LAYERS "self_attn.o_proj")
#define OUTER_NAMES                                                                                \
    ATTENTION_NAMES, [ROLE_EMBED] = "model.embed_tokens.weight",                                   \
                     [ROLE_FINAL_NORM] = "model.norm.weight", [ROLE_OUTPUT] = "lm_head.weight"
#define MLP_NAMES                                                                                  \
    PAIR(MLP_GATE, LAYERS "mlp.gate_proj"), PAIR(MLP_UP, LAYERS "mlp.up_proj"),                    \
    PAIR(MLP_DOWN, LAYERS "mlp.down_proj")
#define SHARED_NAMES OUTER_NAMES, MLP_NAMES

/* Names of norms within layers, by their places in the block. */
#define LLAMA_NORM_NAMES                                                                           \
    [ROLE_ATTN_NORM] = LAYER("input_layernorm.weight"),                                            \
    [ROLE_MLP_NORM] = LAYER("post_attention_layernorm.weight")
#define OLMO2_NORM_NAMES                                                                           \
    [ROLE_ATTN_OUT_NORM] = LAYER("post_attention_layernorm.weight"),                               \
    [ROLE_MLP_OUT_NORM] = LAYER("post_feedforward_layernorm.weight")
#define QK_NORM_NAMES                                                                              \
    [ROLE_ATTN_Q_NORM] = LAYER("self_attn.q_norm.weight"),                                         \
    [ROLE_ATTN_K_NORM] = LAYER("self_attn.k_norm.weight")

/* Tensors under other names than in .names: several matrices in one, or one that some checkpoints
 * name differently. */
#define FUSED(name, fusion, n, ...) {(name), {__VA_ARGS__}, n, fusion, false, false}
#define ALIAS(name, role) {(name), {role}, 1, FUSION_STACKED, false, true}
#define QKV ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V
#define QKV_BIASES ROLE_ATTN_Q_BIAS, ROLE_ATTN_K_BIAS, ROLE_ATTN_V_BIAS
#define GATE_UP ROLE_MLP_GATE, ROLE_MLP_UP

/* Experts: as separate tensors, or those of a layer in one. */
#define FUSED_EXPERTS(gate_up, down)                                                               \
    {gate_up, {ROLE_EXPERT_GATE, ROLE_EXPERT_UP}, 2, FUSION_STACKED, true, true},                  \
    {down, {ROLE_EXPERT_DOWN}, 1, FUSION_STACKED, true, true}
#define MOE(name) (LAYERS "mlp." name)
#define MOE_NAMES                                                                                  \
    [ROLE_ROUTER] = MOE("gate.weight"),                                                            \
    [ROLE_EXPERT_GATE] = MOE("experts.%u.gate_proj.weight"),                                       \
    [ROLE_EXPERT_UP] = MOE("experts.%u.up_proj.weight"),                                           \
    [ROLE_EXPERT_DOWN] = MOE("experts.%u.down_proj.weight")
#define MOE_FUSED FUSED_EXPERTS(MOE("experts.gate_up_proj"), MOE("experts.down_proj"))

/* Mamba2's, whose first matrix holds three. */
#define MIXER_NAMES                                                                                \
    [ROLE_MIXER_GATE] = LAYER("mamba.gate.weight"),                                                \
    [ROLE_MIXER_IN] = LAYER("mamba.in.weight"),                                                    \
    [ROLE_MIXER_STEP] = LAYER("mamba.step.weight"),                                                \
    [ROLE_MIXER_CONV] = LAYER("mamba.taps.weight"),                                                \
    [ROLE_MIXER_CONV_BIAS] = LAYER("mamba.conv1d.bias"),                                           \
    [ROLE_MIXER_STEP_BIAS] = LAYER("mamba.dt_bias"),                                               \
    [ROLE_MIXER_DECAY] = LAYER("mamba.A_log"),                                                     \
    [ROLE_MIXER_SKIP] = LAYER("mamba.D"),                                                          \
    [ROLE_MIXER_NORM] = LAYER("mamba.norm.weight"),                                                \
    [ROLE_MIXER_OUT] = LAYER("mamba.out_proj.weight")
#define MIXER_FUSED                                                                                \
    FUSED(LAYER("mamba.in_proj.weight"), FUSION_STACKED, 3, ROLE_MIXER_GATE, ROLE_MIXER_IN,        \
          ROLE_MIXER_STEP),                                                                        \
    FUSED(LAYER("mamba.conv1d.weight"), FUSION_CONV, 1, ROLE_MIXER_CONV)
/* clang-format on */

/* The epsilon of norms, the theta of the rotation, and the tokens before and after a text. */
#define BASICS(eps, theta, bos, eos)                                                               \
    .norm_eps = (eps), .rope_theta = (theta), .bos_id = (bos), .eos_id = (eos)
#define SILU .activation_key = "hidden_act", .activation = ACTIVATION_SILU
#define ATTENTION_BIASES .attention_bias = BIAS_QKVO, .attention_biased = {"attention_bias", false}
#define MLP_BIASES .mlp_biased = {"mlp_bias", false}

#endif

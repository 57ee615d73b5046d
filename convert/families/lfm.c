/* LFM: hybrids of gated short convolutions and attention. */
#include "convert/families/tables.h"

/* clang-format off */
/* Names without those of attention and of experts. */
#define LFM_NAMES                                                                                  \
    [ROLE_EMBED] = "model.embed_tokens.weight",                                                    \
    [ROLE_ATTN_NORM] = LAYER("operator_norm.weight"),                                              \
    [ROLE_MIXER_IN] = LAYER("conv.in_proj.weight"),                                                \
    [ROLE_MIXER_IN_BIAS] = LAYER("conv.in_proj.bias"),                                             \
    [ROLE_MIXER_CONV] = LAYER("conv.taps.weight"),                                                 \
    [ROLE_MIXER_CONV_BIAS] = LAYER("conv.conv.bias"),                                              \
    [ROLE_MIXER_OUT] = LAYER("conv.out_proj.weight"),                                              \
    [ROLE_MIXER_OUT_BIAS] = LAYER("conv.out_proj.bias"),                                           \
    [ROLE_MLP_NORM] = LAYER("ffn_norm.weight"),                                                    \
    [ROLE_MLP_GATE] = LAYER("feed_forward.w1.weight"),                                             \
    [ROLE_MLP_UP] = LAYER("feed_forward.w3.weight"),                                               \
    [ROLE_MLP_DOWN] = LAYER("feed_forward.w2.weight"),                                             \
    [ROLE_FINAL_NORM] = "model.embedding_norm.weight",                                             \
    [ROLE_OUTPUT] = "lm_head.weight"
#define LFM_CONV                                                                                   \
    FUSED(LAYER("conv.conv.weight"), FUSION_CONV, 1, ROLE_MIXER_CONV)
#define LFM2_NAMES                                                                                 \
    [ROLE_ATTN_Q] = LAYER("self_attn.q_proj.weight"),                                              \
    [ROLE_ATTN_K] = LAYER("self_attn.k_proj.weight"),                                              \
    [ROLE_ATTN_V] = LAYER("self_attn.v_proj.weight"),                                              \
    [ROLE_ATTN_O] = LAYER("self_attn.out_proj.weight"),                                            \
    [ROLE_ATTN_Q_NORM] = LAYER("self_attn.q_layernorm.weight"),                                    \
    [ROLE_ATTN_K_NORM] = LAYER("self_attn.k_layernorm.weight"),                                    \
    LFM_NAMES
/* clang-format on */

/* Common to LFM2 with and without experts. */
#define LFM2_BLOCKS                                                                                \
    .prefix = "model.", BASICS(1e-5, 1000000, 1, 2), .norm_eps_key = "norm_eps",                   \
    .tied_embeddings = 1, .tied_key = "tie_embedding", .needs_kv_heads = true,                     \
    .state = STATE_SHORT_CONV, .taps = 3, .activation = ACTIVATION_SILU,                           \
    .blocks = BLOCK_QK_NORM_HEADS

static const struct family families[] = {
    {
        .architecture = "Lfm2ForCausalLM",
        .model_type = "lfm2",
        .body = "Lfm2Model",
        .sizes = {2560, 12288, 32, 32, 8, 0, 65536, 128000},
        .adjusts_mlp = true,
        LFM2_BLOCKS,
        .names = {LFM2_NAMES},
        .fused = {LFM_CONV},
    },
    {
        .architecture = "Lfm2MoeForCausalLM",
        .model_type = "lfm2_moe",
        .body = "Lfm2MoeModel",
        .sizes = {2048, 7168, 32, 32, 8, 0, 65536, 128000},
        .needs_layer_types = true,
        LFM2_BLOCKS,
        .experts = {.n = {"num_experts", 32},
                    .n_used = 4,
                    .width = {"moe_intermediate_size", 1792},
                    .scoring = SCORE_SIGMOID,
                    .normalizes = {"norm_topk_prob", true},
                    .choice_bias = {"use_expert_bias", true},
                    .sum_epsilon = 1e-6f,
                    .scale = {"routed_scaling_factor", 1},
                    .n_dense = {"num_dense_layers", 2}},
        .names = {LFM2_NAMES, [ROLE_ROUTER] = LAYER("feed_forward.gate.weight"),
                  [ROLE_ROUTER_BIAS] = LAYER("feed_forward.expert_bias"),
                  [ROLE_EXPERT_GATE] = LAYER("feed_forward.experts.%u.w1.weight"),
                  [ROLE_EXPERT_UP] = LAYER("feed_forward.experts.%u.w3.weight"),
                  [ROLE_EXPERT_DOWN] = LAYER("feed_forward.experts.%u.w2.weight")},
        .fused = {LFM_CONV, FUSED_EXPERTS(LAYER("feed_forward.experts.gate_up_proj"),
                                          LAYER("feed_forward.experts.down_proj"))},
    },
    {
        .architecture = "Lfm3ForCausalLM",
        .model_type = "lfm3",
        .body = "Lfm3Model",
        .prefix = "model.",
        .sizes = {2048, 7680, 24, 16, 4, 128, 128000, 128000},
        BASICS(1e-5, 1000000, 124894, 124900),
        .norm_eps_key = "norm_eps",
        .norm_eps_alias = "rms_norm_eps",
        .local_theta = {"rope_theta", 1000000},
        .needs_ropes = true,
        .refused_key = "rope_scaling",
        .tied_embeddings = 1,
        .needs_kv_heads = true,
        .state = STATE_SHORT_CONV,
        .taps = 7,
        .needs_states = true,
        .needs_layer_types = true,
        .windows = WINDOWS_BUT_EACH_N,
        .sliding_window = 256,
        .activation = ACTIVATION_SILU,
        ATTENTION_BIASES,
        .blocks = BLOCK_QK_NORM_HEADS,
        .switched = {{{"use_sandwich_norm", true}, BLOCK_NORM_OUTPUTS},
                     {{"use_attention_gate", true}, BLOCK_ATTENTION_GATE | BLOCK_GATE_HEADS}},
        .names = {LFM_NAMES, ATTENTION_NAMES,
                  QK_NORM_NAMES, [ROLE_ATTN_GATE] = LAYER("self_attn.gate_proj.weight"),
                  [ROLE_ATTN_OUT_NORM] = LAYER("post_operator_norm.weight"),
                  [ROLE_MLP_OUT_NORM] = LAYER("post_ffn_norm.weight")},
        .fused = {LFM_CONV, ALIAS(LAYER("self_attn.g_proj.weight"), ROLE_ATTN_GATE)},
    },
};

const struct family_table smol_lfm_families = FAMILY_TABLE(families);

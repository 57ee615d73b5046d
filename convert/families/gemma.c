/* Gemma: decoders with GELU, a scaled embedding, and norms to whose weights 1 is added. */
#include "convert/families/tables.h"

/* clang-format off */
#define GEMMA_NORM_NAMES                                                                           \
    [ROLE_ATTN_NORM] = LAYER("input_layernorm.weight"),                                            \
    [ROLE_ATTN_OUT_NORM] = LAYER("post_attention_layernorm.weight"),                               \
    [ROLE_MLP_NORM] = LAYER("pre_feedforward_layernorm.weight"),                                   \
    [ROLE_MLP_OUT_NORM] = LAYER("post_feedforward_layernorm.weight")
#define LAYER_INPUT_NAMES                                                                          \
    [ROLE_INPUT_EMBED] = "model.embed_tokens_per_layer.weight",                                    \
    [ROLE_INPUT_PROJECTION] = "model.per_layer_model_projection.weight",                           \
    [ROLE_INPUT_NORM] = "model.per_layer_projection_norm.weight",                                  \
    [ROLE_INPUT_GATE] = LAYER("per_layer_input_gate.weight"),                                      \
    [ROLE_INPUT_OUT] = LAYER("per_layer_projection.weight"),                                       \
    [ROLE_INPUT_OUT_NORM] = LAYER("post_per_layer_input_norm.weight"),                             \
    [ROLE_LAYER_SCALE] = LAYER("layer_scalar")
#define GEMMA4_EXPERT_NAMES                                                                        \
    [ROLE_SHARED_OUT_NORM] = LAYER("post_feedforward_layernorm_1.weight"),                         \
    [ROLE_ROUTER_NORM] = LAYER("router.scale"),                                                    \
    [ROLE_ROUTER] = LAYER("router.proj.weight"),                                                   \
    [ROLE_ROUTER_SCALE] = LAYER("router.per_expert_scale"),                                        \
    [ROLE_EXPERT_NORM] = LAYER("pre_feedforward_layernorm_2.weight"),                              \
    [ROLE_EXPERT_GATE] = LAYER("experts.%u.gate_proj.weight"),                                     \
    [ROLE_EXPERT_UP] = LAYER("experts.%u.up_proj.weight"),                                         \
    [ROLE_EXPERT_DOWN] = LAYER("experts.%u.down_proj.weight"),                                     \
    [ROLE_EXPERT_OUT_NORM] = LAYER("post_feedforward_layernorm_2.weight")
/* clang-format on */

#define GELU .activation_key = "hidden_activation", .activation = ACTIVATION_GELU_TANH
#define ONLY_CAUSAL "only causal attention is supported"
/* Gemma 2's, but for norms after attention and the MLP. */
#define GEMMA2_BLOCKS                                                                              \
    .sizes = {2304, 9216, 26, 8, 4, 256, 256000, 8192}, BASICS(1e-6, 10000, 2, 1),                 \
    .tied_embeddings = 1, .needs_kv_heads = true, GELU, ATTENTION_BIASES, .norm_offset = 1,        \
    .windows = WINDOWS_BUT_EACH_N, .sliding_window = 4096, .windows_n = {NULL, 2},                 \
    .scales_by_root = true, .query_scalar = {"query_pre_attn_scalar", 256},                        \
    .attention_softcap = {"attn_logit_softcapping", 50},                                           \
    .logit_softcap = {"final_logit_softcapping", 30}
#define GEMMA4_BLOCKS                                                                              \
    .prefix = "model.", BASICS(1e-6, 1000000, 2, 1), .tied_embeddings = 1, .needs_kv_heads = true, \
    GELU, ATTENTION_BIASES, .blocks = BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS, .varies = true,    \
    .windows = WINDOWS_BUT_EACH_N, .windows_n = {NULL, 6}, .scales_by_root = true,                 \
    .logit_softcap = {"final_logit_softcapping", 0}

static const struct family families[] = {
    {
        .architecture = "GemmaForCausalLM",
        .model_type = "gemma",
        .body = "GemmaModel",
        .prefix = "model.",
        .sizes = {3072, 24576, 28, 16, 16, 256, 256000, 8192},
        BASICS(1e-6, 10000, 2, 1),
        .tied_embeddings = 1,
        .needs_kv_heads = true,
        .activation_key = "hidden_act",
        .old_activation_key = "hidden_activation",
        .gelu_is_tanh = true,
        .activation = ACTIVATION_GELU_TANH,
        ATTENTION_BIASES,
        .norm_offset = 1,
        .scales_by_root = true,
        .demands = {{"use_bidirectional_attention", false, ONLY_CAUSAL}},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "Gemma2ForCausalLM",
        .model_type = "gemma2",
        GEMMA2_BLOCKS,
        .blocks = BLOCK_NORM_OUTPUTS,
        .demands = {{"use_bidirectional_attention", false, ONLY_CAUSAL}},
        .names = {SHARED_NAMES, GEMMA_NORM_NAMES},
    },
    {
        .architecture = "VaultGemmaForCausalLM",
        .model_type = "vaultgemma",
        .body = "VaultGemmaModel",
        .prefix = "model.",
        GEMMA2_BLOCKS,
        .names = {SHARED_NAMES, [ROLE_ATTN_NORM] = LAYER("input_layernorm.weight"),
                  [ROLE_MLP_NORM] = LAYER("pre_feedforward_layernorm.weight")},
    },
    {
        /* transformers has the key attn_logit_softcapping here too, but does not use it */
        .architecture = "Gemma3ForCausalLM",
        .model_type = "gemma3_text",
        .body = "Gemma3TextModel",
        .prefix = "model.",
        .encodes_key = "use_bidirectional_attention",
        .sizes = {2304, 9216, 26, 8, 4, 256, 262208, 131072},
        BASICS(1e-6, 1000000, 2, 1),
        .local_theta = {"rope_local_base_freq", 10000},
        .tied_embeddings = 1,
        .needs_kv_heads = true,
        GELU,
        ATTENTION_BIASES,
        .blocks = BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS,
        .norm_offset = 1,
        .windows = WINDOWS_BUT_EACH_N,
        .sliding_window = 4096,
        .windows_n = {"sliding_window_pattern", 6},
        .scales_by_root = true,
        .query_scalar = {"query_pre_attn_scalar", 256},
        .logit_softcap = {"final_logit_softcapping", 0},
        .names = {SHARED_NAMES, GEMMA_NORM_NAMES, QK_NORM_NAMES},
    },
    {
        .architecture = "Gemma4ForCausalLM",
        .model_type = "gemma4_text",
        .body = "Gemma4TextModel",
        GEMMA4_BLOCKS,
        .sizes = {2304, 9216, 30, 8, 4, 256, 262144, 131072},
        .sliding_window = 512,
        .experts = {.n = {"num_experts", 128},
                    .enabled_key = "enable_moe_block",
                    .used_key = "top_k_experts",
                    .width = {"moe_intermediate_size", 0},
                    .has_own_norms = true,
                    .scoring = SCORE_SOFTMAX,
                    .normalizes = {NULL, true}},
        .names = {SHARED_NAMES, GEMMA_NORM_NAMES, QK_NORM_NAMES, LAYER_INPUT_NAMES,
                  GEMMA4_EXPERT_NAMES},
        .fused = {FUSED_EXPERTS(LAYER("experts.gate_up_proj"), LAYER("experts.down_proj"))},
    },
    {
        /* Gemma 4 without experts and inputs of layers */
        .architecture = "Gemma4UnifiedForCausalLM",
        .model_type = "gemma4_unified_text",
        .body = "Gemma4UnifiedTextModel",
        GEMMA4_BLOCKS,
        .sizes = {2304, 9216, 30, 8, 4, 256, 262144, 262144},
        .sliding_window = 1024,
        .names = {SHARED_NAMES, GEMMA_NORM_NAMES,
                  QK_NORM_NAMES, [ROLE_LAYER_SCALE] = LAYER("layer_scalar")},
    },
};

const struct family_table smol_gemma_families = FAMILY_TABLE(families);

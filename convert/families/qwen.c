/* Qwen: dense decoders, those with experts, hybrids with gated DeltaNet layers, and the text models
 * of those that read pictures. */
#include "convert/families/tables.h"

/* Common to Qwen 2 and the text models of Qwen 2-VL and 2.5-VL, which have other defaults. */
#define QWEN2_BLOCKS(n_full)                                                                       \
    SILU, .prefix = "model.", .attention_bias = BIAS_QKV, .attention_biased = {NULL, true},        \
          .windows = WINDOWS_FROM_N, .sliding_window = 4096,                                       \
          .windows_n = {"max_window_layers", n_full}, .names = {SHARED_NAMES, LLAMA_NORM_NAMES}
#define QWEN2_VL                                                                                   \
    .sizes = {8192, 29568, 80, 64, 8, 0, 152064, 32768}, .size_keys = {[FAMILY_HEAD_DIM] = ""},    \
    BASICS(1e-5, 1000000, 151643, 151645), QWEN2_BLOCKS(80), .has_sections = true,                 \
    .plain_rope = "mrope"

/* Common to Qwen 3.5 and Qwen3-Next: gated DeltaNet layers, and attention with a gate. */
#define DELTA_HYBRID                                                                               \
    BASICS(1e-6, 10000, NO_TOKEN, NO_TOKEN),                                                       \
        .needs_kv_heads = true, SILU, ATTENTION_BIASES, .state = STATE_DELTA,                      \
        .needs_states = true, .blocks = BLOCK_QK_NORM_HEADS | BLOCK_ATTENTION_GATE,                \
        .norm_offset = 1, .rotates_parts = true, .rotary_factor = 0.25
/* clang-format off */
#define DELTA(name) (LAYERS "linear_attn." name)
#define DELTA_NAMES                                                                                \
    [ROLE_ATTN_GATE] = LAYER("self_attn.gate.weight"),                                             \
    [ROLE_ATTN_GATE_BIAS] = LAYER("self_attn.gate.bias"),                                          \
    [ROLE_MIXER_GATE] = DELTA("in_proj_z.weight"),                                                 \
    [ROLE_MIXER_IN] = DELTA("in_proj_qkv.weight"),                                                 \
    [ROLE_MIXER_STEP] = DELTA("in_proj_a.weight"),                                                 \
    [ROLE_MIXER_RATE] = DELTA("in_proj_b.weight"),                                                 \
    [ROLE_MIXER_CONV] = DELTA("taps.weight"),                                                      \
    [ROLE_MIXER_STEP_BIAS] = DELTA("dt_bias"),                                                     \
    [ROLE_MIXER_DECAY] = DELTA("A_log"),                                                           \
    [ROLE_MIXER_NORM] = DELTA("norm.weight"),                                                      \
    [ROLE_MIXER_OUT] = DELTA("out_proj.weight")
#define DELTA_FUSED                                                                                \
    FUSED(LAYER("self_attn.q_proj.weight"), FUSION_HEADS, 2, ROLE_ATTN_Q, ROLE_ATTN_GATE),         \
    FUSED(LAYER("self_attn.q_proj.bias"), FUSION_HEADS, 2, ROLE_ATTN_Q_BIAS, ROLE_ATTN_GATE_BIAS), \
    FUSED(DELTA("conv1d.weight"), FUSION_CONV, 1, ROLE_MIXER_CONV)
/* Their experts, and the MLP beside them, which has names of its own. */
#define GATED_MOE_NAMES [ROLE_SHARED_GATE] = MOE("shared_expert_gate.weight"), MOE_NAMES
#define GATED_MOE_FUSED                                                                            \
    MOE_FUSED,                                                                                     \
    ALIAS(MOE("shared_expert.gate_proj.weight"), ROLE_MLP_GATE),                                   \
    ALIAS(MOE("shared_expert.up_proj.weight"), ROLE_MLP_UP),                                       \
    ALIAS(MOE("shared_expert.down_proj.weight"), ROLE_MLP_DOWN)
/* clang-format on */

static const struct family families[] = {
    {
        .architecture = "Qwen2ForCausalLM",
        .model_type = "qwen2",
        .body = "Qwen2Model",
        .sizes = {4096, 22016, 32, 32, 32, 0, 151936, 32768},
        BASICS(1e-6, 10000, NO_TOKEN, NO_TOKEN),
        QWEN2_BLOCKS(28),
    },
    {.model_type = "qwen2_vl_text", QWEN2_VL},
    {.model_type = "qwen2_5_vl_text", QWEN2_VL},
    {
        .architecture = "Qwen3ForCausalLM",
        .model_type = "qwen3",
        .body = "Qwen3Model",
        .scorer = "Qwen3ForSequenceClassification",
        .prefix = "model.",
        .sizes = {4096, 22016, 32, 32, 32, 128, 151936, 32768},
        BASICS(1e-6, 10000, NO_TOKEN, NO_TOKEN),
        SILU,
        ATTENTION_BIASES,
        .blocks = BLOCK_QK_NORM_HEADS,
        .windows = WINDOWS_FROM_N,
        .sliding_window = 4096,
        .windows_n = {"max_window_layers", 28},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, QK_NORM_NAMES},
    },
    {
        .model_type = "qwen3_vl_text",
        .prefix = "model.",
        .sizes = {4096, 22016, 32, 32, 32, 128, 151936, 128000},
        BASICS(1e-6, 500000, NO_TOKEN, NO_TOKEN),
        SILU,
        ATTENTION_BIASES,
        .blocks = BLOCK_QK_NORM_HEADS,
        .has_sections = true,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, QK_NORM_NAMES},
    },
    {
        .architecture = "Qwen3MoeForCausalLM",
        .model_type = "qwen3_moe",
        .body = "Qwen3MoeModel",
        .prefix = "model.",
        .sizes = {2048, 6144, 24, 32, 4, 0, 151936, 32768},
        BASICS(1e-6, 10000, NO_TOKEN, NO_TOKEN),
        .needs_kv_heads = true,
        SILU,
        ATTENTION_BIASES,
        .blocks = BLOCK_QK_NORM_HEADS,
        .windows = WINDOWS_ALL_IF_USED,
        .sliding_window = 4096,
        .experts = {.n = {"num_experts", 128},
                    .n_alias = "num_local_experts",
                    .n_used = 8,
                    .width = {"moe_intermediate_size", 768},
                    .normalizes = {"norm_topk_prob", false},
                    .has_dense = true},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, QK_NORM_NAMES, MOE_NAMES},
        .fused = {MOE_FUSED},
    },
    {
        .architecture = "Qwen3_5ForCausalLM",
        .model_type = "qwen3_5_text",
        .body = "Qwen3_5TextModel",
        .prefix = "model.",
        .predicts_further = true,
        .sizes = {4096, 12288, 32, 16, 4, 256, 248320, 32768},
        DELTA_HYBRID,
        .has_sections = true,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, QK_NORM_NAMES, DELTA_NAMES},
        .fused = {DELTA_FUSED},
    },
    {
        .architecture = "Qwen3_5MoeForCausalLM",
        .model_type = "qwen3_5_moe_text",
        .body = "Qwen3_5MoeTextModel",
        .prefix = "model.",
        .predicts_further = true,
        .sizes = {2048, 512, 40, 16, 2, 256, 248320, 32768},
        .size_keys = {NULL, ""},
        .unused_size = "intermediate_size",
        DELTA_HYBRID,
        .has_sections = true,
        .experts = {.n = {"num_experts", 256},
                    .n_used = 8,
                    .width = {"moe_intermediate_size", 512},
                    .shared_width = {"shared_expert_intermediate_size", 512},
                    .gates_shared = true,
                    .normalizes = {NULL, true}},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, QK_NORM_NAMES, DELTA_NAMES, GATED_MOE_NAMES},
        .fused = {DELTA_FUSED, GATED_MOE_FUSED},
    },
    {
        .architecture = "Qwen3NextForCausalLM",
        .model_type = "qwen3_next",
        .body = "Qwen3NextModel",
        .prefix = "model.",
        .predicts_further = true,
        .sizes = {2048, 5632, 48, 16, 2, 256, 151936, 32768},
        DELTA_HYBRID,
        .experts = {.n = {"num_experts", 512},
                    .n_used = 10,
                    .width = {"moe_intermediate_size", 512},
                    .shared_width = {"shared_expert_intermediate_size", 512},
                    .gates_shared = true,
                    .normalizes = {"norm_topk_prob", true},
                    .has_dense = true},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, QK_NORM_NAMES, DELTA_NAMES, GATED_MOE_NAMES},
        .fused = {DELTA_FUSED,
                  FUSED(DELTA("in_proj_qkvz.weight"), FUSION_GROUPS, 2, ROLE_MIXER_IN,
                        ROLE_MIXER_GATE),
                  FUSED(DELTA("in_proj_ba.weight"), FUSION_GROUPS, 2, ROLE_MIXER_RATE,
                        ROLE_MIXER_STEP),
                  GATED_MOE_FUSED},
    },
};

const struct family_table smol_qwen_families = FAMILY_TABLE(families);

/* The table of families, see family.h. Defaults are those of transformers 5.23. Earlier versions
 * have the same defaults, some under other keys of config.json.
 *
 * To add a family, copy the most similar entry. Take the defaults from the configuration class in
 * transformers, and the names and features from its modeling file. Add the family to families.py
 * and features.py of tests/oracle. If the fields of an entry cannot describe it, it needs a new
 * part of the block: see docs/families.md. */
#include "convert/checkpoint/family.h"
#include "format/model.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
/* A weight and its bias, by the name of their module: in .names, and by themselves. */
#define PAIR(role, name) [ROLE_##role] = (name ".weight"), [ROLE_##role##_BIAS] = (name ".bias")
#define BOTH(name) {(name ".weight"), (name ".bias")}
#define LAYERS "model.layers.%u."
#define LAYER(name) (LAYERS name)

/* Tensor names that most families share, without those of the MLP, and these. */
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

/* Tensor names of norms, by their places in the block. */
#define LLAMA_NORM_NAMES                                                                           \
    [ROLE_ATTN_NORM] = LAYER("input_layernorm.weight"),                                            \
    [ROLE_MLP_NORM] = LAYER("post_attention_layernorm.weight")
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
#define OLMO2_NORM_NAMES                                                                           \
    [ROLE_ATTN_OUT_NORM] = LAYER("post_attention_layernorm.weight"),                               \
    [ROLE_MLP_OUT_NORM] = LAYER("post_feedforward_layernorm.weight")
#define QK_NORM_NAMES                                                                              \
    [ROLE_ATTN_Q_NORM] = LAYER("self_attn.q_norm.weight"),                                         \
    [ROLE_ATTN_K_NORM] = LAYER("self_attn.k_norm.weight")
#define LLAMA_NORM_BIAS_NAMES                                                                      \
    [ROLE_ATTN_NORM_BIAS] = LAYER("input_layernorm.bias"),                                         \
    [ROLE_MLP_NORM_BIAS] = LAYER("post_attention_layernorm.bias"),                                 \
    [ROLE_FINAL_NORM_BIAS] = "model.norm.bias"
/* Parts of a fused tensor, which the checkpoint does not have as separate tensors. */
#define FUSED(name, fusion, n, ...) {(name), {__VA_ARGS__}, n, fusion, false, false}
#define QKV ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V
#define QKV_BIASES ROLE_ATTN_Q_BIAS, ROLE_ATTN_K_BIAS, ROLE_ATTN_V_BIAS
#define GATE_UP ROLE_MLP_GATE, ROLE_MLP_UP
/* Experts: as separate tensors, or those of a layer in one. Their names after "mlp.". */
#define MOE(name) (LAYERS "mlp." name)
#define MOE_NAMES                                                                                  \
    [ROLE_ROUTER] = MOE("gate.weight"),                                                            \
    [ROLE_EXPERT_GATE] = MOE("experts.%u.gate_proj.weight"),                                       \
    [ROLE_EXPERT_UP] = MOE("experts.%u.up_proj.weight"),                                           \
    [ROLE_EXPERT_DOWN] = MOE("experts.%u.down_proj.weight")
#define FUSED_EXPERTS(gate_up, down)                                                               \
    {gate_up, {ROLE_EXPERT_GATE, ROLE_EXPERT_UP}, 2, FUSION_STACKED, true, true},                  \
    {down, {ROLE_EXPERT_DOWN}, 1, FUSION_STACKED, true, true}
/* Granite's have two sets of names, that of published checkpoints and transformers' own. */
#define GRANITE_MOE(name) (LAYERS "block_sparse_moe." name)
#define GRANITE_MOE_NAMES                                                                          \
    [ROLE_ROUTER] = GRANITE_MOE("router.layer.weight"),                                            \
    [ROLE_EXPERT_GATE] = GRANITE_MOE("experts.%u.gate_proj.weight"),                               \
    [ROLE_EXPERT_UP] = GRANITE_MOE("experts.%u.up_proj.weight"),                                   \
    [ROLE_EXPERT_DOWN] = GRANITE_MOE("experts.%u.down_proj.weight"),                               \
    [ROLE_MLP_GATE] = LAYER("shared_mlp.gate_proj.weight"),                                        \
    [ROLE_MLP_UP] = LAYER("shared_mlp.up_proj.weight"),                                            \
    [ROLE_MLP_DOWN] = LAYER("shared_mlp.output_linear.weight")
#define GRANITE_MOE_FUSED                                                                          \
    FUSED_EXPERTS(GRANITE_MOE("input_linear.weight"), GRANITE_MOE("output_linear.weight")),        \
    FUSED_EXPERTS(GRANITE_MOE("experts.gate_up_proj"), GRANITE_MOE("experts.down_proj")),          \
    {GRANITE_MOE("router.weight"), {ROLE_ROUTER}, 1, FUSION_STACKED, false, true},                 \
    FUSED(LAYER("shared_mlp.input_linear.weight"), FUSION_STACKED, 2, GATE_UP)
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
/* Attention to latent vectors. */
#define LATENT_TENSORS                                                                             \
    .names = {[ROLE_EMBED] = "model.embed_tokens.weight",                                          \
              [ROLE_ATTN_Q_DOWN] = LAYER("self_attn.q_a_proj.weight"),                             \
              [ROLE_ATTN_Q_DOWN_NORM] = LAYER("self_attn.q_a_layernorm.weight"),                   \
              [ROLE_ATTN_Q] = LAYER("self_attn.q_b_proj.weight"),                                  \
              [ROLE_ATTN_K] = LAYER("self_attn.kv_a_proj_with_mqa.weight"),                        \
              [ROLE_ATTN_LATENT_NORM] = LAYER("self_attn.kv_a_layernorm.weight"),                  \
              [ROLE_ATTN_K_UP] = LAYER("self_attn.k_b_proj.weight"),                               \
              [ROLE_ATTN_V_UP] = LAYER("self_attn.v_b_proj.weight"),                               \
              [ROLE_ATTN_O] = LAYER("self_attn.o_proj.weight"),                                    \
              MLP_NAMES,                                                                           \
              LLAMA_NORM_NAMES,                                                                    \
              [ROLE_FINAL_NORM] = "model.norm.weight",                                             \
              [ROLE_OUTPUT] = "lm_head.weight"},                                                   \
    .fused = {FUSED(LAYER("self_attn.kv_b_proj.weight"), FUSION_LATENT, 2, ROLE_ATTN_V_UP,         \
                    ROLE_ATTN_K_UP),                                                               \
              {LAYER("self_attn.q_proj.weight"), {ROLE_ATTN_Q}, 1, FUSION_STACKED, false, true}}
/* LFM's, without those of attention and of experts. */
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
/* Qwen's layers of gated DeltaNet, and gated attention. */
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
/* Experts of these, and the MLP beside them, which has names of its own. */
#define GATED_MOE_NAMES [ROLE_SHARED_GATE] = MOE("shared_expert_gate.weight"), MOE_NAMES
#define GATED_MOE_FUSED                                                                            \
    FUSED_EXPERTS(MOE("experts.gate_up_proj"), MOE("experts.down_proj")),                          \
    {MOE("shared_expert.gate_proj.weight"), {ROLE_MLP_GATE}, 1, FUSION_STACKED, false, true},      \
    {MOE("shared_expert.up_proj.weight"), {ROLE_MLP_UP}, 1, FUSION_STACKED, false, true},          \
    {MOE("shared_expert.down_proj.weight"), {ROLE_MLP_DOWN}, 1, FUSION_STACKED, false, true}
#define SINGLE(name) (LAYERS "mixer." name)
#define NEOX "gpt_neox.layers.%u."
#define GPT2 "transformer.h.%u."
/* BERT's, of which RoBERTa's begin differently. */
#define BERT(prefix) prefix "encoder.layer.%u."
#define BERT_TENSORS(before)                                                                       \
    .prefix = (before),                                                                            \
    .embedding_norm = BOTH(before "embeddings.LayerNorm"),                                         \
    .layer_norm = BOTH(BERT(before) "output.LayerNorm"),                                           \
    .types = (before "embeddings.token_type_embeddings.weight"),                                   \
    .names = {[ROLE_EMBED] = (before "embeddings.word_embeddings.weight"),                         \
              [ROLE_POSITIONS] = (before "embeddings.position_embeddings.weight"),                 \
              PAIR(ATTN_NORM, BERT(before) "norm"),                                                \
              PAIR(ATTN_Q, BERT(before) "attention.self.query"),                                   \
              PAIR(ATTN_K, BERT(before) "attention.self.key"),                                     \
              PAIR(ATTN_V, BERT(before) "attention.self.value"),                                   \
              PAIR(ATTN_O, BERT(before) "attention.output.dense"),                                 \
              PAIR(MLP_NORM, BERT(before) "attention.output.LayerNorm"),                           \
              PAIR(MLP_UP, BERT(before) "intermediate.dense"),                                     \
              PAIR(MLP_DOWN, BERT(before) "output.dense"),                                         \
              PAIR(FINAL_NORM, before "encoder.norm")}
#define DISTILBERT "distilbert.transformer.layer.%u."
#define MPNET "mpnet.encoder.layer.%u."
#define NOMIC "nomic_bert.encoder.layers.%u."
#define GTE "gte.encoder.layer.%u."
/* clang-format on */

/* The epsilon of norms, the theta of the rotation, and the tokens before and after a text. */
#define BASICS(eps, theta, bos, eos)                                                               \
    .norm_eps = (eps), .rope_theta = (theta), .bos_id = (bos), .eos_id = (eos)

#define SILU .activation_key = "hidden_act", .activation = ACTIVATION_SILU
#define GELU .activation_key = "hidden_activation", .activation = ACTIVATION_GELU_TANH

#define ATTENTION_BIASES .attention_bias = BIAS_QKVO, .attention_biased = {"attention_bias", false}
#define GRANITE_SCALES                                                                             \
    .embedding_scale = {"embedding_multiplier", 1},                                                \
    .attention_scale = {"attention_multiplier", 1}, .residual_scale = {"residual_multiplier", 1},  \
    .logit_divisor = {"logits_scaling", 1}
/* Granite with windows: sinks of attention, and a theta for each layer. */
#define GRANITE_SWA                                                                                \
    .blocks = BLOCK_SINKS, .has_layer_thetas = true, .windows = WINDOWS_AFTER_EACH_N,              \
    .sliding_window = 128, .windows_n = {NULL, 4}
#define SINK_NAMES [ROLE_ATTN_SINKS] = LAYER("self_attn.sinks")
#define GRANITE_MOE_BLOCKS                                                                         \
    .sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048}, BASICS(1e-6, 10000, 1, 2), SILU,            \
    ATTENTION_BIASES, GRANITE_SCALES
#define GRANITE_MOE_EXPERTS                                                                        \
    .n = {"num_local_experts", 8}, .n_used = 2, .scoring = SCORE_SOFTMAX_CHOSEN
/* Common to Qwen 2 and the text models of Qwen 2-VL and 2.5-VL, which have other defaults. */
#define QWEN2_BLOCKS(n_full)                                                                       \
    SILU, .prefix = "model.", .attention_bias = BIAS_QKV, .attention_biased = {NULL, true},        \
          .windows = WINDOWS_FROM_N, .sliding_window = 4096,                                       \
          .windows_n = {"max_window_layers", n_full}, .names = {SHARED_NAMES, LLAMA_NORM_NAMES}
#define QWEN2_VL                                                                                   \
    .sizes = {8192, 29568, 80, 64, 8, 0, 152064, 32768}, .size_keys = {[FAMILY_HEAD_DIM] = ""},    \
    BASICS(1e-5, 1000000, 151643, 151645), QWEN2_BLOCKS(80), .has_sections = true,                 \
    .plain_rope = "mrope"
#define ONLY_CAUSAL "only causal attention is supported"
#define NO_HEAD_NORMS "norms of queries and keys are not supported in this family"

/* Gemma 2's, but for norms after attention and the MLP. */
#define GEMMA2_BLOCKS                                                                              \
    .sizes = {2304, 9216, 26, 8, 4, 256, 256000, 8192}, BASICS(1e-6, 10000, 2, 1),                 \
    .tied_embeddings = 1, .needs_kv_heads = true, GELU, ATTENTION_BIASES, .norm_offset = 1,        \
    .windows = WINDOWS_BUT_EACH_N, .sliding_window = 4096, .windows_n = {NULL, 2},                 \
    .scales_by_root = true, .query_scalar = {"query_pre_attn_scalar", 256},                        \
    .attention_softcap = {"attn_logit_softcapping", 50},                                           \
    .logit_softcap = {"final_logit_softcapping", 30}

/* Common to Qwen 3.5 and Qwen3-Next: gated DeltaNet layers, and attention with a gate. */
#define DELTA_HYBRID                                                                               \
    BASICS(1e-6, 10000, NO_TOKEN, NO_TOKEN),                                                       \
        .needs_kv_heads = true, SILU, ATTENTION_BIASES, .state = STATE_DELTA,                      \
        .needs_states = true, .blocks = BLOCK_QK_NORM_HEADS | BLOCK_ATTENTION_GATE,                \
        .norm_offset = 1, .rotates_parts = true, .rotary_factor = 0.25

/* Encoders with learned positions, whose norms are after what they add to. */
#define ENCODER_BLOCKS(more)                                                                       \
    .norm_eps = 1e-12, .bos_id = NO_TOKEN, .eos_id = NO_TOKEN, .tied_embeddings = 1,               \
    .activation = ACTIVATION_GELU, .attention_bias = BIAS_QKVO, .attention_biased = {NULL, true},  \
    .mlp_biased = {NULL, true}, .encodes = true,                                                   \
    .blocks = BLOCK_LAYER_NORM | BLOCK_NO_GATE | BLOCK_POSITIONS | BLOCK_NORM_STREAM | (more),     \
    .demands = {{"is_decoder", false, "a decoder of this family is not supported"},                \
                {"add_cross_attention", false, "cross-attention is not supported"}}
#define BERT_BLOCKS(more)                                                                          \
    ENCODER_BLOCKS(more), .size_keys = {[FAMILY_KV_HEADS] = "", [FAMILY_HEAD_DIM] = ""},           \
                          .norm_eps_key = "layer_norm_eps", .activation_key = "hidden_act",        \
                          .score_activation = DENSE_TANH
#define ROBERTA                                                                                    \
    BERT_BLOCKS(0), .pad_id = {"pad_token_id", 1}, .heads = {"lm_head."},                          \
                    .score_layers = {"classifier.dense", "classifier.out_proj"},                   \
                    BERT_TENSORS("roberta.")

/* Encoders like these, whose positions rotate queries and keys, and whose MLP has a gate. */
#define ROTATING_ENCODER                                                                           \
    .size_keys = {[FAMILY_KV_HEADS] = ""}, .norm_eps_key = "layer_norm_eps", .tied_embeddings = 1, \
    .encodes = true, .blocks = BLOCK_LAYER_NORM | BLOCK_NORM_STREAM,                               \
    .score_activation = DENSE_TANH

static const struct family families[] = {
    {
        .architecture = "LlamaForCausalLM",
        .model_type = "llama",
        .body = "LlamaModel",
        .prefix = "model.",
        .sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048},
        BASICS(1e-6, 10000, 1, 2),
        SILU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "MistralForCausalLM",
        .model_type = "mistral",
        .body = "MistralModel",
        .prefix = "model.",
        .sizes = {4096, 14336, 32, 32, 8, 0, 32000, 131072},
        BASICS(1e-6, 10000, 1, 2),
        .needs_kv_heads = true,
        SILU,
        .windows = WINDOWS_ALL,
        .sliding_window = 4096,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
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
        .architecture = "SmolLM3ForCausalLM",
        .model_type = "smollm3",
        .sizes = {2048, 11008, 36, 16, 4, 0, 128256, 32768},
        BASICS(1e-6, 2000000, 128000, 128001),
        .tied_embeddings = 1,
        SILU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        .has_no_rope = true,
        .windows = WINDOWS_NO_ROPE,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "GraniteForCausalLM",
        .model_type = "granite",
        .sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048},
        BASICS(1e-6, 10000, 1, 2),
        SILU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        GRANITE_SCALES,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "GraniteSWAForCausalLM",
        .model_type = "granite_swa",
        .body = "GraniteSWAModel",
        .prefix = "model.",
        .sizes = {2560, 8192, 24, 20, 4, 0, 100352, 8192},
        BASICS(1e-5, 10000, 100257, 100257),
        .tied_embeddings = 1,
        SILU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        GRANITE_SCALES,
        GRANITE_SWA,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, SINK_NAMES},
    },
    {
        .model_type = "granite4_vision_text",
        .prefix = "model.",
        .sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048},
        BASICS(1e-6, 10000, 1, 2),
        SILU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        GRANITE_SCALES,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .model_type = "granite_docling_text",
        .prefix = "model.",
        .sizes = {1024, 2048, 28, 16, 4, 0, 133800, 32768},
        BASICS(1e-5, 10000, 100257, 100257),
        .tied_embeddings = 1,
        SILU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        .embedding_scale = {"embedding_multiplier", 12},
        .attention_scale = {"attention_multiplier", 0.015625},
        .residual_scale = {"residual_multiplier", 0.263},
        .logit_divisor = {"logits_scaling", 4},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "Phi3ForCausalLM",
        .model_type = "phi3",
        .sizes = {3072, 8192, 32, 32, 0, 0, 32064, 4096},
        BASICS(1e-5, 10000, 1, 32000),
        SILU,
        .rotates_parts = true,
        .has_phi3_rope = true,
        .original_context = 4096,
        .windows = WINDOWS_ALL,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
        .fused = {FUSED(LAYER("self_attn.qkv_proj.weight"), FUSION_STACKED, 3, QKV),
                  FUSED(LAYER("mlp.gate_up_proj.weight"), FUSION_STACKED, 2, GATE_UP)},
    },
    {
        .architecture = "Olmo2ForCausalLM",
        .model_type = "olmo2",
        .sizes = {4096, 11008, 32, 32, 0, 0, 50304, 2048},
        BASICS(1e-5, 10000, NO_TOKEN, 50279),
        SILU,
        ATTENTION_BIASES,
        .blocks = BLOCK_NO_INPUT_NORMS | BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_ALL,
        .names = {SHARED_NAMES, OLMO2_NORM_NAMES, QK_NORM_NAMES},
    },
    {
        .architecture = "Olmo3ForCausalLM",
        .model_type = "olmo3",
        .sizes = {4096, 11008, 32, 32, 0, 0, 50304, 2048},
        BASICS(1e-5, 500000, NO_TOKEN, 50279),
        .local_theta = {"rope_theta", 500000},
        SILU,
        ATTENTION_BIASES,
        .blocks = BLOCK_NO_INPUT_NORMS | BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_ALL,
        .windows = WINDOWS_BUT_EACH_N,
        .sliding_window = 4096,
        .windows_n = {NULL, 4},
        .names = {SHARED_NAMES, OLMO2_NORM_NAMES, QK_NORM_NAMES},
    },
    {
        .architecture = "Ministral3ForCausalLM",
        .model_type = "ministral3",
        .prefix = "model.",
        .sizes = {4096, 14336, 34, 32, 8, 128, 131072, 262144},
        BASICS(1e-5, 1000000, 1, 2),
        .needs_kv_heads = true,
        SILU,
        .windows = WINDOWS_ALL,
        .grows_queries = true,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "Ernie4_5ForCausalLM",
        .model_type = "ernie4_5",
        .sizes = {1024, 3072, 18, 16, 2, 128, 103424, 131072},
        BASICS(1e-5, 500000, 1, 2),
        .tied_embeddings = 1,
        SILU,
        .attention_bias = BIAS_QKVO,
        .attention_biased = {"use_bias", false},
        .mlp_biased = {"use_bias", false},
        .blocks = BLOCK_ROTATE_NEIGHBOURS,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "HeliumForCausalLM",
        .model_type = "helium",
        .body = "HeliumModel",
        .prefix = "model.",
        .sizes = {2560, 7040, 24, 20, 20, 128, 48000, 4096},
        BASICS(1e-8, 100000, 1, 2),
        .needs_kv_heads = true,
        SILU,
        .attention_bias = BIAS_QKV,
        .attention_biased = {"attention_bias", false},
        .mlp_biased = {"mlp_bias", false},
        .blocks = BLOCK_ROTATE_NEIGHBOURS,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "Exaone4ForCausalLM",
        .model_type = "exaone4",
        .prefix = "model.",
        .sizes = {4096, 16384, 32, 32, 32, 0, 102400, 2048},
        BASICS(1e-5, 10000, 0, 2),
        .needs_kv_heads = true,
        SILU,
        .blocks = BLOCK_NO_INPUT_NORMS | BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS,
        .rotates_windowed = true,
        .windows = WINDOWS_BUT_EACH_N,
        .sliding_window = 4096,
        .windows_n = {"sliding_window_pattern", 4},
        .names = {SHARED_NAMES, OLMO2_NORM_NAMES, QK_NORM_NAMES},
    },
    {
        .architecture = "ArceeForCausalLM",
        .model_type = "arcee",
        .body = "ArceeModel",
        .prefix = "model.",
        .sizes = {2560, 18432, 32, 32, 0, 0, 32000, 4096},
        BASICS(1e-5, 10000, 128000, 128001),
        .activation_key = "hidden_act",
        .activation = ACTIVATION_RELU_SQUARED,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        .blocks = BLOCK_NO_GATE,
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, PAIR(MLP_UP, LAYERS "mlp.up_proj"),
                  PAIR(MLP_DOWN, LAYERS "mlp.down_proj")},
    },
    {
        .architecture = "HunYuanDenseV1ForCausalLM",
        .model_type = "hunyuan_v1_dense",
        .sizes = {4096, 11008, 32, 32, 0, 0, 290943, 2048},
        BASICS(1e-5, 10000, 1, 2),
        .needs_head_dim = true,
        SILU,
        ATTENTION_BIASES,
        .blocks = BLOCK_QK_NORM_HEADS | BLOCK_QK_NORM_LATE,
        .has_rope_alpha = true,
        .names = {SHARED_NAMES,
                  LLAMA_NORM_NAMES, [ROLE_ATTN_Q_NORM] = LAYER("self_attn.query_layernorm.weight"),
                  [ROLE_ATTN_K_NORM] = LAYER("self_attn.key_layernorm.weight")},
    },
    {
        /* not in transformers: its own code computes what GraniteForCausalLM does */
        .architecture = "MiniCPMForCausalLM",
        .model_type = "minicpm",
        .sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048},
        BASICS(1e-6, 10000, 1, 2),
        .tied_embeddings = 1,
        SILU,
        ATTENTION_BIASES,
        .embedding_scale = {"scale_emb", 1},
        .depth_scale = {"scale_depth", 1},
        .base_width = {"dim_model_base", 1},
        .refused_key = "sparse_config",
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "MiniCPM3ForCausalLM",
        .model_type = "minicpm3",
        .body = "MiniCPM3Model",
        .prefix = "model.",
        .sizes = {2560, 6400, 62, 40, 40, 32, 73448, 32768},
        .size_keys = {[FAMILY_HEAD_DIM] = "qk_rope_head_dim"},
        .unused_size = "head_dim",
        BASICS(1e-5, 10000, 1, 2),
        .tied_embeddings = 1,
        SILU,
        .mlp_biased = {"mlp_bias", false},
        .latent = {256, 768, 64, 0},
        .embedding_scale = {"scale_emb", 12},
        .depth_scale = {"scale_depth", 1.4},
        .base_width = {"dim_model_base", 256},
        .demands = {{"attention_bias", false, "biases of attention are not supported here"}},
        LATENT_TENSORS,
    },
    {
        .architecture = "YoutuForCausalLM",
        .model_type = "youtu",
        .body = "YoutuModel",
        .prefix = "model.",
        .sizes = {2048, 6144, 32, 16, 16, 64, 128256, 131072},
        .size_keys = {[FAMILY_HEAD_DIM] = "qk_rope_head_dim"},
        .unused_size = "head_dim",
        BASICS(1e-6, 10000, 128000, 128001),
        .tied_embeddings = 1,
        .needs_kv_heads = true,
        SILU,
        .latent = {512, 1536, 128, 128},
        .switched = {{{"rope_interleave", true}, BLOCK_ROTATE_NEIGHBOURS}},
        .demands = {{"attention_bias", false, "biases of attention are not supported here"}},
        LATENT_TENSORS,
    },
    {
        .architecture = "Lfm2ForCausalLM",
        .model_type = "lfm2",
        .body = "Lfm2Model",
        .prefix = "model.",
        .sizes = {2560, 12288, 32, 32, 8, 0, 65536, 128000},
        BASICS(1e-5, 1000000, 1, 2),
        .norm_eps_key = "norm_eps",
        .tied_embeddings = 1,
        .tied_key = "tie_embedding",
        .needs_kv_heads = true,
        .state = STATE_SHORT_CONV,
        .taps = 3,
        .adjusts_mlp = true,
        .activation = ACTIVATION_SILU,
        .blocks = BLOCK_QK_NORM_HEADS,
        .names = {LFM2_NAMES},
        .fused = {LFM_CONV},
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
        .fused =
            {LFM_CONV,
             {LAYER("self_attn.g_proj.weight"), {ROLE_ATTN_GATE}, 1, FUSION_STACKED, false, true}},
    },
    {
        .architecture = "Lfm2MoeForCausalLM",
        .model_type = "lfm2_moe",
        .body = "Lfm2MoeModel",
        .prefix = "model.",
        .sizes = {2048, 7168, 32, 32, 8, 0, 65536, 128000},
        BASICS(1e-5, 1000000, 1, 2),
        .norm_eps_key = "norm_eps",
        .tied_embeddings = 1,
        .tied_key = "tie_embedding",
        .needs_kv_heads = true,
        .state = STATE_SHORT_CONV,
        .taps = 3,
        .needs_layer_types = true,
        .activation = ACTIVATION_SILU,
        .blocks = BLOCK_QK_NORM_HEADS,
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
        .architecture = "GraniteMoeHybridForCausalLM",
        .model_type = "granitemoehybrid",
        .body = "GraniteMoeHybridModel",
        .prefix = "model.",
        .sizes = {4096, 1024, 32, 32, 0, 0, 32000, 2048},
        .size_keys = {NULL, "shared_intermediate_size"},
        .unused_size = "intermediate_size",
        BASICS(1e-6, 10000, 1, 2),
        SILU,
        ATTENTION_BIASES,
        .state = STATE_MAMBA2,
        .rotates_key = "position_embedding_type",
        GRANITE_SCALES,
        .experts = {GRANITE_MOE_EXPERTS, .may_be_none = true, .width = {"intermediate_size", 11008},
                    .shared_width = {"shared_intermediate_size", 1024}},
        .refused_key = "layers_block_type",
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, GRANITE_MOE_NAMES, MIXER_NAMES},
        .fused = {MIXER_FUSED, GRANITE_MOE_FUSED},
    },
    {
        .architecture = "FalconH1ForCausalLM",
        .model_type = "falcon_h1",
        .body = "FalconH1Model",
        .prefix = "model.",
        .sizes = {4096, 14336, 32, 32, 8, 0, 128000, 8192},
        BASICS(1e-5, 10000, 1, 2),
        SILU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        .state = STATE_MAMBA2,
        .attends_beside = true,
        .embedding_scale = {"embedding_multiplier", 1},
        .names =
            {ATTENTION_NAMES, MIXER_NAMES, [ROLE_EMBED] = "model.embed_tokens.weight",
             [ROLE_OUTPUT] = "lm_head.weight", [ROLE_ATTN_NORM] = LAYER("input_layernorm.weight"),
             [ROLE_MIXER_GATE_BIAS] = LAYER("mamba.gate.bias"),
             [ROLE_MIXER_IN_BIAS] = LAYER("mamba.in.bias"),
             [ROLE_MIXER_STEP_IN_BIAS] = LAYER("mamba.step.bias"),
             [ROLE_MIXER_OUT_BIAS] = LAYER("mamba.out_proj.bias"),
             [ROLE_MLP_NORM] = LAYER("pre_ff_layernorm.weight"),
             PAIR(MLP_GATE, LAYERS "feed_forward.gate_proj"),
             PAIR(MLP_UP, LAYERS "feed_forward.up_proj"),
             PAIR(MLP_DOWN, LAYERS "feed_forward.down_proj"),
             [ROLE_FINAL_NORM] = "model.final_layernorm.weight"},
        .fused = {MIXER_FUSED,
                  FUSED(LAYER("mamba.in_proj.bias"), FUSION_STACKED, 3, ROLE_MIXER_GATE_BIAS,
                        ROLE_MIXER_IN_BIAS, ROLE_MIXER_STEP_IN_BIAS)},
    },
    {
        .architecture = "NemotronHForCausalLM",
        .model_type = "nemotron_h",
        .body = "NemotronHModel",
        .prefix = "model.",
        .old_prefix = "backbone.",
        .predicts_further = true,
        .sizes = {4096, 21504, 4, 32, 8, 128, 131072, 4096},
        .size_keys = {[FAMILY_LAYERS] = ""},
        .unused_size = "num_hidden_layers",
        BASICS(1e-5, 10000, 1, 2),
        .norm_eps_key = "layer_norm_epsilon",
        .needs_kv_heads = true,
        .activation_key = "mlp_hidden_act",
        .activation = ACTIVATION_RELU_SQUARED,
        .mlp_biased = {"mlp_bias", false},
        .state = STATE_MAMBA2,
        .has_single_blocks = true,
        .rotates_key = "",
        .blocks = BLOCK_NO_GATE,
        .experts = {.n = {"n_routed_experts", 8},
                    .n_alias = "num_local_experts",
                    .n_used = 2,
                    .width = {"moe_intermediate_size", 7688},
                    .shared_width = {"moe_shared_expert_intermediate_size", 7688},
                    .needs_shared = true,
                    .scoring = SCORE_SIGMOID,
                    .normalizes = {"norm_topk_prob", true},
                    .choice_bias = {NULL, true},
                    .sum_epsilon = 1e-20f,
                    .scale = {"routed_scaling_factor", 1}},
        .demands = {{"attention_bias", false, "biases of attention are not supported here"},
                    {"use_bias", false, "biases of a state's matrices are not supported"},
                    {"tie_word_embeddings", false, "tied embeddings are not supported here"}},
        .texts = {{"mamba_hidden_act", "silu"}},
        .refused_key = "sliding_window",
        .names = {[ROLE_EMBED] = "model.embeddings.weight",
                  [ROLE_ATTN_NORM] = LAYER("norm.weight"),
                  [ROLE_MLP_NORM] = LAYER("norm.weight"),
                  [ROLE_ATTN_Q] = SINGLE("q_proj.weight"),
                  [ROLE_ATTN_K] = SINGLE("k_proj.weight"),
                  [ROLE_ATTN_V] = SINGLE("v_proj.weight"),
                  [ROLE_ATTN_O] = SINGLE("o_proj.weight"),
                  [ROLE_MIXER_GATE] = SINGLE("z.weight"),
                  [ROLE_MIXER_IN] = SINGLE("in.weight"),
                  [ROLE_MIXER_STEP] = SINGLE("step.weight"),
                  [ROLE_MIXER_CONV] = SINGLE("taps.weight"),
                  [ROLE_MIXER_CONV_BIAS] = SINGLE("conv1d.bias"),
                  [ROLE_MIXER_STEP_BIAS] = SINGLE("dt_bias"),
                  [ROLE_MIXER_DECAY] = SINGLE("A_log"),
                  [ROLE_MIXER_SKIP] = SINGLE("D"),
                  [ROLE_MIXER_NORM] = SINGLE("norm.weight"),
                  [ROLE_MIXER_OUT] = SINGLE("out_proj.weight"),
                  PAIR(MLP_UP, LAYERS "mixer.up_proj"),
                  PAIR(MLP_DOWN, LAYERS "mixer.down_proj"),
                  [ROLE_ROUTER] = SINGLE("gate.weight"),
                  [ROLE_ROUTER_BIAS] = SINGLE("gate.e_score_correction_bias"),
                  [ROLE_EXPERT_UP] = SINGLE("experts.%u.up_proj.weight"),
                  [ROLE_EXPERT_DOWN] = SINGLE("experts.%u.down_proj.weight"),
                  [ROLE_FINAL_NORM] = "model.norm_f.weight",
                  [ROLE_OUTPUT] = "lm_head.weight"},
        .fused = {FUSED(SINGLE("in_proj.weight"), FUSION_STACKED, 3, ROLE_MIXER_GATE,
                        ROLE_MIXER_IN, ROLE_MIXER_STEP),
                  FUSED(SINGLE("conv1d.weight"), FUSION_CONV, 1, ROLE_MIXER_CONV),
                  {SINGLE("experts.up_proj"), {ROLE_EXPERT_UP}, 1, FUSION_STACKED, true, true},
                  {SINGLE("experts.down_proj"), {ROLE_EXPERT_DOWN}, 1, FUSION_STACKED, true, true},
                  {SINGLE("shared_experts.up_proj.weight"), {ROLE_MLP_UP}, 1, FUSION_STACKED,
                   false, true},
                  {SINGLE("shared_experts.down_proj.weight"), {ROLE_MLP_DOWN}, 1, FUSION_STACKED,
                   false, true}},
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
    {
        .architecture = "StableLmForCausalLM",
        .model_type = "stablelm",
        .sizes = {2560, 6912, 32, 32, 32, 0, 50304, 4096},
        .size_keys = {[FAMILY_HEAD_DIM] = ""},
        BASICS(1e-5, 10000, 0, 0),
        .norm_eps_key = "layer_norm_eps",
        .needs_kv_heads = true,
        SILU,
        .attention_bias = BIAS_QKV,
        .attention_biased = {"use_qkv_bias", false},
        .blocks = BLOCK_LAYER_NORM,
        .switched = {{{"use_parallel_residual", false}, BLOCK_PARALLEL | BLOCK_ONE_NORM}},
        .rotates_parts = true,
        .rotary_factor = 0.25,
        .demands = {{"qk_layernorm", false, NO_HEAD_NORMS}},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, LLAMA_NORM_BIAS_NAMES},
    },
    {
        .architecture = "Cohere2ForCausalLM",
        .model_type = "cohere2",
        .body = "Cohere2Model",
        .prefix = "model.",
        .sizes = {8192, 22528, 40, 64, 0, 0, 256000, 8192},
        BASICS(1e-5, 10000, 5, 255001),
        .norm_eps_key = "layer_norm_eps",
        .tied_embeddings = 1,
        SILU,
        ATTENTION_BIASES,
        .lacks_norm_biases = true,
        .blocks = BLOCK_LAYER_NORM | BLOCK_PARALLEL | BLOCK_ONE_NORM | BLOCK_ROTATE_NEIGHBOURS,
        .rotates_windowed = true,
        .needs_window = true,
        .windows = WINDOWS_BUT_EACH_N,
        .sliding_window = 4096,
        .windows_n = {"sliding_window_pattern", 4},
        .logit_scale = {"logit_scale", 0.0625},
        .names = {SHARED_NAMES, [ROLE_ATTN_NORM] = LAYER("input_layernorm.weight"),
                  [ROLE_ATTN_NORM_BIAS] = LAYER("input_layernorm.bias"),
                  [ROLE_FINAL_NORM_BIAS] = "model.norm.bias"},
    },
    {
        .architecture = "OlmoeForCausalLM",
        .model_type = "olmoe",
        .body = "OlmoeModel",
        .prefix = "model.",
        .sizes = {2048, 2048, 16, 16, 0, 0, 50304, 4096},
        BASICS(1e-5, 10000, NO_TOKEN, 50279),
        SILU,
        ATTENTION_BIASES,
        .blocks = BLOCK_QK_NORM_ALL,
        .experts = {.n = {"num_experts", 64},
                    .n_alias = "num_local_experts",
                    .n_used = 8,
                    .normalizes = {"norm_topk_prob", false},
                    .qkv_clip = "clip_qkv"},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, QK_NORM_NAMES, MOE_NAMES},
        .fused = {FUSED_EXPERTS(MOE("experts.gate_up_proj"), MOE("experts.down_proj"))},
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
        .fused = {FUSED_EXPERTS(MOE("experts.gate_up_proj"), MOE("experts.down_proj"))},
    },
    {
        .architecture = "GraniteMoeForCausalLM",
        .model_type = "granitemoe",
        .body = "GraniteMoeModel",
        .prefix = "model.",
        GRANITE_MOE_BLOCKS,
        .experts = {GRANITE_MOE_EXPERTS},
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, GRANITE_MOE_NAMES},
        .fused = {GRANITE_MOE_FUSED},
    },
    {
        .architecture = "GraniteMoeSharedForCausalLM",
        .model_type = "granitemoeshared",
        .body = "GraniteMoeSharedModel",
        .prefix = "model.",
        GRANITE_MOE_BLOCKS,
        .experts = {GRANITE_MOE_EXPERTS, .shared_width = {"shared_intermediate_size", 0}},
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, GRANITE_MOE_NAMES},
        .fused = {GRANITE_MOE_FUSED},
    },
    {
        .architecture = "GraniteMoeSWAForCausalLM",
        .model_type = "granitemoe_swa",
        .body = "GraniteMoeSWAModel",
        .prefix = "model.",
        GRANITE_MOE_BLOCKS,
        GRANITE_SWA,
        .experts = {GRANITE_MOE_EXPERTS, .shared_width = {"shared_intermediate_size", 0}},
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, GRANITE_MOE_NAMES, SINK_NAMES},
        .fused = {GRANITE_MOE_FUSED},
    },
    {
        .architecture = "GPTNeoXForCausalLM",
        .model_type = "gpt_neox",
        .sizes = {6144, 24576, 44, 64, 0, 0, 50432, 2048},
        .size_keys = {[FAMILY_KV_HEADS] = "", [FAMILY_HEAD_DIM] = ""},
        BASICS(1e-5, 10000, 0, 2),
        .norm_eps_key = "layer_norm_eps",
        .theta_key = "rotary_emb_base",
        .activation_key = "hidden_act",
        .activation = ACTIVATION_GELU,
        .attention_bias = BIAS_QKVO,
        .attention_biased = {"attention_bias", true},
        .mlp_biased = {NULL, true},
        .blocks = BLOCK_LAYER_NORM | BLOCK_NO_GATE,
        .switched = {{{"use_parallel_residual", true}, BLOCK_PARALLEL}},
        .rotates_parts = true,
        .rotary_factor = 0.25,
        .rotary_factor_key = "rotary_pct",
        .names = {[ROLE_EMBED] = "gpt_neox.embed_in.weight",
                  PAIR(ATTN_NORM, NEOX "input_layernorm"),
                  PAIR(ATTN_Q, NEOX "attention.query"),
                  PAIR(ATTN_K, NEOX "attention.key"),
                  PAIR(ATTN_V, NEOX "attention.value"),
                  PAIR(ATTN_O, NEOX "attention.dense"),
                  PAIR(MLP_NORM, NEOX "post_attention_layernorm"),
                  PAIR(MLP_UP, NEOX "mlp.dense_h_to_4h"),
                  PAIR(MLP_DOWN, NEOX "mlp.dense_4h_to_h"),
                  PAIR(FINAL_NORM, "gpt_neox.final_layer_norm"),
                  [ROLE_OUTPUT] = "embed_out.weight"},
        .fused = {FUSED(NEOX "attention.query_key_value.weight", FUSION_HEADS, 3, QKV),
                  FUSED(NEOX "attention.query_key_value.bias", FUSION_HEADS, 3, QKV_BIASES)},
    },
    {
        .architecture = "GPT2LMHeadModel",
        .model_type = "gpt2",
        .sizes = {768, 0, 12, 12, 0, 0, 50257, 1024},
        .size_keys = {"n_embd", "n_inner", "n_layer", "n_head", "", "", NULL, "n_positions"},
        .norm_eps = 1e-5,
        .norm_eps_key = "layer_norm_epsilon",
        .bos_id = 50256,
        .eos_id = 50256,
        .tied_embeddings = 1,
        .activation_key = "activation_function",
        .activation = ACTIVATION_GELU_TANH,
        .attention_bias = BIAS_QKVO,
        .attention_biased = {NULL, true},
        .mlp_biased = {NULL, true},
        .blocks = BLOCK_LAYER_NORM | BLOCK_NO_GATE | BLOCK_POSITIONS,
        .demands = {{"scale_attn_weights", true, "unscaled attention is not supported"},
                    {"scale_attn_by_inverse_layer_idx", false, "this scale is not supported"},
                    {"add_cross_attention", false, "an encoder is not supported"}},
        .prefix = "transformer.",
        .names = {[ROLE_EMBED] = "transformer.wte.weight",
                  [ROLE_POSITIONS] = "transformer.wpe.weight",
                  PAIR(ATTN_NORM, GPT2 "ln_1"),
                  PAIR(ATTN_Q, GPT2 "attn.q"),
                  PAIR(ATTN_K, GPT2 "attn.k"),
                  PAIR(ATTN_V, GPT2 "attn.v"),
                  PAIR(ATTN_O, GPT2 "attn.c_proj"),
                  PAIR(MLP_NORM, GPT2 "ln_2"),
                  PAIR(MLP_UP, GPT2 "mlp.c_fc"),
                  PAIR(MLP_DOWN, GPT2 "mlp.c_proj"),
                  PAIR(FINAL_NORM, "transformer.ln_f"),
                  [ROLE_OUTPUT] = "lm_head.weight"},
        .fused = {FUSED(GPT2 "attn.c_attn.weight", FUSION_TURNED, 3, QKV),
                  FUSED(GPT2 "attn.c_attn.bias", FUSION_STACKED, 3, QKV_BIASES),
                  FUSED(GPT2 "attn.c_proj.weight", FUSION_TURNED, 1, ROLE_ATTN_O),
                  FUSED(GPT2 "mlp.c_fc.weight", FUSION_TURNED, 1, ROLE_MLP_UP),
                  FUSED(GPT2 "mlp.c_proj.weight", FUSION_TURNED, 1, ROLE_MLP_DOWN)},
    },
    {
        .architecture = "BertForMaskedLM",
        .body = "BertModel",
        .pretrained = "BertForPreTraining",
        .scorer = "BertForSequenceClassification",
        .model_type = "bert",
        .sizes = {768, 3072, 12, 12, 0, 0, 30522, 512},
        BERT_BLOCKS(0),
        .heads = {"cls."},
        .score_layers = {"bert.pooler.dense", "classifier"},
        .types_pairs = true,
        BERT_TENSORS("bert."),
    },
    {
        .architecture = "XLMRobertaForMaskedLM",
        .body = "XLMRobertaModel",
        .scorer = "XLMRobertaForSequenceClassification",
        .model_type = "xlm-roberta",
        .sizes = {768, 3072, 12, 12, 0, 0, 30522, 512},
        ROBERTA,
    },
    {
        .architecture = "RobertaForMaskedLM",
        .body = "RobertaModel",
        .scorer = "RobertaForSequenceClassification",
        .model_type = "roberta",
        .sizes = {768, 3072, 12, 12, 0, 0, 50265, 512},
        ROBERTA,
    },
    {
        .architecture = "CamembertForMaskedLM",
        .body = "CamembertModel",
        .scorer = "CamembertForSequenceClassification",
        .model_type = "camembert",
        .sizes = {768, 3072, 12, 12, 0, 0, 30522, 512},
        ROBERTA,
    },
    {
        /* sinusoidal_pos_embds only says how positions began that the checkpoint contains */
        .architecture = "DistilBertForMaskedLM",
        .body = "DistilBertModel",
        .scorer = "DistilBertForSequenceClassification",
        .model_type = "distilbert",
        .sizes = {768, 3072, 6, 12, 0, 0, 30522, 512},
        .size_keys = {"dim", "hidden_dim", "n_layers", "n_heads", "", "", NULL, NULL},
        ENCODER_BLOCKS(0),
        .norm_eps_key = "",
        .activation_key = "activation",
        .heads = {"vocab_"},
        .score_layers = {"pre_classifier", "classifier"},
        .score_activation = DENSE_RELU,
        .prefix = "distilbert.",
        .embedding_norm = BOTH("distilbert.embeddings.LayerNorm"),
        .layer_norm = BOTH(DISTILBERT "output_layer_norm"),
        .names = {[ROLE_EMBED] = "distilbert.embeddings.word_embeddings.weight",
                  [ROLE_POSITIONS] = "distilbert.embeddings.position_embeddings.weight",
                  PAIR(ATTN_NORM, DISTILBERT "norm"),
                  PAIR(ATTN_Q, DISTILBERT "attention.q_lin"),
                  PAIR(ATTN_K, DISTILBERT "attention.k_lin"),
                  PAIR(ATTN_V, DISTILBERT "attention.v_lin"),
                  PAIR(ATTN_O, DISTILBERT "attention.out_lin"),
                  PAIR(MLP_NORM, DISTILBERT "sa_layer_norm"),
                  PAIR(MLP_UP, DISTILBERT "ffn.lin1"),
                  PAIR(MLP_DOWN, DISTILBERT "ffn.lin2"),
                  PAIR(FINAL_NORM, "distilbert.transformer.norm")},
    },
    {
        .architecture = "MPNetForMaskedLM",
        .body = "MPNetModel",
        .scorer = "MPNetForSequenceClassification",
        .model_type = "mpnet",
        .sizes = {768, 3072, 12, 12, 0, 0, 30527, 512},
        BERT_BLOCKS(BLOCK_RELATIVE),
        .pad_id = {"", 1},
        .heads = {"lm_head."},
        .score_layers = {"classifier.dense", "classifier.out_proj"},
        .prefix = "mpnet.",
        .embedding_norm = BOTH("mpnet.embeddings.LayerNorm"),
        .layer_norm = BOTH(MPNET "output.LayerNorm"),
        .names = {[ROLE_EMBED] = "mpnet.embeddings.word_embeddings.weight",
                  [ROLE_POSITIONS] = "mpnet.embeddings.position_embeddings.weight",
                  [ROLE_RELATIVE] = "mpnet.encoder.relative_attention_bias.weight",
                  PAIR(ATTN_NORM, MPNET "norm"),
                  PAIR(ATTN_Q, MPNET "attention.attn.q"),
                  PAIR(ATTN_K, MPNET "attention.attn.k"),
                  PAIR(ATTN_V, MPNET "attention.attn.v"),
                  PAIR(ATTN_O, MPNET "attention.attn.o"),
                  PAIR(MLP_NORM, MPNET "attention.LayerNorm"),
                  PAIR(MLP_UP, MPNET "intermediate.dense"),
                  PAIR(MLP_DOWN, MPNET "output.dense"),
                  PAIR(FINAL_NORM, "mpnet.encoder.norm")},
    },
    {
        .architecture = "ModernBertForMaskedLM",
        .body = "ModernBertModel",
        .scorer = "ModernBertForSequenceClassification",
        .norms_score = true,
        .score_layers = {"head.dense", "classifier"},
        .score_activation = DENSE_GELU_NORM,
        .model_type = "modernbert",
        .sizes = {768, 1152, 22, 12, 0, 0, 50368, 8192},
        .size_keys = {[FAMILY_KV_HEADS] = "", [FAMILY_HEAD_DIM] = ""},
        BASICS(1e-5, 160000, NO_TOKEN, NO_TOKEN),
        .norm_eps_key = "norm_eps",
        .theta_key = "global_rope_theta",
        .local_theta = {"local_rope_theta", 10000},
        .tied_embeddings = 1,
        .activation_key = "hidden_activation",
        .activation = ACTIVATION_GELU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        .norm_biased = {"norm_bias", false},
        .blocks = BLOCK_LAYER_NORM,
        .windows = WINDOWS_AFTER_EACH_N,
        .sliding_window = 128,
        .window_key = "local_attention",
        .windows_n = {"global_attn_every_n_layers", 3},
        .refused_key = "rope_scaling",
        .prefix = "model.",
        .encodes = true,
        .embedding_norm = BOTH("model.embeddings.norm"),
        .heads = {"head.", "decoder."},
        .names = {[ROLE_EMBED] = "model.embeddings.tok_embeddings.weight",
                  PAIR(ATTN_NORM, LAYERS "attn_norm"),
                  PAIR(ATTN_Q, LAYERS "attn.q"),
                  PAIR(ATTN_K, LAYERS "attn.k"),
                  PAIR(ATTN_V, LAYERS "attn.v"),
                  PAIR(ATTN_O, LAYERS "attn.Wo"),
                  PAIR(MLP_NORM, LAYERS "mlp_norm"),
                  PAIR(MLP_GATE, LAYERS "mlp.gate"),
                  PAIR(MLP_UP, LAYERS "mlp.up"),
                  PAIR(MLP_DOWN, LAYERS "mlp.Wo"),
                  PAIR(FINAL_NORM, "model.final_norm")},
        .fused = {FUSED(LAYER("attn.Wqkv.weight"), FUSION_STACKED, 3, QKV),
                  FUSED(LAYER("attn.Wqkv.bias"), FUSION_STACKED, 3, QKV_BIASES),
                  FUSED(LAYER("mlp.Wi.weight"), FUSION_STACKED, 2, GATE_UP),
                  FUSED(LAYER("mlp.Wi.bias"), FUSION_STACKED, 2, ROLE_MLP_GATE_BIAS,
                        ROLE_MLP_UP_BIAS)},
    },
    {
        .architecture = "Starcoder2ForCausalLM",
        .model_type = "starcoder2",
        .body = "Starcoder2Model",
        .prefix = "model.",
        .sizes = {3072, 12288, 30, 24, 2, 0, 49152, 4096},
        BASICS(1e-5, 10000, 50256, 50256),
        .norm_eps_key = "norm_epsilon",
        .tied_embeddings = 1,
        .needs_kv_heads = true,
        .activation_key = "hidden_act",
        .activation = ACTIVATION_GELU_TANH,
        .attention_bias = BIAS_QKVO,
        .attention_biased = {"use_bias", true},
        .mlp_biased = {"use_bias", true},
        .blocks = BLOCK_LAYER_NORM | BLOCK_NO_GATE,
        .windows = WINDOWS_ALL,
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, LLAMA_NORM_BIAS_NAMES,
                  PAIR(MLP_UP, LAYERS "mlp.c_fc"), PAIR(MLP_DOWN, LAYERS "mlp.c_proj")},
    },
    {
        .architecture = "NomicBertForMaskedLM",
        .body = "NomicBertModel",
        .scorer = "NomicBertForSequenceClassification",
        .model_type = "nomic_bert",
        .sizes = {768, 3072, 12, 12, 0, 0, 30528, 2048},
        ROTATING_ENCODER,
        .has_old_keys = true,
        .texts = {{"activation_function", "swiglu"}},
        BASICS(1e-12, 1000, NO_TOKEN, NO_TOKEN),
        SILU,
        .heads = {"cls."},
        .score_layers = {"nomic_bert.pooler.dense", "classifier"},
        .types_pairs = true,
        .prefix = "nomic_bert.",
        .embedding_norm = BOTH("nomic_bert.emb_ln"),
        .layer_norm = BOTH(NOMIC "norm2"),
        .types = "nomic_bert.embeddings.token_type_embeddings.weight",
        .names = {[ROLE_EMBED] = "nomic_bert.embeddings.word_embeddings.weight",
                  PAIR(ATTN_NORM, NOMIC "norm"),
                  [ROLE_ATTN_Q] = (NOMIC "attn.q.weight"),
                  [ROLE_ATTN_K] = (NOMIC "attn.k.weight"),
                  [ROLE_ATTN_V] = (NOMIC "attn.v.weight"),
                  [ROLE_ATTN_O] = (NOMIC "attn.out_proj.weight"),
                  PAIR(MLP_NORM, NOMIC "norm1"),
                  [ROLE_MLP_GATE] = (NOMIC "mlp.fc12.weight"),
                  [ROLE_MLP_UP] = (NOMIC "mlp.fc11.weight"),
                  [ROLE_MLP_DOWN] = (NOMIC "mlp.fc2.weight"),
                  PAIR(FINAL_NORM, "nomic_bert.encoder.norm")},
        .fused = {FUSED(NOMIC "attn.Wqkv.weight", FUSION_STACKED, 3, QKV)},
    },
    {
        .architecture = "GteForMaskedLM",
        .body = "GteModel",
        .scorer = "GteForSequenceClassification",
        .model_type = "gte",
        .sizes = {768, 3072, 12, 12, 0, 0, 250048, 8192},
        ROTATING_ENCODER,
        BASICS(1e-12, 160000, NO_TOKEN, NO_TOKEN),
        .activation_key = "hidden_act",
        .activation = ACTIVATION_GELU,
        .attention_bias = BIAS_QKVO,
        .attention_biased = {NULL, true},
        .mlp_biased = {NULL, true},
        .lacks_input_biases = true,
        .demands = {{"logn_attention_scale", false, "this scale is not supported"}},
        .texts = {{"layer_norm_type", "layer_norm"}, {"position_embedding_type", "rope"}},
        .heads = {"lm_head.", "classifier."},
        .score_layers = {"gte.pooler.dense", "classifier"},
        .prefix = "gte.",
        .old_prefix = "new.",
        .embedding_norm = BOTH("gte.embeddings.LayerNorm"),
        .layer_norm = BOTH(GTE "mlp_ln"),
        .types = "gte.embeddings.token_type_embeddings.weight",
        .may_lack_types = true,
        .names = {[ROLE_EMBED] = "gte.embeddings.word_embeddings.weight",
                  PAIR(ATTN_NORM, GTE "norm"),
                  PAIR(ATTN_Q, GTE "attention.q_proj"),
                  PAIR(ATTN_K, GTE "attention.k_proj"),
                  PAIR(ATTN_V, GTE "attention.v_proj"),
                  PAIR(ATTN_O, GTE "attention.o_proj"),
                  PAIR(MLP_NORM, GTE "attn_ln"),
                  PAIR(MLP_GATE, GTE "mlp.gate_proj"),
                  PAIR(MLP_UP, GTE "mlp.up_proj"),
                  PAIR(MLP_DOWN, GTE "mlp.down_proj"),
                  PAIR(FINAL_NORM, "gte.encoder.norm")},
        .fused = {FUSED(GTE "attention.qkv_proj.weight", FUSION_STACKED, 3, QKV),
                  FUSED(GTE "attention.qkv_proj.bias", FUSION_STACKED, 3, QKV_BIASES),
                  FUSED(GTE "mlp.up_gate_proj.weight", FUSION_STACKED, 2, ROLE_MLP_UP,
                        ROLE_MLP_GATE)},
    },
    {
        .architecture = "EuroBertForMaskedLM",
        .body = "EuroBertModel",
        .model_type = "eurobert",
        .sizes = {768, 3072, 12, 12, 0, 0, 128256, 8192},
        BASICS(1e-5, 10000, 128000, 128001),
        SILU,
        ATTENTION_BIASES,
        .mlp_biased = {"mlp_bias", false},
        .prefix = "model.",
        .encodes = true,
        .heads = {"lm_head."},
        .names = {ATTENTION_NAMES, [ROLE_EMBED] = "model.embed_tokens.weight",
                  [ROLE_FINAL_NORM] = "model.norm.weight", MLP_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "PhiForCausalLM",
        .model_type = "phi",
        .sizes = {2048, 8192, 24, 32, 0, 0, 51200, 2048},
        BASICS(1e-5, 10000, 1, 2),
        .norm_eps_key = "layer_norm_eps",
        .activation_key = "hidden_act",
        .activation = ACTIVATION_GELU_TANH,
        .attention_bias = BIAS_QKVO,
        .attention_biased = {NULL, true},
        .mlp_biased = {NULL, true},
        .blocks =
            BLOCK_LAYER_NORM | BLOCK_NO_GATE | BLOCK_PARALLEL | BLOCK_ONE_NORM | BLOCK_OUTPUT_BIAS,
        .rotates_parts = true,
        .rotary_factor = 0.5,
        .demands = {{"qk_layernorm", false, NO_HEAD_NORMS}},
        .names = {[ROLE_EMBED] = "model.embed_tokens.weight",
                  PAIR(ATTN_NORM, LAYERS "input_layernorm"),
                  PAIR(ATTN_Q, LAYERS "self_attn.q_proj"),
                  PAIR(ATTN_K, LAYERS "self_attn.k_proj"),
                  PAIR(ATTN_V, LAYERS "self_attn.v_proj"),
                  PAIR(ATTN_O, LAYERS "self_attn.dense"),
                  PAIR(MLP_UP, LAYERS "mlp.fc1"),
                  PAIR(MLP_DOWN, LAYERS "mlp.fc2"),
                  PAIR(FINAL_NORM, "model.final_layernorm"),
                  PAIR(OUTPUT, "lm_head")},
    },
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
        .prefix = "model.",
        .sizes = {2304, 9216, 30, 8, 4, 256, 262144, 131072},
        BASICS(1e-6, 1000000, 2, 1),
        .tied_embeddings = 1,
        .needs_kv_heads = true,
        GELU,
        ATTENTION_BIASES,
        .blocks = BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS,
        .varies = true,
        .windows = WINDOWS_BUT_EACH_N,
        .sliding_window = 512,
        .windows_n = {NULL, 6},
        .scales_by_root = true,
        .logit_softcap = {"final_logit_softcapping", 0},
        .demands = {{"enable_moe_block", false, "experts are not supported in this family"}},
        .names = {SHARED_NAMES, GEMMA_NORM_NAMES, QK_NORM_NAMES, LAYER_INPUT_NAMES},
    },
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

const struct family *smol_family_at(size_t i)
{
    return i < N_FAMILIES ? &families[i] : NULL;
}

enum { N_NAMES = 4 };

/* Writes the architectures of a family. Returns their number. */
static size_t names_of(const struct family *family, const char *names[N_NAMES])
{
    const char *const all[N_NAMES] = {family->architecture, family->body, family->pretrained,
                                      family->scorer};
    size_t n = 0;
    for (size_t i = 0; i < N_NAMES; i++)
        if (all[i])
            names[n++] = all[i];
    return n;
}

const struct family *smol_family_by_architecture(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const char *names[N_NAMES];
        size_t n = names_of(&families[i], names);
        for (size_t j = 0; j < n; j++)
            if (strcmp(names[j], name) == 0)
                return &families[i];
    }
    return NULL;
}

const struct family *smol_family_by_model_type(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i].model_type, name) == 0)
            return &families[i];
    return NULL;
}

const struct family *smol_family_of(const struct blob_model *model, bool encodes)
{
    bool has_experts = model->experts.n_experts > 0;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        uint32_t switched = families[i].switched[0].bits | families[i].switched[1].bits;
        if (((families[i].blocks ^ model->blocks) & ~switched) == 0 &&
            ((families[i].experts.n.fallback > 0) == has_experts ||
             (!has_experts &&
              (families[i].experts.may_be_none || families[i].has_single_blocks))) &&
            families[i].state == model->states.kind &&
            (families[i].latent.kv_rank > 0) == model_has_latent(model) &&
            families[i].varies == model_is_varied(model) &&
            families[i].has_single_blocks == smol_model_is_partial(model) &&
            families[i].attends_beside == (model->hybrid.parallel > 0) &&
            (families[i].encodes == encodes || families[i].encodes_key))
            return &families[i];
    }
    return &families[0];
}

/* Returns the length of an architecture's name without the words that most of them end with. */
static size_t short_length(const char *name)
{
    static const char *const ends[] = {"ForCausalLM", "ForMaskedLM", "LMHeadModel", "Model"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *end = strstr(name, ends[i]);
        if (end)
            return (size_t)(end - name);
    }
    return strlen(name);
}

/* Returns the family that `name` belongs to, with other layers after the last block than smolconv
 * reads, or NULL. */
static const struct family *relative_of(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const char *known = families[i].architecture;
        size_t n = known ? short_length(known) : 0;
        if (known && strncmp(name, known, n) == 0 &&
            (strncmp(name + n, "For", 3) == 0 || strcmp(name + n, "Model") == 0))
            return &families[i];
    }
    return NULL;
}

const char *smol_family_remedy(const char *name, char text[FAMILY_REMEDY])
{
    const struct family *relative = name ? relative_of(name) : NULL;
    const char *names[N_NAMES] = {0};
    size_t n = relative ? names_of(relative, names) : 0;
    size_t length =
        (size_t)snprintf(text, FAMILY_REMEDY,
                         relative ? "smolconv reads" : "docs/families.md lists what is supported");
    for (size_t i = 0; i < n && length < FAMILY_REMEDY; i++)
        length += (size_t)snprintf(text + length, FAMILY_REMEDY - length, "%s %s", i ? "," : "",
                                   names[i]);
    return text;
}

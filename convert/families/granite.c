/* Granite: dense decoders, those with windows, with experts and with Mamba2 layers, and the text
 * models of those that read pictures. */
#include "convert/families/tables.h"

/* The scales, by the defaults of their keys. */
#define SCALES(embedding, attention, residual, divisor)                                            \
    .embedding_scale = {"embedding_multiplier", embedding},                                        \
    .attention_scale = {"attention_multiplier", attention},                                        \
    .residual_scale = {"residual_multiplier", residual},                                           \
    .logit_divisor = {"logits_scaling", divisor}
/* Settings, and their defaults in most of these families. */
#define SETTINGS SILU, ATTENTION_BIASES, SCALES(1, 1, 1, 1)
#define DEFAULTS .sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048}, BASICS(1e-6, 10000, 1, 2)

/* With windows: sinks of attention, and a theta for each layer. */
#define WINDOWED                                                                                   \
    .blocks = BLOCK_SINKS, .has_layer_thetas = true, .windows = WINDOWS_AFTER_EACH_N,              \
    .sliding_window = 128, .windows_n = {NULL, 4}
#define SINK_NAMES [ROLE_ATTN_SINKS] = LAYER("self_attn.sinks")

/* With experts, whose tensors have the names of published checkpoints or transformers' own. */
#define EXPERTS .n = {"num_local_experts", 8}, .n_used = 2, .scoring = SCORE_SOFTMAX_CHOSEN
/* clang-format off */
#define SPARSE(name) (LAYERS "block_sparse_moe." name)
#define EXPERT_NAMES                                                                               \
    [ROLE_ROUTER] = SPARSE("router.layer.weight"),                                                 \
    [ROLE_EXPERT_GATE] = SPARSE("experts.%u.gate_proj.weight"),                                    \
    [ROLE_EXPERT_UP] = SPARSE("experts.%u.up_proj.weight"),                                        \
    [ROLE_EXPERT_DOWN] = SPARSE("experts.%u.down_proj.weight"),                                    \
    [ROLE_MLP_GATE] = LAYER("shared_mlp.gate_proj.weight"),                                        \
    [ROLE_MLP_UP] = LAYER("shared_mlp.up_proj.weight"),                                            \
    [ROLE_MLP_DOWN] = LAYER("shared_mlp.output_linear.weight")
#define EXPERT_FUSED                                                                         \
    FUSED_EXPERTS(SPARSE("input_linear.weight"), SPARSE("output_linear.weight")),                  \
    FUSED_EXPERTS(SPARSE("experts.gate_up_proj"), SPARSE("experts.down_proj")),                    \
    ALIAS(SPARSE("router.weight"), ROLE_ROUTER),                                                   \
    FUSED(LAYER("shared_mlp.input_linear.weight"), FUSION_STACKED, 2, GATE_UP)
/* clang-format on */

static const struct family families[] = {
    {
        .architecture = "GraniteForCausalLM",
        .model_type = "granite",
        DEFAULTS,
        SETTINGS,
        MLP_BIASES,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .model_type = "granite4_vision_text",
        .prefix = "model.",
        DEFAULTS,
        SETTINGS,
        MLP_BIASES,
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
        MLP_BIASES,
        SCALES(12, 0.015625, 0.263, 4),
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
        SETTINGS,
        MLP_BIASES,
        WINDOWED,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, SINK_NAMES},
    },
    {
        .architecture = "GraniteMoeForCausalLM",
        .model_type = "granitemoe",
        .body = "GraniteMoeModel",
        .prefix = "model.",
        DEFAULTS,
        SETTINGS,
        .experts = {EXPERTS},
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, EXPERT_NAMES},
        .fused = {EXPERT_FUSED},
    },
    {
        .architecture = "GraniteMoeSharedForCausalLM",
        .model_type = "granitemoeshared",
        .body = "GraniteMoeSharedModel",
        .prefix = "model.",
        DEFAULTS,
        SETTINGS,
        .experts = {EXPERTS, .shared_width = {"shared_intermediate_size", 0}},
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, EXPERT_NAMES},
        .fused = {EXPERT_FUSED},
    },
    {
        .architecture = "GraniteMoeSWAForCausalLM",
        .model_type = "granitemoe_swa",
        .body = "GraniteMoeSWAModel",
        .prefix = "model.",
        DEFAULTS,
        SETTINGS,
        WINDOWED,
        .experts = {EXPERTS, .shared_width = {"shared_intermediate_size", 0}},
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, EXPERT_NAMES, SINK_NAMES},
        .fused = {EXPERT_FUSED},
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
        SETTINGS,
        .state = STATE_MAMBA2,
        .rotates_key = "position_embedding_type",
        .experts = {EXPERTS, .may_be_none = true, .width = {"intermediate_size", 11008},
                    .shared_width = {"shared_intermediate_size", 1024}},
        .refused_key = "layers_block_type",
        .names = {OUTER_NAMES, LLAMA_NORM_NAMES, EXPERT_NAMES, MIXER_NAMES},
        .fused = {MIXER_FUSED, EXPERT_FUSED},
    },
};

const struct family_table smol_granite_families = FAMILY_TABLE(families);

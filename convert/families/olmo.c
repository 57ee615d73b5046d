/* OLMo: dense decoders with norms after attention and the MLP, and one with experts. */
#include "convert/families/tables.h"

static const struct family families[] = {
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
        .fused = {MOE_FUSED},
    },
};

const struct family_table smol_olmo_families = FAMILY_TABLE(families);

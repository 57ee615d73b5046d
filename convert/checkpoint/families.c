/* The table of families, see family.h. Defaults are those of transformers 5.23. Earlier versions
 * have the same defaults, some under other keys of config.json.
 *
 * To add a family, copy the most similar entry. Take the defaults from the configuration class in
 * transformers, and the names and features from its modeling file. Add the family to families.py
 * and features.py of tests/oracle. If the fields of an entry cannot describe it, it needs a new
 * part of the block: see docs/families.md. */
#include "convert/checkpoint/family.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
/* Tensor names that all families share. */
#define SHARED_NAMES                                                                               \
    [ROLE_EMBED] = "model.embed_tokens.weight",                                                    \
    [ROLE_ATTN_Q] = "model.layers.%u.self_attn.q_proj.weight",                                     \
    [ROLE_ATTN_K] = "model.layers.%u.self_attn.k_proj.weight",                                     \
    [ROLE_ATTN_V] = "model.layers.%u.self_attn.v_proj.weight",                                     \
    [ROLE_ATTN_O] = "model.layers.%u.self_attn.o_proj.weight",                                     \
    [ROLE_ATTN_Q_BIAS] = "model.layers.%u.self_attn.q_proj.bias",                                  \
    [ROLE_ATTN_K_BIAS] = "model.layers.%u.self_attn.k_proj.bias",                                  \
    [ROLE_ATTN_V_BIAS] = "model.layers.%u.self_attn.v_proj.bias",                                  \
    [ROLE_ATTN_O_BIAS] = "model.layers.%u.self_attn.o_proj.bias",                                  \
    [ROLE_MLP_GATE] = "model.layers.%u.mlp.gate_proj.weight",                                      \
    [ROLE_MLP_UP] = "model.layers.%u.mlp.up_proj.weight",                                          \
    [ROLE_MLP_DOWN] = "model.layers.%u.mlp.down_proj.weight",                                      \
    [ROLE_MLP_GATE_BIAS] = "model.layers.%u.mlp.gate_proj.bias",                                   \
    [ROLE_MLP_UP_BIAS] = "model.layers.%u.mlp.up_proj.bias",                                       \
    [ROLE_MLP_DOWN_BIAS] = "model.layers.%u.mlp.down_proj.bias",                                   \
    [ROLE_FINAL_NORM] = "model.norm.weight",                                                       \
    [ROLE_OUTPUT] = "lm_head.weight"

/* Tensor names of norms, by their places in the block. */
#define LLAMA_NORM_NAMES                                                                           \
    [ROLE_ATTN_NORM] = "model.layers.%u.input_layernorm.weight",                                   \
    [ROLE_MLP_NORM] = "model.layers.%u.post_attention_layernorm.weight"
#define GEMMA_NORM_NAMES                                                                           \
    [ROLE_ATTN_NORM] = "model.layers.%u.input_layernorm.weight",                                   \
    [ROLE_ATTN_OUT_NORM] = "model.layers.%u.post_attention_layernorm.weight",                      \
    [ROLE_MLP_NORM] = "model.layers.%u.pre_feedforward_layernorm.weight",                          \
    [ROLE_MLP_OUT_NORM] = "model.layers.%u.post_feedforward_layernorm.weight"
#define OLMO2_NORM_NAMES                                                                           \
    [ROLE_ATTN_OUT_NORM] = "model.layers.%u.post_attention_layernorm.weight",                      \
    [ROLE_MLP_OUT_NORM] = "model.layers.%u.post_feedforward_layernorm.weight"
#define QK_NORM_NAMES                                                                              \
    [ROLE_ATTN_Q_NORM] = "model.layers.%u.self_attn.q_norm.weight",                                \
    [ROLE_ATTN_K_NORM] = "model.layers.%u.self_attn.k_norm.weight"
/* clang-format on */

#define SILU .activation_key = "hidden_act", .activation = ACTIVATION_SILU
#define GELU .activation_key = "hidden_activation", .activation = ACTIVATION_GELU_TANH

static const struct family families[] = {
    {
        .architecture = "LlamaForCausalLM",
        .model_type = "llama",
        .sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048},
        .rms_norm_eps = 1e-6,
        .rope_theta = 10000,
        .bos_id = 1,
        .eos_id = 2,
        SILU,
        .attention_bias = BIAS_BY_KEY,
        .has_mlp_bias = true,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "MistralForCausalLM",
        .model_type = "mistral",
        .sizes = {4096, 14336, 32, 32, 8, 0, 32000, 131072},
        .rms_norm_eps = 1e-6,
        .rope_theta = 10000,
        .bos_id = 1,
        .eos_id = 2,
        .needs_kv_heads = true,
        SILU,
        .windows = WINDOWS_ALL,
        .sliding_window = 4096,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "Qwen2ForCausalLM",
        .model_type = "qwen2",
        .sizes = {4096, 22016, 32, 32, 32, 0, 151936, 32768},
        .rms_norm_eps = 1e-6,
        .rope_theta = 10000,
        .bos_id = NO_TOKEN,
        .eos_id = NO_TOKEN,
        SILU,
        .attention_bias = BIAS_QKV_ALWAYS,
        .windows = WINDOWS_FROM_N,
        .sliding_window = 4096,
        .windows_n = {"max_window_layers", 28},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "Qwen3ForCausalLM",
        .model_type = "qwen3",
        .sizes = {4096, 22016, 32, 32, 32, 128, 151936, 32768},
        .rms_norm_eps = 1e-6,
        .rope_theta = 10000,
        .bos_id = NO_TOKEN,
        .eos_id = NO_TOKEN,
        SILU,
        .attention_bias = BIAS_BY_KEY,
        .blocks = BLOCK_QK_NORM_HEADS,
        .windows = WINDOWS_FROM_N,
        .sliding_window = 4096,
        .windows_n = {"max_window_layers", 28},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES, QK_NORM_NAMES},
    },
    {
        .architecture = "SmolLM3ForCausalLM",
        .model_type = "smollm3",
        .sizes = {2048, 11008, 36, 16, 4, 0, 128256, 32768},
        .rms_norm_eps = 1e-6,
        .rope_theta = 2000000,
        .bos_id = 128000,
        .eos_id = 128001,
        .tied_embeddings = 1,
        SILU,
        .attention_bias = BIAS_BY_KEY,
        .has_mlp_bias = true,
        .has_no_rope = true,
        .windows = WINDOWS_NO_ROPE,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "GraniteForCausalLM",
        .model_type = "granite",
        .sizes = {4096, 11008, 32, 32, 0, 0, 32000, 2048},
        .rms_norm_eps = 1e-6,
        .rope_theta = 10000,
        .bos_id = 1,
        .eos_id = 2,
        SILU,
        .attention_bias = BIAS_BY_KEY,
        .has_mlp_bias = true,
        .embedding_scale = {"embedding_multiplier", 1},
        .attention_scale = {"attention_multiplier", 1},
        .residual_scale = {"residual_multiplier", 1},
        .logit_divisor = {"logits_scaling", 1},
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
    },
    {
        .architecture = "Phi3ForCausalLM",
        .model_type = "phi3",
        .sizes = {3072, 8192, 32, 32, 0, 0, 32064, 4096},
        .rms_norm_eps = 1e-5,
        .rope_theta = 10000,
        .bos_id = 1,
        .eos_id = 32000,
        SILU,
        .rotates_parts = true,
        .original_context = 4096,
        .windows = WINDOWS_ALL,
        .names = {SHARED_NAMES, LLAMA_NORM_NAMES},
        .fused = {{"model.layers.%u.self_attn.qkv_proj.weight",
                   {ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V},
                   3},
                  {"model.layers.%u.mlp.gate_up_proj.weight", {ROLE_MLP_GATE, ROLE_MLP_UP}, 2}},
    },
    {
        .architecture = "Olmo2ForCausalLM",
        .model_type = "olmo2",
        .sizes = {4096, 11008, 32, 32, 0, 0, 50304, 2048},
        .rms_norm_eps = 1e-5,
        .rope_theta = 10000,
        .bos_id = NO_TOKEN,
        .eos_id = 50279,
        SILU,
        .attention_bias = BIAS_BY_KEY,
        .blocks = BLOCK_NO_INPUT_NORMS | BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_ALL,
        .names = {SHARED_NAMES, OLMO2_NORM_NAMES, QK_NORM_NAMES},
    },
    {
        .architecture = "Gemma2ForCausalLM",
        .model_type = "gemma2",
        .sizes = {2304, 9216, 26, 8, 4, 256, 256000, 8192},
        .rms_norm_eps = 1e-6,
        .rope_theta = 10000,
        .bos_id = 2,
        .eos_id = 1,
        .tied_embeddings = 1,
        .needs_kv_heads = true,
        GELU,
        .attention_bias = BIAS_BY_KEY,
        .blocks = BLOCK_NORM_OUTPUTS,
        .norm_offset = 1,
        .windows = WINDOWS_BUT_EACH_N,
        .sliding_window = 4096,
        .windows_n = {NULL, 2},
        .scales_by_root = true,
        .query_scalar = {"query_pre_attn_scalar", 256},
        .attention_softcap = {"attn_logit_softcapping", 50},
        .logit_softcap = {"final_logit_softcapping", 30},
        .refused_flag = "use_bidirectional_attention",
        .names = {SHARED_NAMES, GEMMA_NORM_NAMES},
    },
    {
        /* transformers has the key attn_logit_softcapping here too, but does not use it */
        .architecture = "Gemma3ForCausalLM",
        .model_type = "gemma3_text",
        .sizes = {2304, 9216, 26, 8, 4, 256, 262208, 131072},
        .rms_norm_eps = 1e-6,
        .rope_theta = 1000000,
        .local_theta = 10000,
        .bos_id = 2,
        .eos_id = 1,
        .tied_embeddings = 1,
        .needs_kv_heads = true,
        GELU,
        .attention_bias = BIAS_BY_KEY,
        .blocks = BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS,
        .norm_offset = 1,
        .windows = WINDOWS_BUT_EACH_N,
        .sliding_window = 4096,
        .windows_n = {"sliding_window_pattern", 6},
        .scales_by_root = true,
        .query_scalar = {"query_pre_attn_scalar", 256},
        .logit_softcap = {"final_logit_softcapping", 0},
        .refused_flag = "use_bidirectional_attention",
        .names = {SHARED_NAMES, GEMMA_NORM_NAMES, QK_NORM_NAMES},
    },
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

const struct family *smol_family_at(size_t i)
{
    return i < N_FAMILIES ? &families[i] : NULL;
}

const struct family *smol_family_by_architecture(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i].architecture, name) == 0)
            return &families[i];
    return NULL;
}

const struct family *smol_family_by_model_type(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i].model_type, name) == 0)
            return &families[i];
    return NULL;
}

const struct family *smol_family_by_blocks(uint32_t blocks)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (families[i].blocks == blocks)
            return &families[i];
    return &families[0];
}

const char *smol_family_list(char text[FAMILY_LIST])
{
    size_t length = (size_t)snprintf(text, FAMILY_LIST, "smolconv reads");
    for (size_t i = 0; i < N_FAMILIES && length < FAMILY_LIST; i++)
        length += (size_t)snprintf(text + length, FAMILY_LIST - length, "%s %s", i ? "," : "",
                                   families[i].architecture);
    return text;
}

/* Decoders that attend to latent vectors. */
#include "convert/families/tables.h"

/* clang-format off */
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
              ALIAS(LAYER("self_attn.q_proj.weight"), ROLE_ATTN_Q)}
/* clang-format on */

static const struct family families[] = {
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
        MLP_BIASES,
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
};

const struct family_table smol_latent_families = FAMILY_TABLE(families);

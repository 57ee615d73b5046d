/* Hybrids of Mamba2 and attention; Granite's is in granite.c. */
#include "convert/families/tables.h"

static const struct family families[] = {
    {
        .architecture = "FalconH1ForCausalLM",
        .model_type = "falcon_h1",
        .body = "FalconH1Model",
        .prefix = "model.",
        .sizes = {4096, 14336, 32, 32, 8, 0, 128000, 8192},
        BASICS(1e-5, 10000, 1, 2),
        SILU,
        ATTENTION_BIASES,
        MLP_BIASES,
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
};

const struct family_table smol_mamba_families = FAMILY_TABLE(families);

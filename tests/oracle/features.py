"""One small configuration of every family with all of its features, and what turns each of them off."""

import copy

from families import CONFIGS, CONTEXT

def rope(kind="default", **settings):
    return {"rope_type": kind, "rope_theta": 10000.0} | settings


EXPERTS = ("lfm2moe", "qwen3_5moe", "qwen3next", "olmoe", "qwen3moe", "granitemoe", "granitemoeshared", "granitemoeswa", "granitemoehybrid", "nemotronh", "gemma4moe")
LLAMA3 = rope(
    "llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=40,
)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=40)
WINDOWS = ["sliding_attention", "full_attention"]
TWO_LAYERS = {
    "vocab_size": 101,
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "rope_parameters": YARN,
}
GEMMA_ROPE = {
    "full_attention": rope("linear", factor=8.0),
    "sliding_attention": rope(rope_theta=100.0),
}
LFM_ROPE = {
    "full_attention": rope("proportional", rope_theta=100.0, partial_rotary_factor=0.5),
    "sliding_attention": rope(),
}
LAYER0, LAYER1 = "model.layers.0.", "model.layers.1."
DELTA_EXPERTS = {
    "layer_types": ["linear_attention", "full_attention"],
    "attention_bias": True,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 37,
    "rope_parameters": rope(partial_rotary_factor=0.5),
}


def without(*keys):
    return {key: value for key, value in TWO_LAYERS.items() if key not in keys}


# sizes of families that have other keys for them
SIZES = {
    "granitemoehybrid": without("head_dim"),
    "stablelm": without("head_dim"),
    "starcoder2": without("head_dim"),
    "cohere2": without("head_dim"),
    "gptneox": without("head_dim", "num_key_value_heads"),
    "gpt2": {
        "vocab_size": 101, "n_embd": 48, "n_inner": 40, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT,
        "bos_token_id": None, "eos_token_id": None,
    },
    "minicpm3": without("head_dim") | {"num_key_value_heads": 4},
    "youtu": without("head_dim") | {"num_key_value_heads": 4},
    "lfm3": TWO_LAYERS | {"num_hidden_layers": 3},
    "phi": without("head_dim"),
    "olmo": without("head_dim"),
    "olmoe": without("head_dim"),
    "granitemoe": without("head_dim"),
    "granitemoeshared": without("head_dim"),
    "gemma4": without("rope_parameters"),
    "gemma4moe": without("rope_parameters"),
    "gemma4unified": without("rope_parameters"),
    "nemotronh": without("rope_parameters", "num_hidden_layers"),
    "granitemoeswa": without("head_dim"),
}  # fmt: skip
PARTLY = rope(partial_rotary_factor=0.5)
GLM = {"attention_bias": True, "rope_parameters": YARN | {"partial_rotary_factor": 0.5}, "eos_token_id": 2}
LAYER_NORM_BIASES = {
    "biases of norms": LAYER0 + "input_layernorm.bias",
    "norms": LAYER1 + "input_layernorm.weight",
}

# family: settings over TWO_LAYERS, and for each feature what turns it off, or weakens it: settings of
# the reference, or a tensor that is multiplied
FEATURES = {
    "llama": (
        {"rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True},
        {
            "stretched frequencies": {"rope_parameters": rope()},
            "their factor": {"rope_parameters": LLAMA3 | {"factor": 7.0}},
            "where the blend begins": {"rope_parameters": LLAMA3 | {"high_freq_factor": 3.0}},
        },
    ),
    "mistral": (
        {"sliding_window": 33},
        {
            "windows": {"sliding_window": None},
            "one position of the window": {"sliding_window": 34},
            "yarn": {"rope_parameters": rope()},
            "the scale of yarn": {"rope_parameters": YARN | {"attention_factor": 1.0}},
        },
    ),
    "qwen2": (
        {"use_sliding_window": True, "sliding_window": 20, "layer_types": WINDOWS},
        {
            "windows": {"sliding_window": CONTEXT},
            "which layer is windowed": {"layer_types": WINDOWS[::-1]},
            "q biases": LAYER0 + "self_attn.q_proj.bias",
            "k biases": LAYER1 + "self_attn.k_proj.bias",
            "v biases": LAYER1 + "self_attn.v_proj.bias",
        },
    ),
    "qwen3": (
        {"attention_bias": True},
        {
            "q norms": LAYER0 + "self_attn.q_norm.weight",
            "k norms": LAYER1 + "self_attn.k_norm.weight",
        },
    ),
    "smollm3": (
        {
            "no_rope_layers": [0, 1],
            "use_sliding_window": True,
            "sliding_window": 20,
            "layer_types": WINDOWS,
        },
        {
            "a layer that does not rotate": {"no_rope_layers": [1, 1]},
            "a layer that does": {"no_rope_layers": [0, 0]},
            "windows": {"sliding_window": CONTEXT},
        },
    ),
    "granite": (
        {
            "embedding_multiplier": 6.0,
            "residual_multiplier": 0.3,
            "attention_multiplier": 0.2,
            "logits_scaling": 8.0,
        },
        {
            "embedding scale": {"embedding_multiplier": 5.5},
            "residual scale": {"residual_multiplier": 0.33},
            "attention scale": {"attention_multiplier": 0.22},
            "logit divisor": {"logits_scaling": 8.1},
        },
    ),
    "graniteswa": (
        {
            "layer_types": WINDOWS,
            "sliding_window": 20,
            "layer_rope_theta": [10000.0, 100.0],
            "attention_multiplier": 0.2,
            "mlp_bias": True,
        },
        {
            "sinks": LAYER0 + "self_attn.sinks",
            "those of the other layer": LAYER1 + "self_attn.sinks",
            "windows": {"sliding_window": CONTEXT},
            "which layer is windowed": {"layer_types": WINDOWS[::-1]},
            "the second rotation": {"layer_rope_theta": [10000.0, 10000.0]},
            "whether a layer rotates": {"layer_rope_theta": [10000.0, 0]},
            "yarn": {"rope_parameters": rope()},
        },
    ),
    "granitemoehybrid": (
        {
            "layer_types": ["linear_attention", "full_attention"],
            "num_local_experts": 5,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 37,
            "position_embedding_type": "rope",
            "mamba_n_heads": 8,
            "mamba_n_groups": 2,
            "mamba_d_state": 16,
            "embedding_multiplier": 6.0,
            "residual_multiplier": 0.3,
            "attention_multiplier": 0.2,
            "logits_scaling": 8.0,
        },
        {
            "rotation": {"position_embedding_type": None},
            "the number of experts that a token uses": {"num_experts_per_tok": 3},
            "the router": LAYER0 + "block_sparse_moe.router.weight",
            "gates": LAYER1 + "block_sparse_moe.experts.gate_up_proj",
            "the shared MLP": LAYER0 + "shared_mlp.input_linear.weight",
            "decay": LAYER0 + "mamba.A_log",
            "the bias of the step": LAYER0 + "mamba.dt_bias",
            "skip": LAYER0 + "mamba.D",
            "convolution": LAYER0 + "mamba.conv1d.weight",
            "its bias": LAYER0 + "mamba.conv1d.bias",
            "the norm after the gate": LAYER0 + "mamba.norm.weight",
        },
    ),
    "nemotronh": (
        {
            "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp", "linear_attention", "moe"],
            "mamba_num_heads": 8,
            "mamba_head_dim": 12,
            "n_groups": 2,
            "ssm_state_size": 16,
            "n_routed_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "moe_shared_expert_intermediate_size": 37,
            "routed_scaling_factor": 2.5,
        },
        {
            "the order of layers": {
                "layers_block_type": ["linear_attention", "moe", "linear_attention", "mlp", "full_attention", "moe"]
            },
            "the activation": {"mlp_hidden_act": "silu"},
            "the number of experts that a token uses": {"num_experts_per_tok": 3},
            "their scale": {"routed_scaling_factor": 2.4},
            "the sum of their weights": {"norm_topk_prob": False},
            "the router": "model.layers.1.mixer.gate.weight",
            "the bias of its choice": "model.layers.5.mixer.gate.e_score_correction_bias",
            "experts": "model.layers.1.mixer.experts.up_proj",
            "the shared MLP": "model.layers.1.mixer.shared_experts.up_proj.weight",
            "the MLP without experts": "model.layers.3.mixer.up_proj.weight",
            "its norm": "model.layers.3.norm.weight",
            "attention": "model.layers.2.mixer.v_proj.weight",
            "decay": "model.layers.0.mixer.A_log",
            "the bias of the step": "model.layers.0.mixer.dt_bias",
            "skip": "model.layers.0.mixer.D",
            "convolution": "model.layers.4.mixer.conv1d.weight",
            "its bias": "model.layers.4.mixer.conv1d.bias",
            "the norm after the gate, in groups": "model.layers.0.mixer.norm.weight",
        },
    ),
    "falconh1": (
        {
            "attention_bias": True,
            "mlp_bias": True,
            "projectors_bias": True,
            "mamba_proj_bias": True,
            "mamba_rms_norm": True,
            "mamba_norm_before_gate": True,
            "mamba_d_ssm": 64,
            "mamba_n_heads": 8,
            "mamba_n_groups": 2,
            "mamba_d_state": 16,
            "attention_in_multiplier": 1.5,
            "attention_out_multiplier": 0.7,
            "ssm_in_multiplier": 1.25,
            "ssm_out_multiplier": 0.6,
            "key_multiplier": 0.8,
            "embedding_multiplier": 2.0,
            "lm_head_multiplier": 0.5,
            "ssm_multipliers": [0.5, 1.5, 0.7, 0.8, 0.9],
            "mlp_multipliers": [0.7, 0.6],
        },
        {
            "the scale of attention's input": {"attention_in_multiplier": 1.4},
            "that of its output": {"attention_out_multiplier": 0.8},
            "that of the state's input": {"ssm_in_multiplier": 1.3},
            "that of its output ": {"ssm_out_multiplier": 0.7},
            "that of keys": {"key_multiplier": 0.9},
            "that of the embedding": {"embedding_multiplier": 1.9},
            "that of logits": {"lm_head_multiplier": 0.51},
            **{
                f"that of {part}": {"ssm_multipliers": [m + (k == i) / 5 for k, m in enumerate((0.5, 1.5, 0.7, 0.8, 0.9))]}
                for i, part in enumerate(("the gate", "x", "B", "C", "the step"))
            },
            "that of the MLP's gate": {"mlp_multipliers": [0.8, 0.6]},
            "that of the MLP's output": {"mlp_multipliers": [0.7, 0.65]},
            "the norm's place": {"mamba_norm_before_gate": False},
            "the norm": LAYER0 + "mamba.norm.weight",
            "decay": LAYER0 + "mamba.A_log",
            "skip": LAYER1 + "mamba.D",
            "convolution": LAYER0 + "mamba.conv1d.weight",
            "the biases of the state's input": LAYER0 + "mamba.in_proj.bias",
            "the bias of its output": LAYER1 + "mamba.out_proj.bias",
            "biases of the MLP": LAYER0 + "feed_forward.gate_proj.bias",
            "keys": LAYER0 + "self_attn.k_proj.weight",
        },
    ),
    "qwen3_5": (
        {
            "layer_types": ["linear_attention", "full_attention"],
            "attention_bias": True,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 24,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "rope_parameters": rope(partial_rotary_factor=0.5),
        },
        {
            "partial rotation": {"rope_parameters": rope(partial_rotary_factor=1.0)},
            "decay": LAYER0 + "linear_attn.A_log",
            "the bias of the step": LAYER0 + "linear_attn.dt_bias",
            "the rate": LAYER0 + "linear_attn.in_proj_b.weight",
            "convolution": LAYER0 + "linear_attn.conv1d.weight",
            "the norm before the gate": LAYER0 + "linear_attn.norm.weight",
            "queries and their gates": LAYER1 + "self_attn.q_proj.weight",
            "their biases": LAYER1 + "self_attn.q_proj.bias",
        },
    ),
    "qwen3_5moe": (
        DELTA_EXPERTS,
        {
            "the number of experts that a token uses": {"num_experts_per_tok": 3},
            "decay": LAYER0 + "linear_attn.A_log",
            "the router": LAYER1 + "mlp.gate.weight",
            "the shared MLP": LAYER0 + "mlp.shared_expert.down_proj.weight",
            "its gate": LAYER1 + "mlp.shared_expert_gate.weight",
        },
    ),
    "qwen3next": (
        DELTA_EXPERTS | {"mlp_only_layers": [1]},
        {
            "the number of experts that a token uses": {"num_experts_per_tok": 3},
            "the sum of weights": {"norm_topk_prob": False},
            "decay": LAYER0 + "linear_attn.A_log",
            "queries, keys, values and gates": LAYER0 + "linear_attn.in_proj_qkvz.weight",
            "rates and steps": LAYER0 + "linear_attn.in_proj_ba.weight",
            "queries and their gates": LAYER1 + "self_attn.q_proj.weight",
            "the router": LAYER0 + "mlp.gate.weight",
            "the shared MLP": LAYER0 + "mlp.shared_expert.down_proj.weight",
            "its gate": LAYER0 + "mlp.shared_expert_gate.weight",
            "the dense layer": LAYER1 + "mlp.gate_proj.weight",
        },
    ),
    "phi3": (
        {
            "rope_parameters": rope(
                "longrope",
                partial_rotary_factor=0.5,
                short_factor=[1.0, 1.5, 2.0],
                long_factor=[1.0, 5.0, 20.0],
            ),
            "original_max_position_embeddings": 256,
        },
        {
            "longrope": {"rope_parameters": rope(partial_rotary_factor=0.5)},
            "heads that rotate in part": {"rope_parameters": rope()},
            "q": LAYER0 + "self_attn.qkv_proj.weight",
            "gate": LAYER1 + "mlp.gate_up_proj.weight",
        },
    ),
    "olmo2": (
        {},
        {
            "q norms": LAYER0 + "self_attn.q_norm.weight",
            "k norms": LAYER1 + "self_attn.k_norm.weight",
            "norms after attention": LAYER0 + "post_attention_layernorm.weight",
            "norms after the MLP": LAYER1 + "post_feedforward_layernorm.weight",
        },
    ),
    "olmo3": (
        {
            "layer_types": WINDOWS,
            "sliding_window": 20,
            "rope_parameters": {
                "full_attention": YARN | {"rope_theta": 500000.0},
                "sliding_attention": rope(rope_theta=500000.0),
            },
        },
        {
            "windows": {"sliding_window": CONTEXT},
            "which layer is windowed": {"layer_types": WINDOWS[::-1]},
            "the rotation of windowed layers": {
                "rope_parameters": {"full_attention": YARN | {"rope_theta": 500000.0},
                                    "sliding_attention": YARN | {"rope_theta": 500000.0}},
            },
            "yarn": {
                "rope_parameters": {"full_attention": rope(rope_theta=500000.0),
                                    "sliding_attention": rope(rope_theta=500000.0)},
            },
            "q norms": LAYER0 + "self_attn.q_norm.weight",
        },
    ),
    "ministral3": (
        {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.5}, "sliding_window": 33},
        {
            "the growth of queries": {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.4}},
            "where it begins": {
                "rope_parameters": YARN
                | {"llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 41}
            },
            "windows": {"sliding_window": None},
        },
    ),
    "ernie4_5": (
        {"use_bias": True},
        {
            "yarn": {"rope_parameters": rope()},
            "k biases": LAYER1 + "self_attn.k_proj.bias",
            "down's bias": LAYER0 + "mlp.down_proj.bias",
        },
    ),
    "helium": (
        {"attention_bias": True, "mlp_bias": True},
        {
            "yarn": {"rope_parameters": rope()},
            "q biases": LAYER0 + "self_attn.q_proj.bias",
            "biases of the MLP": LAYER1 + "mlp.down_proj.bias",
            "norms": LAYER0 + "input_layernorm.weight",
        },
    ),
    "glm": (
        GLM,
        {
            "biases": {"attention_bias": False},
            "heads that rotate in part": {"rope_parameters": YARN | {"partial_rotary_factor": 1.0}},
            "yarn": {"rope_parameters": rope(partial_rotary_factor=0.5)},
            "gate and up": LAYER0 + "mlp.gate_up_proj.weight",
            "norms": LAYER0 + "input_layernorm.weight",
        },
    ),
    "glm4": (
        GLM,
        {
            "biases": LAYER0 + "self_attn.q_proj.bias",
            "heads that rotate in part": {"rope_parameters": YARN | {"partial_rotary_factor": 1.0}},
            "norms after attention": LAYER1 + "post_self_attn_layernorm.weight",
            "norms before the MLP": LAYER0 + "post_attention_layernorm.weight",
            "norms after the MLP": LAYER0 + "post_mlp_layernorm.weight",
        },
    ),
    "seedoss": (
        {"attention_bias": True, "mlp_bias": True},
        {
            "yarn": {"rope_parameters": rope()},
            "v biases": LAYER0 + "self_attn.v_proj.bias",
            "biases of the MLP": LAYER1 + "mlp.down_proj.bias",
            "norms": LAYER0 + "input_layernorm.weight",
        },
    ),
    "olmo": (
        {"attention_bias": True},
        {
            "yarn": {"rope_parameters": rope()},
            "k biases": LAYER1 + "self_attn.k_proj.bias",
            "the activation": {"hidden_act": "gelu"},
        },
    ),
    "exaone4": (
        {"layer_types": WINDOWS, "sliding_window": 20},
        {
            "windows": {"sliding_window": CONTEXT},
            "a layer that does not rotate": {"layer_types": WINDOWS[:1] * 2},
            "q norms": LAYER0 + "self_attn.q_norm.weight",
            "norms after attention": LAYER0 + "post_attention_layernorm.weight",
        },
    ),
    "arcee": (
        {"attention_bias": True, "mlp_bias": True},
        {
            "the activation": {"hidden_act": "silu"},
            "up's bias": LAYER0 + "mlp.up_proj.bias",
            "down": LAYER1 + "mlp.down_proj.weight",
            "biases": LAYER0 + "self_attn.o_proj.bias",
        },
    ),
    "nanochat": (
        {"attention_bias": True, "final_logit_softcapping": 5.0, "tie_word_embeddings": False},
        {
            "yarn": {"rope_parameters": rope()},
            "the logits' soft-cap": {"final_logit_softcapping": None},
            "q biases": LAYER0 + "self_attn.q_proj.bias",
            "k biases": LAYER1 + "self_attn.k_proj.bias",
            "the activation": {"hidden_act": "silu"},
            "the epsilon of norms": {"rms_norm_eps": 1e-2},
        },
    ),
    "hunyuandensev1": (
        {"rope_parameters": rope("dynamic", alpha=1000.0, factor=1.0), "attention_bias": True},
        {
            "alpha": {"rope_parameters": rope("dynamic", alpha=900.0, factor=1.0)},
            "q norms": LAYER0 + "self_attn.query_layernorm.weight",
            "k norms": LAYER1 + "self_attn.key_layernorm.weight",
        },
    ),
    "minicpm": (
        {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16, "rope_parameters": rope()},
        {
            "embedding scale": {"scale_emb": 11},
            "residual scale": {"scale_depth": 1.3},
            "logit divisor": {"dim_model_base": 15},
        },
    ),
    "minicpm3": (
        {
            "q_lora_rank": 24,
            "kv_lora_rank": 32,
            "qk_nope_head_dim": 20,
            "qk_rope_head_dim": 8,
            "v_head_dim": 16,
            "mlp_bias": True,
            "dim_model_base": 16,
        },
        {
            "queries' norms": LAYER0 + "self_attn.q_a_layernorm.weight",
            "latent vectors' norms": LAYER1 + "self_attn.kv_a_layernorm.weight",
            "keys and values": LAYER0 + "self_attn.kv_b_proj.weight",
            "rotation": {"rope_parameters": rope()},
            "embedding scale": {"scale_emb": 11},
            "residual scale": {"scale_depth": 1.3},
            "logit divisor": {"dim_model_base": 15},
        },
    ),
    "youtu": (
        {
            "q_lora_rank": 24,
            "kv_lora_rank": 32,
            "qk_nope_head_dim": 20,
            "qk_rope_head_dim": 8,
            "v_head_dim": 16,
        },
        {
            "queries' norms": LAYER0 + "self_attn.q_a_layernorm.weight",
            "latent vectors' norms": LAYER1 + "self_attn.kv_a_layernorm.weight",
            "keys and values": LAYER0 + "self_attn.kv_b_proj.weight",
            "rotation": {"rope_parameters": rope()},
            "neighbours that turn": {"rope_interleave": False},
        },
    ),
    "lfm2": (
        {
            "layer_types": ["conv", "full_attention"],
            "conv_L_cache": 4,
            "conv_bias": True,
            "block_ffn_dim_multiplier": 1.3,
            "block_multiple_of": 8,
        },
        {
            "gates and inputs": LAYER0 + "conv.in_proj.weight",
            "their biases": LAYER0 + "conv.in_proj.bias",
            "taps": LAYER0 + "conv.conv.weight",
            "the convolution's biases": LAYER0 + "conv.conv.bias",
            "the output's biases": LAYER0 + "conv.out_proj.bias",
            "norms before the convolution": LAYER0 + "operator_norm.weight",
            "q norms": LAYER1 + "self_attn.q_layernorm.weight",
            "k norms": LAYER1 + "self_attn.k_layernorm.weight",
            "gate": LAYER1 + "feed_forward.w1.weight",
        },
    ),
    "lfm3": (
        {
            "layer_types": ["conv", *WINDOWS],
            "conv_L_cache": 7,
            "conv_bias": True,
            "attention_bias": True,
            "sliding_window": 20,
            "rope_parameters": LFM_ROPE,
        },
        {
            "taps": LAYER0 + "conv.conv.weight",
            "norms after the convolution": LAYER0 + "post_operator_norm.weight",
            "norms after attention": LAYER1 + "post_operator_norm.weight",
            "norms after the MLP": LAYER1 + "post_ffn_norm.weight",
            "gates": LAYER1 + "self_attn.g_proj.weight",
            "biases": LAYER1 + "self_attn.o_proj.bias",
            "q norms": LAYER1 + "self_attn.q_norm.weight",
            "windows": {"sliding_window": CONTEXT},
            "heads that rotate in part": {"rope_parameters": LFM_ROPE | {"full_attention": rope(rope_theta=100.0)}},
            "the rotation of windowed layers": {"rope_parameters": LFM_ROPE | {"sliding_attention": rope(rope_theta=5000.0)}},
        },
    ),
    "lfm2moe": (
        {
            "layer_types": ["conv", "full_attention"],
            "conv_L_cache": 4,
            "conv_bias": True,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "num_dense_layers": 1,
            "moe_intermediate_size": 24,
            "routed_scaling_factor": 1.7,
        },
        {
            "the number of experts that a token uses": {"num_experts_per_tok": 3},
            "the bias of the choice": {"use_expert_bias": False},
            "the sum of weights": {"norm_topk_prob": False},
            "the scale of weights": {"routed_scaling_factor": 1.6},
            "taps": LAYER0 + "conv.conv.weight",
            "the dense layer": LAYER0 + "feed_forward.w2.weight",
            "the router": LAYER1 + "feed_forward.gate.weight",
            "gates": LAYER1 + "feed_forward.experts.gate_up_proj",
            "outputs": LAYER1 + "feed_forward.experts.down_proj",
        },
    ),
    "stablelm": (
        {"use_qkv_bias": True, "use_parallel_residual": True, "rope_parameters": PARTLY},
        LAYER_NORM_BIASES
        | {
            "biases": LAYER0 + "self_attn.v_proj.bias",
            "heads that rotate in part": {"rope_parameters": rope(partial_rotary_factor=1.0)},
        },
    ),
    "cohere2": (
        {"layer_types": WINDOWS, "sliding_window": 20, "logit_scale": 0.25, "attention_bias": True},
        {
            "windows": {"sliding_window": CONTEXT},
            "a layer that does not rotate": {"layer_types": WINDOWS[:1] * 2},
            "which layer is windowed": {"layer_types": WINDOWS[::-1]},
            "the scale of logits": {"logit_scale": 0.26},
            "yarn": {"rope_parameters": rope()},
            "norms": LAYER1 + "input_layernorm.weight",
            "the last norm": "model.norm.weight",
            "biases": LAYER0 + "self_attn.o_proj.bias",
        },
    ),
    "olmoe": (
        {"num_experts": 7, "num_experts_per_tok": 3, "clip_qkv": 0.8},
        {
            "the number of experts that a token uses": {"num_experts_per_tok": 2},
            "the sum of weights": {"norm_topk_prob": True},
            "the limit of queries, keys and values": {"clip_qkv": 0.9},
            "the router": LAYER0 + "mlp.gate.weight",
            "gates": LAYER1 + "mlp.experts.gate_up_proj",
            "outputs": LAYER1 + "mlp.experts.down_proj",
            "q norms": LAYER0 + "self_attn.q_norm.weight",
        },
    ),
    "qwen3moe": (
        {
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "norm_topk_prob": True,
            "mlp_only_layers": [1],
            "use_sliding_window": True,
            "sliding_window": 20,
        },
        {
            "the number of experts that a token uses": {"num_experts_per_tok": 3},
            "the sum of weights": {"norm_topk_prob": False},
            "windows": {"use_sliding_window": False},
            "the router": LAYER0 + "mlp.gate.weight",
            "gates": LAYER0 + "mlp.experts.gate_up_proj",
            "the dense layer": LAYER1 + "mlp.gate_proj.weight",
            "k norms": LAYER1 + "self_attn.k_norm.weight",
        },
    ),
    "granitemoe": (
        {
            "num_local_experts": 5,
            "num_experts_per_tok": 2,
            "embedding_multiplier": 6.0,
            "residual_multiplier": 0.3,
            "attention_multiplier": 0.2,
            "logits_scaling": 8.0,
        },
        {
            "the number of experts that a token uses": {"num_experts_per_tok": 3},
            "residual scale": {"residual_multiplier": 0.33},
            "the router": LAYER0 + "block_sparse_moe.router.weight",
            "gates": LAYER1 + "block_sparse_moe.experts.gate_up_proj",
            "outputs": LAYER0 + "block_sparse_moe.experts.down_proj",
        },
    ),
    "granitemoeshared": (
        {"num_local_experts": 5, "num_experts_per_tok": 2, "shared_intermediate_size": 37},
        {
            "the number of experts that a token uses": {"num_experts_per_tok": 3},
            "the router": LAYER0 + "block_sparse_moe.router.weight",
            "the shared MLP": LAYER1 + "shared_mlp.input_linear.weight",
            "its output": LAYER0 + "shared_mlp.output_linear.weight",
        },
    ),
    "granitemoeswa": (
        {
            "num_local_experts": 5,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 37,
            "sliding_window": 20,
            "layer_rope_theta": [0, 500000],
        },
        {
            "sinks": LAYER1 + "self_attn.sinks",
            "windows": {"layer_types": ["full_attention"] * 2},
            "the layer's rotation": {"layer_rope_theta": [0, 10000]},
            "the router": LAYER0 + "block_sparse_moe.router.weight",
            "the shared MLP": LAYER1 + "shared_mlp.input_linear.weight",
        },
    ),
    "gptneox": (
        {"rope_parameters": PARTLY},
        {
            "fused weights": "gpt_neox.layers.0.attention.query_key_value.weight",
            "fused biases": "gpt_neox.layers.1.attention.query_key_value.bias",
            "biases of the MLP's norm": "gpt_neox.layers.0.post_attention_layernorm.bias",
            "the parallel MLP": {"use_parallel_residual": False},
            "the activation": {"hidden_act": "silu"},
            "heads that rotate in part": {"rope_parameters": rope(partial_rotary_factor=1.0)},
        },
    ),
    "gpt2": (
        {},
        {
            "positions": "transformer.wpe.weight",
            "transposed weights": "transformer.h.1.mlp.c_fc.weight",
            "fused weights": "transformer.h.0.attn.c_attn.weight",
            "fused biases": "transformer.h.0.attn.c_attn.bias",
            "biases of the last norm": "transformer.ln_f.bias",
            "the activation": {"activation_function": "silu"},
        },
    ),
    "starcoder2": (
        {"sliding_window": 33},
        LAYER_NORM_BIASES
        | {
            "windows": {"sliding_window": None},
            "yarn": {"rope_parameters": rope()},
            "up": LAYER1 + "mlp.c_fc.weight",
            "its bias": LAYER0 + "mlp.c_fc.bias",
            "biases": LAYER0 + "self_attn.v_proj.bias",
            "the activation": {"hidden_act": "silu"},
        },
    ),
    "nemotron": (
        {"attention_bias": True, "mlp_bias": True, "rope_parameters": YARN | {"partial_rotary_factor": 0.5}},
        {
            "the activation": {"hidden_act": "silu"},
            "heads that rotate in part": {"rope_parameters": YARN | {"partial_rotary_factor": 1.0}},
            "yarn": {"rope_parameters": rope(partial_rotary_factor=0.5)},
            "the last norm": "model.norm.weight",
            "its bias": "model.norm.bias",
            "o's bias": LAYER0 + "self_attn.o_proj.bias",
            "up's bias": LAYER1 + "mlp.up_proj.bias",
            **LAYER_NORM_BIASES,
        },
    ),
    "phi": (
        {"rope_parameters": PARTLY},
        LAYER_NORM_BIASES
        | {
            "the output's bias": "lm_head.bias",
            "up": LAYER1 + "mlp.fc1.weight",
            "heads that rotate in part": {"rope_parameters": rope(partial_rotary_factor=1.0)},
        },
    ),
    "gemma": (
        {"hidden_act": "gelu", "attention_bias": True},
        {
            "the activation": {"hidden_act": "silu"},
            "norms before attention": LAYER0 + "input_layernorm.weight",
            "norms before the MLP": LAYER1 + "post_attention_layernorm.weight",
            "the last norm": "model.norm.weight",
            "biases": LAYER0 + "self_attn.o_proj.bias",
        },
    ),
    "gemma2": (
        {
            "layer_types": WINDOWS,
            "sliding_window": 20,
            "query_pre_attn_scalar": 10,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 30.0,
        },
        {
            "windows": {"sliding_window": CONTEXT},
            "attention's soft-cap": {"attn_logit_softcapping": None},
            "the logits' soft-cap": {"final_logit_softcapping": None},
            "attention's scale": {"query_pre_attn_scalar": 11},
            "the activation": {"hidden_activation": "silu"},
            "norms before attention": LAYER0 + "input_layernorm.weight",
            "norms after attention": LAYER0 + "post_attention_layernorm.weight",
            "norms before the MLP": LAYER1 + "pre_feedforward_layernorm.weight",
            "norms after the MLP": LAYER1 + "post_feedforward_layernorm.weight",
        },
    ),
    "vaultgemma": (
        {"layer_types": WINDOWS, "sliding_window": 20, "query_pre_attn_scalar": 10, "attn_logit_softcapping": 5.0},
        {
            "windows": {"sliding_window": CONTEXT},
            "attention's soft-cap": {"attn_logit_softcapping": None},
            "the logits' soft-cap": {"final_logit_softcapping": None},
            "attention's scale": {"query_pre_attn_scalar": 11},
            "norms before attention": LAYER0 + "input_layernorm.weight",
            "norms before the MLP": LAYER1 + "pre_feedforward_layernorm.weight",
        },
    ),
    "gemma3": (
        {"layer_types": WINDOWS, "sliding_window": 20, "rope_parameters": GEMMA_ROPE},
        {
            "windows": {"sliding_window": CONTEXT},
            "the global rotation": {"rope_parameters": GEMMA_ROPE | {"full_attention": rope()}},
            "the local rotation": {"rope_parameters": GEMMA_ROPE | {"sliding_attention": rope()}},
            "q norms": LAYER0 + "self_attn.q_norm.weight",
            "k norms": LAYER1 + "self_attn.k_norm.weight",
        },
    ),
    "gemma4": (
        {
            "num_hidden_layers": 4,
            "layer_types": WINDOWS * 2,
            "sliding_window": 20,
            "global_head_dim": 24,
            "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True,
            "hidden_size_per_layer_input": 16,
            "vocab_size_per_layer_input": TWO_LAYERS["vocab_size"],
            "final_logit_softcapping": 30.0,
        },
        {
            "windows": {"sliding_window": CONTEXT},
            "the logits' soft-cap": {"final_logit_softcapping": None},
            "the activation": {"hidden_activation": "silu"},
            "the rotation": {"rope_parameters": {"full_attention": rope(), "sliding_attention": rope()}},
            "q norms of layers that share": "model.layers.3.self_attn.q_norm.weight",
            "rows for layers": "model.embed_tokens_per_layer.weight",
            "norms of inputs": "model.per_layer_projection_norm.weight",
            "gates of inputs": LAYER0 + "per_layer_input_gate.weight",
            "norms after inputs": "model.layers.2.post_per_layer_input_norm.weight",
            "scales of layers": LAYER1 + "layer_scalar",
        },
    ),
    "gemma4unified": (
        {"num_hidden_layers": 4, "layer_types": WINDOWS * 2, "sliding_window": 20, "global_head_dim": 24, "num_kv_shared_layers": 2},
        {"windows": {"sliding_window": CONTEXT}, "scales of layers": LAYER1 + "layer_scalar"},
    ),
    "gemma4moe": (
        {
            "layer_types": WINDOWS,
            "sliding_window": 20,
            "global_head_dim": 24,
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "num_experts": 6,
            "top_k_experts": 2,
            "moe_intermediate_size": 24,
        },
        {
            "experts": {"top_k_experts": 3},
            "norms of the router": LAYER1 + "router.scale",
            "norms before experts": LAYER1 + "pre_feedforward_layernorm_2.weight",
            "norms after experts": LAYER0 + "post_feedforward_layernorm_2.weight",
            "norms after the MLP beside them": LAYER1 + "post_feedforward_layernorm_1.weight",
        },
    ),
}


def config_of(family, **settings):
    """A configuration of two layers with these settings; the family's defaults are not used."""
    return CONFIGS[family](**copy.deepcopy(SIZES.get(family, TWO_LAYERS) | settings))


def featured(family):
    """The one with all features."""
    return config_of(family, **FEATURES[family][0])

"""One small configuration of every family with all of its features, and what turns each of them off."""

import copy

from families import CONFIGS, CONTEXT

def rope(kind="default", **settings):
    return {"rope_type": kind, "rope_theta": 10000.0} | settings


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
LAYER0, LAYER1 = "model.layers.0.", "model.layers.1."

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
}


def config_of(family, **settings):
    """A configuration of two layers with these settings; the family's defaults are not used."""
    return CONFIGS[family](**copy.deepcopy(TWO_LAYERS | settings))


def featured(family):
    """The one with all features."""
    return config_of(family, **FEATURES[family][0])

"""The converter's reading of config.json and generation_config.json against transformers."""

import copy
import ctypes
import importlib
import json
import math
import os
import random

import numpy as np
import published
import pytest
from families import CONFIGS, cases, configs
from hypothesis import given
from hypothesis import strategies as st
from internal import DAMAGED, OK, UNSUPPORTED, Error, Settings, lib
from structs import c_struct
from transformers import AutoConfig, FalconH1Config, GenerationConfig, LlamaConfig
from transformers.models.lfm2.modeling_lfm2 import Lfm2MLP
from transformers.models.minicpm3.modeling_minicpm3 import MiniCPM3Attention
from transformers.models.youtu.modeling_youtu import YoutuAttention

ROUNDS = 300 if os.environ.get("SMOL_TEST_ALL") else 100
FAMILY_ROUNDS = int(os.environ.get("SMOL_FAMILY_CASES", 10))
NO_TOKEN = 2**32 - 1


States, Experts, Hybrid, Latent, Varied, Partial, Model = (
    c_struct("format/format.h", f"blob_{part}") for part in ("states", "experts", "hybrid", "latent", "varied", "partial", "model")
)


# in the order of the bits of enum generation_field
GENERATION_FIELDS = "do_sample temperature top_k top_p min_p repetition_penalty".split()


Config = c_struct("convert/checkpoint/config.h", "config")


def load(folder):
    config, tokenizer_config, tokenizer, error = Config(), Settings(), Settings(), Error()
    status = lib.smol_config_open(
        str(folder).encode(),
        b"config.json",
        0,
        ctypes.byref(config),
        ctypes.byref(tokenizer_config),
        ctypes.byref(tokenizer),
        ctypes.byref(error),
    )
    lib.smol_settings_close(ctypes.byref(tokenizer_config))
    lib.smol_settings_close(ctypes.byref(tokenizer))
    assert status == OK, str(error)
    return config


def as_set(ids):
    return set(ids if isinstance(ids, list) else [] if ids is None else [ids])


def check_model(ours, theirs):
    model = ours.model
    assert model.n_layers == theirs.num_hidden_layers
    assert model.hidden_size == theirs.hidden_size
    assert model.intermediate_size == theirs.intermediate_size
    assert model.n_heads == theirs.num_attention_heads
    assert model.n_kv_heads == theirs.num_key_value_heads
    assert model.head_dim == theirs.head_dim
    assert model.vocab_size == theirs.vocab_size
    assert model.context_length == theirs.max_position_embeddings
    assert model.bos_id == (NO_TOKEN if theirs.bos_token_id is None else theirs.bos_token_id)
    assert model.tied_embeddings == theirs.tie_word_embeddings
    assert model.attention_bias == theirs.attention_bias
    assert model.mlp_bias == theirs.mlp_bias
    assert model.rms_norm_eps == np.float32(theirs.rms_norm_eps)
    assert model.rope_theta == theirs.rope_parameters["rope_theta"]


def random_config(rng):
    kv_heads, groups, head_dim = rng.randrange(1, 9), rng.randrange(1, 9), 2 * rng.randrange(1, 65)
    theta = rng.choice([10000.0, 100000, 500000.0, rng.uniform(1, 1e7)])
    vocab_size = rng.randrange(3, 200000)
    some_ids = [rng.randrange(vocab_size) for _ in range(rng.randrange(1, 5))]
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=vocab_size,
        hidden_size=kv_heads * groups * head_dim,
        intermediate_size=rng.randrange(1, 20000),
        num_hidden_layers=rng.randrange(1, 100),
        num_attention_heads=kv_heads * groups,
        num_key_value_heads=rng.choice([kv_heads, kv_heads, None]),
        head_dim=rng.choice([None, None, 2 * rng.randrange(1, 65)]),
        hidden_act=rng.choice(["silu", "swish"]),
        max_position_embeddings=rng.randrange(1, 200000),
        rms_norm_eps=rng.choice([1e-5, 1e-6, rng.uniform(1e-8, 1e-3)]),
        bos_token_id=rng.choice([None, rng.randrange(vocab_size)]),
        eos_token_id=rng.choice([None, some_ids[0], some_ids]),
        pretraining_tp=rng.choice([1, 2]),
        tie_word_embeddings=rng.random() < 0.5,
        attention_bias=rng.random() < 0.5,
        mlp_bias=rng.random() < 0.5,
        rope_parameters=rng.choice([None, {"rope_theta": theta, "rope_type": "default"}]),
        dtype=rng.choice([None, "float32", "bfloat16", "float16"]),
    )


def to_old_style(keys, rng):
    """config.json as transformers 4 wrote it: theta on top, rope_scaling, torch_dtype."""
    theta = keys.pop("rope_parameters")["rope_theta"]
    keys["rope_theta"] = theta
    keys["rope_scaling"] = rng.choice([None, {"type": "default"}, {"rope_theta": theta}])
    if "dtype" in keys:
        keys["torch_dtype"] = keys.pop("dtype")


@pytest.mark.parametrize("style", ["as written", "old style", "keys missing"])
def test_resolves_what_transformers_resolves(tmp_path, style):
    rng = random.Random(style)
    for _ in range(ROUNDS):
        random_config(rng).save_pretrained(tmp_path)
        path = tmp_path / "config.json"
        keys = json.loads(path.read_text())
        if style == "old style":
            to_old_style(keys, rng)
        if style == "keys missing":
            # what must divide, and ids that must be below vocab_size, go or stay together
            droppable = set(keys) - {"architectures", "vocab_size", "num_key_value_heads"}
            droppable -= {"hidden_size", "num_attention_heads"}
            for key in rng.sample(sorted(droppable), rng.randrange(len(droppable))):
                del keys[key]
            if rng.random() < 0.2:
                keys = {"model_type": "llama"} if rng.random() < 0.2 else keys | {"head_dim": None}
        path.write_text(json.dumps(keys))
        ours, theirs = load(tmp_path), LlamaConfig.from_pretrained(tmp_path)
        check_model(ours, theirs)
        assert list(ours.stop[: ours.n_stop]) == sorted(as_set(theirs.eos_token_id))


def test_reads_sampling_defaults_as_transformers_does(tmp_path):
    rng = random.Random(5)
    LlamaConfig(architectures=["LlamaForCausalLM"], eos_token_id=7).save_pretrained(tmp_path)
    seen = set()
    for _ in range(ROUNDS):
        GenerationConfig(
            do_sample=True,
            temperature=rng.choice([None, 0.7, rng.uniform(0.01, 2)]),
            top_k=rng.choice([None, 0, 50, rng.randrange(1, 1000)]),
            top_p=rng.choice([None, 1.0, rng.random()]),
            min_p=rng.choice([None, rng.random()]),
            repetition_penalty=rng.choice([None, 1.0, rng.uniform(0.5, 2)]),
            eos_token_id=rng.choice([None, 9, [9, 7, 3]]),
        ).save_pretrained(tmp_path)
        ours, theirs = load(tmp_path), GenerationConfig.from_pretrained(tmp_path)
        for bit, name in enumerate(GENERATION_FIELDS):
            value = getattr(theirs, name)
            assert bool(ours.generation.present & 1 << bit) == (value is not None), name
            assert getattr(ours.generation, name) == np.float32(value or 0), name
        assert set(ours.stop[: ours.n_stop]) == {7} | as_set(theirs.eos_token_id)
        seen.add(ours.generation.present)
    assert len(seen) > 16


# --- every family -----------------------------------------------------------------------------
GEMMA4 = ("gemma4_text", "gemma4_unified_text")

WINDOWED, NO_ROTATION, SECOND_TABLE = 1, 2, 4  # enum layer_bit
NONE, QKVO, QKV = range(3)  # enum bias_kind
NORM_OUTPUTS, NO_INPUT_NORMS, QK_NORM_HEADS, QK_NORM_ALL = 1, 2, 4, 8  # enum block_bit
QK_NORM_LATE, ROTATE_NEIGHBOURS, LAYER_NORM, NO_GATE = 16, 32, 64, 128
PARALLEL, ONE_NORM, POSITIONS, OUTPUT_BIAS, ATTENTION_GATE, GATE_HEADS, SINKS = 256, 512, 1024, 2048, 8192, 32768, 65536
BLOCKS = {
    "ernie4_5": ROTATE_NEIGHBOURS,
    "arcee": NO_GATE,
    "nemotron_h": NO_GATE,
    "helium": ROTATE_NEIGHBOURS,
    "glm": ROTATE_NEIGHBOURS,
    "glm4": ROTATE_NEIGHBOURS | NORM_OUTPUTS,
    "exaone4": NO_INPUT_NORMS | NORM_OUTPUTS | QK_NORM_HEADS,
    "hunyuan_v1_dense": QK_NORM_HEADS | QK_NORM_LATE,
    "nanochat": NO_GATE | QK_NORM_HEADS | QK_NORM_LATE,
    "stablelm": LAYER_NORM,
    "cohere2": LAYER_NORM | PARALLEL | ONE_NORM | ROTATE_NEIGHBOURS,
    "gpt_neox": LAYER_NORM | NO_GATE,
    "gpt2": LAYER_NORM | NO_GATE | POSITIONS,
    "starcoder2": LAYER_NORM | NO_GATE,
    "nemotron": LAYER_NORM | NO_GATE,
    "phi": LAYER_NORM | NO_GATE | PARALLEL | ONE_NORM | OUTPUT_BIAS,
    "gemma2": NORM_OUTPUTS,
    "gemma3_text": NORM_OUTPUTS | QK_NORM_HEADS,
    "gemma4_text": NORM_OUTPUTS | QK_NORM_HEADS,
    "gemma4_unified_text": NORM_OUTPUTS | QK_NORM_HEADS,
    "olmo3": NO_INPUT_NORMS | NORM_OUTPUTS | QK_NORM_ALL,
    "olmo": LAYER_NORM,
    "olmo2": NO_INPUT_NORMS | NORM_OUTPUTS | QK_NORM_ALL,
    "qwen3": QK_NORM_HEADS,
    "lfm2": QK_NORM_HEADS,
    "lfm2_moe": QK_NORM_HEADS,
    "lfm3": QK_NORM_HEADS,
    "qwen3_5_text": QK_NORM_HEADS | ATTENTION_GATE,
    "qwen3_5_moe_text": QK_NORM_HEADS | ATTENTION_GATE,
    "qwen3_next": QK_NORM_HEADS | ATTENTION_GATE,
    "olmoe": QK_NORM_ALL,
    "granite_swa": SINKS,
    "granitemoe_swa": SINKS,
    "qwen3_moe": QK_NORM_HEADS,
}


PARALLEL_BLOCKS = {"stablelm": PARALLEL | ONE_NORM, "gpt_neox": PARALLEL}
SWITCHED = {"use_sandwich_norm": NORM_OUTPUTS, "use_attention_gate": ATTENTION_GATE | GATE_HEADS, "rope_interleave": ROTATE_NEIGHBOURS}
ACTIVATIONS = {"silu": 0, "gelu_pytorch_tanh": 1, "gelu_new": 1, "gelu_fast": 1, "gelu": 2, "relu2": 3}


def thetas_of(config):
    """The different numbers in layer_rope_theta but 0."""
    return list(dict.fromkeys(theta for theta in getattr(config, "layer_rope_theta", ()) if theta))


def rotary_of(config):
    """The reference's tables, (inv_freq, scale), of layers that are not windowed and of those that
    are."""
    name = config.model_type.removesuffix("_text")
    name = "granite" if name == "minicpm" else name  # which has no module of its own
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    (kind,) = (n for n in dir(module) if n.endswith("RotaryEmbedding") and "Vision" not in n)
    rotary = getattr(module, kind)(config)
    if thetas := thetas_of(config):
        settings = [copy.deepcopy(config) for _ in thetas]
        for theta, its_own in zip(thetas, settings):
            its_own.rope_parameters["rope_theta"] = theta
        tables = [getattr(module, kind)(its_own) for its_own in settings]
        return [(table.inv_freq, table.attention_scaling) for table in tables]
    if name not in ("gemma3", "gemma4", "gemma4_unified", "olmo3", "lfm3"):
        return [(rotary.inv_freq, rotary.attention_scaling)] * 2
    return [
        (getattr(rotary, f"{kind}_inv_freq", None), getattr(rotary, f"{kind}_attention_scaling", 0))
        for kind in ("full_attention", "sliding_attention")
    ]


def layers_of(config):
    """The bits that each layer is due, as the reference's attention decides."""
    n, window = config.num_hidden_layers, getattr(config, "sliding_window", None)
    types = ["full_attention"] * n
    if config.model_type in ("mistral", "phi3", "ministral3", "qwen3_moe", "starcoder2") and window:
        types = ["sliding_attention"] * n
    elif config.model_type in (
        "qwen2", "qwen3", "smollm3", "olmo3", "exaone4", "gemma2", "gemma3_text", "granite_swa",
        "granitemoe_swa", "cohere2", "vaultgemma", "lfm3", "gemma4_text", "gemma4_unified_text",
    ):  # fmt: skip
        types = config.layer_types
    bits = [WINDOWED * (kind == "sliding_attention" and window is not None) for kind in types]
    if config.model_type == "smollm3":
        bits = [b | (0 if r else NO_ROTATION) for b, r in zip(bits, config.no_rope_layers)]
    if config.model_type == "exaone4" and window:
        bits = [b | (0 if b else NO_ROTATION) for b in bits]
    if config.model_type == "cohere2":
        bits = [b or NO_ROTATION for b in bits]
    if config.model_type == "gpt2":
        bits = [NO_ROTATION] * n
    if config.model_type == "nemotron_h":
        bits = [NO_ROTATION * (kind == "full_attention") for kind in config.layer_types]
    if config.model_type == "granitemoehybrid" and config.position_embedding_type != "rope":
        bits = [NO_ROTATION * (kind == "full_attention") for kind in config.layer_types]
    kinds = set(types) - {"conv"}
    if config.model_type in ("gemma3_text", "olmo3", "lfm3") and len(kinds) == 2:
        bits = [b | SECOND_TABLE * (b == WINDOWED) for b in bits]
    if thetas := getattr(config, "layer_rope_theta", None):
        second = thetas_of(config)[1:]
        bits = [b | NO_ROTATION * (not t) | SECOND_TABLE * (t in second) for b, t in zip(bits, thetas)]
    if config.model_type in GEMMA4:
        bits = [b or SECOND_TABLE for b in bits]
    if window and window >= config.max_position_embeddings:
        bits = [b & ~WINDOWED for b in bits]
    return bits


def global_of(config, name, fallback=None):
    """What layers have that have no setting of their own: Gemma 4's configuration does not tell."""
    return config.to_dict()[name] if config.model_type in GEMMA4 else getattr(config, name, fallback)


def scales_of(config):
    head_dim = global_of(config, "head_dim") or config.hidden_size // config.num_attention_heads
    gemma = "gemma" in config.model_type
    attention = head_dim**-0.5
    if gemma and config.model_type != "gemma":
        attention = getattr(config, "query_pre_attn_scalar", 1) ** -0.5
    if config.model_type == "youtu":
        attention = (config.qk_nope_head_dim + config.qk_rope_head_dim) ** -0.5
    if config.model_type == "minicpm3":
        return dict(
            embedding_scale=config.scale_emb,
            residual_scale=config.scale_depth / config.num_hidden_layers**0.5,
            attention_scale=(config.qk_nope_head_dim + config.qk_rope_head_dim) ** -0.5,
            logit_divisor=config.logits_scaling,
        )
    caps = "attn_logit_softcapping" if config.model_type in ("gemma2", "vaultgemma") else ""
    return dict(
        embedding_scale=config.hidden_size**0.5
        if gemma
        else getattr(config, "embedding_multiplier", 1),
        residual_scale=getattr(config, "residual_multiplier", 1),
        attention_scale=getattr(config, "attention_multiplier", attention) * getattr(config, "key_multiplier", 1),
        logit_divisor=getattr(config, "logits_scaling", 1 / getattr(config, "lm_head_multiplier", getattr(config, "logit_scale", 1))),
        attention_softcap=getattr(config, caps, None) or 0,
        logit_softcap=getattr(config, "final_logit_softcapping", None) or 0,
    )


def check_rotation(ours, theirs):
    model = ours.model
    pair = [table for table in rotary_of(theirs) if table[0] is not None]
    tables = pair if model.n_rope_tables == 2 else pair[:1]
    starts = [i * (model.rotary_dim // 2) for i in range(2)]
    if theirs.model_type in GEMMA4:  # its first table is that of windowed layers, if there are any
        tables, starts = tables[::-1], starts[2 - len(tables) :]
    for i, (start, (inv_freq, scale)) in enumerate(zip(starts, tables)):
        mine = np.array(ours.inv_freq[start : start + len(inv_freq)], np.float32)
        ulps = abs(mine.view(np.int32).astype(int) - inv_freq.numpy().view(np.int32))
        assert len(mine) == len(inv_freq) and ulps.max() <= 4, (theirs.rope_parameters, ulps)
        assert model.rope_scale[i] == np.float32(scale)


def check_states(model, theirs):
    stateful = [kind in ("conv", "linear_attention", "hybrid") for kind in getattr(theirs, "layer_types", None) or ()]
    if not any(stateful):
        assert bytes(model.states) == bytes(ctypes.sizeof(States))
        return
    states = model.states
    sizes = (states.n_heads, states.head_dim, states.size, states.n_groups)
    if theirs.model_type in ("lfm2", "lfm2_moe", "lfm3"):
        assert (states.kind, states.taps, states.biases) == (1, theirs.conv_L_cache, theirs.conv_bias)
        assert sizes == (0, 0, 0, 0)
    elif theirs.model_type == "nemotron_h":
        assert (states.kind, states.taps, states.biases) == (2, theirs.conv_kernel, theirs.use_conv_bias)
        assert sizes == (theirs.mamba_num_heads, theirs.mamba_head_dim, theirs.ssm_state_size, theirs.n_groups)
    elif theirs.model_type in ("granitemoehybrid", "falcon_h1"):
        assert (states.kind, states.taps, states.biases) == (2, theirs.mamba_d_conv, theirs.mamba_conv_bias)
        assert sizes == (theirs.mamba_n_heads, theirs.mamba_d_head, theirs.mamba_d_state, theirs.mamba_n_groups)
    else:
        assert (states.kind, states.taps, states.biases) == (3, theirs.linear_conv_kernel_dim, 0)
        assert sizes == (
            theirs.linear_num_value_heads, theirs.linear_value_head_dim,
            theirs.linear_key_head_dim, theirs.linear_num_key_heads,
        )  # fmt: skip
    bits = np.unpackbits(np.array(states.layers, np.uint8), bitorder="little")
    assert list(np.flatnonzero(bits)) == list(np.flatnonzero(stateful))


def check_hybrid(h, theirs):
    if theirs.model_type != "falcon_h1":
        assert bytes(h) == bytes(ctypes.sizeof(Hybrid))
        return
    norm = (0 if not theirs.mamba_norm_before_gate else 1) if theirs.mamba_rms_norm else 2
    assert (h.parallel, h.norm, h.input_biases, h.output_bias) == (1, norm, theirs.mamba_proj_bias, theirs.projectors_bias)
    scales = [theirs.attention_in_multiplier, theirs.attention_out_multiplier, theirs.ssm_in_multiplier, theirs.ssm_out_multiplier]
    scales += theirs.ssm_multipliers + theirs.mlp_multipliers
    assert [getattr(h, name) for name, _ in Hybrid._fields_[4:15]] == [np.float32(scale) for scale in scales]


def is_sparse(theirs, layer):
    """Returns whether a layer has experts, as Qwen3MoeDecoderLayer and Lfm2MoeDecoderLayer decide it."""
    if theirs.model_type == "nemotron_h":
        return theirs.layer_types[layer] == "moe"
    if layer < getattr(theirs, "num_dense_layers", 0):
        return False
    only_mlp = getattr(theirs, "mlp_only_layers", None) or ()
    return layer not in only_mlp and (layer + 1) % getattr(theirs, "decoder_sparse_step", 1) == 0


def check_experts(model, theirs):
    n = getattr(theirs, "num_experts", getattr(theirs, "num_local_experts", 0))
    of_gemma = theirs.model_type == "gemma4_text"
    n = 0 if of_gemma and not theirs.enable_moe_block else n
    sparse = [is_sparse(theirs, layer) for layer in range(theirs.num_hidden_layers)]
    x = model.experts
    if not n or not any(sparse):
        assert bytes(x) == bytes(ctypes.sizeof(Experts))
        return
    assert (x.n_experts, x.n_used) == (n, theirs.top_k_experts if of_gemma else theirs.num_experts_per_tok)
    assert x.width == (getattr(theirs, "moe_intermediate_size", None) or theirs.intermediate_size)
    gated = getattr(theirs, "shared_expert_intermediate_size", 0)
    shared = getattr(theirs, "moe_shared_expert_intermediate_size", getattr(theirs, "shared_intermediate_size", 0))
    assert x.shared_width == (theirs.intermediate_size if of_gemma else gated or shared)
    assert x.own_norms == of_gemma
    assert x.shared_gate == (gated > 0)
    has_sigmoids = theirs.model_type in ("lfm2_moe", "nemotron_h")
    assert x.scoring == (2 if has_sigmoids else "granite" in theirs.model_type)
    assert x.normalizes == getattr(theirs, "norm_topk_prob", theirs.model_type in ("qwen3_5_moe_text", "gemma4_text"))
    assert x.choice_bias == getattr(theirs, "use_expert_bias", theirs.model_type == "nemotron_h")
    epsilon = {"lfm2_moe": 1e-6, "nemotron_h": 1e-20}.get(theirs.model_type, 0)
    assert x.sum_epsilon == np.float32(epsilon if x.normalizes else 0)
    assert x.scale == np.float32(getattr(theirs, "routed_scaling_factor", 1))
    assert x.qkv_clip == np.float32(getattr(theirs, "clip_qkv", None) or 0)
    dense = np.unpackbits(np.array(x.dense, np.uint8), bitorder="little")
    assert list(np.flatnonzero(dense)) == [i for i, is_one in enumerate(sparse) if not is_one]


def check_latent(model, theirs):
    latent = model.latent
    if theirs.model_type not in ("minicpm3", "youtu"):
        assert bytes(latent) == bytes(ctypes.sizeof(Latent))
        return
    attention = (MiniCPM3Attention if theirs.model_type == "minicpm3" else YoutuAttention)(theirs, 0)
    assert latent.kv_rank == attention.kv_lora_rank and latent.q_rank == (attention.q_lora_rank or 0)
    assert (latent.query_dim, latent.value_dim) == (attention.qk_nope_head_dim, attention.v_head_dim)
    assert model.rotary_dim == attention.qk_rope_head_dim
    assert latent.norm_eps == np.float32(attention.kv_a_layernorm.variance_epsilon)


def check_varied(model, theirs):
    varied = model.varied
    if theirs.model_type not in GEMMA4:
        assert bytes(varied) == bytes(ctypes.sizeof(Varied))
        return
    second = [i for i, kind in enumerate(theirs.layer_types) if kind == "full_attention"]
    heads = theirs.per_layer_config[second[-1]]
    assert (varied.head_dim, varied.n_kv_heads) == (heads.head_dim, heads.num_key_value_heads)
    assert varied.keys_are_values == theirs.attention_k_eq_v
    assert varied.first_shared == theirs.num_hidden_layers - theirs.num_kv_shared_layers
    double = theirs.use_double_wide_mlp and theirs.num_kv_shared_layers > 0
    width = theirs.moe_intermediate_size if getattr(theirs, "enable_moe_block", False) else theirs.intermediate_size
    assert varied.shared_width == width * (2 if double else 1)
    width = getattr(theirs, "hidden_size_per_layer_input", 0)
    scales = (width**0.5, theirs.hidden_size**-0.5, 2**-0.5) if width else (0, 0, 0)
    ours = (varied.input_scale, varied.projection_scale, varied.sum_scale)
    assert varied.input_width == width and all(abs(a - b) <= 1e-7 * b for a, b in zip(ours, scales))
    bits = np.unpackbits(np.array(varied.second, np.uint8), bitorder="little")
    assert list(np.flatnonzero(bits)) == second


def check_partial(partial, theirs):
    kinds = theirs.layer_types if theirs.model_type == "nemotron_h" else []
    for layers, names in ((partial.no_mixer, ("mlp", "moe")), (partial.no_mlp, ("linear_attention", "full_attention"))):
        bits = np.unpackbits(np.array(layers, np.uint8), bitorder="little")
        assert list(np.flatnonzero(bits)) == [i for i, kind in enumerate(kinds) if kind in names]


def intermediate_size_of(theirs):
    if theirs.model_type == "nemotron_h":
        return theirs.intermediate_size if "mlp" in theirs.layer_types else theirs.moe_intermediate_size
    if theirs.model_type == "granitemoehybrid" and not theirs.num_local_experts:
        return theirs.shared_intermediate_size
    if theirs.model_type == "gemma4_text" and theirs.enable_moe_block:
        return theirs.moe_intermediate_size
    layers = range(theirs.num_hidden_layers)
    with_sizes = ("qwen3_moe", "lfm2_moe", "qwen3_next", "qwen3_5_moe_text")
    if theirs.model_type in with_sizes and all(is_sparse(theirs, layer) for layer in layers):
        return theirs.moe_intermediate_size
    if theirs.model_type != "lfm2":
        wide = getattr(theirs, "n_inner", None) or 4 * theirs.hidden_size  # GPT-2's
        return getattr(theirs, "intermediate_size", wide)
    return Lfm2MLP(theirs).w1.out_features


def check_block(ours, theirs):
    model = ours.model
    lib.smol_model_fill(ctypes.byref(model))
    biases = [NONE, QKVO][getattr(theirs, "attention_bias", False)]
    biases = QKV if theirs.model_type in ("helium", "glm", "glm4", "seed_oss") and biases else biases
    always = {"qwen2": QKV, "gpt2": QKVO, "phi": QKVO}
    biases = always.get(theirs.model_type, biases)
    biases = QKV if getattr(theirs, "use_qkv_bias", False) else biases
    use_bias = getattr(theirs, "use_bias", None) or False
    ungated = theirs.model_type in ("gpt_neox", "gpt2", "phi")
    assert model.attention_bias == (QKVO if use_bias else biases)
    reads_mlp_bias = theirs.model_type in ("llama", "smollm3", "granite", "granite_swa", "arcee", "helium", "seed_oss", "nemotron", "nemotron_h", "falcon_h1", "minicpm3")
    assert model.mlp_bias == (use_bias or ungated or reads_mlp_bias and theirs.mlp_bias)
    blocks = BLOCKS.get(theirs.model_type, 0)
    if getattr(theirs, "use_parallel_residual", False):
        blocks |= PARALLEL_BLOCKS[theirs.model_type]
    blocks |= sum(bits for key, bits in SWITCHED.items() if getattr(theirs, key, False))
    assert model.blocks == blocks
    check_states(model, theirs)
    check_experts(model, theirs)
    check_hybrid(model.hybrid, theirs)
    check_latent(model, theirs)
    check_varied(model, theirs)
    check_partial(model.partial, theirs)
    keys = ("hidden_activation", "mlp_hidden_act", "hidden_act", "activation_function")
    activation = next((getattr(theirs, key) for key in keys if getattr(theirs, key, None)), "silu")
    assert model.activation == ACTIVATIONS[activation]
    beta = theirs.model_type == "ministral3" and theirs.rope_parameters["llama_4_scaling_beta"]
    assert model.query_growth == np.float32(beta)
    bits = layers_of(theirs)
    assert list(ours.layers[: model.n_layers]) == bits
    windowed = any(b & WINDOWED for b in bits)
    assert model.sliding_window == (theirs.sliding_window if windowed else 0)
    for name, value in scales_of(theirs).items():
        assert abs(getattr(model, name) - value) <= 1e-7 * value, name
    if theirs.model_type not in ("gpt2", "nemotron_h"):
        check_rotation(ours, theirs)


def check_sizes(model, theirs):
    head_dim = global_of(theirs, "head_dim")
    latent = getattr(theirs, "kv_lora_rank", 0)  # all heads share a key, which has it before the head's channels
    assert model.head_dim == latent + (head_dim or theirs.hidden_size // theirs.num_attention_heads)
    heads = 1 if latent else global_of(theirs, "num_key_value_heads", theirs.num_attention_heads)
    assert model.n_kv_heads == heads
    assert model.hidden_size == theirs.hidden_size
    assert model.intermediate_size == intermediate_size_of(theirs)
    assert model.tied_embeddings == theirs.tie_word_embeddings
    keys = ("rms_norm_eps", "norm_epsilon", "layer_norm_eps", "layer_norm_epsilon", "norm_eps")
    (epsilon,) = {getattr(theirs, key) for key in keys if hasattr(theirs, key)} or {1e-5}  # OLMo's
    assert model.rms_norm_eps == np.float32(epsilon)
    rope = getattr(theirs, "rope_parameters", {})
    if rope.get("rope_type") == "longrope":
        assert model.context_length == rope["original_max_position_embeddings"]
    else:
        assert model.context_length == theirs.max_position_embeddings


KEPT = {"architectures", "model_type", "vocab_size", "num_hidden_layers", "hidden_size",
        "num_attention_heads", "num_key_value_heads", "bos_token_id", "eos_token_id", "n_embd",
        "n_head", "n_layer", "num_experts_per_tok", "top_k_experts"}  # fmt: skip


# keys whose default does not work, or not with these small heads
NEEDED = {
    "granitemoehybrid": {
        "num_local_experts", "layer_types", "mamba_n_heads", "mamba_d_head", "mamba_expand", "mamba_n_groups",
        "position_embedding_type", "head_dim",
    },
    "nemotron_h": {"layers_block_type", "head_dim", "n_groups", "n_routed_experts", "mamba_num_heads"},
    "falcon_h1": {"mamba_d_ssm", "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_expand"},
    "qwen3_5_text": {"layer_types", "rope_parameters", "head_dim", "linear_num_key_heads", "linear_num_value_heads"},
    "qwen3_5_moe_text": {"layer_types", "rope_parameters", "head_dim", "linear_num_key_heads", "linear_num_value_heads"},
    "qwen3_next": {"layer_types", "rope_parameters", "head_dim", "linear_num_key_heads", "linear_num_value_heads"},
    "lfm2_moe": {"layer_types"},
    "lfm3": {"layer_types", "rope_parameters", "head_dim"},
    "glm": {"head_dim", "rope_parameters"},
    "glm4": {"head_dim", "rope_parameters"},
    "hunyuan_v1_dense": {"head_dim"},
    "qwen3_moe": {"head_dim"},
    "ministral3": {"head_dim", "rope_parameters"},
    "seed_oss": {"head_dim"},
    "stablelm": {"rope_parameters"},
    "nemotron": {"rope_parameters", "head_dim"},
    "gpt_neox": {"rope_parameters"},
    "phi": {"head_dim", "rope_parameters"},
    "gemma4_text": {
        "layer_types", "num_kv_shared_layers", "vocab_size_per_layer_input", "hidden_size_per_layer_input", "num_experts",
        "moe_intermediate_size",
    },
    "gemma4_unified_text": {"layer_types", "num_kv_shared_layers"},
    "minicpm3": {"v_head_dim", "qk_rope_head_dim", "rope_parameters"},
    "youtu": {"kv_lora_rank", "v_head_dim", "qk_rope_head_dim", "rope_parameters"},
}


def without(keys, dropped):
    """The keys of a configuration less some, and less what cannot do without these."""
    dropped = set(dropped)
    if "rope_parameters" in dropped or "original_max_position_embeddings" in dropped:
        dropped |= {"rope_parameters", "original_max_position_embeddings"}
    if "head_dim" in dropped:  # on which factors may depend
        dropped.add("rope_parameters")
    if dropped & {"sliding_window", "use_sliding_window"}:
        dropped.add("layer_types")  # which must not ask for what is not there
    dropped -= NEEDED.get(keys["model_type"], set())
    return {key: value for key, value in keys.items() if key not in dropped}


@pytest.mark.sample(8)
@pytest.mark.parametrize("style", ["as written", "keys missing"])
@pytest.mark.parametrize("family", CONFIGS)
def test_every_family_is_read_as_transformers_reads_it(family, style, tmp_path):
    @cases(FAMILY_ROUNDS)
    @given(configs(family), st.data())
    def compare_drawn(config, data):
        config.save_pretrained(tmp_path)
        if style == "keys missing":
            path = tmp_path / "config.json"
            keys = json.loads(path.read_text())
            dropped = data.draw(st.sets(st.sampled_from(sorted(set(keys) - KEPT))))
            path.write_text(json.dumps(without(keys, dropped)))
        ours, theirs = load(tmp_path), AutoConfig.from_pretrained(tmp_path)
        check_block(ours, theirs)
        check_sizes(ours.model, theirs)
        assert list(ours.stop[: ours.n_stop]) == sorted(as_set(theirs.eos_token_id))

    compare_drawn()


@pytest.mark.sample(20)
@pytest.mark.parametrize("name", published.CONFIGS)
def test_settings_as_published_are_read_as_transformers_reads_them(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(published.CONFIGS[name]))
    ours, theirs = load(tmp_path), AutoConfig.from_pretrained(tmp_path)
    check_block(ours, theirs)
    check_sizes(ours.model, theirs)
    assert list(ours.stop[: ours.n_stop]) == sorted(as_set(theirs.eos_token_id))


# --- integers beyond 64 bits ------------------------------------------------------------------

INTEGERS = """hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads
    head_dim vocab_size max_position_embeddings bos_token_id eos_token_id""".split()
LARGE = st.integers(2**63, 2**200) | st.integers(-(2**200), -(2**63) - 1)


def refusal(folder):
    """The status and the message of an error in `folder`."""
    config, settings, error = Config(), [Settings(), Settings()], Error()
    status = lib.smol_config_open(
        str(folder).encode(),
        b"config.json",
        0,
        *map(ctypes.byref, (config, *settings, error)),
    )
    for opened in settings:
        lib.smol_settings_close(ctypes.byref(opened))
    return status, str(error)


@cases(100)
@given(st.sampled_from(INTEGERS), LARGE, LARGE, st.sampled_from([None, 1, "\t"]))
def test_an_integer_beyond_64_bits_is_a_fault_of_its_own_key(
    tmp_path_factory, key, value, unread, indent
):
    folder = tmp_path_factory.mktemp("large")
    keys = LlamaConfig(architectures=["LlamaForCausalLM"]).to_dict()
    keys |= {key: value, "unread": [unread, '"\\', {"x": -unread}]}
    (folder / "config.json").write_text(json.dumps(keys, indent=indent))
    status, message = refusal(folder)
    assert status == DAMAGED and f"config.json: {key} " in message, message


@cases(100)
@given(st.integers(2**63, 2**126), LARGE)
def test_a_real_may_be_spelled_as_an_integer_beyond_64_bits(tmp_path_factory, theta, unread):
    folder = tmp_path_factory.mktemp("large")
    keys = {"model_type": "llama", "rope_theta": theta, "unread": unread}
    (folder / "config.json").write_text(json.dumps(keys))
    assert load(folder).model.rope_theta == float(theta)


# --- numbers that JSON lacks ------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 1])
def test_infinity_and_nan_are_read_as_python_writes_them(tmp_path, indent):
    """transformers wrote them so before version 5."""
    keys = FalconH1Config(architectures=["FalconH1ForCausalLM"], num_hidden_layers=2).to_dict()
    keys |= {"unread": [math.nan, -math.inf, {"Infinity": 2**200}, 'NaN", NaN, \\"']}
    assert keys["time_step_limit"][1] == math.inf
    (tmp_path / "config.json").write_text(json.dumps(keys, indent=indent))
    assert load(tmp_path).model.states.kind == 2
    keys["time_step_limit"] = [0.0, -math.inf]
    (tmp_path / "config.json").write_text(json.dumps(keys, indent=indent))
    assert refusal(tmp_path)[0] == UNSUPPORTED
    keys |= {"time_step_limit": [0.0, math.inf], "rms_norm_eps": math.nan}
    (tmp_path / "config.json").write_text(json.dumps(keys, indent=indent))
    assert "rms_norm_eps must be a number" in refusal(tmp_path)[1]


@pytest.mark.parametrize("text", ["{NaN: 1}", '{Infinity \n: 1}', '{"a": Inf}', '{"a": +Infinity}', '{"a": 1NaN}',
                                  '{"a": NaNs}', '{"a": -NaN}'])  # fmt: skip
def test_other_words_are_refused_at_their_place(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    status, message = refusal(tmp_path)
    assert status == DAMAGED and "not valid JSON" in message and "(line 1, " in message

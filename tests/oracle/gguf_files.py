"""GGUF files of random checkpoints, written with the package gguf: its names of tensors and keys, and
the changes that llama.cpp's converter makes to q, k, norms, experts and what belongs to states."""

import base64
import json
import re

import gguf
import numpy as np

QUANT = gguf.GGMLQuantizationType
ARCHS = {
    "arcee": gguf.MODEL_ARCH.ARCEE, "gemma": gguf.MODEL_ARCH.GEMMA,
    "llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3, "granite": gguf.MODEL_ARCH.GRANITE, "phi3": gguf.MODEL_ARCH.PHI3,
    "olmo2": gguf.MODEL_ARCH.OLMO2, "gemma2": gguf.MODEL_ARCH.GEMMA2, "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "gemma4_text": gguf.MODEL_ARCH.GEMMA4,
    "lfm2": gguf.MODEL_ARCH.LFM2, "lfm2_moe": gguf.MODEL_ARCH.LFM2MOE, "granitemoehybrid": gguf.MODEL_ARCH.GRANITE_HYBRID,
    "olmoe": gguf.MODEL_ARCH.OLMOE, "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "granitemoe": gguf.MODEL_ARCH.GRANITE_MOE, "granitemoeshared": gguf.MODEL_ARCH.GRANITE_MOE,
    "qwen3_5_text": gguf.MODEL_ARCH.QWEN35, "qwen3_5_moe_text": gguf.MODEL_ARCH.QWEN35MOE,
    "qwen3_next": gguf.MODEL_ARCH.QWEN3NEXT, "olmo3": gguf.MODEL_ARCH.OLMO2, "ministral3": gguf.MODEL_ARCH.MISTRAL3,
    "mistral": gguf.MODEL_ARCH.MISTRAL3, "ernie4_5": gguf.MODEL_ARCH.ERNIE4_5, "exaone4": gguf.MODEL_ARCH.EXAONE4,
    "hunyuan_v1_dense": gguf.MODEL_ARCH.HUNYUAN_DENSE, "minicpm": gguf.MODEL_ARCH.MINICPM, "falcon_h1": gguf.MODEL_ARCH.FALCON_H1,
    "glm": gguf.MODEL_ARCH.CHATGLM, "glm4": gguf.MODEL_ARCH.GLM4, "stablelm": gguf.MODEL_ARCH.STABLELM, "phi": gguf.MODEL_ARCH.PHI2, "nemotron": gguf.MODEL_ARCH.NEMOTRON,
    "olmo": gguf.MODEL_ARCH.OLMO,
    "gpt_neox": gguf.MODEL_ARCH.GPTNEOX, "gpt2": gguf.MODEL_ARCH.GPT2, "bert": gguf.MODEL_ARCH.BERT,
    "modernbert": gguf.MODEL_ARCH.MODERN_BERT, "xlm-roberta": gguf.MODEL_ARCH.BERT,
    "nomic_bert": gguf.MODEL_ARCH.NOMIC_BERT, "eurobert": gguf.MODEL_ARCH.EUROBERT,
}  # fmt: skip
GRANITES = ("granite", "granitemoe", "granitemoeshared", "granitemoehybrid")
PERMUTED = ("llama", "arcee", "olmo", "mistral", "ministral3", "minicpm", "smollm3", *GRANITES)
ENCODERS = ("bert", "modernbert", "xlm-roberta", "nomic_bert", "eurobert")
TILED = ("qwen3_5_text", "qwen3_5_moe_text")
DELTA = (*TILED, "qwen3_next")
EXPERT = re.compile(r"model\.layers\.(\d+)\..*experts\.(\d+)\.(gate_proj|up_proj|down_proj|w1|w2|w3)\.weight")
PARTS = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}


def permute(weights, heads):
    """As LlamaModel.permute of llama.cpp's converter: rows i and i + half of each head become neighbours."""
    shape = weights.shape
    return weights.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def tile(values, config, size, axis=0):
    """Heads of values, of `size` rows or columns, of which some share a key: the first of each key, then the second of each."""
    keys, shape = config["linear_num_key_heads"], values.shape
    split = values.reshape(*shape[:axis], keys, config["linear_num_value_heads"] // keys, size, *shape[axis + 1 :])
    return split.swapaxes(axis, axis + 1).reshape(shape)


def tile_state(name, values, config):
    """Sorts the heads in a tensor of a layer with a state, by its name in the checkpoint."""
    part, width = name.split("linear_attn.")[1].removesuffix(".weight"), config["linear_value_head_dim"]
    before = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    if part in ("in_proj_qkv", "conv1d"):
        return np.concatenate([values[:before], tile(values[before:], config, width)])
    sizes = {"in_proj_z": width, "in_proj_a": 1, "in_proj_b": 1, "A_log": 1, "dt_bias": 1}
    if part == "out_proj":
        return tile(values, config, width, axis=1)
    return tile(values, config, sizes[part]) if part in sizes else values


def random_blocks(kind, shape, rng):
    """Blocks of any bytes but for their scales, which are finite and small, as rows of bytes."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // elements, size), np.uint8)
    places = {QUANT.Q4_1: (0, 2), QUANT.Q5_1: (0, 2), QUANT.Q2_K: (80, 82), QUANT.Q3_K: (108,),
              QUANT.Q4_K: (0, 2), QUANT.Q5_K: (0, 2), QUANT.Q6_K: (208,)}.get(kind, (0,))  # fmt: skip
    for place in places:
        scales = (rng.standard_normal(blocks.shape[:-1]) * 1e-3).astype(np.float16)
        blocks[..., place : place + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def stays_float(name, weights):
    """Returns whether llama.cpp's converter leaves a tensor in F32: all but matrices of linear layers."""
    is_matrix = re.search(r"ssm_(in|out|alpha|beta|ba)\.", name)
    return weights.ndim == 1 or ("ssm_" in name and not is_matrix) or ".conv." in name


def add_weight(writer, name, weights, kind, rng):
    if kind is None or stays_float(name, weights):
        writer.add_tensor(name, weights.astype(np.float32))
    elif kind in (QUANT.Q2_K, QUANT.Q3_K, QUANT.Q4_K, QUANT.Q5_K, QUANT.Q6_K, QUANT.IQ4_NL, QUANT.IQ4_XS):
        writer.add_tensor(name, random_blocks(kind, weights.shape, rng), raw_dtype=kind)
    elif kind == QUANT.F16:
        writer.add_tensor(name, weights.astype(np.float16))
    else:
        writer.add_tensor(name, gguf.quantize(weights.astype(np.float32), kind), raw_dtype=kind)


def stack_experts(weights):
    """The experts of each layer in one tensor for each of their matrices, and the other tensors."""
    stacks, others = {}, {}
    for name, values in weights.items():
        if found := EXPERT.fullmatch(name):
            stacks.setdefault((found[1], PARTS[found[3]]), {})[int(found[2])] = values
        else:
            others[name] = values
    experts = {
        f"blk.{layer}.ffn_{part}_exps.weight": np.stack([s[i] for i in range(len(s))]) for (layer, part), s in stacks.items()
    }
    return experts, others


def split_groups(name, values, config):
    """Qwen3-Next's queries, keys and values, and gates, which the checkpoint has group by group; None for another one."""
    if not name.endswith("in_proj_qkvz.weight"):
        return None
    groups, key = config["linear_num_key_heads"], config["linear_key_head_dim"]
    value = config["linear_num_value_heads"] // groups * config["linear_value_head_dim"]
    parts = np.split(values.reshape(groups, -1, values.shape[1]), np.cumsum([key, key, value]), 1)
    *qkv, gates = (part.reshape(-1, values.shape[1]) for part in parts)
    layer = name.split(".")[2]
    return {f"blk.{layer}.attn_qkv.weight": np.concatenate(qkv), f"blk.{layer}.attn_gate.weight": gates}


def place_further(name, config):
    """The name of a tensor, in a layer after the others if it predicts further tokens."""
    found = re.fullmatch(r"mtp\.layers\.(\d+)\.(.*)", name)
    return f"model.layers.{config['num_hidden_layers'] + int(found[1])}.{found[2]}" if found else name


def name_in_file(name, names, config):
    further = {"mtp.fc.weight": "eh_proj", "mtp.pre_fc_norm_embedding.weight": "enorm",
               "mtp.pre_fc_norm_hidden.weight": "hnorm", "mtp.norm.weight": "shared_head_norm"}  # fmt: skip
    if name in further:
        return f"blk.{config['num_hidden_layers']}.nextn.{further[name]}.weight"
    if name.startswith("dense_"):
        return name
    of_experts = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
                  "experts.gate_up_proj": "ffn_gate_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight"}  # fmt: skip
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    if config["model_type"] == "gemma4_text" and part in of_experts:
        return f"blk.{layer}.{of_experts[part]}"
    if name.endswith(".weight") and (whole := names.get_name(name)):  # Falcon-H1's norm before the MLP
        return whole
    base, dot, end = (
        name.replace(".dt_bias", ".dt_proj.bias").replace("expert_bias", "expert_bias.bias").replace("layer_scalar", "layer_scalar.weight")
    ).rpartition(".")
    if end not in ("weight", "bias"):
        base, dot, end = name, "", ""
    return f"{names.get_name(base)}{dot}{end}"


def split_granite(name, values, config):
    """The fused tensors of Granite's models; None for another one."""
    layer = name.split(".")[2] if name.startswith("model.layers.") else ""
    end = "_shexp" if config.get("num_local_experts") else ""
    if "_linear" not in name:
        return None
    end, axis = ("_exps", 1) if "block_sparse_moe" in name else (end, 0)
    if "output_linear" in name:
        return {f"blk.{layer}.ffn_down{end}.weight": values}
    return dict(zip((f"blk.{layer}.ffn_{part}{end}.weight" for part in ("gate", "up")), np.split(values, 2, axis), strict=True))


def scale_falcon(name, values, config):
    """Falcon-H1's scales become part of the weights."""
    part = name.rpartition(".")[0].rpartition(".")[2]
    into, out = config["attention_in_multiplier"], config["attention_out_multiplier"]
    gate, down = config["mlp_multipliers"]
    scales = {"q_proj": into, "k_proj": into * config["key_multiplier"], "v_proj": into, "o_proj": out,
              "gate_proj": gate, "down_proj": down, "out_proj": config["ssm_out_multiplier"],
              "embed_tokens": config["embedding_multiplier"], "lm_head": config["lm_head_multiplier"]}  # fmt: skip
    if part == "in_proj":
        inner, states = config["mamba_d_ssm"], config["mamba_n_groups"] * config["mamba_d_state"]
        rows = np.repeat(config["ssm_multipliers"], [inner, inner, states, states, config["mamba_n_heads"]])
        return values * np.float32(config["ssm_in_multiplier"]) * rows.astype(np.float32)[:, None]
    return values * np.float32(scales.get(part, 1))


def change(name, values, config):
    """Changes a tensor's values as llama.cpp's converter does."""
    family = config["model_type"]
    if family == "falcon_h1":
        values = scale_falcon(name, values, config)
    if family in PERMUTED and (".q_proj." in name or ".k_proj." in name):
        return permute(values, config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"])
    if family.startswith(("gemma", "nemotron")) and family != "gemma4_text" and name.endswith("norm.weight"):
        return values + 1
    if family in DELTA and (name.endswith("norm.weight") or "pre_fc_norm" in name) and "linear_attn" not in name:
        return values + 1
    if "conv.weight" in name or "conv1d.weight" in name:
        values = values.squeeze(1)
    if name.endswith("A_log"):
        values = -np.exp(values) if family in DELTA else -np.exp(values)[:, None]
    if family in TILED and "linear_attn." in name:
        return tile_state(name, values, config)
    if name.endswith("mamba.D"):
        return values[:, None]
    if family == "xlm-roberta" and "position_embeddings" in name:
        return values[config["pad_token_id"] + 1 :]
    if family == "gpt2" and ".c_" in name and name.endswith("weight"):
        return values.T
    if family == "gpt_neox" and "query_key_value" in name:
        heads = values.reshape(config["num_attention_heads"], 3, -1, *values.shape[1:])
        return np.concatenate([heads[:, i].reshape(-1, *values.shape[1:]) for i in range(3)])
    if name.endswith("mamba.norm.weight"):
        return values.reshape(config["mamba_n_groups"], -1)
    return values


def join_qkv(weights):
    """Joins q, k and v of each layer in one tensor, and their biases in another, as the converter's --fuse-qkv does."""
    out = {}
    for name, values in weights.items():
        found = re.fullmatch(r"blk\.(\d+)\.attn_([qkv])\.(weight|bias)", name)
        parts = found and [weights.get(f"blk.{found[1]}.attn_{part}.{found[3]}") for part in "qkv"]
        if not found or any(part is None for part in parts):
            out[name] = values
        elif found[2] == "q":
            out[f"blk.{found[1]}.attn_qkv.{found[3]}"] = np.concatenate(parts)
    return out


def add_tensors(writer, weights, config, kind, fuse_qkv):
    """`weights`: arrays in float32 by their names in the checkpoint."""
    names = gguf.get_tensor_name_map(ARCHS[config["model_type"]], usual_keys(config)["num_hidden_layers"] + further_layers(config))
    rng = np.random.default_rng(1)
    experts, others = stack_experts({place_further(name, config): values for name, values in weights.items()})
    changed = {}
    for name, values in others.items():
        if name.startswith("pooler."):
            continue
        if parts := split_granite(name, values, config) or split_groups(name, values, config):
            experts |= parts
            continue
        changed[name_in_file(name, names, config)] = change(name, values, config)
    for name, values in {**(join_qkv(changed) if fuse_qkv else changed), **experts}.items():
        add_weight(writer, name, values, kind, rng)


def add_layers(writer, config):
    """The keys of experts and states."""
    attends = [kind in ("full_attention", "attention") for kind in config.get("layer_types") or []]
    family, listed = config["model_type"], config["model_type"] in ("lfm2", "lfm2_moe", "granitemoehybrid")
    writer.add_head_count_kv([config["num_key_value_heads"] * a for a in attends] if listed else config["num_key_value_heads"])
    if family.startswith("lfm2"):
        writer.add_shortconv_l_cache(config["conv_L_cache"])
    if family in ("granitemoehybrid", "falcon_h1"):
        writer.add_ssm_conv_kernel(config["mamba_d_conv"])
        writer.add_ssm_state_size(config["mamba_d_state"])
        writer.add_ssm_group_count(config["mamba_n_groups"])
        writer.add_ssm_inner_size(config.get("mamba_d_ssm") or config["mamba_expand"] * config["hidden_size"])
        writer.add_ssm_time_step_rank(config["mamba_n_heads"])
    if family == "granitemoehybrid":
        writer.add_rope_scaling_finetuned(config["position_embedding_type"] == "rope")
    if family in DELTA:
        add_delta(writer, config)
    experts = config.get("num_local_experts", config.get("num_experts"))
    if experts is not None:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["top_k_experts" if family == "gemma4_text" else "num_experts_per_tok"])
    if config.get("moe_intermediate_size"):
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if config.get("shared_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    if config.get("shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if family == "lfm2_moe":
        writer.add_leading_dense_block_count(config["num_dense_layers"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def further_layers(config):
    """Returns the number of layers that predict further tokens."""
    return config.get("mtp_num_hidden_layers", 0)


def add_delta(writer, config):
    """The keys of Qwen 3.5 and Qwen3-Next."""
    further = further_layers(config)
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
    writer.add_full_attention_interval(config.get("full_attention_interval", 4))
    states = [kind == "linear_attention" for kind in config["layer_types"]]
    writer.add_array(f"{writer.arch}.attention.recurrent_layers", states + [False] * further)
    if config["model_type"] in TILED:
        writer.add_rope_dimension_sections([*config["rope_parameters"].get("mrope_section", [11, 11, 10]), 0])
    if further:
        writer.add_uint32(f"{writer.arch}.nextn_predict_layers", further)


def add_windows(writer, config):
    """The keys of windows, of the families of which some layers have windows."""
    if not config.get("sliding_window"):
        return
    if config["model_type"] in ("gemma2", "gemma3_text", "gemma4_text", "phi3", "olmo3", "exaone4"):
        writer.add_sliding_window(config["sliding_window"])
    if config["model_type"] in ("gemma4_text", "olmo3", "exaone4"):
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])


def add_varied(writer, config):
    """The keys of Gemma 4, of which some replace those that all have, and the factors of its rotary embedding."""
    windowed = [kind == "sliding_attention" for kind in config["layer_types"]]
    n, ropes = len(windowed), config["rope_parameters"]
    second = next(iter(config["per_layer_config"].values()))
    heads, dim = second.get("num_key_value_heads", config["num_key_value_heads"]), second["head_dim"]
    if config["use_double_wide_mlp"]:
        first = n - config["num_kv_shared_layers"]
        writer.add_feed_forward_length([config["intermediate_size"] * (1 + (i >= first)) for i in range(n)])
    if heads != config["num_key_value_heads"]:
        writer.add_head_count_kv([config["num_key_value_heads"] if windows else heads for windows in windowed])
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_key_length(dim)
    writer.add_value_length(dim)
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    writer.add_rope_dimension_count(dim)
    writer.add_rope_dimension_count_swa(config["head_dim"])
    writer.add_rope_freq_base_swa(ropes["sliding_attention"]["rope_theta"])
    rotated = int(ropes["full_attention"]["partial_rotary_factor"] * dim / 2)
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * rotated + [1e30] * (dim // 2 - rotated), np.float32))


def add_scaling(writer, rope):
    """The keys of the types of rotary embedding that have some."""
    optional = {"attention_factor": writer.add_rope_scaling_yarn_attn_factor, "beta_fast": writer.add_rope_scaling_yarn_beta_fast,
                "beta_slow": writer.add_rope_scaling_yarn_beta_slow, "mscale_all_dim": writer.add_rope_scaling_yarn_log_mul,
                "llama_4_scaling_beta": writer.add_attn_temperature_scale}  # fmt: skip
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        for key in optional.keys() & rope.keys():
            optional[key](rope[key])
    if rope["rope_type"] == "dynamic":
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        writer.add_rope_scaling_factor(1)


def theta_of(config, rope, head_dim):
    """Returns theta, to which Hunyuan applies alpha if there is one."""
    theta = rope.get("rope_theta", config.get("rope_theta"))
    return theta * rope["alpha"] ** (head_dim / (head_dim - 2)) if "alpha" in rope else theta


def usual_keys(config):
    """The settings of GPT-2 and ModernBERT under the names that others have."""
    names = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
             "n_positions": "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps"}  # fmt: skip
    config = {names.get(name, name): value for name, value in config.items()}
    if config["model_type"] == "gpt2":
        config["intermediate_size"] = config["n_inner"] or 4 * config["hidden_size"]
    if config["model_type"] == "modernbert":
        config["layer_norm_eps"] = config["norm_eps"]
    if config["model_type"] == "xlm-roberta":
        config["max_position_embeddings"] -= config["pad_token_id"] + 1
    return {"num_key_value_heads": config["num_attention_heads"]} | config


def add_encoder(writer, config):
    """The keys of encoders."""
    writer.add_causal_attention(False)
    if config["model_type"] == "modernbert":
        writer.add_sliding_window(config["local_attention"])
        writer.add_sliding_window_pattern(config.get("global_attn_every_n_layers", 3))
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        writer.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])


def add_settings(writer, config):
    config = usual_keys(config)
    heads = config["num_attention_heads"]
    rope = config.get("rope_parameters") or {}
    rope = rope.get("full_attention", rope)
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_block_count(config["num_hidden_layers"] + further_layers(config))
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    if "intermediate_size" in config:
        writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    add_layers(writer, config)
    if config["model_type"] in ("nemotron", "olmo"):
        config["layer_norm_eps"] = config.get("norm_eps", 1e-5)
    if "layer_norm_eps" in config:
        writer.add_layer_norm_eps(config["layer_norm_eps"])
    else:
        writer.add_layer_norm_rms_eps(config.get("rms_norm_eps") or config["norm_eps"])
    if "use_parallel_residual" in config:
        writer.add_parallel_residual(config["use_parallel_residual"])
    if theta_of(config, rope, head_dim):
        writer.add_rope_freq_base(theta_of(config, rope, head_dim))
    if rope:
        add_scaling(writer, rope)
    writer.add_rope_dimension_count(int(head_dim * config.get("partial_rotary_factor", rope.get("partial_rotary_factor", 1))))
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if config["model_type"] in GRANITES:
        writer.add_attention_scale(config["attention_multiplier"])
    if config["model_type"] in (*GRANITES, "minicpm"):
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if config["model_type"] == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    add_windows(writer, config)
    if config["model_type"] == "gemma4_text":
        add_varied(writer, config)
    if config["model_type"] in ENCODERS or config.get("use_bidirectional_attention"):
        add_encoder(writer, config)


def kinds_of(tokenizer, n):
    """Token types: control, user-defined, or normal."""
    kinds = [gguf.TokenType.NORMAL] * n
    for token in tokenizer.get("added_tokens", []):
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    return kinds


def texts_of(tokenizer, n):
    texts = {i: text for text, i in tokenizer["model"]["vocab"].items()}
    texts |= {token["id"]: token["content"] for token in tokenizer.get("added_tokens", [])}
    return [texts.get(i, f"[PAD{i}]") for i in range(n)], [i for i in range(n) if i not in texts]


def add_byte_tokenizer(writer, tokenizer, n, pre="smollm"):
    """BPE of bytes, as tokenizer.json has it; `n` tokens with those that fill up the embedding."""
    tokens, unused = texts_of(tokenizer, n)
    kinds = kinds_of(tokenizer, n)
    for i in unused:
        kinds[i] = gguf.TokenType.UNUSED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])


def add_word_tokenizer(writer, tokenizer, n):
    """WordPiece: a mark before words in place of one before other pieces, except for special tokens."""
    tokens, unused = texts_of(tokenizer, n)
    kinds = kinds_of(tokenizer, n)
    for i in unused:
        kinds[i] = gguf.TokenType.UNUSED
    for i, text in enumerate(tokens):
        if kinds[i] != gguf.TokenType.CONTROL:
            tokens[i] = text[2:] if text.startswith("##") else "\u2581" + text
    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)


def add_scored_tokenizer(writer, tokenizer, n):
    """Unigram of XLM-RoBERTa's kind; the last token only fills up the embedding."""
    pieces = [piece for piece, _ in tokenizer["model"]["vocab"]]
    kinds = kinds_of(tokenizer, len(pieces)) + [gguf.TokenType.UNUSED] * (n - len(pieces))
    kinds[tokenizer["model"]["unk_id"]] = gguf.TokenType.UNKNOWN
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*pieces, *(f"[PAD{i}]" for i in range(len(pieces), n))])
    writer.add_token_scores([score for _, score in tokenizer["model"]["vocab"]] + [-10000.0] * (n - len(pieces)))
    writer.add_token_types(kinds)
    writer.add_add_space_prefix(True)
    writer.add_precompiled_charsmap(base64.b64decode(tokenizer["normalizer"]["normalizers"][0]["precompiled_charsmap"]))


def give_a_merge(path):
    """The writer writes no empty list: the last token becomes the pair of the first two."""
    content = json.loads(path.read_text())
    if "merges" in content["model"] and not content["model"]["merges"]:
        texts = sorted(content["model"]["vocab"], key=content["model"]["vocab"].get)
        content["model"]["vocab"] = {text: i for i, text in enumerate([*texts[:-1], texts[0] + texts[1]])}
        content["model"]["merges"] = [texts[:2]]
        path.write_text(json.dumps(content))


def read_weights(folder):
    import torch  # only here: scripts/measure-shapes, which has its weights as arrays, runs without it
    from safetensors.torch import load_file

    return {name: tensor.to(torch.float32).numpy() for name, tensor in load_file(folder / "model.safetensors").items()}


def write(path, folder, kind=None, edit=None, tokenizer=add_byte_tokenizer, fuse_qkv=False, **split):
    """The GGUF file of a checkpoint's folder. `kind`: of the matrices (None: F32); `edit` gets the
    writer before the file is written."""
    config = json.loads((folder / "config.json").read_text())
    give_a_merge(folder / "tokenizer.json")
    weights = read_weights(folder)
    for name, values in weights.items():  # LFM2's may be another one than intermediate_size
        if name.endswith("layers.0.feed_forward.w1.weight"):
            config["intermediate_size"] = len(values)
    content = json.loads((folder / "tokenizer.json").read_text())
    return compose(path, config, content, weights, kind, edit, tokenizer, fuse_qkv, **split)


def compose(path, config, content, weights, kind=None, edit=None, tokenizer=add_byte_tokenizer, fuse_qkv=False, **split):
    """The GGUF file of a checkpoint's parts: config.json, tokenizer.json, and the weights as arrays in float32. `split`: how
    GGUFWriter makes several files of it."""
    arch = gguf.MODEL_ARCH.GEMMA_EMBEDDING if config.get("use_bidirectional_attention") else ARCHS[config["model_type"]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch], **split)
    add_settings(writer, config)
    if tokenizer:
        tokenizer(writer, content, config["vocab_size"])
    if config.get("eos_token_id") is not None:
        writer.add_eos_token_id(config["eos_token_id"])
    if edit:
        edit(writer)
    add_tensors(writer, weights, config, kind, fuse_qkv)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

"""GGUF files of random checkpoints, written with the package gguf: its names of tensors and keys, and
the changes that llama.cpp's converter makes to q, k and norms."""

import json

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

QUANT = gguf.GGMLQuantizationType
ARCHS = {
    "llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3, "granite": gguf.MODEL_ARCH.GRANITE, "phi3": gguf.MODEL_ARCH.PHI3,
    "olmo2": gguf.MODEL_ARCH.OLMO2, "gemma2": gguf.MODEL_ARCH.GEMMA2, "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
}  # fmt: skip
PERMUTED = ("llama", "smollm3", "granite")


def permute(weights, heads):
    """As LlamaModel.permute of llama.cpp's converter: rows i and i + half of each head become neighbours."""
    shape = weights.shape
    return weights.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def random_blocks(kind, shape, rng):
    """Blocks of any bytes but for their scales, which are finite and small, as rows of bytes."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0], shape[1] // elements, size), np.uint8)
    places = {QUANT.Q4_1: (0, 2), QUANT.Q5_1: (0, 2), QUANT.Q2_K: (80, 82), QUANT.Q3_K: (108,),
              QUANT.Q4_K: (0, 2), QUANT.Q5_K: (0, 2), QUANT.Q6_K: (208,)}.get(kind, (0,))  # fmt: skip
    for place in places:
        scales = (rng.standard_normal(blocks.shape[:2]) * 1e-3).astype(np.float16)
        blocks[..., place : place + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(shape[0], -1)


def add_weight(writer, name, weights, kind, rng):
    if kind is None or weights.ndim == 1:
        writer.add_tensor(name, weights.astype(np.float32))
    elif kind in (QUANT.Q2_K, QUANT.Q3_K, QUANT.Q4_K, QUANT.Q5_K, QUANT.Q6_K, QUANT.IQ4_NL):
        writer.add_tensor(name, random_blocks(kind, weights.shape, rng), raw_dtype=kind)
    elif kind == QUANT.F16:
        writer.add_tensor(name, weights.astype(np.float16))
    else:
        writer.add_tensor(name, gguf.quantize(weights.astype(np.float32), kind), raw_dtype=kind)


def add_tensors(writer, weights, config, kind):
    family, layers = config["model_type"], config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(ARCHS[family], layers)
    rng = np.random.default_rng(1)
    for name, tensor in weights.items():
        values = tensor.to(torch.float32).numpy()
        if family in PERMUTED and (".q_proj." in name or ".k_proj." in name):
            key = "num_attention_heads" if ".q_proj." in name else "num_key_value_heads"
            values = permute(values, config[key])
        if family.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1
        base, end = name.rsplit(".", 1)
        add_weight(writer, f"{names.get_name(base)}.{end}", values, kind, rng)


def add_settings(writer, config):
    heads = config["num_attention_heads"]
    rope = config.get("rope_parameters") or {}
    theta = rope.get("full_attention", rope).get("rope_theta", config.get("rope_theta"))
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(theta)
    writer.add_rope_dimension_count(int(head_dim * config.get("partial_rotary_factor", rope.get("partial_rotary_factor", 1))))
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if config["model_type"] == "granite":
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if config["model_type"] == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config.get("sliding_window") and config["model_type"] in ("gemma2", "gemma3_text", "phi3"):
        writer.add_sliding_window(config["sliding_window"])


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


def give_a_merge(path):
    """The writer writes no empty list: the last token becomes the pair of the first two."""
    content = json.loads(path.read_text())
    if not content["model"]["merges"]:
        texts = sorted(content["model"]["vocab"], key=content["model"]["vocab"].get)
        content["model"]["vocab"] = {text: i for i, text in enumerate([*texts[:-1], texts[0] + texts[1]])}
        content["model"]["merges"] = [texts[:2]]
        path.write_text(json.dumps(content))


def write(path, folder, kind=None, edit=None, tokenizer=add_byte_tokenizer):
    """The GGUF file of a checkpoint's folder. `kind`: of the matrices (None: F32); `edit` gets the
    writer before the file is written."""
    config = json.loads((folder / "config.json").read_text())
    give_a_merge(folder / "tokenizer.json")
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[ARCHS[config["model_type"]]])
    add_settings(writer, config)
    if tokenizer:
        content = json.loads((folder / "tokenizer.json").read_text())
        tokenizer(writer, content, config["vocab_size"])
    if config.get("eos_token_id") is not None:
        writer.add_eos_token_id(config["eos_token_id"])
    if edit:
        edit(writer)
    add_tensors(writer, load_file(folder / "model.safetensors"), config, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

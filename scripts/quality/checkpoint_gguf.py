"""Writes a checkpoint as a GGUF file of f32, which llama.cpp quantizes.

Knows Llama, Qwen 2 and OLMo 2 with byte-level BPE tokenizers that split as SmolLM2's does."""

import json

import gguf
from benchmark.gguf_files import permuted, read_checkpoint

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "olmo2": gguf.MODEL_ARCH.OLMO2,
}


def add_shape(writer, config):
    heads = config["num_attention_heads"]
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_rope_freq_base(float(theta))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def add_tokenizer(writer, tokenizer):
    model = tokenizer["model"]
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    tokens = {number: token for token, number in model["vocab"].items()} | special
    kinds = gguf.TokenType
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([tokens[i] for i in range(len(tokens))])
    writer.add_token_types([kinds.CONTROL if i in special else kinds.NORMAL for i in range(len(tokens))])
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]])
    writer.add_add_bos_token(False)


def write(folder, path):
    """Writes the checkpoint in `folder` to the file `path`."""
    config = json.loads((folder / "config.json").read_text())
    kind = config["model_type"]
    names = gguf.get_tensor_name_map(ARCHITECTURES[kind], config["num_hidden_layers"])
    writer = gguf.GGUFWriter(path, kind)
    add_shape(writer, config)
    add_tokenizer(writer, json.loads((folder / "tokenizer.json").read_text()))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for name, values in read_checkpoint(folder):
        values = permuted(name, values, config) if kind == "llama" else values
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

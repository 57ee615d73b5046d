"""A checkpoint as small as they come, so that a program can be run thousands of times on it: one
layer of 16 channels, the printable bytes as vocabulary. Made without libraries."""
import json
import math
import random
import shutil
import struct

HIDDEN, HEADS, LAYERS = 16, 2, 1
TOKENS = [chr(c) for c in range(33, 127)] + ["\u0120"]  # a space, as byte-level BPE spells it
MERGES = [["a", "b"], ["ab", "c"]]


def shapes(middle):
    yield "model.embed_tokens.weight", [len(TOKENS) + len(MERGES), HIDDEN]
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", [HIDDEN]
        for name in "qkvo":
            yield layer + f"self_attn.{name}_proj.weight", [HIDDEN, HIDDEN]
        yield layer + "post_attention_layernorm.weight", [HIDDEN]
        yield layer + "mlp.gate_proj.weight", [middle, HIDDEN]
        yield layer + "mlp.up_proj.weight", [middle, HIDDEN]
        yield layer + "mlp.down_proj.weight", [HIDDEN, middle]
    yield "model.norm.weight", [HIDDEN]


def write_tensors(path, tensors):
    """`tensors`: name, shape and bytes of each."""
    header, start = {}, 0
    for name, shape, data in tensors:
        offsets = [start, start + len(data)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
        start += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors))


def read_tensors(path):
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    data = content[8 + size :]
    for name, entry in json.loads(content[8 : 8 + size]).items():
        yield name, entry["shape"], data[slice(*entry["data_offsets"])]


def write_weights(path, middle, seed):
    numbers = random.Random(seed)
    tensors = []
    for name, shape in shapes(middle):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{n}f", *(numbers.gauss(0, 0.5) for _ in range(n)))
        tensors.append((name, shape, values))
    write_tensors(path, tensors)


def shard(source, folder):
    """A copy of a checkpoint in two shards, and with a pattern that text is split by and two chat templates."""
    shutil.copytree(source, folder)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/tool_use.jinja").write_text("{{ tools | length }}")
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    split_by(folder / "tokenizer.json", r"(?i:'s)|[^\s\p{L}]?\p{L}++|\p{N}{1,3}|\s+(?!\S)|(?<=a)\s+")
    path = folder / "model.safetensors"
    tensors = list(read_tensors(path))
    path.unlink()
    places = {}
    for i, part in enumerate((tensors[:5], tensors[5:])):
        name = f"model-{i + 1:05}-of-00002.safetensors"
        write_tensors(folder / name, part)
        places |= dict.fromkeys((tensor for tensor, _, _ in part), name)
    total = sum(len(data) for _, _, data in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def split_by(file, pattern):
    content = json.loads(file.read_text())
    content["pre_tokenizer"]["pretokenizers"][0] = {
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "MergedWithNext", "invert": False
    }  # fmt: skip
    file.write_text(json.dumps(content))


def adapt(folder, rank=2, seed=2):
    """A LoRA adapter for the checkpoint."""
    numbers = random.Random(seed)
    tensors = []
    for name in ("q_proj", "o_proj"):
        for half, shape in (("A", [rank, HIDDEN]), ("B", [HIDDEN, rank])):
            n = rank * HIDDEN
            values = struct.pack(f"<{n}f", *(numbers.gauss(0, 0.5) for _ in range(n)))
            module = f"base_model.model.model.layers.0.self_attn.{name}"
            tensors.append((f"{module}.lora_{half}.weight", shape, values))
    folder.mkdir()
    write_tensors(folder / "adapter_model.safetensors", tensors)
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 4, "rank_pattern": {"o_proj": rank}}
    (folder / "adapter_config.json").write_text(json.dumps(settings))


def retrain(source, folder, size=40000):
    """A copy of a checkpoint whose last tensors are a little different: the low bytes of the last
    values, of two bytes each."""
    shutil.copytree(source, folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    numbers = random.Random(1)
    for i in range(len(data) - size, len(data), 2):
        data[i] ^= numbers.randrange(8)
    path.write_bytes(data)
    return folder


def rank(source, folder):
    """A reranker with the layers of a checkpoint: a Qwen 3 with a score."""
    shutil.copytree(source, folder)
    path = folder / "model.safetensors"
    ones = struct.pack("<f", 1) * (HIDDEN // HEADS)
    norms = [(f"model.layers.{i}.self_attn.{name}_norm.weight", [HIDDEN // HEADS], ones) for i in range(LAYERS) for name in "qk"]
    tensors = list(read_tensors(path))
    score = ("score.weight", [1, HIDDEN], tensors[0][2][: 4 * HIDDEN])
    write_tensors(path, [*tensors, *norms, score])
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3", "head_dim": HIDDEN // HEADS}
    settings |= {"num_labels": 1, "max_position_embeddings": 600}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


LATENT = {"q_lora_rank": 8, "kv_lora_rank": 16, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 16}


def share(source, folder, seed=3):
    """A checkpoint whose heads share latent vectors, with the other parts of `source`: a MiniCPM 3."""
    shutil.copytree(source, folder)
    path = folder / "model.safetensors"
    query, rank, plain, rotary, value = LATENT.values()
    shapes = {
        "q_a_proj": [query, HIDDEN], "q_a_layernorm": [query], "q_b_proj": [HEADS * (plain + rotary), query],
        "kv_a_proj_with_mqa": [rank + rotary, HIDDEN], "kv_a_layernorm": [rank],
        "kv_b_proj": [HEADS * (plain + value), rank], "o_proj": [HIDDEN, HEADS * value],
    }  # fmt: skip
    numbers = random.Random(seed)
    tensors = [tensor for tensor in read_tensors(path) if "self_attn" not in tensor[0]]
    for i in range(LAYERS):
        for name, shape in shapes.items():
            n = math.prod(shape)
            values = struct.pack(f"<{n}f", *(numbers.gauss(0, 0.5) for _ in range(n)))
            tensors.append((f"model.layers.{i}.self_attn.{name}.weight", shape, values))
    write_tensors(path, tensors)
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"architectures": ["MiniCPM3ForCausalLM"], "model_type": "minicpm3"} | LATENT
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def make(folder, middle=32, seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = TOKENS + ["".join(pair) for pair in MERGES]
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": HIDDEN,
            "intermediate_size": middle,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "max_position_embeddings": 64,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "vocab_size": len(vocabulary),
            "bos_token_id": 0,
            "eos_token_id": 1,
            "hidden_act": "silu",
        },
        "generation_config.json": {"eos_token_id": [1, 2], "temperature": 0.5, "do_sample": True},
        "tokenizer_config.json": {"eos_token": {"content": '"', "lstrip": False}},
        "tokenizer.json": {
            "version": "1.0",
            "added_tokens": [
                {
                    "id": 0,
                    "content": "!",
                    "special": True,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                }
            ],
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Digits", "individual_digits": True},
                    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                ],
            },
            "decoder": {"type": "ByteLevel"},
            "model": {
                "type": "BPE",
                "vocab": {token: i for i, token in enumerate(vocabulary)},
                "merges": MERGES,
            },
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    write_weights(folder / "model.safetensors", middle, seed)
    return folder

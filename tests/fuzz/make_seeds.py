"""Writes the seeds of the fuzz targets to tests/fuzz/corpus: small inputs, each of which is accepted
or comes far. The same files every time; run with $(./scripts/venv) after a change here."""

import itertools
import json
import shutil
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
sys.path.insert(0, str(ROOT / "tests" / "oracle"))

import checkpoints  # noqa: E402
import published  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import save  # noqa: E402
from tokenizers import AddedToken  # noqa: E402
from transformers import LlamaConfig  # noqa: E402


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


# --- safetensors ------------------------------------------------------------------------------

# of the model in fuzz_safetensors.c
TINY = {
    "model.embed_tokens.weight": (5, 2),
    "model.layers.0.input_layernorm.weight": (2,),
    "model.layers.0.self_attn.q_proj.weight": (2, 2),
    "model.layers.0.self_attn.k_proj.weight": (2, 2),
    "model.layers.0.self_attn.v_proj.weight": (2, 2),
    "model.layers.0.self_attn.o_proj.weight": (2, 2),
    "model.layers.0.post_attention_layernorm.weight": (2,),
    "model.layers.0.mlp.gate_proj.weight": (3, 2),
    "model.layers.0.mlp.up_proj.weight": (3, 2),
    "model.layers.0.mlp.down_proj.weight": (2, 3),
    "model.norm.weight": (2,),
}


def fuse(tensors):
    """As Phi-3 has them."""
    layer = "model.layers.0."
    for name, parts in {
        "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
    }.items():
        rows = [tensors.pop(f"{layer}{part}.weight") for part in parts]
        tensors[f"{layer}{name}.weight"] = torch.cat(rows)
    return tensors


def header_of(file):
    (size,) = struct.unpack_from("<Q", file)
    return file[8 : 8 + size]


def scale(tensors):
    """Matrices of the layers in 8 bits, with scales: one, of rows, and of blocks of 2 by 1."""
    shapes = itertools.cycle([lambda rows, cols: (), lambda rows, cols: (rows, 1), lambda rows, cols: (-(-rows // 2), cols)])
    scaled = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2 and ".layers." in name:
            scaled[name + "_scale"] = torch.ones(next(shapes)(*tensor.shape))
            tensor = tensor.to(torch.float8_e4m3fn if len(scaled) % 4 else torch.int8)
        scaled[name] = tensor
    return scaled


def safetensors():
    def tensors(dtype):
        return {name: torch.ones(shape, dtype=dtype) for name, shape in TINY.items()}

    few = {
        "a": torch.zeros(3, dtype=torch.int64),
        "empty": torch.zeros(0, 7),
        "scalar": torch.tensor(True),
        "f8": torch.zeros(2, 1).to(torch.float8_e4m3fn),
    }
    yield "bf16", header_of(save(tensors(torch.bfloat16), {"format": "pt"}))
    yield "f32", header_of(save(tensors(torch.float32)))
    yield "fused", header_of(save(fuse(tensors(torch.bfloat16))))
    yield "few", header_of(save(few))
    yield "scaled", header_of(save(scale(tensors(torch.float32))))
    yield "file", save({"a": torch.arange(4, dtype=torch.float16)}, {"k": "v"})
    yield "nothing", b"{}"
    yield "null", b'{"__metadata__":null,"\\u00e9":{"dtype":"F4","shape":[2,1],"data_offsets":[0,1]}}'


def shards():
    tensors = {name: torch.ones(shape, dtype=torch.bfloat16) for name, shape in TINY.items()}
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    parts = [dict(list(tensors.items())[:6]), dict(list(tensors.items())[6:])]
    places = {name: file for file, part in zip(names, parts) for name in part}
    total = 2 * sum(tensor.numel() for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    headers = [header_of(save(part)) for part in parts]
    one = {"weight_map": {"a": "x.safetensors"}}
    yield "two", b"\0".join([compact(index), *headers])
    yield "bare", b"\0".join([compact({"weight_map": places}), *headers])
    yield "one", b"\0".join([compact(one), b"", b"", header_of(save({"a": torch.zeros(2, 3)}))])
    yield "moved", b"\0".join([compact(index), *headers[::-1]])
    yield "missing", b"\0".join([compact(index), headers[0]])
    yield "out", compact({"weight_map": {"a": "../x.safetensors"}})


def adapters():
    def pair(module, rows, cols, rank):
        name = f"base_model.model.{module}.lora_"
        return {name + "A.weight": torch.ones(rank, cols), name + "B.weight": torch.ones(rows, rank)}

    def seed(tensors, **settings):
        return compact({"peft_type": "LORA", "bias": "none"} | settings) + b"\0" + header_of(save(tensors))

    query, down = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"
    experts = "model.layers.1.mlp.experts"
    yield "one", seed(pair(query, 2, 2, 3), r=3, lora_alpha=6, target_modules=["q_proj"])
    patterns = {"rank_pattern": {"down_proj": 2, "^" + query: 1}, "alpha_pattern": {"0.mlp.down_proj": 0.5}}
    yield "patterns", seed(pair(query, 2, 2, 1) | pair(down, 2, 3, 2), use_rslora=True, **patterns)
    copy = {"base_model.model.lm_head.base_layer.weight": torch.full((5, 2), 0.0)}
    yield "output", seed(pair("lm_head", 5, 2, 8) | copy)
    yield "fused", seed(pair("model.layers.0.mlp.gate_up_proj", 6, 2, 8))
    yield "expert", seed(pair(experts + ".1.up_proj", 2, 2, 8))
    stacks = ["mlp.experts.gate_up_proj", "experts.down_proj", "mlp.gate.weight"]
    rank = {"rank_pattern": {r".*\.gate_up_proj": 1}}
    halves = pair(experts + ".base_layer", 4, 2, 2) | pair(experts, 2, 2, 6) | pair("model.layers.1.mlp.gate", 2, 2, 3)
    yield "stacks", seed(halves, r=3, peft_version="0.19.1", target_parameters=stacks, **rank)
    yield "stack", seed(pair(experts, 4, 2, 2), r=1, peft_version="0.20.0", target_parameters=[experts + ".gate_up_proj"])
    yield "old", seed(pair(experts, 2, 4, 2), r=1, peft_version="0.18.1", target_parameters=stacks[:1])
    yield "dora", seed(pair(query, 2, 2, 8), use_dora=True)
    yield "none", b"{}"


def encoders():
    def modules(*names):
        return [{"type": f"sentence_transformers.models.{name}", "path": "m" if i else ""} for i, name in enumerate(names)]

    def seed(modules, prompts, sentence, settings, tensors):
        return b"\0".join([*map(compact, (modules, prompts, sentence, settings)), header_of(save(tensors))])

    prompts = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
    pooling = {"word_embedding_dimension": 2, "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    dense = {"in_features": 2, "out_features": 3, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}
    layer = {"linear.weight": torch.ones(3, 2), "linear.bias": torch.ones(3)}
    everything = modules("Transformer", "Pooling", "Dense", "Normalize")
    yield "everything", seed(everything, prompts, {"max_seq_length": 32, "do_lower_case": False}, pooling | dense, layer)
    plain = {"pooling_mode": "lasttoken", "bias": False, "activation_function": "torch.nn.Identity"}
    square = {"linear.weight": torch.ones(2, 2)}
    yield "layers", seed(modules("Transformer", "Pooling", "Dense", "Dense"), {}, {}, plain, square)
    scored = {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"}
    begun = {"processing_kwargs": {"chat_template": {"add_generation_prompt": True}}}
    yield "scored", seed(modules("Transformer", "LogitScore"), scored, begun, {"true_token_id": 4, "false_token_id": 3}, square)
    yield "old", b"[]\0{}\0" + compact({"max_seq_length": 5, "trust_remote_code": True, "model_args": {"trust_remote_code": True}})
    yield "none", b""


# --- settings ---------------------------------------------------------------------------------


def settings(**changes):
    config = LlamaConfig(**(checkpoints.SMALL | changes)).to_dict()
    config["architectures"] = ["LlamaForCausalLM"]
    return {key: value for key, value in config.items() if value is not None}


def hubs():
    main = b"0123456789abcdef0123456789abcdef01234567"
    yield "main", b"\x03" + main + b"\n"
    yield "missing", b"\x02" + main
    yield "only", b"\x02"
    yield "several", b"\x3f"
    yield "hidden", b"\x08.hidden"
    yield "outside", b"\x04../snapshots/main"
    yield "none", b""


def config():
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    generation = {
        "do_sample": True,
        "temperature": 0.6,
        "top_k": 50,
        "top_p": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "eos_token_id": [2, 7],
    }
    names = {"eos_token": {"content": "<end>"}, "bos_token": "a", "model_max_length": 10**30}
    tokenizer = {"added_tokens": [{"id": 3, "content": "<end>"}], "model": {"vocab": {"a": 0}}}
    old = settings() | {"rope_theta": 10000.0, "rope_scaling": None, "head_dim": 16}
    del old["rope_parameters"]
    yield "small", compact(settings())
    yield "all", b"\0".join(map(compact, [settings(bos_token_id=1), generation, names, tokenizer]))
    yield "unsupported", compact(settings(rope_parameters=rope | {"rope_type": "dynamic"}))
    yield "llama3", compact(settings(rope_parameters=rope, max_position_embeddings=16384))
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "group_size": -1, "block_structure": [128, 64]}
    group = {"format": "int-quantized", "weights": weights, "targets": ["Linear"]}
    tools = {"format": "int-quantized", "config_groups": {"a": group}, "sparsity_config": {"format": "dense"}, "transform_config": {}}
    yield "fp8", compact(settings(quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]}))
    yield "compressed", compact(settings(quantization_config={"quant_method": "compressed-tensors"} | tools))
    models = published.CONFIGS | published.NESTED | published.ENCODERS
    yield from {published.family_of(model): compact(model) for model in models.values()}.items()
    parts = [old, {"eos_token_id": 3}, {"eos_token": "a"}, tokenizer]
    yield "old", b"\0".join(map(compact, parts))


# --- tokenizers -------------------------------------------------------------------------------


def tokenizer(added=(), merges=()):
    """A tokenizer.json with few characters and the given merges of two tokens."""
    content = json.loads(checkpoints.byte_tokenizer(256).to_str())
    vocab = {c: i for i, c in enumerate('aeilnost"{}:,Ġ19Ã©')}
    for left, right in merges:
        vocab[left + right] = len(vocab)
    content["model"]["vocab"] = vocab
    content["model"]["merges"] = [list(pair) for pair in merges]
    content["added_tokens"] = [
        {
            "id": len(vocab) + i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": normalized,
            "special": not normalized,
        }
        for i, (text, normalized) in enumerate(added)
    ]
    return content


def tokenizer_of_characters():
    """SentencePiece's manner, with a little of everything."""
    content = tokenizer([("<s>", False), ("en", True)])
    vocab = {c: i for i, c in enumerate(["<unk>", *"▁aeiloné", "<0xC3>", "<0x0A>", "▁a"])}
    content["model"] |= {"vocab": vocab, "merges": [["▁", "a"]], "unk_token": "<unk>"}
    content["model"] |= {"byte_fallback": True, "fuse_unk": True}
    for i, token in enumerate(content["added_tokens"]):
        token |= {"id": len(vocab) + i, "lstrip": True, "rstrip": i > 0, "single_word": i > 0}
    replace = {"type": "Replace", "pattern": {"String": "ll"}, "content": "l"}
    decode = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {"<s>": {"ids": [len(vocab)]}},
    }
    return content | {
        "normalizer": {"type": "Sequence", "normalizers": [replace, {"type": "NFC"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
        "decoder": {
            "type": "Sequence",
            "decoders": [decode, {"type": "ByteFallback"}, {"type": "Fuse"}, strip],
        },
        "post_processor": template,
    }


def tokenizer_json():
    merges = [("t", "o"), ("e", "n"), ("Ġ", "to"), ("a", "a"), ("aa", "aa"), ("Ã", "©")]
    added = [("<s>", False), ("<s>x", False), ("an", True)]
    full = checkpoints.byte_tokenizer(256)
    full.add_special_tokens([AddedToken("<|im_end|>", special=True)])
    spaced = tokenizer(added, merges)
    spaced["model"]["merges"] = [" ".join(pair) for pair in merges]
    spaced["pre_tokenizer"] = spaced["pre_tokenizer"]["pretokenizers"][1]
    yield "small", compact(tokenizer())
    yield "merges", compact(tokenizer(added, merges))
    yield "spaced", compact(spaced)
    yield "full", compact(json.loads(full.to_str()))
    characters = tokenizer_of_characters()
    yield "characters", compact(characters)
    characters["pre_tokenizer"] = None
    prepend = {"type": "Prepend", "prepend": "▁"}
    characters["normalizer"]["normalizers"].append(prepend)
    characters["decoder"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    characters["model"]["ignore_merges"] = True
    yield "prepended", compact(characters)
    whole = tokenizer(added, merges)
    whole["model"]["ignore_merges"] = True
    yield "whole", compact(whole)
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    words = {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 4,
             "vocab": {"?": 0, "a": 1, "ab": 2, "##b": 3, "##bc": 4, "##": 5}}  # fmt: skip
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    yield "wordpiece", compact({"normalizer": normalizer, "decoder": decoder, "model": words})
    scores = {"?": 0, "a": -2, "ab": -1.5, "b": -1, "bc": -1, "c": -3, "abc": -9}
    pieces = {"type": "Unigram", "unk_id": 0, "vocab": list(scores.items())}
    yield "unigram", compact({"decoder": {"type": "Metaspace", "replacement": "_"}, "model": pieces})


# --- what build.h describes -------------------------------------------------------------------

TEXT = b"abcde to<s>end \xc3\xa9 12"
SPANS = [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (0, 2), (0, 3), (5, 3), (8, 3), (15, 2)]
BYTES = {b: i for i, b in enumerate(b"abcde ")} | {0x43: 10, 0x29: 10}
MERGES = [(0, 1, 6), (6, 2, 7), (5, 3, 8)]
LETTERS, DIGITS, SPACES = 1, 6, 3  # places in fuzz_build_tokenizer's list of classes


def damage(place, content):
    return struct.pack("<IB", place, len(content)) + content


def tokenizer_recipe(digits=0, damages=(), merges=MERGES, with_text=False):
    added = [(9, 8, 3, 0), (9, 8, 4, 0), (7, 11, 3, 1)]
    head = [len(SPANS) - 1, len(merges), len(added), 1, digits, len(TEXT), len(damages), with_text]
    parts = [
        bytes(head),
        TEXT,
        b"".join(map(bytes, SPANS)),
        bytes(BYTES.get(byte, 255) for byte in range(128)),
        b"".join(map(bytes, merges)),
        b"".join(map(bytes, added)),
        bytes([DIGITS, SPACES, *[LETTERS] * 14, *[0] * 16]),
        bytes([0, 1, 0, 0, 0, 0, 0, 0]),
    ]
    return b"".join(parts) + b"".join(damages)


def text_recipe(flags=63, letters=1):
    head = [flags, 3, 3, 1, 1, 1, 1, 2, 1, 3, letters, 0]
    pool = (b"abcde to<s>end " * 5)[:64]
    points = [0, 5, 6, 4, 3, 7, 8, 9]
    numbers = [2, 230, 0, 231, 1, 0, 0, 221, 3, 1, 4, 0, 1, 202]
    pattern = [i % 8 for i in range(32)]
    pairs = [5, 4, 6, 14, 8, 10, 9, 11, 5, 4, 5, 4, 5, 4, 5, 4]
    tables = [*points, *numbers, *pattern, *pairs] if letters else []
    steps = [4, 0, 0, 0, 0, 5, 0, 1, 2, 250, 0, 0]
    names = [0, 0, 0, 1, 0, 1, 66, 2, 2]
    return bytes(head) + pool + bytes(tables + steps + names)


def tokenizer_tables():
    text = b"abc abcd <s>x to end 12\n\n  \xc3\xa9 it's \xff"
    yield "plain", tokenizer_recipe() + text
    yield "digits", tokenizer_recipe(digits=1) + text
    yield "span", tokenizer_recipe(damages=[damage(64 + 12, b"\xff")]) + text
    yield "merge", tokenizer_recipe(damages=[damage(1280, b"\x01\x02")]) + text
    yield "added", tokenizer_recipe(damages=[damage(1408 + 8, b"\xff")]) + text
    yield "damaged", tokenizer_recipe(damages=[damage(12, b"\1\0\0\0")]) + text
    yield "nothing", b""
    marked = " e\u0301a\u0327\u0301 \uac00\u11a8 \u2581b".encode()
    for name, flags, letters in (("text", 63, 1), ("bytes", 28, 0), ("one_word", 3, 1)):
        yield name, tokenizer_recipe(with_text=True) + text_recipe(flags, letters) + b"\0" + text + marked


TIED, ATTENTION_BIAS, MLP_BIAS, BOS, RESIZED, STALE, BLOCKS, WITH_TEXT = (
    1 << bit for bit in range(8)
)


def blob_recipe(
    dtype, switches=0, shape=(1, 31, 39, 0, 1, 3, 19), weights=0, early=(), late=(), size=b"",
    blocks=b"",
):  # fmt: skip
    provenance = b"converter: none\n"
    head = [dtype, *shape, 31, switches, weights, 3, len(provenance), 1, len(early), len(late)]
    text = text_recipe() if switches & WITH_TEXT else b""
    parts = [bytes(head), blocks, provenance, tokenizer_recipe(), text, *early, *late, size]
    return b"".join(parts)


def blobs():
    yield "f32", blob_recipe(0, TIED)
    yield "bf16", blob_recipe(1, ATTENTION_BIAS | BOS, shape=(0, 6, 34, 2, 0, 1, 30))
    yield "int8", blob_recipe(2, MLP_BIAS, weights=1)
    yield "short", blob_recipe(2, RESIZED, size=struct.pack("<I", 140000))
    yield "field", blob_recipe(0, early=[damage(320 + 32, struct.pack("<I", 1 << 20))])
    yield "flip", blob_recipe(1, STALE, early=[damage(66000, b"\1")], late=[damage(8, b"\1")])
    yield "nan", blob_recipe(0, TIED, early=[damage(140000, struct.pack("<ff", float("nan"), 1))])
    everything = bytes([2, 1, 5, 127, 2, 1, 5, 2])
    yield "blocks", blob_recipe(2, MLP_BIAS | BLOCKS, shape=(2, 31, 39, 0, 1, 3, 19), blocks=everything)
    bare = bytes([0, 0, 10, 0, 0, 0, 2, 1])
    yield "bare", blob_recipe(0, TIED | BLOCKS, blocks=bare)
    yield "text", blob_recipe(2, TIED | WITH_TEXT)


def pieces():
    for name, blob in blobs():
        yield name, blob + bytes([63, 0, 200, 9, 255, 8]) * 40


def runs():
    way = bytes([0, 2, 5, 0, 64, 10, 230, 10, 70, 5]) + bytes([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    for kv, (name, blob) in enumerate(blobs()):
        yield name, blob + bytes([kv % 4]) + way[1:]


def sessions():
    repair, resize = 1, 2

    def session(model, kv, n_ids=9, damages=(), after=repair, data=b"", length=0, slide=0):
        head = [model, kv, n_ids, after, len(damages), slide, kv != 1, 0]
        return bytes(head) + struct.pack("<HH", len(data), length) + data + b"".join(damages)

    def header(offset, content):  # in the first 1,024 bytes
        return damage(2 * offset + 1, content)

    def messages(*texts):
        return b"chat" + b"".join(struct.pack("<II", role, len(text)) + text for role, text in texts)

    def counts(n_ids, n_positions, n_data=0):
        return [header(32, struct.pack("<II", n_ids, n_positions)), header(40, struct.pack("<I", n_data))]

    chat = messages((0, b"Be kind."), (1, b"Hi"), (2, b"Hello."))
    yield "f32", session(0, 0)
    yield "f16", session(2, 1, 130, data=bytes(20))
    yield "int8", session(1, 2, 66, data=bytes(range(64)))
    yield "empty", session(0, 1, 0)
    yield "chat", session(2, 2, 3, data=chat)
    yield "turns", session(0, 0, 3, data=messages((1, b"a"), (0, b"b")))
    yield "cut", session(2, 0, length=200)
    yield "flip", session(0, 1, damages=[header(64, b"\1")], after=0)
    yield "ids", session(0, 1, damages=[header(100, b"\2")])
    yield "more", session(0, 2, damages=counts(80, 79, 20000), after=repair | resize, slide=5)
    yield "fewer", session(2, 0, 70, damages=counts(65, 64), after=repair | resize)
    yield "counts", session(1, 2, damages=counts(2**32 - 1, 2**32 - 1, 2**32 - 1), after=repair | resize)
    yield "infinite", session(0, 0, damages=[header(160, b"\x00\x00\x80\x7f")])
    yield "sampler", session(0, 0, damages=[header(48, b"\x00\x00\xc0\x7f"), header(72, b"\7")])


def saved_logits():
    """A text, and what is done to the file of its logits."""
    repair, raw = 1, 2

    def saved(vocabulary, n_ids, n_rows, damages=(), after=repair, length=0, rest=b""):
        return struct.pack("<BBBBBBH", vocabulary, n_ids, n_rows, 5, after, len(damages), length) + b"".join(damages) + rest

    def at(offset, content):
        return damage(2 * offset + 1, content)

    yield "plain", saved(7, 9, 8)
    yield "long", saved(1, 200, 3)
    yield "none", saved(0, 0, 0)
    yield "version", saved(7, 9, 8, [at(8, b"\2")])
    yield "counts", saved(7, 9, 8, [at(24, b"\xff" * 8), at(32, b"\xff" * 8)])
    yield "ids", saved(7, 9, 8, [at(60, b"\1")])
    yield "infinite", saved(7, 9, 8, [at(128, b"\x00\x00\x80\x7f")])
    yield "flip", saved(7, 9, 8, [at(128, b"\1")], after=0)
    yield "cut", saved(7, 9, 8, length=150)
    yield "raw", saved(7, 9, 8, after=raw, rest=b"\x8bLOGIT\r\n" + bytes(48))


def statistics():
    """Inputs say how good statistics are changed; the rest of an input replaces the start of the records."""
    repair, raw = 1, 2

    def stats(kind=0, dtype=3, damages=(), after=repair, length=0, rest=b""):
        return struct.pack("<BBBBH", kind, dtype, after, len(damages), length) + b"".join(damages) + rest

    def at(offset, content):
        return damage(2 * offset + 1, content)

    def floats(*values):
        return struct.pack(f"<{len(values)}f", *values)

    for dtype in range(4):
        yield f"gram{dtype}", stats(dtype=dtype)
        yield f"diagonal{dtype}", stats(1, dtype)
        yield f"latent{dtype}", stats(2, dtype)
        yield f"latent_diagonal{dtype}", stats(3, dtype)
    yield "tokens", stats(damages=[at(32, b"\xff" * 8)])
    yield "shape", stats(damages=[at(44, b"\1"), at(60, b"\1")])
    yield "widths", stats(damages=[at(48, struct.pack("<2I", 2**22, 2**22)), at(56, struct.pack("<2I", 2**22, 2**22))])
    yield "key", stats(damages=[at(16, b"\1")])
    yield "flip", stats(damages=[at(80, b"\1")], after=0)
    yield "cut", stats(length=500)
    yield "nan", stats(rest=floats(float("nan")))
    yield "negative", stats(rest=floats(-1))
    yield "zeros", stats(rest=bytes(700))
    yield "huge", stats(rest=floats(*[3e38] * 250))
    yield "small", stats(1, rest=floats(*[1e-45] * 25))
    yield "indefinite", stats(rest=floats(1, *[2] * 6, 1, *[2] * 5, 1))
    for name, number in {"nan": float("nan"), "negative": -1, "zero": 0, "huge": 3e38}.items():  # of the first head's queries
        yield f"head_{name}", stats(2, damages=[damage(5712, floats(number))])
    yield "heads", stats(3, damages=[at(344, b"\3")])
    yield "raw", stats(after=raw, rest=b"\x89SMC\r\n\x1a\n\1\0\0\0" + bytes(60))


TWICE, REST, ODD, SUM, NO_SIZE, NO_TABLE = (1 << bit for bit in range(6))


SMALL = (0, 6, 34, 2, 0, 1, 30)
LARGE = (2, 46, 78, 2, 2, 11, 250)  # three frames


def packed():
    def pack(cut=0, switches=SUM, shape=LARGE, piece=0, damages=(), kept=()):
        head = struct.pack("<IBBBB", cut, switches, piece, len(damages), len(kept))
        return head + blob_recipe(0, TIED, shape=shape) + b"".join([*damages, *kept])

    flip = [damage(70000, b"\1")]
    yield "small", pack(shape=SMALL)
    yield "large", pack()
    yield "cut", pack(300000, TWICE)
    yield "rest", pack(300000, TWICE | REST | SUM)
    yield "kept", pack(300000, TWICE, kept=flip)
    yield "flip", pack(damages=flip)
    yield "odd", pack(switches=ODD, shape=SMALL, piece=63)
    yield "unsized", pack(switches=NO_SIZE, shape=SMALL)
    yield "headless", pack(switches=NO_TABLE, shape=SMALL)


def deltas():
    copy, zstd, differences, halves = range(4)

    def part(method, new_size, old_offset=0, old_size=0, n_damages=0):
        return struct.pack("<BBxxIII", method, n_damages, new_size, old_offset, old_size)

    def delta(parts=(), changes=(), header=(), damaged=(), late=(), shape=SMALL):
        head = bytes([len(changes), len(parts), len(header), len(late)])
        # the damages in the order in which fuzz_patch.c takes them
        return head + b"".join([*parts, blob_recipe(1, shape=shape), *changes, *damaged, *header, *late])

    hidden = [damage(2, b"\7")]
    front = part(zstd, 65535, 0, 65536)
    parts = [front, part(copy, 65535, 65536), part(halves, 4095, 131072), part(differences, 99, 131072)]
    yield "plain", delta()
    yield "parts", delta(parts, [damage(10, b"\3")])
    yield "shape", delta(parts, hidden)
    yield "header", delta(header=[damage(24, b"\1")])
    yield "part", delta([part(zstd, 65535, 0, 65536, 1)], damaged=[damage(16, b"\1")])
    yield "late", delta(parts, late=[damage(90, b"\1")])


def comparisons():
    def diff(changes=(), dtype=2, foreign=b""):
        return bytes([len(changes), bool(foreign)]) + blob_recipe(dtype) + b"".join(changes) + foreign

    yield "same", diff()
    yield "dtype", diff([damage(0, b"\1")])
    yield "layers", diff([damage(1, b"\0")], 1)
    yield "text", diff([damage(34, b"\x1b[2J")], 0)
    yield "foreign", diff(foreign=b'{"model.norm.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}')


def descriptions():
    header = {
        "</td><script>alert(1)</script>": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "model.layers.0.\u001b[2J": {"dtype": "BF16", "shape": [0], "data_offsets": [24, 24]},
        "model.layers.10.w": {"dtype": "F16", "shape": [40, 64], "data_offsets": [24, 5144]},
        "__metadata__": {"format": "pt\u202e"},
    }
    by_name = dict(blobs())
    for as_json in (0, 2):
        yield f"names{as_json}", bytes([as_json]) + compact(header)
        for name in ("int8", "blocks", "flip", "short", "nan"):
            yield f"{name}{as_json}", bytes([1 | as_json]) + by_name[name]


def scanners():
    def scanner(pattern, text, behaviour=1, flags=0, changes=()):
        pattern = pattern.encode()
        changed = b"".join(struct.pack("<HBx", *change) for change in changes)
        return bytes([behaviour, flags, len(pattern), len(changes)]) + pattern + changed + text.encode()

    llama3 = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    yield "llama3", scanner(llama3, "I'LL take 12345,  caf\u00e9\r\n\n  x")
    yield "look", scanner(r"\b(?<=a)b$|^\Aa(?!c)|(?<!\s)\z.", "ab a\nb", 2)
    yield "class", scanner(r"[^\w&&[^a-f[:digit:]]-]{2,3}?|[\]\-]++|(?>a*)", "ab12-]", 3, 1)
    yield "bytes", scanner(r"\p{Lu}|[0-9]{3}", "\u00e91234", 4, 2)
    yield "literal", scanner("a.b", "xa.bx", 0, 4)
    yield "vain", scanner("a*b|a", "a" * 300)
    yield "changed", scanner(r"\d+|a", "1a2", changes=[(8, 1), (9600, 2)])


def templates():
    for name in ("smollm2", "training", "llama2"):
        yield name, (ROOT / f"tests/data/templates/{name}.jinja").read_bytes()


def template_code():
    """A section of one function; its operations as (code, a, b)."""

    def section(text, lengths, operations, n_slots, max_stack):
        head = struct.pack("<8I32x", len(lengths), 1, len(operations), 0, len(text), 0, 2**32 - 1, 9)
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        constants = b"".join(struct.pack("<IIQ", 5, n, at) for n, at in zip(lengths, starts))
        function = struct.pack("<8I", 0, len(operations), 0, n_slots, max_stack, 0, 0, 0)
        code = b"".join(struct.pack("<BBHI", c, a, 1, b) for c, a, b in operations)
        return head + constants + function + code + text

    loop = [(7, 0, 1), (37, 0, 0), (38, 0, 6), (9, 0, 0), (0, 0, 0), (33, 0, 2), (41, 0, 7), (32, 0, 0)]
    yield "loop", section(b"amessages", [1, 8], loop, 1, 2)
    calls = [(2, 0, 0), (0, 0, 0), (3, 0, 0), (29, 0, 5), (5, 0, 0), (26, 0, 2), (1, 0, 0), (32, 0, 0)]
    yield "calls", section(b"a", [1], calls, 0, 2)


def requests():
    yield "prompt", compact({"prompt": "a b", "max_tokens": 3, "temperature": 0.5, "seed": 7})
    yield "messages", compact({"messages": [{"role": "user", "content": "\u00e9"}], "id": "x"})
    yield "tools", compact(
        {"messages": [], "tools": [{"name": "f"}], "documents": [], "chat_template_kwargs": {"a": 1}}
    )
    yield "all", compact(
        {"id": 1, "prompt": "", "max_tokens": 0, "temperature": 1e2, "top_k": 4, "top_p": 0,
         "min_p": 0.5, "repetition_penalty": 1.5, "seed": 0, "stop": ["a", "\n"], "logprobs": 20}
    )  # fmt: skip
    yield "nulls", b' { "prompt" : "\\ud83d\\ude00" , "stop" : "b" , "seed" : null } '


def clients():
    def to(endpoint, pieces=1, chunked=False, leaves=False, **members):
        return bytes([endpoint | chunked << 4 | leaves << 5 | (pieces - 1) << 6]) + compact({"model": "model"} | members)

    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}]
    function = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}}
    tools = [{"type": "function", "function": function}]
    call = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    sampling = {"temperature": 1, "top_p": 0.9, "top_k": 9, "min_p": 0.1, "seed": 1, "stop": ["z"], "logit_bias": {"5": -100},
                "frequency_penalty": 1, "presence_penalty": -1, "repetition_penalty": 1.1}  # fmt: skip
    yield "chat", to(1, messages=messages, max_tokens=3, n=2, logprobs=True, top_logprobs=2, **sampling)
    yield "stream", to(1, 3, messages=messages, max_tokens=3, stream=True, stream_options={"include_usage": True}, logprobs=True, temperature=0)
    yield "format", to(1, messages=messages, response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": {"enum": [1, "a"]}}})
    yield "calls", to(1, messages=[*messages, call, {"role": "tool", "tool_call_id": "c", "content": "1"}], tools=tools, tool_choice="required",
                      parallel_tool_calls=False, max_tokens=40, stream=True)  # fmt: skip
    yield "inert", to(1, chunked=True, messages=messages, max_tokens=1, user="u", store=False, metadata={}, service_tier="auto", modalities=["text"])
    yield "leaves", to(1, leaves=True, messages=messages, stream=True)
    yield "completions", to(2, prompt=["a", [5, 6]], max_tokens=2, logprobs=2, echo=False, response_format={"type": "regex", "pattern": "[a-f]+"})
    yield "response", to(3, input="a", instructions="b", max_output_tokens=2, text={"format": {"type": "json_object"}}, truncation="disabled")
    yield "events", to(3, input=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}], max_output_tokens=2, stream=True)
    flat = [{"type": "function"} | function]
    turn = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "1"}]
    yield "functions", to(3, input=[{"role": "user", "content": "a"}, *turn], tools=flat, tool_choice={"type": "function", "name": "f"}, max_output_tokens=40, stream=True)
    thought = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "b"}]}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "c"}]}
    yield "thoughts", to(3, input=[{"role": "user", "content": "a"}, thought, said, thought, *turn, thought], tools=flat, reasoning_format="none", thinking_budget_tokens=1, max_output_tokens=2)
    yield "embeddings", to(4, input=["a", [5]], encoding_format="base64")
    yield "tokenize", to(5, messages=messages, chat_template_kwargs={"enable_thinking": False})
    yield "detokenize", to(6, tokens=[1, 2, 3])
    yield "rerank", to(7, query="a", documents=["b", {"text": "c"}], top_n=1, return_documents=True, rank_fields=[])
    blocks = [{"type": "thinking", "thinking": "b", "signature": ""}, {"type": "text", "text": "c"}, {"type": "tool_use", "id": "c", "name": "f", "input": {}}]
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "1"}]}
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result, {"type": "text", "text": "d"}]}]
    custom = [{"type": "custom", "name": "f", "description": "e", "input_schema": function["parameters"]}]
    yield "blocks", to(8, messages=turns, system=[{"type": "text", "text": "b"}], max_tokens=2, stop_sequences=["z"], thinking={"type": "enabled", "budget_tokens": 1},
                       output_config={"effort": "medium", "format": {"type": "json_schema", "schema": {"enum": [1, "a"]}}})  # fmt: skip
    yield "blocks_calls", to(8, messages=turns, tools=custom, tool_choice={"type": "tool", "name": "f"}, max_tokens=40, stream=True, thinking={"type": "disabled"})
    yield "count", to(9, messages=turns, tools=custom, tool_choice={"type": "none", "disable_parallel_tool_use": True}, cache_control={})
    for name, text in {
        "get": b"GET /v1/models/model?x HTTP/1.1\r\nHost: [::1]:80\r\nAuthorization: Bearer key\r\n\r\nHEAD /metrics HTTP/1.0\r\n\r\n",
        "post": b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Type: application/json;\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
        "chunks": b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\nOPTIONS * HTTP/1.1\r\n\r\n",
    }.items():
        yield name, b"\0" + text


def lines():
    limit, near = 1 << 20, 3  # as PIECE_RUN | PIECE_NEAR_LIMIT in fuzz_lines.c

    def text(content, flags=0):
        return struct.pack("<BxH", flags, len(content)) + content

    def run(size):
        return struct.pack("<BBH", near, ord("x"), size - limit + (1 << 15))

    yield "short", text(b"one\n\ntwo\r\n") + text(b"th", 4) + text(b"ree\nno end")
    yield "parted", b"".join(text(b"ab\ncd\n"[i : i + 1]) for i in range(6))
    yield "longest", run(limit) + text(b"\nb\n") + run(limit)
    yield "too_long", run(limit + 1) + text(b"\nb\n") + run(limit + 9) + text(b"\n")
    yield "longer", text(b"a") + run(limit) + run(limit + 1) + text(b"z\nb\n") + run(limit + 1)


def regular_expressions():
    for name, pattern in {
        "ruby": r"\A(?i:ab|c{2,3}?)[^\w&&[a-f]]*(?<!x)\p{L}+\b$",
        "atomic": "(?>a)b++",
    }.items():
        yield name, b"\0" + pattern.encode()
    for name, pattern in {
        "ecma": r"^(?!.*--)(?=\d)[\w-.]{2,}(?<=a|\u00e9)|\cJ[^]\ud83d\ude00{1,}?$",
        "edges": "^((^|,)(a|b))+(c(,|$))*$",
        "without": "^((?!abc).)*$",
        "behind": "^.*(?<!foo)(?<=[ab])$",
        "copies": r"(\b(a|\B)?){3}",
    }.items():
        yield name, b"\1" + pattern.encode()


def grammars():
    yield "json", rb'''root ::= object
value ::= object | array | string | [0-9]+ ("." [0-9]{1,15})? | "true" ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws # escapes
ws ::= | " " | "\n" [ \t]{0,20}
'''
    yield "mixed", b"root = sum ;\nsum : product (('+' | '-') product)*\n ; product := /[0-9]+|x{2}/ | '(' sum ')'\n  | . [\\u20ac-]"
    yield "left", b"root ::= a?\na ::= b* root | \nb ::= \"x\" | a b"


def schemas():
    yield "form", b'''{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":9,"pattern":"^[a-z]+$"},
"age":{"type":"integer","minimum":-3,"exclusiveMaximum":120.5,"multipleOf":5},"when":{"format":"date-time"}},
"required":["name"],"additionalProperties":{"type":["number","null"]},"minProperties":1,"maxProperties":4}'''
    yield "tree", b'''{"$ref":"#/$defs/n","$defs":{"n":{"$anchor":"n","type":"object","properties":{"v":{"const":1.5},
"kids":{"type":"array","items":{"$ref":"#n"},"minItems":1,"maxItems":3,"uniqueItems":false}},"unevaluatedProperties":false}}}'''
    yield "logic", b'''{"oneOf":[{"required":["a"]},{"required":["b"]}],"anyOf":[{"enum":[1,"x",null]},{"not":{"type":"string"}}],
"allOf":[{"if":{"type":"object"},"then":{"propertyNames":{"pattern":"^[ab]"}},"else":false}]}'''
    yield "lists", b'''{"type":"array","prefixItems":[{"type":"boolean"},{"format":"ipv4"}],"items":{"enum":["u","v"]},
"uniqueItems":true,"contains":{"const":"v"},"dependentSchemas":{"a":{"minItems":2}},"patternProperties":{"^x-":{}}}'''
    yield "draft", b'''{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/y","definitions":{"p":{"id":"#q",
"minimum":0,"exclusiveMinimum":true}},"items":[{"$ref":"#q"},{"$ref":"#/definitions/p"}],"additionalItems":false,
"dependencies":{"a":["b"]}}'''


def tools():
    listed = b'''[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"x":{"type":"integer"}},
"required":["x"]}}},{"name":"g","parameters":null},{"name":"h.i","parameters":{"additionalProperties":true}}]'''
    answers = [b'Well.\n<tool_call>\n{"name": "f", "arguments": {"x": "}\\""}}\n</tool_call>\n<tool_call>\n{"name": "g"',
               b'{"name": "f", "parameters": {"x": [1, {}]}}', b'a[TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g"}]b',
               b'[TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[ARGS]{}', b'<|tool_call|>[{"id": 3, "name": "f"}] <|tool_',
               b'<start_function_call>call:f{x:1}<end_function_call><start_function_call>call:g{a:<escape><e<escape>,b:[{}]}<end_',
               b'<|tool_call>call:h.i{a b:<|"|>"\\<|"|>,c:{d:None,e:true}}<tool_call|>',
               b'<|tool_call_start|>[f(x=1), g(a="\\"", b={"c": [None]})]<|tool_call_end|>.',
               b'<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=y>\n<\n\n</parameter>\n</function>\n</tool_call>',
               b'<function_calls>f(x=1)\ng(a="</f", b=[null, True])\n</function_calls>.',
               '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"x": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>f'.encode(),
               b'a<tool_calls><tool_call>f\n```json\n{"x": 1}\n```</tool_call>\n<tool_call>g\n```json\n{}\n```</tool_call></tool_calls>b',
               b'<|tool_call|>{"name": "f", "arguments": {"x": 1}}<|/tool_call|><|tool_call|>[{"name": "g"}, {"name": "f"}]<|/tool_ca',
               b'<function=f>{"x": 1}</function><function=g>{}</function><function',
               b'<TOOLCALL>[{"name": "f", "arguments": {"x": 1}}, {"name": "g"}]</TOOLCALL>.',
               b'[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{"x": 1}[TOOL_CALLS]g[CALL_ID]',
               b' [{"name": "f", "arguments": {"x": 1}}, {"name": "g"}] [{"', b'[f(x=1), g(a="]", b=[True])] [',
               b'import functools\nfunctools[{"name": "f", "arguments": {"x": 1}}, {"name": "g"}].functools[',
               b'<|tool_call_start|>\n```python\nf(x=1,y=[2])\ng()\n```\n<|tool_call_end|>\n<|tool_call_start|>\n```python\nf(',
               b'```\n[{"name": "f", "arguments": {"x": 1}}, {"name": "g"}]\n```\n```',
               b'a\n<tool_calls>[{"name": "f", "arguments": {"x": 1}, "id": "2"}, {"name": "g"}]</tool_calls>\n<tool_calls>[{',
               b'a\n<function name="f"><param name="x">1</param><param name="y"><![CDATA[<\n]]></param></function>\n<function name="g"></fun',
               b'<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": {"x": 1}}\n]<|END_ACTION|>']  # fmt: skip
    for style, answer in enumerate(answers):
        yield f"style{style + 1}", bytes([style]) + listed + b"\0" + answer
    yield "required", bytes([len(answers) * 2]) + listed + b"\0"
    yield "one", bytes([len(answers) * 5]) + listed + b"\0<tool_call>no call"


def masks():
    for name, schema in schemas():
        yield name, b"\0\0" + schema
    yield "indented", b"\0\2" + next(schema for _, schema in schemas())
    yield "strings", b'\0\1{"items":{"anyOf":[{"maxLength":3},{"pattern":"^(a|\xc3\xa9)*$","minLength":2},{"pattern":"^[^x]{0,20}$"}]}}'
    yield "names", b'\0\0{"properties":{"a":{"type":"string"},"ab":{"maxLength":20}},"additionalProperties":{"minLength":18}}'
    yield "pattern", b"\1\0" + r"(a|é|\d{2})+( [a-z]{1,30})*\.?".encode()
    yield from (("grammar_" + name, b"\2\0" + grammar) for name, grammar in grammars())
    yield "choices", b'\3\0["true","a","aa","abc \xc3\xa9",""]'
    listed = next(tools())[1].partition(b"\0[")[2].partition(b"\0")[0]
    for style in range(1, 24):
        yield f"style{style}", bytes([3 + style, 2]) + b"[" + listed
    for reasoning in range(1, 4):
        yield f"reasoning{reasoning}", bytes([0, 8 * reasoning]) + b'{"maxLength":3}'
        yield f"reasoning_calls{reasoning}", bytes([4, 8 * reasoning]) + b"[" + listed


# --- GGUF -------------------------------------------------------------------------------------


def gguf_files():
    """A container, a model with each kind of tokenizer, values of other types, and heads in another order."""
    from hostile_gguf import ARCH, ARRAY, BASE, F32, GPT2, MERGES, STRING, U32, assemble, items, pair, tensor, text, tokens

    def numbers(kind, form, *values):
        return items(kind, len(values), struct.pack(f"<{len(values)}{form}", *values))

    sizes = {"block_count": 1, "context_length": 8, "embedding_length": 32, "feed_forward_length": 32,
             "attention.head_count": 1, "attention.head_count_kv": 1, "rope.dimension_count": 32}  # fmt: skip
    model = [ARCH, *(pair(f"llama.{key}", U32, struct.pack("<I", n)) for key, n in sizes.items()),
             pair("llama.attention.layer_norm_rms_epsilon", F32, bytes(4))]  # fmt: skip
    model += [pair("tokenizer.chat_template", STRING, text("{{ bos_token }}")),
              pair("tokenizer.ggml.bos_token_id", U32, bytes(4))]  # fmt: skip
    letters = ["a", "b", "ab", "<s>"]
    kinds = pair("tokenizer.ggml.token_type", ARRAY, numbers(5, "i", 1, 1, 1, 3))
    scores = pair("tokenizer.ggml.scores", ARRAY, numbers(F32, "f", 0, -1, -2, -3))
    pieces = [pair("tokenizer.ggml.model", STRING, text("llama")), tokens(*letters), kinds, scores]
    blocks = [(32, 4), (32, 32)], ["token_embd.weight", "blk.0.attn_q.weight"]
    table, at = [], 0
    for dims, name in zip(*blocks, strict=True):
        table.append(tensor(name, dims, 2, at))
        at += -(-dims[1] * 18 // 32) * 32
    yield "container", BASE
    yield "bytes", assemble([*model, *GPT2, MERGES, tokens(*letters), kinds], table, bytes(at))
    yield "pieces", assemble([*model, *pieces], table, bytes(at))
    words = ["[CLS]", "[SEP]", "[UNK]", "\u2581a", "b"]
    model = [pair("general.architecture", STRING, text("bert")), pair("tokenizer.ggml.model", STRING, text("bert")), tokens(*words),
             pair("tokenizer.ggml.token_type", ARRAY, numbers(5, "i", 3, 3, 3, 1, 1)),
             pair("bert.attention.layer_norm_epsilon", F32, bytes(4)), pair("bert.attention.causal", 7, b"\0")]  # fmt: skip
    sizes = {"block_count": 1, "context_length": 8, "embedding_length": 2, "attention.head_count": 1, "pooling_type": 2}
    model += [pair(f"bert.{key}", U32, struct.pack("<I", n)) for key, n in sizes.items()]
    names = ["token_embd.weight", "token_embd_norm.weight", "blk.0.layer_output_norm.weight", "dense_2.weight"]
    places = zip(names, [(2, 5), (2,), (2,), (2, 3)], [0, 64, 96, 128], strict=True)
    table = [tensor(name, dims, 0, place) for name, dims, place in places]
    yield "words", assemble(model, table, bytes(152))
    model = [model[0], *model[4:]]
    model += [pair("tokenizer.ggml.model", STRING, text("t5")), tokens("<s>", "</s>", "<unk>", "\u2581a", "b", "[PAD]"),
              pair("tokenizer.ggml.token_type", ARRAY, numbers(5, "i", 3, 3, 2, 1, 1, 5)),
              pair("tokenizer.ggml.scores", ARRAY, numbers(F32, "f", 0, 0, 0, -1, -2, 0)),
              pair("tokenizer.ggml.precompiled_charsmap", ARRAY, items(0, 8, bytes([4, 0, 0, 0, 0, 0, 0, 0])))]  # fmt: skip
    yield "scores", assemble(model, table, bytes(152))
    sizes = {"block_count": 2, "embedding_length": 2, "attention.head_count": 1, "nextn_predict_layers": 1,
             "ssm.conv_kernel": 2, "ssm.state_size": 1, "ssm.group_count": 2, "ssm.time_step_rank": 4,
             "ssm.inner_size": 8}  # fmt: skip
    model = [pair("general.architecture", STRING, text("qwen35"))]
    model += [pair(f"qwen35.{key}", U32, struct.pack("<I", n)) for key, n in sizes.items()]
    model += [pair("qwen35.attention.layer_norm_rms_epsilon", F32, bytes(4)),
              pair("qwen35.context_length", U32, bytes(4)),
              pair("qwen35.attention.recurrent_layers", ARRAY, items(7, 2, b"\1\0")),
              pair("qwen35.rope.dimension_sections", ARRAY, numbers(5, "i", 1, 1, 1, 0))]  # fmt: skip
    shapes = {"token_embd.weight": (2, 3), "blk.0.attn_qkv.weight": (2, 12), "blk.0.attn_gate.weight": (2, 8),
              "blk.0.ssm_conv1d.weight": (2, 12), "blk.0.ssm_a": (4,), "blk.0.ssm_alpha.weight": (2, 4),
              "blk.0.ssm_out.weight": (8, 2), "blk.1.nextn.eh_proj.weight": (4, 2)}  # fmt: skip
    table, at = [], 0
    for name, dims in shapes.items():
        table.append(tensor(name, dims, 0, at))
        at += -(-4 * dims[0] * (dims + (1,))[1] // 32) * 32
    yield "heads", assemble(model, table, bytes(at))
    yield "values", assemble([pair("flag", 7, b"\1"), pair("real", 12, bytes(8)), pair("list", ARRAY, numbers(3, "h", 1, -1))], ())


TARGETS = {
    "gguf": gguf_files,
    "request": requests,
    "serve": clients,
    "lines": lines,
    "template": templates,
    "template_code": template_code,
    "safetensors": safetensors,
    "shards": shards,
    "lora": adapters,
    "hub": hubs,
    "encoder": encoders,
    "config": config,
    "tokenizer_json": tokenizer_json,
    "scanner": scanners,
    "regex": regular_expressions,
    "grammar": grammars,
    "schema": schemas,
    "tools": tools,
    "masks": masks,
    "tokenizer": tokenizer_tables,
    "blob": pieces,
    "run": runs,
    "session": sessions,
    "saved_logits": saved_logits,
    "stats": statistics,
    "unpack": packed,
    "patch": deltas,
    "diff": comparisons,
    "inspect": descriptions,
}


def main():
    shutil.rmtree(CORPUS, ignore_errors=True)
    for target, seeds in TARGETS.items():
        folder = CORPUS / target
        folder.mkdir(parents=True)
        for name, content in seeds():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()

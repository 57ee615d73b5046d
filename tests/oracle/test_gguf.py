"""GGUF files as sources: their numbers are those of the package gguf, their models those of
transformers or of the checkpoint that they were made from, their tokenizers those of `tokenizers`."""

import copy
import ctypes
import json
import os
import re
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import engine
import gguf
import gguf_files
import numpy as np
import pytest
import test_embedder
import test_encoder
import test_encoder_families
import test_roberta
import test_rotating_encoders
import torch
from blob_images import xxh3
from checkpoints import SMALL, edit_config, load_reference, make, make_of, reference_logits
from families import CONFIGS, cases, configs
from features import FEATURES, config_of
from gguf_files import QUANT
from hypothesis import given
from hypothesis import strategies as st
from internal import DAMAGED, FILE, ROOT, UNSUPPORTED, USAGE, lib
from programs import assert_fails, smolconv
from safetensors.torch import load_file, save_file
from smol_reader import Blob
from test_tokenizer_families import BYTE_LEVEL, BYTES, LLAMA3, QWEN2, llama2, of_bytes, replace, sequence, split_by
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, GemmaTokenizer
from transformers.models.qwen3_5.tokenization_qwen3_5 import PRETOKENIZE_REGEX as QWEN35
from transformers.tokenization_utils_base import generate_merges

BLOCKS = {  # as enum safetensors_dtype of convert/base/element.h numbers them
    name: 22 + i for i, name in enumerate("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split())
}
WIDE = SMALL | dict(hidden_size=256, intermediate_size=256, vocab_size=64, num_hidden_layers=1)
UPPER, LOWER = (r"[\p{%s}\p{Lm}\p{Lo}\p{M}]" % kinds for kinds in (r"Lu}\p{Lt", "Ll"))
END = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+END|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*END|"
CASED_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = CASED.replace("END", END) + r"\p{N}{1,3}" + CASED_REST
TEKKEN = CASED.replace("END", "") + r"\p{N}" + CASED_REST
IDS = [int(i) for i in np.random.default_rng(5).integers(0, 60, 40)]


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_widen_to_the_bits_of_the_package(name):
    kind = QUANT[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(0)
    blocks = np.concatenate([
        gguf_files.random_blocks(kind, (300, elements), rng),
        *(np.full((1, size), byte, np.uint8) for byte in (0, 1, 0x3B, 0xBB, 0x7B, 0xFB)),
    ])  # fmt: skip
    ours = np.empty((len(blocks), elements), np.float32)
    for block, out in zip(blocks, ours, strict=True):
        data = block.tobytes()
        lib.smol_block_widen(BLOCKS[name], data, out.ctypes.data_as(ctypes.c_void_p))
    theirs = gguf.dequantize(blocks, kind)
    assert ours.tobytes() == theirs.astype(np.float32).tobytes()
    assert len(np.unique(ours)) > 100


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", ["F32", "F16", "BF16", *BLOCKS])
def test_a_model_of_each_type_is_the_one_that_transformers_reads(name, tmp_path):
    """The tensors are the same bits, and so is the blob but for its provenance."""
    folder = make(tmp_path / "made", **WIDE)
    path = gguf_files.write(tmp_path / "x.gguf", folder, None if name == "F32" else QUANT[name])
    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="x.gguf", dtype=torch.float32)
    weights = {n: w.contiguous() for n, w in model.state_dict().items() if n != "lm_head.weight"}
    theirs = shutil.copytree(folder, tmp_path / "theirs")
    save_file(weights, theirs / "model.safetensors", metadata={"format": "pt"})
    a, b = (engine.convert(source, tmp_path / f"{i}.smol", "f32") for i, source in enumerate((path, tmp_path / "theirs")))
    assert smolconv("diff", a, b).returncode == 0
    with engine.Model(a) as ours, engine.Model(b) as theirs:
        assert ours.logits(IDS).tobytes() == theirs.logits(IDS).tobytes()
    for dtype in ("int8", "int4"):  # several rows at once, and columns in the middle of blocks
        c, d = (
            engine.convert(source, tmp_path / f"{dtype}{i}.smol", dtype) for i, source in enumerate((path, tmp_path / "theirs"))
        )
        with engine.Model(c) as ours, engine.Model(d) as theirs:
            assert ours.logits(IDS).tobytes() == theirs.logits(IDS).tobytes()


@pytest.mark.parametrize("name", ["F16", "Q8_0", "Q4_1"])
def test_fused_matrices_of_each_kind_of_type_are_cut_where_they_lie(name, tmp_path):
    """Phi-3 keeps q, k and v in one tensor, gate and up in another: those of the same file with unfused blocks."""
    folder = make_of(CONFIGS["phi3"](**SMALL), tmp_path / "made")
    path = gguf_files.write(tmp_path / "x.gguf", folder, QUANT[name])
    theirs = shutil.copytree(folder, tmp_path / "theirs")
    weights = load_file(theirs / "model.safetensors")
    for key, tensor in weights.items():
        values = tensor.float().numpy()
        if tensor.ndim == 2:
            values = gguf.dequantize(gguf.quantize(values, QUANT[name]), QUANT[name]).astype(np.float32)
        weights[key] = torch.from_numpy(values)
    save_file(weights, theirs / "model.safetensors", metadata={"format": "pt"})
    a, b = (engine.convert(source, tmp_path / f"{i}.smol", "f32") for i, source in enumerate((path, theirs)))
    result = smolconv("diff", a, b)
    assert result.returncode == 0, result.stdout


def bert(folder, cased=False):
    test_encoder.make(folder, test_encoder.lines(20, seed=1))
    test_encoder.write_modules(folder, "first", True, 300)
    content = json.loads((folder / "tokenizer.json").read_text())
    texts = sorted(content["model"]["vocab"], key=content["model"]["vocab"].get)
    letters = [chr(ord("A") + i) for i in range(26)]
    if cased:
        missing = [letter for letter in letters if letter not in texts]
        texts = texts[: len(texts) - len(missing)] + missing
        content["normalizer"]["lowercase"] = False
    assert cased == all(letter in texts for letter in letters)
    content["model"]["vocab"] = {text: i for i, text in enumerate(texts)}
    (folder / "tokenizer.json").write_text(json.dumps(content))


def xlm_roberta(folder):
    """Of its tokenizer, the scores are those that f32 holds, and tokens have no flags."""
    test_roberta.make(folder, "xlm-roberta", 0, **test_roberta.small_of("xlm-roberta"), pad_token_id=1, eos_token_id=2)
    test_embedder.write_modules(folder, "mean_tokens", prompts={}, width=12)
    content = json.loads((folder / "tokenizer.json").read_text())
    for entry in content["model"]["vocab"]:
        entry[1] = float(np.float32(entry[1]))
    for token in content["added_tokens"]:
        token["lstrip"] = False
    content["model"]["vocab"].append(["<mask>", 0.0])
    assert content["added_tokens"][-1]["id"] == len(content["model"]["vocab"]) - 1
    (folder / "tokenizer.json").write_text(json.dumps(content))


def pooled(make, kind, pooling, dense=()):
    """A checkpoint of another kind, with the files of sentence-transformers."""

    def write(folder):
        model = make(folder, kind)[0]
        test_embedder.write_modules(folder, pooling, dense, prompts={}, width=model.config.hidden_size)
        return model

    return write


def of_family(folder, kind):
    period = 3 if kind == "modernbert" else 6
    types = ["full_attention" if (i + 1 if period == 6 else i) % period == 0 else "sliding_attention" for i in range(7)]
    change = {"max_position_embeddings": 300, "layer_types": types, "num_hidden_layers": 7}
    own = {"local_attention": 9, "hidden_activation": "gelu"}
    if period == 6:
        own = {"sliding_window": 9, "hidden_activation": "gelu_pytorch_tanh", "head_dim": 12, "query_pre_attn_scalar": 12}
    return test_encoder_families.make(folder, kind, 5, change | own)


def rotating(folder, kind):
    rope = {"rope_type": "default", "rope_theta": 700.0}
    return test_rotating_encoders.make(folder, kind, 5, **test_rotating_encoders.small(max_position_embeddings=300, rope_parameters=rope))


def of_qwen(folder, _):
    return test_embedder.make(folder, test_encoder.lines(20, seed=1))


# the checkpoint, its tokenizer in the file, the kind of pooling, and a key of the tokenizer's
DENSE = ((20, "identity", False), (12, "identity", False))
EMBEDDERS = {
    "bert": (bert, gguf_files.add_word_tokenizer, gguf.PoolingType.CLS),
    "bert with capitals": (partial(bert, cased=True), gguf_files.add_word_tokenizer, gguf.PoolingType.CLS),
    "xlm-roberta": (xlm_roberta, gguf_files.add_scored_tokenizer, gguf.PoolingType.MEAN),
    "modernbert": (pooled(of_family, "modernbert", "mean_tokens"), gguf_files.add_byte_tokenizer, gguf.PoolingType.MEAN),
    "nomic": (pooled(rotating, "nomic", "mean_tokens"), gguf_files.add_word_tokenizer, gguf.PoolingType.MEAN),
    "eurobert": (pooled(rotating, "eurobert", "mean_tokens"), gguf_files.add_byte_tokenizer, gguf.PoolingType.MEAN),
    "gemma": (pooled(of_family, "embeddinggemma", "mean_tokens", DENSE), gguf_files.add_byte_tokenizer, gguf.PoolingType.MEAN),
    "qwen3": (pooled(of_qwen, "", "lasttoken"), gguf_files.add_byte_tokenizer, gguf.PoolingType.LAST),
}


def write_embedder(name, folder, path, more=None):
    make_checkpoint, tokenizer, pooling = EMBEDDERS[name]
    make_checkpoint(folder)

    def edit(writer):
        writer.add_pooling_type(pooling)
        if name == "xlm-roberta":
            writer.add_bos_token_id(0)
        elif not name.startswith(("bert", "nomic")):
            writer.add_add_eos_token(True)
            if name != "qwen3":
                writer.add_eos_token_id(0)
        for i in range(len(list(folder.glob("*_Dense")))):
            writer.add_tensor(f"dense_{i + 2}.weight", load_file(folder / f"{i + 2}_Dense/model.safetensors")["linear.weight"].numpy())
        if more:
            more(writer)

    def add(writer, content, n):
        if tokenizer is gguf_files.add_byte_tokenizer:
            return tokenizer(writer, content, n, "gpt-2")
        return tokenizer(writer, content, n)

    return gguf_files.write(path, folder, edit=edit, tokenizer=add)


@pytest.mark.parametrize("name", EMBEDDERS)
def test_a_model_of_embeddings_is_the_checkpoint_that_it_was_made_from(name, tmp_path):
    path = write_embedder(name, tmp_path / "made", tmp_path / "x.gguf")
    a, b = (engine.convert(source, tmp_path / f"{i}.smol", "f32") for i, source in enumerate((path, tmp_path / "made")))
    told = smolconv("diff", a, b).stdout
    assert "different" not in told, told
    texts = [*test_encoder.lines(12, seed=3), "Åbc déjà 日x, 3.5% ... x"]
    assert test_embedder.embed(a, texts).tobytes() == test_embedder.embed(b, texts).tobytes()


def test_an_id_of_minus_one_means_no_token(tmp_path):
    def none(writer):
        for name in ("padding", "seperator"):
            writer.add_uint32(f"tokenizer.ggml.{name}_token_id", 2**32 - 1)

    paths = [write_embedder("bert", tmp_path / str(i), tmp_path / f"{i}.gguf", more) for i, more in enumerate((None, none))]
    told = smolconv("diff", *(engine.convert(path, f"{path}.smol", "f32") for path in paths)).stdout
    assert "different" not in told, told


def no_dense(writer):
    for tensors in writer.tensors:
        for name in [name for name in tensors if name.startswith("dense_")]:
            tensors.pop(name)


EMBEDDER_FAULTS = [
    ("qwen3", lambda w: set_value(w, "qwen3.pooling_type", 4), "qwen3.pooling_type must be 1 (mean), 2 (first token) or 3 (last token)"),
    ("qwen3", lambda w: set_value(w, "qwen3.pooling_type", 0), "found 0"),
    ("qwen3", lambda w: w.add_causal_attention(False), "qwen3.attention.causal must be true"),
    ("bert", lambda w: set_value(w, "bert.attention.causal", True), "bert.attention.causal must be false"),
    ("bert", lambda w: set_value(w, "tokenizer.ggml.tokens", lambda t: ["[no]" if x == "[UNK]" else x for x in t]), "no token [UNK]"),
    ("bert", lambda w: w.add_uint32("tokenizer.ggml.seperator_token_id", 10**6), "must be the id of a token"),
    ("bert", lambda w: set_value(w, "tokenizer.ggml.tokens", lambda t: [*t[:-1], "x" * 300]), "is longer than 256 bytes"),
    ("gemma", no_dense, "it lacks the dense layers"),
    ("xlm-roberta", lambda w: set_value(w, "tokenizer.ggml.scores", lambda s: [*s[:-1], float("nan")]), "has no score"),
    ("xlm-roberta", lambda w: set_value(w, "tokenizer.ggml.token_type", lambda k: [*k[:9], 5, *k[10:]]), "token 9 has no score, or"),
    ("xlm-roberta", lambda w: set_value(w, "tokenizer.ggml.add_space_prefix", False), "add_space_prefix is false"),
    ("xlm-roberta", lambda w: set_value(w, "tokenizer.ggml.precompiled_charsmap", lambda m: m[:5]), "malformed precompiled_charsmap"),
    ("qwen3", lambda w: set_value(w, "tokenizer.ggml.model", "t5"), "is not that of an encoder"),
    ("modernbert", lambda w: w.add_uint32("modern-bert.hidden_activation", 1), "modern-bert.hidden_activation must be a text"),
]


def set_value(writer, key, value):
    entry = writer.kv_data[0][key]
    entry.value = value(entry.value) if callable(value) else value


@pytest.mark.parametrize("i", range(len(EMBEDDER_FAULTS)))
def test_bad_keys_of_models_of_embeddings_are_refused(i, tmp_path):
    name, edit, words = EMBEDDER_FAULTS[i]
    path = write_embedder(name, tmp_path / "made", tmp_path / "x.gguf", edit)
    result = smolconv(path, tmp_path / "o")
    assert result.returncode in (DAMAGED, UNSUPPORTED)
    assert words in result.stderr


YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 40}
PARTLY = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
BETAS = {"beta_fast": 16.0, "beta_slow": 2.0}
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192, "rope_theta": 500000.0}  # fmt: skip
MIXED_WINDOWS = dict(sliding_window=9, layer_types=["full_attention", "sliding_attention"])
GEMMA4 = dict(head_dim=16, global_head_dim=24, sliding_window=9, num_hidden_layers=5,
              layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"])  # fmt: skip
FAMILIES = {
    "llama yarn": dict(rope_parameters=YARN), "llama yarn all": dict(rope_parameters=YARN | BETAS | {"attention_factor": 1.5}),
    "mistral": dict(sliding_window=None), "ministral3": dict(head_dim=24, rope_parameters=YARN | BETAS | {
        "mscale": 1.0, "mscale_all_dim": 1.5, "llama_4_scaling_beta": 0.5}),
    "ernie4_5": dict(head_dim=24), "ernie4_5 with biases": dict(use_bias=True),
    "exaone4": MIXED_WINDOWS | dict(rope_parameters=LLAMA3_ROPE, max_position_embeddings=16384),
    "exaone4 without windows": dict(sliding_window=None, layer_types=["full_attention"] * 2, rope_parameters=LLAMA3_ROPE),
    "hunyuandensev1": dict(head_dim=24, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0}),
    "stablelm": dict(rope_parameters=PARTLY, use_qkv_bias=True), "stablelm parallel": dict(use_parallel_residual=True),
    "glm": dict(rope_parameters=PARTLY, head_dim=24), "glm4": dict(rope_parameters=PARTLY, attention_bias=False),
    "olmo": {},
    "nemotron": dict(rope_parameters=PARTLY, norm_eps=1e-3, mlp_bias=True),
    "phi": dict(rope_parameters=PARTLY, layer_norm_eps=1e-3),
    "gptneox": dict(rope_parameters=PARTLY, layer_norm_eps=1e-3), "gptneox in turn": dict(use_parallel_residual=False),
    "gpt2": dict(n_embd=64, n_layer=2, n_head=4, n_positions=512, n_inner=96),
    "minicpm": dict(scale_emb=12, scale_depth=1.4, dim_model_base=16),
    "olmo3": MIXED_WINDOWS | dict(rope_parameters={"full_attention": YARN | BETAS, "sliding_attention": {
        "rope_type": "default", "rope_theta": 10000.0}}),
    "olmo3 two thetas": MIXED_WINDOWS | dict(rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
    "llama": {}, "llama with biases": dict(attention_bias=True, mlp_bias=True),
    "llama untied": dict(tie_word_embeddings=False), "llama 3": {}, "llama linear": {},
    "qwen2": {}, "qwen3": dict(head_dim=24), "smollm3": dict(num_hidden_layers=5),
    "granite": dict(embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.125, logits_scaling=8.0),
    "phi3": dict(sliding_window=9), "phi3 longrope": dict(original_max_position_embeddings=256), "olmo2": {},
    "arcee": dict(mlp_bias=True, head_dim=24), "gemma": dict(head_dim=24, num_key_value_heads=1),
    "gemma2": dict(head_dim=256, sliding_window=9),  # transformers takes 256 for the scale of scores
    "gemma3": dict(head_dim=16, sliding_window=9, query_pre_attn_scalar=16, num_hidden_layers=7),
    "gemma4": GEMMA4 | dict(num_kv_shared_layers=2, use_double_wide_mlp=True, hidden_size_per_layer_input=32,
        vocab_size_per_layer_input=SMALL["vocab_size"], final_logit_softcapping=30.0),
    "gemma4 experts": GEMMA4 | dict(hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1,
        enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=32),
    "gemma4 dense": GEMMA4 | dict(hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1),
}  # fmt: skip


def family_config(name):
    family = name.split()[0]
    settings = SMALL | FAMILIES[name]
    half = settings["hidden_size"] // settings["num_attention_heads"] // 2
    rope = settings["rope_parameters"]
    if name == "llama 3":
        rope = LLAMA3_ROPE
        settings["max_position_embeddings"] = 16384
    if name == "llama linear":
        rope = rope | {"rope_type": "linear", "factor": 4.0}
    if name == "phi3 longrope":
        rope = rope | {"rope_type": "longrope", "short_factor": [1 + i / 8 for i in range(half)],
                       "long_factor": [2 + i / 4 for i in range(half)]}  # fmt: skip
    if family == "gemma4":
        full = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}
        rope = {"full_attention": full, "sliding_attention": rope | {"rope_theta": 500.0}}
    if family == "gemma3":
        rope = {"full_attention": rope | {"rope_theta": 1e6}, "sliding_attention": rope}
    settings["rope_parameters"] = copy.deepcopy(rope)  # configurations add to it
    if family in ("gptneox", "gpt2", "olmo"):  # transformers saves what they do not know, too
        others = {"num_key_value_heads", "rms_norm_eps"}
        if family == "gpt2":
            others |= SMALL.keys() - {"vocab_size", "bos_token_id", "eos_token_id"}
        settings = {key: value for key, value in settings.items() if key not in others}
    return CONFIGS[family](**settings)


def rope_tensors(name, config):
    """Adds what llama.cpp's converter adds for the kinds of rotary embedding."""
    rope, half = getattr(config, "rope_parameters", {}), config.hidden_size // config.num_attention_heads // 2

    def edit(writer):
        if name == "olmo3 two thetas":
            writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        if rope.get("rope_type") == "llama3":
            wave = 2 * np.pi * rope["rope_theta"] ** (np.arange(half) / half)
            smooth = (8192 / wave - 1) / 3
            mixed = 1 / ((1 - smooth) / 32 + smooth)
            factors = np.where(wave < 8192 / 4, 1, np.where(wave > 8192, 32, mixed))
            assert len(np.unique(factors)) > 2
            writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
        if name == "phi3 longrope":
            writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
            for kind in ("long", "short"):
                factors = np.array(rope[f"{kind}_factor"], np.float32)
                writer.add_tensor(f"rope_factors_{kind}.weight", factors)

    return edit


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_file_of_each_architecture_is_the_checkpoint_that_it_was_made_from(name, tmp_path):
    config = family_config(name)
    folder = make_of(config, tmp_path / "made", seed=3)
    path = gguf_files.write(tmp_path / "x.gguf", folder, edit=rope_tensors(name, config))
    a, b = (engine.convert(source, tmp_path / f"{i}.smol", "f32") for i, source in enumerate((path, folder)))
    contents = [Blob(blob.read_bytes(), xxh3) for blob in (a, b)]
    told = smolconv("diff", a, b).stdout
    if name == "hunyuandensev1":  # the file has the theta that its alpha makes
        assert "different: settings 1, tokenizer 0, tensors 0 of" in told and re.search(r"^ +rope_theta +18738174 +10000$", told, re.M)
    else:
        assert "different" not in told and contents[0].model == contents[1].model, told
    with engine.Model(a) as ours, engine.Model(b) as theirs:
        assert ours.logits(IDS).tobytes() == theirs.logits(IDS).tobytes()
    if name in ("llama", "llama untied", "qwen2", "gemma2"):
        model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="x.gguf", dtype=torch.float32)
        with engine.Model(a) as ours:
            theirs = reference_logits(model.eval(), IDS)
            assert np.abs(ours.logits(IDS) - theirs).max() < 1e-3 * theirs.std()


def shared_layers(folder):
    """The tensors of keys and values that published checkpoints of Gemma 4 have in layers that share those of others."""
    weights, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    first = config["num_hidden_layers"] - config["num_kv_shared_layers"]
    for layer, kind in list(enumerate(config["layer_types"]))[first:]:
        source = max(i for i in range(first) if config["layer_types"][i] == kind)
        for part in ("k_proj", "v_proj", "k_norm"):
            weights[f"model.layers.{layer}.self_attn.{part}.weight"] = weights[f"model.layers.{source}.self_attn.{part}.weight"].clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", ["Q8_0", "Q5_1"])
def test_the_table_of_inputs_of_layers_may_have_blocks(name, tmp_path):
    """Gemma 4's: a row of a blob is part of a row of the file. Tensors that nothing uses may be there, in checkpoints too."""
    config = family_config("gemma4").to_dict() | dict(intermediate_size=96, head_dim=32)
    folder = make_of(CONFIGS["gemma4"](**config), tmp_path / "made", seed=3)
    plain = engine.convert(folder, tmp_path / "plain.smol", "f32")
    shared_layers(folder)
    assert smolconv("diff", plain, engine.convert(folder, tmp_path / "more.smol", "f32")).returncode == 0
    path = gguf_files.write(tmp_path / "x.gguf", folder, QUANT[name])
    weights = load_file(folder / "model.safetensors")
    for key, tensor in weights.items():
        if tensor.ndim == 2:
            values = gguf.dequantize(gguf.quantize(tensor.float().numpy(), QUANT[name]), QUANT[name]).astype(np.float32)
            weights[key] = torch.from_numpy(values)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    same_blobs(path, folder, tmp_path)
    same_blobs(path, folder, tmp_path, "int8")


GEMMA4_FAULTS = [
    ("feed_forward_length", lambda v: [96, 96, 96, 192, 100], "alike in all layers of a kind"),
    ("feed_forward_length", lambda v: [96, 96, 96, 288, 288], "the same, or twice as large, in layers that share"),
    ("feed_forward_length", lambda v: v[1:], "a number, or a list of one for each layer"),
    ("attention.head_count_kv", lambda v: [2, 1, 2, 1, 1], "alike in all layers of a kind"),
    ("attention.head_count_kv", lambda v: [2, 0, 2, 2, 0], "above 0"),
    ("attention.sliding_window_pattern", lambda v: v[1:], "a list of a flag for each layer"),
    ("attention.sliding_window", lambda v: 0, "sliding_window"),
    ("attention.value_length", lambda v: 16, "attention.value_length must be the length of keys, found 16"),
    ("rope.dimension_count", lambda v: 6, "rope.dimension_count must be the length of keys"),
    ("rope.dimension_count_swa", lambda v: 8, "rope.dimension_count_swa must be the length of keys"),
    ("attention.shared_kv_layers", lambda v: 5, "alike in all layers of a kind"),
    ("attention.shared_kv_layers", None, "attention.shared_kv_layers is missing"),
    ("attention.sliding_window_pattern", None, "attention.sliding_window_pattern is missing"),
    ("rope.freq_base_swa", None, "rope.freq_base_swa is missing"),
]


@pytest.fixture(scope="module")
def gemma4(tmp_path_factory):
    return make_of(family_config("gemma4"), tmp_path_factory.mktemp("gemma4") / "made")


@pytest.mark.sample(5)
@pytest.mark.parametrize("i", range(len(GEMMA4_FAULTS)))
def test_bad_keys_of_gemma_4_are_refused_by_name(i, gemma4, tmp_path):
    key, change, words = GEMMA4_FAULTS[i]

    def edit(writer):
        values = writer.kv_data[0]
        if change is None:
            values.pop(f"gemma4.{key}")
        else:
            new = change(values[f"gemma4.{key}"].value)
            values.pop(f"gemma4.{key}")
            (writer.add_array if isinstance(new, list) else writer.add_uint32)(f"gemma4.{key}", new)

    status, message = refused(gemma4, tmp_path / "x.gguf", edit)
    assert words in message and status in (DAMAGED, UNSUPPORTED)


@pytest.mark.parametrize("factors", [None, [1, 1, 1, 2] + [1e30] * 8, [1] * 3 + [1e30] * 8, [1e30] * 3 + [1] * 9])
def test_other_factors_of_gemma_4_are_refused(factors, gemma4, tmp_path):
    def edit(writer):
        for tensors in writer.tensors:
            tensors.pop("rope_freqs.weight")
        if factors:
            writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))

    status, message = refused(gemma4, tmp_path / "x.gguf", edit)
    assert "rope_freqs.weight" in message and status == UNSUPPORTED


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_qwens_that_read_pictures_are_those_that_do_not(family, tmp_path, monkeypatch):
    """Their files have keys about pictures, whose part is in another file."""
    folder = make_of(family_config(family), tmp_path / "made", seed=3)
    monkeypatch.setitem(gguf_files.ARCHS, family, gguf.MODEL_ARCH[f"{family.upper()}VL"])

    def edit(writer):
        writer.add_rope_dimension_sections([2, 1, 1, 0])
        if family == "qwen3":
            writer.add_uint32("qwen3vl.n_deepstack_layers", 3)

    same_blobs(gguf_files.write(tmp_path / "x.gguf", folder, edit=edit), folder, tmp_path)


# families with rows of q and k in another order, with biases of q, k and v alone or of all, with norms of q and k, and with
# layers that do not attend
JOINED = ["llama", "llama with biases", "phi", "glm", "qwen2", "qwen3", "granite", "gemma3", "olmo2", "lfm2", "granitemoehybrid", "qwen3moe"]


@pytest.mark.sample(8)
@pytest.mark.parametrize("kind", [None, "Q4_1"])
@pytest.mark.parametrize("name", JOINED)
def test_q_k_and_v_may_be_one_tensor(name, kind, tmp_path):
    """With --fuse-qkv llama.cpp's converter writes the rows of q, then those of k and v: the same blob but for its provenance."""
    if name in FAMILIES:
        folder = make_of(
            CONFIGS[name.split()[0]](**family_config(name).to_dict() | (WIDE_LAYERS if kind else {})), tmp_path / "made", seed=3
        )
    else:
        folder = write_mixed(tmp_path / "made", name, **(WIDE_EXPERTS[name] if kind else {}))
    files = [tmp_path / f"{fused}.gguf" for fused in (True, False)]
    for path, fused in zip(files, (True, False), strict=True):
        gguf_files.write(path, folder, kind and QUANT[kind], fuse_qkv=fused)
    names = [tensor.name for tensor in gguf.GGUFReader(files[0]).tensors]
    assert any("attn_qkv.weight" in name for name in names) and not any("attn_k." in name for name in names)
    same_blobs(*files, tmp_path)
    same_blobs(*files, tmp_path, "int8")


# --- experts and states -----------------------------------------------------------------------------

N_CASES = 40 if os.environ.get("SMOL_TEST_ALL") else 1
DEFAULT_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
HALF_ROPE = {"rope_parameters": DEFAULT_ROPE["rope_parameters"] | {"partial_rotary_factor": 0.5}}
WIDE_LAYERS = dict(hidden_size=64, intermediate_size=96, head_dim=16)  # rows of whole blocks
WIDE_EXPERTS = {
    "qwen3moe": WIDE_LAYERS | dict(moe_intermediate_size=32),
    "lfm2": WIDE_LAYERS | dict(conv_bias=False, block_auto_adjust_ff_dim=False),
    "lfm2moe": WIDE_LAYERS | dict(moe_intermediate_size=32),
    "granitemoehybrid": WIDE_LAYERS | dict(shared_intermediate_size=32, mamba_d_head=16),
    "qwen3_5moe": WIDE_LAYERS | dict(moe_intermediate_size=32, shared_expert_intermediate_size=64),
    "qwen3next": WIDE_LAYERS | dict(moe_intermediate_size=32, shared_expert_intermediate_size=64),
}
MIXED = {
    "qwen3moe": dict(mlp_only_layers=[]), "olmoe": dict(clip_qkv=None), "granitemoe": {}, "granitemoeshared": {},
    "lfm2": {}, "lfm2 adjusted": dict(block_multiple_of=32), "lfm2moe": dict(routed_scaling_factor=1.0),
    "granitemoehybrid": {}, "granitemoehybrid unbiased": dict(mamba_conv_bias=False),
    "granitemoehybrid dense": dict(num_local_experts=0, intermediate_size=37),
    "falconh1": dict(mamba_norm_before_gate=False, projectors_bias=False, mamba_proj_bias=False, attention_bias=False),
    "falconh1 without norms": dict(mamba_rms_norm=False, projectors_bias=False, mamba_proj_bias=False, attention_bias=False),
    "granitemoehybrid unrotated": dict(position_embedding_type="nope", max_position_embeddings=2**20),
    "qwen3_5": HALF_ROPE, "qwen3_5 even": HALF_ROPE | dict(linear_num_value_heads=2), "qwen3_5moe": HALF_ROPE,
    "qwen3next": HALF_ROPE | dict(mlp_only_layers=[]),
}  # fmt: skip


def write_mixed(folder, name, **settings):
    family = name.split()[0]
    settings = FEATURES[family][0] | DEFAULT_ROPE | dict(use_sliding_window=False, num_hidden_layers=4) | MIXED[name] | settings
    if "layer_types" in settings:
        settings["layer_types"] = [*settings["layer_types"]] * 2
    return make_of(config_of(family, **settings), folder, seed=7)


def fold_scales(config):
    """Falcon-H1's are part of the weights."""
    one = ("attention_in", "attention_out", "ssm_in", "ssm_out", "key", "embedding", "lm_head")
    return config | {f"{key}_multiplier": 1.0 for key in one} | {"ssm_multipliers": [1.0] * 5, "mlp_multipliers": [1.0] * 2}


def undo_exp(folder, out):
    """The checkpoint as far as a file knows it: its decays are the logarithms of the rounded exponentials, and scales are folded."""
    shutil.copytree(folder, out)
    weights = load_file(out / "model.safetensors")
    config = json.loads((out / "config.json").read_text())
    if config["model_type"] == "falcon_h1":
        weights = {name: torch.from_numpy(gguf_files.scale_falcon(name, w.float().numpy(), config)) for name, w in weights.items()}
        edit_config(out, lambda config: config.update(fold_scales(config)))
    for name in [name for name in weights if name.endswith("A_log")]:
        known = np.log(np.exp(weights[name].float().numpy()).astype(np.float64)).astype(np.float32)
        assert np.abs(known - weights[name].float().numpy()).max() <= 2**-22  # one step of numbers from 2 to 4
        weights[name] = torch.from_numpy(known)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    return out


def same_blobs(path, folder, tmp_path, dtype="f32"):
    a, b = (engine.convert(source, tmp_path / f"{dtype}{i}.smol", dtype) for i, source in enumerate((path, folder)))
    done = smolconv("diff", a, b)
    assert done.returncode == 0, done.stdout
    assert Blob(a.read_bytes(), xxh3).model == Blob(b.read_bytes(), xxh3).model
    with engine.Model(a) as ours, engine.Model(b) as theirs:
        assert ours.logits(IDS).tobytes() == theirs.logits(IDS).tobytes()
        return ours.logits(IDS)


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", MIXED)
def test_experts_and_states_are_those_of_the_checkpoint(name, tmp_path):
    folder = write_mixed(tmp_path / "made", name)
    path = gguf_files.write(tmp_path / "x.gguf", folder)
    ours = same_blobs(path, undo_exp(folder, tmp_path / "known"), tmp_path)
    theirs = reference_logits(load_reference(folder), IDS)
    assert np.abs(ours - theirs).max() < 1e-4 * np.ptp(theirs)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["qwen3moe", "lfm2"])
def test_transformers_reads_the_same_experts_and_states(name, tmp_path):
    ignored = dict(moe_intermediate_size=768) if name == "qwen3moe" else {}  # transformers reads no width
    folder = write_mixed(tmp_path / "made", name, **WIDE_EXPERTS[name] | ignored)
    path = gguf_files.write(tmp_path / "x.gguf", folder, QUANT.Q8_0)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="x.gguf", dtype=torch.float32)
    with engine.Model(engine.convert(path, tmp_path / "x.smol", "f32")) as ours:
        theirs = reference_logits(model.eval(), IDS)
        assert np.abs(ours.logits(IDS) - theirs).max() < 1e-4 * np.ptp(theirs)


def stored_columns(key, n, config):
    """The column of a matrix that each column of the file is: blocks hold heads in the file's order."""
    if config["model_type"] in gguf_files.TILED and key.endswith("linear_attn.out_proj.weight"):
        return gguf_files.tile(np.arange(n), config, config["linear_value_head_dim"])
    return np.arange(n)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["F16", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("name", ["qwen3moe", "granitemoehybrid", "lfm2moe", "qwen3_5moe", "qwen3next"])
def test_blocks_of_experts_are_cut_where_they_lie(name, kind, tmp_path):
    """The blob is that of the checkpoint with the numbers that the package reads."""
    folder = write_mixed(tmp_path / "made", name, **WIDE_EXPERTS[name])
    path = gguf_files.write(tmp_path / "x.gguf", folder, QUANT[kind])
    known = undo_exp(folder, tmp_path / "known")
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(known / "model.safetensors")
    for key, tensor in weights.items():
        if tensor.ndim > 1 and "conv" not in key or "_proj.weight" in key:
            order = stored_columns(key, tensor.shape[-1], config)
            values = np.take(tensor.float().numpy(), order, -1)
            values = gguf.dequantize(gguf.quantize(values, QUANT[kind]), QUANT[kind]).astype(np.float32)
            weights[key] = torch.from_numpy(np.take(values, np.argsort(order), -1))
    save_file(weights, known / "model.safetensors", metadata={"format": "pt"})
    for dtype in ("f32", "int8", "int4"):
        same_blobs(path, known, tmp_path, dtype)
    tensors = gguf.GGUFReader(path).tensors  # not the experts that they hold
    n = sum(tensor.tensor_type not in (QUANT.F32, QUANT.F16) for tensor in tensors)
    said = json.loads(smolconv("inspect", "--json", path).stdout).get("quantized", "0 of")
    assert said.split(":")[0] == (f"{n} of {len(tensors)} tensors" if n else "0 of")


DELTA = ("qwen3_5", "qwen3_5moe", "qwen3next")


def what_files_state(config):
    """The configuration with what llama.cpp takes for granted, numbers that are f32, and all of IDS."""
    config.vocab_size = max(config.vocab_size, 101)
    if isinstance(config.eos_token_id, list):
        config.eos_token_id = config.eos_token_id[0]
    config.rope_parameters["rope_theta"] = float(np.float32(config.rope_parameters["rope_theta"]))
    if config.model_type == "qwen3_next":
        config.norm_topk_prob, config.decoder_sparse_step, config.mlp_only_layers = True, 1, []
    return config


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", DELTA)
def test_files_of_drawn_checkpoints_are_the_checkpoints(family):
    @cases(N_CASES)
    @given(configs(family).map(what_files_state), st.integers(0, 99))
    def compare(config, seed):
        with tempfile.TemporaryDirectory() as name:
            folder = make_of(config, Path(name, "made"), seed)
            path = gguf_files.write(Path(name, "x.gguf"), folder)
            same_blobs(path, undo_exp(folder, Path(name, "known")), Path(name))

    compare()


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", DELTA)
def test_layers_that_predict_further_tokens_are_skipped_with_a_message(name, tmp_path):
    folder = write_mixed(tmp_path / "made", name)
    path, weights = folder / "model.safetensors", load_file(folder / "model.safetensors")
    further = {key.replace("model.layers.1", "mtp.layers.0"): w.clone() for key, w in weights.items() if "layers.1." in key}
    further |= {f"mtp.{norm}.weight": torch.ones(48) for norm in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")}
    save_file(weights | further | {"mtp.fc.weight": torch.ones(48, 96)}, path, metadata={"format": "pt"})
    edit_config(folder, lambda config: config.update(mtp_num_hidden_layers=1))
    path = gguf_files.write(tmp_path / "x.gguf", folder)
    same_blobs(path, undo_exp(folder, tmp_path / "known"), tmp_path)
    done = smolconv(path, tmp_path / "told.smol")
    assert re.search(r"skipped: \d+ tensors of the prediction of further tokens", done.stderr), done.stderr
    assert json.loads(smolconv("inspect", "--json", path).stdout)["skipped"]


def without_list(writer):
    """Rewrites a file as it was before the key existed: the layers follow from their interval, which is 2 here."""
    writer.kv_data[0].pop(f"{writer.arch}.attention.recurrent_layers")
    value_of(writer, f"{writer.arch}.full_attention_interval", 2)


def without_sections(writer):
    writer.kv_data[0].pop(f"{writer.arch}.rope.dimension_sections")


OTHER_WRITERS = {
    "no list of layers": ("qwen3_5", without_list),
    "no sections": ("qwen3_5", without_sections),
    "a gate of one dimension": ("qwen3_5moe", lambda w: tensor_edit((48,), "blk.1.ffn_gate_inp_shexp.weight")(w)),
    "groups as in the checkpoint": ("qwen3next", None),
    "gate and up in one tensor": ("qwen3next", None),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", OTHER_WRITERS)
def test_what_other_versions_of_llama_cpp_write_is_the_checkpoint_too(case, tmp_path, monkeypatch):
    """llama-quantize, older converters, and the option --fuse-gate-up-exps."""
    name, edit = OTHER_WRITERS[case]
    folder = write_mixed(tmp_path / "made", name)

    def kept(name, values, _):
        return {f"blk.{name.split('.')[2]}.ssm_in.weight": values} if "in_proj_qkvz" in name else None

    def fused(weights, stack=gguf_files.stack_experts):
        experts, others = stack(weights)
        for key in [key for key in experts if "ffn_gate_exps" in key]:
            up = experts.pop(key.replace("gate", "up"))
            experts[key.replace("gate", "gate_up")] = np.concatenate([experts.pop(key), up], 1)
        return experts, others

    if case == "groups as in the checkpoint":
        monkeypatch.setattr(gguf_files, "split_groups", kept)
    if case == "gate and up in one tensor":
        monkeypatch.setattr(gguf_files, "stack_experts", fused)
    path = gguf_files.write(tmp_path / "x.gguf", folder, edit=edit)
    if not edit:
        names = {tensor.name for tensor in gguf.GGUFReader(path).tensors}
        assert names & {"blk.0.ssm_in.weight", "blk.0.ffn_gate_up_exps.weight"} and "blk.0.attn_q.weight" not in names
    same_blobs(path, undo_exp(folder, tmp_path / "known"), tmp_path)


def test_granite_4_whose_layers_all_attend_has_idle_keys_of_states(tmp_path):
    """llama.cpp's converter calls it granite, or granitemoe, and keeps what it would say of states."""
    folder = make_of(family_config("granite"), tmp_path / "made")
    layers = SMALL["num_hidden_layers"]

    def edit(writer):
        writer.kv_data[0].pop("granite.attention.head_count_kv")
        writer.add_head_count_kv([SMALL["num_key_value_heads"]] * layers)
        writer.add_ssm_conv_kernel(4), writer.add_ssm_state_size(16), writer.add_ssm_group_count(1)
        writer.add_ssm_inner_size(128), writer.add_ssm_time_step_rank(8)
        writer.add_expert_count(0), writer.add_expert_used_count(0)
        writer.kv_data[0]["granite.feed_forward_length"].value = 7
        writer.add_expert_shared_feed_forward_length(SMALL["intermediate_size"])
        writer.add_rope_scaling_finetuned(True)

    same_blobs(gguf_files.write(tmp_path / "x.gguf", folder, edit=edit), folder, tmp_path)


def value_of(writer, key, value):
    writer.kv_data[0][key].value = value


HYBRID = "granitehybrid."
BAD_LAYERS = {  # the checkpoint, what is wrong, and what the message says
    "fewer heads than layers": ("lfm2", lambda w: value_of(w, "lfm2.attention.head_count_kv", [0, 2, 0]), "has 3 numbers for 4 layers"),
    "heads that differ": ("lfm2", lambda w: value_of(w, "lfm2.attention.head_count_kv", [0, 2, 0, 1]), "differs between layers"),
    "a negative number": ("lfm2", lambda w: value_of(w, "lfm2.attention.head_count_kv", [0, 2, 0, -2]), "a list of whole numbers"),
    "no layer that attends": ("lfm2", lambda w: value_of(w, "lfm2.attention.head_count_kv", [0] * 4), "no layer has attention"),
    "a state where attention is": ("lfm2", lambda w: value_of(w, "lfm2.attention.head_count_kv", [2, 0, 2, 0]), "is missing"),
    "heads that are numbers": ("lfm2", lambda w: value_of(w, "lfm2.attention.head_count_kv", [0.0, 2.0, 0.0, 2.0]), "a list of whole numbers"),
    "a softmax of experts": ("lfm2moe", lambda w: value_of(w, "lfm2moe.expert_gating_func", 1), "2 (sigmoid)"),
    "a scale of experts": ("lfm2moe", lambda w: w.add_expert_weights_scale(2.0), "is not supported"),
    "more experts than there are": ("qwen3moe", lambda w: value_of(w, "qwen3moe.expert_count", 7), "[7, 24, 48]"),
    "fewer experts than there are": ("qwen3moe", lambda w: value_of(w, "qwen3moe.expert_count", 5), "[5, 24, 48]"),
    "2^32 - 1 experts": ("qwen3moe", lambda w: value_of(w, "qwen3moe.expert_count", 2**32 - 1), "num_experts"),
    "more in use than there are": ("qwen3moe", lambda w: value_of(w, "qwen3moe.expert_used_count", 7), "above the number of experts"),
    "no number of experts in use": ("qwen3moe", lambda w: w.kv_data[0].pop("qwen3moe.expert_used_count"), "expert_used_count is missing"),
    "experts of another width": ("qwen3moe", lambda w: value_of(w, "qwen3moe.expert_feed_forward_length", 25), "[6, 25, 48]"),
    "a part of the width": ("granitemoehybrid", lambda w: value_of(w, HYBRID + "ssm.inner_size", 95), "must be a multiple"),
    "a width of 0": ("granitemoehybrid", lambda w: value_of(w, HYBRID + "ssm.inner_size", 0), "must be a multiple"),
    "0 heads of states": ("granitemoehybrid", lambda w: value_of(w, HYBRID + "ssm.time_step_rank", 0), "mamba_n_heads"),
    "2^32 - 1 groups": ("granitemoehybrid", lambda w: value_of(w, HYBRID + "ssm.group_count", 2**32 - 1), "mamba_n_groups"),
    "an unknown key": ("granitemoehybrid", lambda w: w.add_ssm_dt_b_c_rms(True), "ssm.dt_b_c_rms is not supported"),
    "a flag that is a number": ("granitemoehybrid", lambda w: w.kv_data[0].__setitem__(HYBRID + "rope.scaling.finetuned", gguf.GGUFValue(1, gguf.GGUFValueType.UINT32)), "a flag"),
    "attention without rotation": ("granitemoe", lambda w: w.add_rope_scaling_finetuned(False), "attention without rotation"),
    "no scale of attention": ("granitemoe", lambda w: w.kv_data[0].pop("granitemoe.attention.scale"), "attention.scale is missing"),
    "no width of states": ("granitemoehybrid", lambda w: w.kv_data[0].pop(HYBRID + "ssm.inner_size"), "ssm.inner_size is missing"),
    "no width of gated states": ("qwen3_5", lambda w: w.kv_data[0].pop("qwen35.ssm.inner_size"), "ssm.inner_size is missing"),
    "no heads of keys": ("qwen3_5", lambda w: w.kv_data[0].pop("qwen35.ssm.group_count"), "ssm.group_count is missing"),
    "no epsilon": ("qwen3_5", lambda w: w.kv_data[0].pop("qwen35.attention.layer_norm_rms_epsilon"), "layer_norm_rms_epsilon is missing"),
    "no shared MLP": ("qwen3_5moe", lambda w: w.kv_data[0].pop("qwen35moe.expert_shared_feed_forward_length"), "expert_shared_feed_forward_length is missing"),
    "a part of a head": ("qwen3_5", lambda w: value_of(w, "qwen35.ssm.inner_size", 95), "must be a multiple of qwen35.ssm.time_step_rank 4"),
    "another width": ("qwen3_5", lambda w: value_of(w, "qwen35.ssm.inner_size", 92), "linear_attn.conv1d.weight has shape"),
    "2^32 - 1 columns": ("qwen3_5", lambda w: value_of(w, "qwen35.ssm.inner_size", 2**32 - 1), "must be a multiple"),
    "0 heads of values": ("qwen3_5", lambda w: value_of(w, "qwen35.ssm.time_step_rank", 0), "must be a multiple"),
    "0 heads of keys": ("qwen3_5", lambda w: value_of(w, "qwen35.ssm.group_count", 0), "linear_num_key_heads"),
    "3 heads of keys for 4": ("qwen3_5", lambda w: value_of(w, "qwen35.ssm.group_count", 3), "not a multiple of linear_num_key_heads"),
    "2^32 - 1 of a key": ("qwen3_5", lambda w: value_of(w, "qwen35.ssm.state_size", 2**32 - 1), "linear_key_head_dim"),
    "other keys": ("qwen3_5", lambda w: value_of(w, "qwen35.ssm.group_count", 1), "linear_attn.conv1d.weight has shape"),
    "fewer flags than layers": ("qwen3_5", lambda w: value_of(w, "qwen35.attention.recurrent_layers", [True, False]), "a list of a flag for each layer"),
    "flags that are numbers": ("qwen3_5", lambda w: value_of(w, "qwen35.attention.recurrent_layers", [1, 0, 1, 0]), "a list of a flag for each layer"),
    "no layer with attention": ("qwen3_5", lambda w: value_of(w, "qwen35.attention.recurrent_layers", [True] * 4), "no layer has attention"),
    "an interval of 0": ("qwen3_5", lambda w: value_of(w, "qwen35.full_attention_interval", 0), "full_attention_interval"),
    "two sections": ("qwen3_5", lambda w: value_of(w, "qwen35.rope.dimension_sections", [11, 11]), "three sizes"),
    "four sections": ("qwen3_5", lambda w: value_of(w, "qwen35.rope.dimension_sections", [8, 8, 8, 8]), "three sizes"),
    "sections of another architecture": ("qwen3next", lambda w: w.add_rope_dimension_sections([11, 11, 10, 0]), "dimension_sections is not supported"),
    "an odd number that rotates": ("qwen3_5", lambda w: value_of(w, "qwen35.rope.dimension_count", 5), "the number must be even"),
    "more that rotates than there is": ("qwen3_5", lambda w: value_of(w, "qwen35.rope.dimension_count", 14), "partial_rotary_factor"),
    "only layers that predict further tokens": ("qwen3_5", lambda w: w.add_uint32("qwen35.nextn_predict_layers", 4), "nextn_predict_layers 4 must be below"),
    "a layer that does not exist": ("qwen3_5", lambda w: w.add_tensor("blk.4.nextn.eh_proj.weight", np.zeros((48, 96), np.float32)), "not part of the model"),
    "a tensor twice": ("granitemoehybrid", lambda w: w.add_tensor("blk.0.ffn_up.weight", np.zeros((37, 48), np.float32)), "appears twice"),
    "an expert of its own": ("qwen3moe", lambda w: w.add_tensor("blk.0.ffn_up.0.weight", np.zeros((24, 48), np.float32)), "not part of the model"),
}  # fmt: skip


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    return {name: write_mixed(folder / name, name) for name in {case[0] for case in BAD_LAYERS.values()}}


@pytest.mark.sample(20)
@pytest.mark.parametrize("case", BAD_LAYERS)
def test_bad_keys_of_experts_and_states_are_refused_by_name(case, mixed, tmp_path):
    name, edit, words = BAD_LAYERS[case]
    status, message = refused(mixed[name], tmp_path / "x.gguf", edit)
    assert words in message and status in (DAMAGED, UNSUPPORTED)


def tensor_edit(shape, name):
    """Another shape for a tensor of the file, of the same bytes."""

    def edit(writer):
        add = writer.add_tensor

        def changed(found, values, *rest, **named):
            add(found, values.reshape(shape) if found == name else values, *rest, **named)

        writer.add_tensor = changed

    return edit


@pytest.mark.parametrize(("name", "tensor", "shape", "words"), [
    ("qwen3moe", "blk.0.ffn_up_exps.weight", (6 * 24, 48), "[6, 24, 48]"),
    ("qwen3moe", "blk.0.ffn_up_exps.weight", (24, 6, 48), "[6, 24, 48]"),
    ("qwen3moe", "blk.1.ffn_down_exps.weight", (6, 24, 48), "[6, 48, 24]"),
    ("qwen3moe", "blk.1.ffn_down_exps.weight", (1, 6, 48, 24), "[6, 48, 24]"),
    ("granitemoehybrid", "blk.0.ssm_conv1d.weight", (160, 1, 4), "[160, 4]"),
    ("granitemoehybrid", "blk.0.ssm_conv1d.weight", (4, 160), "[160, 4]"),
    ("granitemoehybrid", "blk.0.ssm_in.weight", (48, 264), "[264, 48]"),
    ("lfm2", "blk.0.shortconv.conv.weight", (4, 48), "[48, 4]"),
])  # fmt: skip
def test_tensors_of_other_shapes_are_refused(name, tensor, shape, words, mixed, tmp_path):
    status, message = refused(mixed[name], tmp_path / "x.gguf", tensor_edit(shape, tensor))
    assert words in message and status == DAMAGED


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan"), float("-inf")])
def test_decays_that_no_logarithm_has_are_refused(value, mixed, tmp_path):
    def edit(writer):
        add = writer.add_tensor

        def changed(name, values, *rest, **named):
            if name == "blk.2.ssm_a":
                values[3] = value
            add(name, values, *rest, **named)

        writer.add_tensor = changed

    _, message = refused(mixed["granitemoehybrid"], tmp_path / "x.gguf", edit)
    assert "A_log" in message and "not finite" in message


# --- tokenizers and templates -----------------------------------------------------------------------

TEXTS = ["Hello, world!", " a  b\n\n\tc", "1234567 0.5", "I'm HE'LL don't", "ÀÉ 日本語 🙂👩‍👩‍👧", "<|im_start|>user\nx<|im_end|>",
         "def f(x):\n    return x  # \u00a0\u3000", "", " ", "e\u0301"]  # fmt: skip


def gguf_of_real(real_model_dir, name):
    path = real_model_dir.parent / f"{real_model_dir.name}-gguf" / name
    if not path.exists():
        pytest.skip(f"{path} is missing: scripts/bench makes it with llama.cpp")
    return path


def test_llama_cpp_s_own_file_of_the_real_model_is_the_checkpoint(real_model_dir, tmp_path):
    """Tensors, settings, tokenizer and template of a file that llama.cpp's converter made."""
    path = gguf_of_real(real_model_dir, "BF16.gguf")
    a, b = tmp_path / "a.smol", tmp_path / "b.smol"
    engine.convert(path, a), engine.convert(real_model_dir, b)
    done = smolconv("diff", a, b)
    assert done.returncode in (0, 1)
    blobs = [Blob(blob.read_bytes(), xxh3) for blob in (a, b)]
    assert blobs[0].model == blobs[1].model
    tokenizer = Tokenizer.from_file(str(real_model_dir / "tokenizer.json"))
    with engine.Model(a) as ours, engine.Model(b) as theirs:
        assert ours.logits(IDS).tobytes() == theirs.logits(IDS).tobytes()
        for text in TEXTS + [(ROOT / "README.md").read_text()]:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            assert list(ours.tokenize(text, True)) == list(theirs.tokenize(text, True)) == ids


EACH_DIGIT = {"type": "Digits", "individual_digits": True}
DIGITS = sequence("pretokenizers", EACH_DIGIT, BYTE_LEVEL)
SYMBOLS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
BREAKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def split_one_by_one(*parts):
    """A sequence of patterns, or of other steps."""
    steps = [split_by(part)["pretokenizers"][0] if isinstance(part, str) else part for part in parts]
    return sequence("pretokenizers", *steps, BYTE_LEVEL | {"use_regex": False})


PRES = {
    "exaone4": {}, "falcon3": {"pre_tokenizer": split_by(LLAMA3)}, "falcon-h1": {"pre_tokenizer": split_by(LLAMA3)},
    "deepseek-coder": {"pre_tokenizer": split_one_by_one("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", EACH_DIGIT)},
    "hunyuan-dense": {"pre_tokenizer": split_one_by_one(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", SYMBOLS + BREAKS)},
    "gpt-2": {}, "phi-2": {}, "smollm": {"pre_tokenizer": DIGITS}, "refact": {"pre_tokenizer": DIGITS},
    "qwen2": {"pre_tokenizer": split_by(QWEN2), "normalizer": {"type": "NFC"}},
    "deepseek-r1-qwen": {"pre_tokenizer": split_by(QWEN2), "normalizer": {"type": "NFC"}},
    "llama3": {"pre_tokenizer": split_by(LLAMA3)}, "llama-v3": {"pre_tokenizer": split_by(LLAMA3)},
    "dbrx": {"pre_tokenizer": split_by(LLAMA3)}, "llama-bpe": {"pre_tokenizer": split_by(LLAMA3)},
    "chatglm-bpe": {"pre_tokenizer": split_by(LLAMA3)}, "glm4": {"pre_tokenizer": split_by(LLAMA3)},
    "lfm2": {"pre_tokenizer": split_by(LLAMA3)}, "qwen35": {"pre_tokenizer": split_by(QWEN35), "normalizer": {"type": "NFC"}},
    "gpt-4o": {"pre_tokenizer": split_by(GPT4O)}, "tekken": {"pre_tokenizer": split_by(TEKKEN)},
    "olmo": {"normalizer": {"type": "NFC"}},
}  # fmt: skip


@pytest.mark.sample(10)
@pytest.mark.parametrize("pre", PRES)
def test_each_pre_tokenizer_cuts_as_the_published_one(pre, tmp_path, training):
    folder = make(tmp_path / "made", vocab_size=1200)
    content = of_bytes(training, ["<|im_start|>", "<|im_end|>"]) | PRES[pre]
    content["model"]["vocab"] |= {token["content"]: token["id"] for token in content["added_tokens"]}
    if pre in ("llama-bpe", "llama3", "llama-v3", "lfm2", "falcon3", "falcon-h1", "tekken"):
        content["model"]["ignore_merges"] = True
    (folder / "tokenizer.json").write_text(json.dumps(content))
    path = gguf_files.write(tmp_path / "x.gguf", folder, tokenizer=lambda w, t, n: gguf_files.add_byte_tokenizer(w, t, n, pre))
    tokenizer = Tokenizer.from_str(json.dumps(content))
    with engine.Model(engine.convert(path, tmp_path / "x.smol")) as model:
        for text in TEXTS:
            assert list(model.tokenize(text, True)) == tokenizer.encode(text).ids, text


def of_pieces(content):
    """The tokenizer with the scores of pieces in place of merges, and the merges that transformers makes of
    them."""
    vocabulary = content["model"]["vocab"]
    scores = {text: -float(i) for text, i in vocabulary.items()}
    special = {token["content"] for token in content["added_tokens"]} | set(BYTES)
    content["model"]["merges"] = generate_merges(vocabulary, scores, special)
    return content


@pytest.fixture(scope="module")
def pieces(training):
    return llama2(training)


def test_the_tokenizer_of_gemma_4_is_that_of_transformers(tmp_path, pieces, training):
    """SentencePiece's BPE, whose merges the file lists."""
    vocab, merges = pieces["model"]["vocab"], [tuple(pair) for pair in pieces["model"]["merges"]]
    reference = GemmaTokenizer(vocab=vocab, merges=merges, bos_token="<s>", eos_token="</s>", pad_token="</s>", mask_token="</s>")
    content = json.loads(reference.backend_tokenizer.to_str()) | {"post_processor": pieces["post_processor"]}
    folder = make(tmp_path / "made", vocab_size=len(vocab))
    (folder / "tokenizer.json").write_text(json.dumps(content))

    def add(writer, tokenizer, n):
        texts, _ = gguf_files.texts_of(tokenizer, n)
        kinds = gguf_files.kinds_of(tokenizer, n)
        kinds = [gguf.TokenType.BYTE if text in BYTES else kind for text, kind in zip(texts, kinds, strict=True)]
        writer.add_tokenizer_model("gemma4")
        writer.add_token_list(texts)
        writer.add_token_types(kinds)
        writer.add_token_scores([-1000.0] * n)
        writer.add_token_merges([" ".join(pair) for pair in merges])
        writer.add_bos_token_id(1)
        writer.add_unk_token_id(0)
        writer.add_add_space_prefix(False)
        writer.add_add_bos_token(True)

    path = gguf_files.write(tmp_path / "x.gguf", folder, tokenizer=add)
    blobs = [engine.convert(source, tmp_path / f"{i}.smol") for i, source in enumerate((path, folder))]
    assert "different: settings 1, tokenizer 0, tensors 0 of" in smolconv("diff", *blobs).stdout  # config.json has no bos_token_id
    with engine.Model(blobs[0]) as model:
        for text in [*TEXTS, *training[:3]]:
            ids = reference.backend_tokenizer.encode(text, add_special_tokens=False).ids
            assert list(model.tokenize(text)) == ids, text
    assert len(merges) > 500


@pytest.mark.sample(1)
@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_s_bpe_is_the_tokenizer_that_transformers_makes(prefix, tmp_path, pieces, training):
    content = of_pieces(copy.deepcopy(pieces))
    if not prefix:  # as Gemma's
        content["normalizer"] = replace(" ", "▁")
        content["decoder"]["decoders"].pop()
    n = len(content["model"]["vocab"])
    folder = make(tmp_path / "made", vocab_size=n)
    (folder / "tokenizer.json").write_text(json.dumps(content))

    def add(writer, tokenizer, n):
        kinds = gguf_files.kinds_of(tokenizer, n)
        texts, _ = gguf_files.texts_of(tokenizer, n)
        for i, text in enumerate(texts):
            if text in BYTES:
                kinds[i] = gguf.TokenType.BYTE
        kinds[0] = gguf.TokenType.UNKNOWN
        writer.add_tokenizer_model("llama")
        writer.add_token_list(texts)
        writer.add_token_types(kinds)
        writer.add_token_scores([-float(i) for i in range(n)])
        writer.add_bos_token_id(1)
        writer.add_unk_token_id(0)
        if not prefix:
            writer.add_add_space_prefix(False)

    path = gguf_files.write(tmp_path / "x.gguf", folder, tokenizer=add)
    tokenizer = Tokenizer.from_str(json.dumps(content))
    with engine.Model(engine.convert(path, tmp_path / "x.smol")) as model:
        for text in [*TEXTS, *training[:3]]:
            assert list(model.tokenize(text)) == tokenizer.encode(text).ids[1:], text
    assert len(content["model"]["merges"]) > 500


# --- refusals ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make(tmp_path_factory.mktemp("tiny"))


def refused(tiny, path, edit, *options, tokenizer=gguf_files.add_byte_tokenizer):
    gguf_files.write(path, tiny, edit=edit, tokenizer=tokenizer)
    done = smolconv("--quiet", *options, path, path.with_suffix(".smol"))
    assert done.returncode and done.stderr.count("\n") == 1 and not path.with_suffix(".smol").exists()
    return done.returncode, done.stderr


def rope_twice(writer):
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(4.0)
    writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32))


def scaled_by(kind, **settings):
    """A type of rotary embedding, with a factor and keys of yarn."""

    def edit(writer):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(4.0)
        for key, value in settings.items():
            writer.add_float32(f"llama.rope.scaling.{key}", value)

    return edit


REFUSED = {
    "mixtures of experts": lambda w: w.add_expert_count(8),
    "llama.attention.clamp_kqv is not supported": lambda w: w.add_clamp_kqv(1.0),
    "do not follow Llama 3's rule": lambda w: w.add_tensor("rope_freqs.weight", np.full(8, 3, np.float32)),
    "rope_freqs.weight and rope.scaling.type are both set": rope_twice,
    'general.type must be model, found "adapter"': lambda w: w.add_type("adapter"),
    "found \"su\"": lambda w: w.add_string("llama.rope.scaling.type", "su"),
    "different sizes": lambda w: w.kv_data[0]["llama.rope.dimension_count"].__setattr__("value", 8),
    "one of 3 files of a model: name the first": lambda w: w.add_uint16("split.count", 3),
    "type 16 (IQ2_XXS)": lambda w: w.add_tensor("x", np.zeros((1, 66), np.uint8), raw_dtype=QUANT.IQ2_XXS),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_stated_exactly_is_refused_by_name(words, tiny, tmp_path):
    status, message = refused(tiny, tmp_path / "x.gguf", REFUSED[words])
    assert words in message and status == UNSUPPORTED


def rewritten(path, old, new):
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize("small_first_shard", [False, True])
def test_a_model_in_several_files_is_that_of_one(small_first_shard, tiny, tmp_path):
    """The first may have no tensors. Keys and names of files say which belong together."""
    whole = gguf_files.write(tmp_path / "x.gguf", tiny)
    gguf_files.write(tmp_path / "y.gguf", tiny, split_max_tensors=4, small_first_shard=small_first_shard)
    paths = sorted(tmp_path.glob("y-0*.gguf"))
    assert len(paths) > 2
    a, b = (engine.convert(source, tmp_path / f"{i}.smol", "f32") for i, source in enumerate((whole, paths[0])))
    assert smolconv("diff", a, b).returncode == 0
    assert smolconv("verify", b, "--source", paths[0]).returncode == 0
    assert_fails(smolconv(paths[0], paths[2]), USAGE, paths[2].name)
    assert_fails(smolconv(paths[1], tmp_path / "o"), UNSUPPORTED, f"one of {len(paths)} files of a model: name the first")
    elsewhere = shutil.copy(paths[0], tmp_path / "other.gguf")
    assert_fails(smolconv(elsewhere, tmp_path / "o"), UNSUPPORTED, "NAME-00001-of-0000")
    other = shutil.move(paths[2], tmp_path / "moved")
    assert_fails(smolconv(paths[0], tmp_path / "o"), FILE, paths[2].name)
    shutil.copy(paths[1], paths[2])
    assert_fails(smolconv(paths[0], tmp_path / "o"), DAMAGED, f"{paths[2].name}: it does not state that it is file 3")
    shutil.copy(other, paths[2])
    rewritten(paths[0], b"split.tensors.count", b"split.tensors.xount")
    assert_fails(smolconv(paths[0], tmp_path / "o"), DAMAGED, "split.tensors.count is 0, but the files have")


@pytest.mark.parametrize(("key", "value", "words"), [
    ("yarn_ext_factor", 0.5, "llama.rope.scaling.yarn_ext_factor must be 1, found another value"),
    ("yarn_beta_fast", float("nan"), "llama.rope.scaling.yarn_beta_fast must be a number"),
    ("yarn_attn_factor", -1.0, "rope_scaling.attention_factor must be a number"),
    ("yarn_log_multiplier", float("inf"), "llama.rope.scaling.yarn_log_multiplier must be a number"),
])  # fmt: skip
def test_bad_keys_of_yarn_are_refused_by_name(key, value, words, tiny, tmp_path):
    status, message = refused(tiny, tmp_path / "x.gguf", scaled_by("yarn", **{key: value}))
    assert words in message and status in (DAMAGED, UNSUPPORTED)


def test_a_factor_without_a_type_is_linear(tiny, tmp_path):
    def edit(writer):
        scaled_by("linear")(writer)
        writer.kv_data[0].pop("llama.rope.scaling.type")

    files = [gguf_files.write(tmp_path / f"{i}.gguf", tiny, edit=e) for i, e in enumerate((edit, scaled_by("linear"), None))]
    blobs = [engine.convert(path, path.with_suffix(".smol")) for path in files]
    assert smolconv("diff", *blobs[:2]).returncode == 0
    assert smolconv("diff", *blobs[1:]).returncode == 1


@pytest.mark.parametrize("value", [[True], [True, False, True], [1, 0], "LLLG"])
def test_bad_lists_of_windows_are_refused(value, tmp_path):
    config = family_config("exaone4")
    folder = make_of(config, tmp_path / "made")

    def edit(writer):
        writer.kv_data[0].pop("exaone4.attention.sliding_window_pattern")
        (writer.add_string if isinstance(value, str) else writer.add_array)("exaone4.attention.sliding_window_pattern", value)

    status, message = refused(folder, tmp_path / "x.gguf", edit)
    assert "must be a list of a flag for each layer" in message and status in (DAMAGED, UNSUPPORTED)


@pytest.mark.parametrize(("key", "value", "words"), [
    ("model", "rwkv", 'tokenizer.ggml.model must be gpt2, llama, gemma4, bert or t5, found "rwkv"'),
    ("pre", "superbpe", 'found "superbpe"'),
    ("pre", "default", 'found "default"'),
])  # fmt: skip
def test_other_tokenizers_are_refused_by_name(key, value, words, tiny, tmp_path):
    def edit(writer):
        writer.kv_data[0][f"tokenizer.ggml.{key}"].value = value

    status, message = refused(tiny, tmp_path / "x.gguf", edit)
    assert words in message and status == UNSUPPORTED


def test_an_unknown_architecture_is_described_all_the_same(tiny, tmp_path):
    def edit(writer):
        writer.kv_data[0]["general.architecture"].value = "mamba"

    status, message = refused(tiny, tmp_path / "x.gguf", edit)
    assert 'found "mamba"' in message and status == UNSUPPORTED
    shown = smolconv("inspect", tmp_path / "x.gguf").stdout
    assert re.search(r'^supported +no: .*"mamba"', shown, re.M) and "21 F32" not in shown


def test_options_of_folders_are_refused(tiny, tmp_path):
    status, message = refused(tiny, tmp_path / "x.gguf", None, "--config", tiny / "config.json")
    assert status == USAGE and "--config" in message
    assert DAMAGED != status


def test_inspect_and_the_blob_say_that_the_source_was_quantized(tiny, tmp_path):
    wide = make(tmp_path / "wide", **WIDE)
    path, out = tmp_path / "x.gguf", tmp_path / "x.smol"
    gguf_files.write(path, wide, QUANT.Q4_K, lambda w: w.add_chat_template("{{ bos_token }}{{ messages[0].content }}"))
    shown = smolconv("inspect", path).stdout
    assert re.search(r"^supported +yes$", shown, re.M) and "Q4_K" in shown
    assert re.search(r"^quantized +yes: .*Q4_K", shown, re.M)
    assert json.loads(smolconv("inspect", "--json", path).stdout)["quantized"] == "8 of 11 tensors: 8 Q4_K"
    assert smolconv("--quiet", path, out).returncode == 0
    blob = smolconv("inspect", out).stdout
    assert "x.gguf" in blob and "already quantized: 8 of 11 tensors" in blob
    plain = gguf_files.write(tmp_path / "y.gguf", wide)
    assert "quantized" not in smolconv("inspect", plain).stdout
    verified = smolconv("verify", "--source", path, out)
    assert verified.returncode == 0, verified.stderr


def test_a_file_that_changes_its_bytes_gives_the_same_blob(tiny, tmp_path):
    """Another alignment moves the tensors, and nothing else."""
    blobs = []
    for alignment in (32, 256):
        path = tmp_path / f"{alignment}.gguf"
        gguf_files.write(path, tiny, edit=lambda w, n=alignment: w.add_custom_alignment(n))
        blobs.append(engine.convert(path, tmp_path / f"{alignment}.smol"))
    assert subprocess.run(["cmp", "-s", *blobs], check=False).returncode == 1  # the names differ
    assert smolconv("diff", *blobs).returncode == 0

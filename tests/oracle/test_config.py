"""The converter's reading of config.json and generation_config.json against transformers."""

import ctypes
import json
import random

import numpy as np
import pytest
from transformers import GenerationConfig, LlamaConfig

from internal import OK, Error, Settings, lib

ROUNDS = 300
NO_TOKEN = 2**32 - 1


class Model(ctypes.Structure):
    """struct blob_model of format/format.h."""

    _fields_ = [
        (name, ctypes.c_uint32)
        for name in """family dtype n_layers hidden_size intermediate_size n_heads n_kv_heads
            head_dim vocab_size context_length bos_id tied_embeddings""".split()
    ] + [
        ("rms_norm_eps", ctypes.c_float),
        ("attention_bias", ctypes.c_uint32),
        ("mlp_bias", ctypes.c_uint32),
        ("reserved0", ctypes.c_uint32),
        ("rope_theta", ctypes.c_double),
        ("reserved", ctypes.c_uint8 * 56),
    ]


class Generation(ctypes.Structure):
    """struct blob_generation of format/format.h."""

    _fields_ = [
        ("present", ctypes.c_uint32),
        ("do_sample", ctypes.c_uint32),
        ("top_k", ctypes.c_uint32),
        ("temperature", ctypes.c_float),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("repetition_penalty", ctypes.c_float),
        ("reserved", ctypes.c_uint8 * 36),
    ]


# in the order of the bits of enum generation_field
GENERATION_FIELDS = "do_sample temperature top_k top_p min_p repetition_penalty".split()


class Config(ctypes.Structure):
    """struct config of convert/config.h."""

    _fields_ = [
        ("model", Model),
        ("generation", Generation),
        ("stop", ctypes.c_uint32 * 64),
        ("n_stop", ctypes.c_size_t),
        ("marks", ctypes.c_uint64 * 6),
    ]


def load(folder):
    config, tokenizer, error = Config(), Settings(), Error()
    status = lib.smol_config_open(
        str(folder).encode(), ctypes.byref(config), ctypes.byref(tokenizer), ctypes.byref(error)
    )
    lib.smol_settings_close(ctypes.byref(tokenizer))
    assert status == OK, error
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

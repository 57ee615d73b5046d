"""The logits of f32 blobs against transformers in float32: random checkpoints in odd shapes, and a
real model. What smaller KV caches change is bounded too, and an int4 cache changes what keys and values
that are rounded likewise change in transformers."""

import os
import shutil

import numpy as np
import pytest
import torch
from checkpoints import edit_config, load_reference, make, reference_logits
from engine import Model, blob_of, convert
from texts import prose
from tokenizers import Tokenizer
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.llama.modeling_llama import eager_attention_forward as llama_attention

TOLERANCE = 2e-4  # of a position's spread, its largest logit minus its smallest
N_POSITIONS = 150  # crosses two borders of KV blocks (64 positions)
N_REAL = 400 if os.environ.get("SMOL_TEST_ALL") else 200
N_LONG, N_LONG_COMPARED = 8192, 64
N_LONG_LAYERS = int(os.environ.get("SMOL_LONG_LAYERS", 4))  # `make long` takes all


def spread(logits):
    return logits.max(axis=1) - logits.min(axis=1)


def largest_difference(ours, reference):
    """Returns the largest difference as a share of the position's spread."""
    assert ours.shape == reference.shape and np.isfinite(ours).all()
    return (abs(ours - reference).max(axis=1) / spread(reference)).max()


def check(ours, reference, tolerance=TOLERANCE):
    """Asserts the agreement; returns the largest difference."""
    difference = largest_difference(ours, reference)
    assert difference <= tolerance
    second, first = np.sort(reference, axis=1)[:, -2:].T
    clear = first - second > tolerance * spread(reference)
    assert clear.mean() > 0.9  # a flat reference would prove nothing
    assert (ours.argmax(axis=1) == reference.argmax(axis=1))[clear].all()
    return difference


# --- random checkpoints -----------------------------------------------------------------------


def rope(theta):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}


def theta_on_top(config):
    """Rewrites theta as transformers 4 wrote it."""
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["rope_scaling"] = None


def equal_head(weights):
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()


def other_head(weights):
    weights["lm_head.weight"] = 0.5 * weights["model.embed_tokens.weight"].flip(0)


BIASES = {"attention_bias": True, "mlp_bias": True}

# name: (settings of the checkpoint, change of its config.json)
SHAPES = {
    "head_dim not hidden / heads": ({"hidden_size": 60, "head_dim": 10}, None),
    "head_dim larger than hidden / heads": ({"head_dim": 48, "num_hidden_layers": 3}, None),
    "head_dim 2": ({"hidden_size": 36, "head_dim": 2}, None),
    "head_dim 256": ({"head_dim": 256, "num_attention_heads": 2}, None),
    "one head": ({"hidden_size": 48, "num_attention_heads": 1, "num_key_value_heads": 1}, None),
    "kv heads equal to heads": ({"num_key_value_heads": 4}, None),
    "one kv head of six": (
        {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 1},
        None,
    ),
    "nine heads in threes": (
        {"hidden_size": 90, "num_attention_heads": 9, "num_key_value_heads": 3},
        None,
    ),
    "untied head": ({"tie_word_embeddings": False}, None),
    "vocabulary of 17": ({"vocab_size": 17}, None),
    "vocabulary of 3": ({"vocab_size": 3}, None),
    "vocabulary of 1023, untied": ({"vocab_size": 1023, "tie_word_embeddings": False}, None),
    "hidden not a multiple of 32": (
        {"hidden_size": 52, "intermediate_size": 71, "num_attention_heads": 2},
        None,
    ),
    "odd hidden": (
        {"hidden_size": 33, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 6},
        None,
    ),
    "MLP of width 1": ({"intermediate_size": 1}, None),
    "tiny": (
        {"hidden_size": 4, "intermediate_size": 5, "num_attention_heads": 2, "vocab_size": 31},
        None,
    ),
    "attention biases": ({"attention_bias": True}, None),
    "MLP biases": ({"mlp_bias": True}, None),
    "all biases, odd widths": (
        BIASES | {"hidden_size": 44, "intermediate_size": 37, "head_dim": 14},
        None,
    ),
    "F16 source": ({"dtype": "F16"}, None),
    "F32 source": ({"dtype": "F32"}, None),
    "F32 source, all biases, untied": (
        BIASES | {"dtype": "F32", "tie_word_embeddings": False},
        None,
    ),
    "one layer": ({"num_hidden_layers": 1}, None),
    "nine layers": ({"num_hidden_layers": 9}, None),
    "large epsilon": ({"rms_norm_eps": 0.1}, None),
    "large theta": (rope(1e7), None),
    "small theta": (rope(10.0), None),
    "theta that is no float": (rope(1234567.89), None),
    "theta on top": (rope(150000.0), theta_on_top),
    "head present and equal": ({"edit": equal_head}, None),
    "head present and equal, config untied": (
        {"edit": equal_head, "tie_word_embeddings": False},
        None,
    ),
    "head present and different, config tied": ({"edit": other_head}, None),
}


def make_pair(folder, name, settings, change):
    """A checkpoint's f32 blob, opened, and its reference."""
    make(folder, seed=sum(name.encode()), **settings)
    if change:
        edit_config(folder, change)
    return Model(convert(folder, folder / "f32.smol", "f32")), load_reference(folder)


@pytest.mark.sample(16)
@pytest.mark.parametrize("name", SHAPES)
def test_random_checkpoint_gives_the_logits_of_transformers(name, tmp_path, record_property):
    settings, change = SHAPES[name]
    model, reference = make_pair(tmp_path, name, settings, change)
    ids = np.random.default_rng(1).integers(0, model.vocab_size, N_POSITIONS)
    with model:
        ours = model.logits(ids, threads=2, kv="f32")
    difference = check(ours, reference_logits(reference, ids))
    record_property("largest_difference", float(difference))
    print(f"{name}: {difference:.1e}")


@pytest.mark.parametrize(
    "weight, factor",
    [
        ("model.layers.1.input_layernorm.weight", 1.01),
        ("model.layers.0.self_attn.q_proj.weight", 1.01),
        ("model.layers.0.self_attn.k_proj.bias", 0),
        ("model.layers.1.self_attn.v_proj.weight", 1.01),
        ("model.layers.1.mlp.gate_proj.bias", 0.99),
    ],
)
def test_comparison_notices_a_small_change(weight, factor, tmp_path):
    """The tests above could not fail on a model that hardly uses the part in question."""
    model, reference = make_pair(tmp_path, "notice", BIASES | {"num_hidden_layers": 2}, None)
    with torch.no_grad():
        reference.get_parameter(weight).mul_(factor)
    ids = np.random.default_rng(1).integers(0, model.vocab_size, N_POSITIONS)
    with model:
        ours = model.logits(ids, kv="f32")
    assert largest_difference(ours, reference_logits(reference, ids)) > 5 * TOLERANCE


# --- a real model -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_reference(real_model_dir):
    return load_reference(real_model_dir)


@pytest.fixture(scope="module")
def real_f32(real_model_dir):
    with Model(blob_of(real_model_dir, "f32")) as model:
        yield model


@pytest.fixture(scope="module")
def real_ids(real_model_dir):
    ids = Tokenizer.from_file(str(real_model_dir / "tokenizer.json")).encode(prose()).ids
    assert len(ids) > 2 * N_LONG
    return ids


def test_real_model_gives_the_logits_of_transformers_at_every_position(
    real_f32, real_reference, real_ids, record_property
):
    ids = real_ids[:N_REAL]
    ours = real_f32.logits(ids, threads=2)
    difference = check(ours, reference_logits(real_reference, ids))
    record_property("largest_difference", float(difference))
    print(f"real model, {N_REAL} positions: {difference:.1e}")


@pytest.mark.slow
def test_real_model_gives_the_logits_of_transformers_after_8192_tokens(
    real_model_dir, real_ids, tmp_path, record_property
):
    """The model's first layers are enough here: all of them are compared above, at fewer positions."""
    reference = load_reference(real_model_dir)
    reference.model.layers = reference.model.layers[:N_LONG_LAYERS]
    reference.config.num_hidden_layers = len(reference.model.layers)
    reference.save_pretrained(tmp_path)
    shutil.copy(real_model_dir / "tokenizer.json", tmp_path)
    ids = real_ids[N_LONG : 2 * N_LONG]
    with Model(convert(tmp_path, tmp_path / "f32.smol", "f32")) as model:
        ours = model.logits(ids, N_LONG_COMPARED, threads=2)
    difference = check(ours, reference_logits(reference, ids, N_LONG_COMPARED))
    record_property("largest_difference", float(difference))
    print(f"real model, last {N_LONG_COMPARED} of {N_LONG} positions: {difference:.1e}")


# --- what a smaller KV cache costs ------------------------------------------------------------

LEVELS = torch.tensor([-116, -90, -71, -56, -43, -29, -17, -6, 6, 17, 29, 43, 56, 71, 90, 116.0])


def rounded_to_int4(x):
    """x (..., head_dim), rounded as an int4 KV cache does: transformed by a Hadamard matrix in parts of the
    largest power of two, and with the nearest level of the steps of the largest magnitude / 127."""
    part = x.shape[-1] & -x.shape[-1]
    index = np.arange(part)
    matrix = torch.from_numpy(1 - 2 * (np.bitwise_count(index[:, None] & index) % 2).astype(np.float32))
    turned = (x.unflatten(-1, (-1, part)) @ matrix).flatten(-2)
    amax = turned.abs().amax(dim=-1, keepdim=True)
    steps = torch.round(turned * (127 / amax))
    levels = LEVELS[(steps[..., None] - LEVELS).abs().argmin(dim=-1)] * (amax / 127)
    return (levels.unflatten(-1, (-1, part)) @ matrix / part).flatten(-2)


def attention_to_int4(module, query, key, value, mask, **options):
    return llama_attention(module, query, rounded_to_int4(key), rounded_to_int4(value), mask, **options)


@pytest.mark.parametrize("head_dim", [16, 24, 10])
def test_an_int4_cache_is_transformers_with_rounded_keys_and_values(head_dim, tmp_path):
    """A number that lies between two levels may be rounded otherwise, so few logits differ by more."""
    source = make(tmp_path, hidden_size=60, head_dim=head_dim, num_attention_heads=6, vocab_size=97)
    ids = np.random.default_rng(5).integers(0, 97, N_POSITIONS).tolist()
    model = load_reference(source)
    exact = reference_logits(model, ids)
    AttentionInterface.register("int4", attention_to_int4)
    AttentionMaskInterface.register("int4", eager_mask)
    model.set_attn_implementation("int4")
    rounded = reference_logits(model, ids)
    with Model(convert(source, tmp_path / "a.smol", "f32")) as ours:
        logits = ours.logits(ids, threads=2, kv="int4")
    differences = abs(logits - rounded).max(axis=1) / spread(rounded)
    assert np.median(differences) <= 1e-5 < 1e-3 < np.median(abs(logits - exact).max(axis=1) / spread(exact))
    assert mean_divergence(rounded, logits) < 0.02 * mean_divergence(exact, logits)



def mean_divergence(logits, others):
    """Mean over positions of KL(softmax(logits) || softmax(others))."""
    p, q = (torch.log_softmax(torch.from_numpy(x).double(), dim=1) for x in (logits, others))
    return (p.exp() * (p - q)).sum(dim=1).mean().item()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kv, most_difference, most_divergence", [("f16", 3e-3, 3e-6), ("int8", 8e-2, 3e-3), ("int4", 1, 1e-1)]
)
def test_smaller_kv_types_change_the_logits_little(
    kv, most_difference, most_divergence, real_f32, real_ids, record_property
):
    exact = real_f32.logits(real_ids[:N_REAL], threads=2, kv="f32")
    ours = real_f32.logits(real_ids[:N_REAL], threads=2, kv=kv)
    difference, divergence = largest_difference(ours, exact), mean_divergence(exact, ours)
    record_property("largest_difference", float(difference))
    record_property("mean_divergence", divergence)
    print(f"kv {kv}: largest difference {difference:.1e}, mean KL {divergence:.1e}")
    assert 0 < difference <= most_difference
    assert divergence <= most_divergence

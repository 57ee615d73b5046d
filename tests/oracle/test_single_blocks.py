"""Layers of one block each (Nemotron-H): what config.json may say of them, the length of steps, and what a blob may say.
test_recurrences.py tests what is done to sequences."""

import json
import re

import numpy as np
import pytest
from blobs import both_refuse, flip_features, read_blob, section
from checkpoints import load_reference, make_of, reference_logits
from engine import Model, convert
from programs import smolconv
from safetensors.torch import load_file, save_file
from smol_reader import PARTIAL, PARTIAL_SECTION
from test_logits import check
from transformers import NemotronHConfig

KINDS = ["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"]
SETTINGS = dict(
    vocab_size=101, hidden_size=48, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
    max_position_embeddings=512, layers_block_type=KINDS, mamba_num_heads=4, mamba_head_dim=12, n_groups=2, ssm_state_size=16,
    bos_token_id=None, eos_token_id=None, pad_token_id=None,
)  # fmt: skip
IDS = np.random.default_rng(2).integers(0, 101, 100)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_of(NemotronHConfig(**SETTINGS), tmp_path_factory.mktemp("single") / "checkpoint", dtype="F32")


@pytest.fixture(scope="module")
def blob(checkpoint):
    return convert(checkpoint, checkpoint / "a.smol", "f32")


def test_short_steps_are_taken_as_they_are(checkpoint, tmp_path):
    """The reference does so with a time_step_min of 0; with its default it takes others in prompts."""
    weights = load_file(checkpoint / "model.safetensors")
    for name in weights:
        if name.endswith("dt_bias"):
            weights[name] -= 9
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "tokenizer.json").write_bytes((checkpoint / "tokenizer.json").read_bytes())
    config = json.loads((checkpoint / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with Model(convert(tmp_path, tmp_path / "a.smol", "f32")) as model:
        ours = model.logits(IDS, kv="f32")
    limited = reference_logits(load_reference(tmp_path), IDS)
    (tmp_path / "config.json").write_text(json.dumps(config | {"time_step_min": 0.0}))
    check(ours, reference_logits(load_reference(tmp_path), IDS))
    with pytest.raises(AssertionError):
        check(ours, limited)


REFUSED = {
    "time_step_min": (0.01, "above 0.001"),
    "mamba_dt_min": (0.01, "above 0.001"),
    "num_hidden_layers": (4, "another length"),
    "layers_block_type": (["linear_attention", "conv"], "full_attention, mlp or moe"),
    "hybrid_override_pattern": ("M-*-E", "differ: correct one"),
    "layer_types": (["full_attention", "mlp"], "differ: correct one"),
    "attention_bias": (True, "biases of attention"),
    "use_bias": (True, "biases of a state"),
    "tie_word_embeddings": (True, "tied embeddings"),
    "mamba_hidden_act": ("gelu", "silu"),
    "sliding_window": (8, "not supported"),
}  # fmt: skip
OF_EXPERTS = {
    "n_group": (2, "groups of experts"),
    "topk_group": (2, "groups of experts"),
    "moe_latent_size": (16, "a width of their own"),
    "mlp_bias": (True, "biases of experts"),
    "n_routed_experts": (1, "n_routed_experts"),
}


@pytest.mark.parametrize("key", REFUSED | OF_EXPERTS)
def test_what_is_not_supported_is_refused_by_name(checkpoint, key, tmp_path):
    value, message = (REFUSED | OF_EXPERTS)[key]
    config = json.loads((checkpoint / "config.json").read_text()) | {key: value}
    if key in OF_EXPERTS:
        config["layers_block_type"] = [*KINDS, "moe"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = smolconv("--config", tmp_path / "config.json", checkpoint, tmp_path / "a.smol")
    assert done.returncode in (4, 5) and message in done.stderr, done.stderr


@pytest.mark.parametrize("pattern, message", [("M*", "no layer has an MLP"), ("M-M-", "no layer has attention"), ("M-X", "letters M"), ("", "letters M")])
def test_lists_of_layers_that_make_no_model_are_refused(checkpoint, pattern, message, tmp_path):
    config = json.loads((checkpoint / "config.json").read_text())
    del config["layers_block_type"]
    (tmp_path / "config.json").write_text(json.dumps(config | {"hybrid_override_pattern": pattern}))
    done = smolconv("--config", tmp_path / "config.json", checkpoint, tmp_path / "a.smol")
    assert done.returncode in (4, 5) and message in done.stderr, done.stderr


def test_published_names_of_tensors_give_the_same_blob(checkpoint, blob, tmp_path):
    """transformers writes `backbone.`, as published checkpoints have it, and calls it `model.` itself."""
    weights = load_file(checkpoint / "model.safetensors")
    assert any(name.startswith("backbone.") for name in weights)
    renamed = {name.replace("backbone.", "model."): tensor for name, tensor in weights.items()}
    save_file(renamed, tmp_path / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((checkpoint / name).read_bytes())
    with Model(convert(tmp_path, tmp_path / "a.smol", "f32")) as ours, Model(blob) as others:
        assert ours.logits(IDS).tobytes() == others.logits(IDS).tobytes()


WRONG = [(0, 0), (0, 0b1011), (0, 0b11010), (0, 0b101010), (127, 128), (128, 0), (128, 0b10111), (128, 0b110101), (255, 1)]


def test_sets_that_contradict_each_other_are_refused(blob, tmp_path):
    data = blob.read_bytes()
    start, size = section(data, PARTIAL_SECTION)
    assert read_blob(blob).features & PARTIAL and size == 256
    assert (data[start], data[start + 128]) == (0b01010, 0b10101)
    for at, value in WRONG:
        both_refuse(blob, tmp_path, lambda data: data.__setitem__(start + at, value))  # noqa: B023
    both_refuse(blob, tmp_path, lambda data: flip_features(data, PARTIAL))


def test_inspect_tells_which_layers_lack_a_block(blob):
    shown = smolconv("inspect", blob).stdout
    assert re.search(r"^only an MLP +1 3$", shown, re.M) and re.search(r"^no MLP +0 2 4$", shown, re.M)
    assert re.search(r"^.*\bblocks\b.*\bpartial\b", shown, re.M) and "null" not in shown
    told = json.loads(smolconv("inspect", "--json", blob).stdout)["model"]
    assert (told["layers_without_mixer"], told["layers_without_mlp"]) == ([1, 3], [0, 2, 4])

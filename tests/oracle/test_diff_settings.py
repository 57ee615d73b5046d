"""smolconv diff of settings and provenances."""

import shutil
import struct
from pathlib import Path

import pytest
from blobs import edited, read_blob, section
from checkpoints import edit_config, make, make_of
from diffs import DEMO, blob_values, check_values, convert, diff, parts, place_in_f32, wide
from features import FEATURES, config_of
from safetensors.torch import load_file, save_file
from smol_reader import EMBEDDER_SECTION, PROVENANCE, STATES_SECTION
from test_embedder import make as make_embedder
from test_embedder import write_modules
from test_encoder import lines


def test_settings_that_differ_are_shown_with_both_values(tmp_path):
    a = make(tmp_path / "a", dtype="F32")
    b = Path(shutil.copytree(a, tmp_path / "b"))

    def change(config):
        config.update(max_position_embeddings=513, rms_norm_eps=2e-6, bos_token_id=5)
        config.update(eos_token_id=[2, 7])
        config["rope_parameters"]["rope_theta"] = 500000.0

    edit_config(b, change)
    new = '{"temperature": 0.7, "do_sample": true, "top_k": 40}'
    (a / "generation_config.json").write_text('{"temperature": 0.2, "top_p": 0.9}')
    (b / "generation_config.json").write_text(new)
    due = {
        "context_length": ("512", "513"),
        "bos_id": ("none", "5"),
        "rope_theta": ("10000", "500000"),
        "rms_norm_eps": ("1e-05", "2e-06"),
        "stop id 7": ("no", "yes"),
        "do_sample": ("-", "yes"),
        "temperature": ("0.2", "0.7"),
        "top_k": ("-", "40"),
        "top_p": ("0.9", "-"),
    }
    blobs = convert(a, tmp_path / "a.smol"), convert(b, tmp_path / "b.smol")
    for left, right in [(a, b), (blobs[0], b), (a, blobs[1]), blobs]:
        found = diff(left, right)
        assert found.status == 1 and found.cells("settings") == due
        assert "tokenizer" not in found.rows
        assert not found.tensors or {left, right} != set(blobs)


def test_states_that_differ_are_shown(tmp_path):
    """Other layers have them, they see other inputs, there are none, or one element is another."""

    def made(name, **settings):
        config = config_of("lfm2", **FEATURES["lfm2"][0] | settings)
        return convert(make_of(config, tmp_path / name, dtype="F32"), tmp_path / f"{name}.smol", "f32")

    a, same, taps = made("a"), made("same"), made("taps", conv_L_cache=3)
    moved = made("moved", layer_types=["full_attention", "conv"])
    none = made("none", layer_types=["full_attention", "full_attention"])
    assert diff(a, same).status == 0
    found = diff(a, taps)
    assert found.cells("settings") == {"states": (parts(STATES_SECTION, a, taps),)}
    assert found.tensors["layers.0.mixer_conv"] == "shape [4, 48] | [3, 48]"
    found = diff(a, moved)
    assert found.cells("settings") == {"states": (parts(STATES_SECTION, a, moved),)}
    assert found.tensors["layers.0.mixer_in"] == found.tensors["layers.1.attn_q"] == "only in A"
    assert found.tensors["layers.0.attn_q"] == found.tensors["layers.1.mixer_in"] == "only in B"
    assert diff(none, a).cells("settings")["states"] == ("none", parts(STATES_SECTION, a))
    name = "layers.0.mixer_in"

    def edit(data):
        struct.pack_into("<f", data, place_in_f32(read_blob(a).tensors[name], 69), 77.0)

    found = diff(a, edited(a, tmp_path / "edited.smol", edit))
    values, others = blob_values(a), blob_values(tmp_path / "edited.smol")
    assert not found.cells("settings") and list(found.tensors) == [name]
    check_values(found.tensors[name], values[name], others[name])


def test_embedders_that_differ_are_shown(tmp_path):
    """Another prompt, pooling or dense layer."""
    folder, dense = tmp_path / "a", [(33, "tanh", True)]
    make_embedder(folder, lines(20, seed=1), num_hidden_layers=1)

    def made(name, **settings):
        write_modules(folder, **{"dense": dense} | settings)
        return convert(folder, tmp_path / f"{name}.smol")

    a, same = made("a"), made("same")
    assert diff(a, same).status == 0
    for other in [
        made("prompts", prompts={"query": "Find: "}),
        made("weights", seed=1),
        made("activation", dense=[(33, "identity", True)]),
    ]:
        assert diff(a, other).cells("settings") == {"embedder": (parts(EMBEDDER_SECTION, a, other),)}
    for other, cells in [
        (made("pooling", pooling="mean_tokens"), {"pooling": ("last token", "mean")}),
        (made("raw", normalizes=False), {"normalizes": ("yes", "no")}),
    ]:
        found = diff(a, other)
        assert found.status == 1 and not found.tensors and "tokenizer" not in found.rows
        assert found.cells("settings") == cells


def test_models_of_other_sizes_are_compared_as_far_as_they_go(tmp_path):
    a = make(tmp_path / "a", num_hidden_layers=1, attention_bias=True)
    b = make(tmp_path / "b", num_hidden_layers=2, mlp_bias=True, vocab_size=120, head_dim=8)
    found = diff(convert(a, tmp_path / "a.smol"), convert(b, tmp_path / "b.smol"))
    cells = found.cells("settings")
    assert cells["n_layers"] == ("1", "2") and cells["vocab_size"] == ("101", "120")
    assert cells["attention_bias"] == ("yes", "no") and cells["mlp_bias"] == ("no", "yes")
    assert found.tensors["embed"] == "shape [101, 64] | [120, 64]"
    assert found.tensors["layers.0.attn_q"] == "shape [64, 64] | [32, 64]"
    assert found.tensors["layers.0.attn_q_bias"] == "only in A"
    assert found.tensors["layers.1.mlp_up_bias"] == found.tensors["layers.1.mlp_up"] == "only in B"
    assert "inv_freq[0]" not in cells


@pytest.mark.parametrize("dtype", ["f32", "int8"])
def test_a_tied_head_is_compared_with_one_of_its_own(tmp_path, dtype):
    def untie(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        tensors["lm_head.weight"][7, 5] += 1

    tied = make(tmp_path / "tied", dtype="F32", tie_word_embeddings=True)
    untied = make(tmp_path / "untied", dtype="F32", edit=untie, tie_word_embeddings=False)
    weights = load_file(tied / "model.safetensors")
    untie(weights)
    save_file(weights, untied / "model.safetensors")
    a = convert(tied, tmp_path / "tied.smol", dtype)
    b = convert(untied, tmp_path / "untied.smol", dtype)
    for left, right in [(a, b), (a, untied), (tied, b), (tied, untied)]:
        found = diff(left, right)
        assert found.cells("settings") == {"tied_embeddings": ("yes", "no")}
        assert "output" in found.tensors
    found = diff(tied / "model.safetensors", b)
    due = wide(weights["model.embed_tokens.weight"]), blob_values(b)["output"]
    check_values(found.tensors["output"], *due)
    assert diff(a, b).tensors.keys() == {"output"}
    found = diff(tied / "model.safetensors", untied / "model.safetensors")
    assert found.tensors == {"lm_head.weight": "only in B"}


def test_an_equal_copy_of_the_head_is_no_difference(tmp_path):
    def copy(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()

    tied = make(tmp_path / "tied", dtype="BF16")
    full = make(tmp_path / "full", dtype="BF16", edit=copy)
    blob = convert(tied, tmp_path / "tied.smol", "f32")
    for a, b in [(tied, full), (blob, full), (full, blob), (blob, full / "model.safetensors")]:
        assert diff(a, b).status == 0


def test_another_provenance_is_shown_and_is_no_difference(tmp_path, demo_blob):
    source = Path(shutil.copytree(DEMO, tmp_path / "source"))
    config = source / "config.json"
    config.write_text(config.read_text() + " ")
    blob = convert(source, tmp_path / "b.smol")
    found = diff(demo_blob(), blob)
    assert (found.status, found.summary) == (0, "the same except for the provenance")
    due = [
        f"  {letter}  {line}"
        for letter, path in (("A", demo_blob()), ("B", blob))
        for line in read_blob(path).provenance.splitlines()
        if line.startswith("source: config.json")
    ]
    assert found.rows == {"provenance": due}
    offset, size = section(blob.read_bytes(), PROVENANCE)

    def rewrite(data):
        data[offset : offset + size] = b"\x1b[2J\n".ljust(size, b"\n")

    found = diff(demo_blob(), edited(blob, tmp_path / "c.smol", rewrite))
    assert found.status == 0 and "  B  ?[2J" in found.rows["provenance"]

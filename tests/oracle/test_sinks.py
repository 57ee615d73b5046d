"""Sinks of attention: a number of each head that joins the sum of the softmax. The same bits however they come about, and
what a blob and a checkpoint may say. test_families.py compares whole checkpoints."""

import json

import numpy as np
import programs
import pytest
import torch
from blobs import accepted_bits, both_refuse, edited, flip_features, read_blob, section
from checkpoints import edit_config, make_of
from engine import Model, SmolError, convert, eval_many, kernel_sets
from families import CONTEXT
from features import config_of, featured
from internal import DAMAGED, UNSUPPORTED
from safetensors.torch import load_file, save_file
from smol_reader import FURTHER, HAS_SINKS, MODEL
from test_determinism import KVS, eval_in_parts, random_sizes, same_bits

N = 400  # past a span of 256 positions
IDS = np.random.default_rng(2).integers(0, 101, N).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A layer with windows, and one without."""
    return make_of(featured("graniteswa"), tmp_path_factory.mktemp("sinks") / "c")


@pytest.fixture(scope="module")
def blob(folder):
    return convert(folder, folder / "f32.smol", "f32")


@pytest.mark.sample(2)
@pytest.mark.parametrize("kv", KVS)
@pytest.mark.parametrize("dtype", ["f32", "int8"])
def test_the_bits_depend_on_neither_threads_nor_kernels_nor_what_stands_beside(folder, dtype, kv, tmp_path, monkeypatch):
    with Model(convert(folder, tmp_path / "a.smol", dtype)) as model:
        expected = model.logits(IDS, kv=kv)
        for i, isa in enumerate(name for name, _, runs in kernel_sets() if runs):
            monkeypatch.setenv("SMOL_ISA", isa)
            with model.context(1 + i % 3, kv) as context:
                assert same_bits(eval_in_parts(context, IDS, random_sizes(i, N)), expected), isa
                context.truncate(270)
                parts = [context, model.context(share=context, kv=kv)]
                first, second = eval_many([(parts[0], IDS[270:271], 1), (parts[1], IDS[:70], 70)])
                assert same_bits(first, expected[270:271]) and same_bits(second, expected[:70]), isa
                parts[1].close()
        with model.context(2, kv) as context:  # token by token
            assert same_bits(np.concatenate([context.eval([i], 1) for i in IDS]), expected)


def spoil_sinks(folder, target, value):
    """Copies a checkpoint with all sinks set to a value. Returns the folder."""
    target.mkdir()
    for file in ("config.json", "tokenizer.json"):
        (target / file).write_bytes((folder / file).read_bytes())
    tensors = load_file(folder / "model.safetensors")
    sinks = {name: torch.full_like(tensor, value) for name, tensor in tensors.items() if name.endswith("sinks")}
    assert len(sinks) == 2
    save_file(tensors | sinks, target / "model.safetensors")
    return target


def test_a_sink_below_all_scores_changes_no_bit(tmp_path):
    """Granite has none."""
    settings = dict(layer_types=["full_attention"] * 2, layer_rope_theta=None)
    with_sinks = make_of(config_of("graniteswa", **settings), tmp_path / "swa")
    low = spoil_sinks(with_sinks, tmp_path / "low", -1e30)
    without = make_of(config_of("granite", tie_word_embeddings=True, rms_norm_eps=1e-5), tmp_path / "granite")
    tensors = load_file(low / "model.safetensors")
    plain = {name: tensor for name, tensor in tensors.items() if not name.endswith("sinks")}
    save_file(plain, without / "model.safetensors", metadata={"format": "pt"})
    with Model(convert(low, tmp_path / "a.smol", "f32")) as one, Model(convert(without, tmp_path / "b.smol", "f32")) as other:
        expected = other.logits(IDS)
        assert same_bits(one.logits(IDS), expected)
    with Model(convert(with_sinks, tmp_path / "c.smol", "f32")) as model:
        assert not same_bits(model.logits(IDS), expected)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_sink_that_is_no_number_is_an_error(blob, value, layer, tmp_path):
    tensor = read_blob(blob).tensors[f"layers.{layer}.attn_sinks"]
    assert (tensor.rows, tensor.cols) == (1, 4)

    def spoil(data):
        data[tensor.offset + 8 : tensor.offset + 12] = np.float32(value).tobytes()

    with Model(edited(blob, tmp_path / "b.smol", spoil)) as model, model.context() as context:
        for ids in (IDS[:1], IDS[:30]):
            with pytest.raises(SmolError, match="NaN or infinity"):
                context.eval(ids)
            context.truncate(0)


def test_both_readers_agree_on_every_bit(blob, tmp_path):
    assert read_blob(blob).features & FURTHER and read_blob(blob).model["blocks"] & HAS_SINKS
    start = section(blob.read_bytes(), MODEL)[0]
    assert accepted_bits(blob, tmp_path, start + 72, start + 76) <= 2


def test_the_feature_comes_with_the_bit(blob, tmp_path):
    start = section(blob.read_bytes(), MODEL)[0]

    def flip_feature(data):
        flip_features(data, FURTHER)

    def flip_bit(data):
        data[start + 72 : start + 76] = (int.from_bytes(data[start + 72 : start + 76], "little") ^ HAS_SINKS).to_bytes(4, "little")

    for edit in (flip_feature, flip_bit):
        both_refuse(blob, tmp_path, edit, "feature")


def test_inspect_names_them(blob):
    shown = programs.smolconv("inspect", blob).stdout
    assert "sinks of attention" in shown and ", further" in shown
    assert "sinks" in json.loads(programs.smolconv("inspect", "--json", blob).stdout)["model"]["blocks"]


@pytest.mark.parametrize(("thetas", "status", "message"), [
    ([10000, 0, 100.5, 7.0], UNSUPPORTED, r"layer_rope_theta\[3\] must be at most two different numbers other than 0, found 7"),
    ([10000, 0, 100.5], DAMAGED, "layer_rope_theta has 3 entries, but num_hidden_layers is 4"),
    ([10000, 0, 100.5, 0, 0], DAMAGED, "layer_rope_theta has 5 entries"),
    ([10000, -1, 10000, 0], DAMAGED, r"layer_rope_theta\[1\] must be 0 \(no rotation\) or a number above 0, found -1"),
    ([10000, None, 10000, 0], DAMAGED, r"layer_rope_theta\[1\]"),
    ([10000, True, 10000, 0], DAMAGED, r"layer_rope_theta\[1\]"),
    (10000, DAMAGED, "layer_rope_theta must be a list"),
])  # fmt: skip
def test_other_thetas_are_refused(thetas, status, message, tmp_path):
    make_of(config_of("graniteswa", num_hidden_layers=4, sliding_window=CONTEXT), tmp_path)
    edit_config(tmp_path, lambda config: config.update(layer_rope_theta=thetas))
    with pytest.raises(SmolError, match=message) as caught:
        convert(tmp_path, tmp_path / "a.smol")
    assert caught.value.status == status

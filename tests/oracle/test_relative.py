"""Scores of attention that depend on distances (MPNet's relative positions): the reference's buckets, the same bits
however they come about, and what a blob may say. test_roberta.py compares whole checkpoints."""

import ctypes
import json

import numpy as np
import programs
import pytest
import torch
from blobs import accepted_bits, both_refuse, edited, flip_features, read_blob, section
from engine import Model, SmolError, convert, eval_many, kernel_sets
from internal import lib
from safetensors.torch import load_file, save_file
from smol_reader import BY_DISTANCE, MODEL, RELATIVE
from test_embedder import write_modules
from test_encoder import states_of
from test_logits import TOLERANCE, largest_difference
from test_roberta import make, some_ids
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

lib.smol_relative_bucket.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
lib.smol_relative_bucket.restype = ctypes.c_size_t
SIZES = dict(hidden_size=60, num_attention_heads=2, num_hidden_layers=2, intermediate_size=70, max_position_embeddings=400)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relative") / "c"
    return folder, make(folder, "mpnet", 3, **SIZES)


def test_buckets_are_those_of_transformers():
    """Every distance in a text of 8,192 tokens is compared."""
    keys = torch.arange(8192)
    for query in (0, 8191):
        expected = MPNetEncoder.relative_position_bucket(keys - query)
        assert [lib.smol_relative_bucket(query, key) for key in range(8192)] == expected.tolist()


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "int8"])
def test_the_bits_depend_on_neither_threads_nor_kernels_nor_caches_nor_what_stands_beside(made, dtype, tmp_path, monkeypatch):
    folder, model = made
    lengths = [1, 2, 24, 25, 63, 64, 65, 200, 398]
    texts = [some_ids(model, n) for n in lengths]
    with Model(convert(folder, tmp_path / "a.smol", dtype)) as smol:
        expected = []
        for ids in texts:
            with smol.context() as context:
                expected.append(context.embed(ids))
        for isa in [name for name, _, runs in kernel_sets() if runs]:
            monkeypatch.setenv("SMOL_ISA", isa)
            for threads, kv in ((1, "int4"), (3, "f32"), (2, "f16")):
                with smol.context(threads=threads, kv=kv) as first:
                    for i in (8, 0, 4, 7, 2):  # a short text after a long one
                        first.truncate(0)
                        assert first.embed(texts[i]).tobytes() == expected[i].tobytes(), (isa, threads, lengths[i])
                    others = [smol.context(share=first, kv=kv) for _ in texts[1:]]
                    first.truncate(0)
                    rows = eval_many([(c, ids, 0) for c, ids in zip([first, *others], texts, strict=True)], "last")
                    assert all(row.tobytes() == states[-1].tobytes() for row, states in zip(rows, expected, strict=True)), isa
                    for context in others:
                        context.close()


def test_texts_of_many_positions(tmp_path):
    model = make(tmp_path / "c", "mpnet", 2, **SIZES | {"max_position_embeddings": 1102, "num_hidden_layers": 1})
    with Model(convert(tmp_path / "c", tmp_path / "a.smol", "f32")) as smol, smol.context(threads=2) as context:
        ids = some_ids(model, 1100)
        assert largest_difference(context.embed(ids), states_of(model, ids)) <= TOLERANCE


def test_every_bucket_matters(made, tmp_path):
    """A change of a row of the table changes the states of a text that is long enough, by what transformers says."""
    folder, model = made
    name = "encoder.relative_attention_bias.weight"
    ids = some_ids(model, 150)
    before = states_of(model, ids)
    (tmp_path / "c").mkdir()
    for file in ("config.json", "tokenizer.json"):
        (tmp_path / "c" / file).write_bytes((folder / file).read_bytes())
    tensors = load_file(folder / "model.safetensors")
    for bucket in (0, 7, 8, 15, 17, 24, 31):
        table = tensors[name].clone()
        table[bucket] += 1
        save_file(tensors | {name: table}, tmp_path / "c/model.safetensors")
        with torch.no_grad():
            model.encoder.relative_attention_bias.weight[bucket] += 1
            expected = states_of(model, ids)
            model.encoder.relative_attention_bias.weight[bucket] -= 1
        blob = convert(tmp_path / "c", tmp_path / "a.smol", "f32", force=True)
        with Model(blob) as smol, smol.context() as context:
            assert largest_difference(context.embed(ids), expected) <= TOLERANCE < largest_difference(before, expected) / 5


def test_a_number_that_is_none_is_an_error(made, tmp_path):
    folder, model = made
    blob = convert(folder, tmp_path / "a.smol", "f32")
    tensor = read_blob(blob).tensors["relative"]
    assert (tensor.rows, tensor.cols) == (32, 2)

    def spoil(data):
        data[tensor.offset + 8 * 20 : tensor.offset + 8 * 20 + 4] = np.float32(np.nan).tobytes()

    with Model(edited(blob, tmp_path / "b.smol", spoil)) as smol, smol.context() as context:
        with pytest.raises(SmolError, match="NaN"):
            context.embed(some_ids(model, 30))
        context.truncate(0)
        assert np.isfinite(context.embed([5, 6])).all()  # too short for that distance


@pytest.mark.parametrize(("edit", "message"), [
    ({"encoder.relative_attention_bias.weight": None}, "relative_attention_bias.weight is missing"),
    ({"encoder.relative_attention_bias.weight": torch.ones(64, 2)}, r"has shape \[64, 2\]"),
    ({"encoder.relative_attention_bias.weight": torch.ones(32, 3)}, r"has shape \[32, 3\]"),
])  # fmt: skip
def test_tables_of_other_sizes_are_refused(made, edit, message, tmp_path):
    folder, _ = made
    tensors = load_file(folder / "model.safetensors") | edit
    for file in ("config.json", "tokenizer.json"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, tmp_path / "model.safetensors")
    with pytest.raises(SmolError, match=message):
        convert(tmp_path, tmp_path / "a.smol", "f32")


def test_both_readers_agree_on_every_bit(made, tmp_path):
    """Every bit of the features and the model's blocks is flipped, and the digests are repaired."""
    folder, _ = made
    write_modules(folder, "mean_tokens", width=60)
    blob = convert(folder, tmp_path / "a.smol", "int8")
    assert read_blob(blob).features & RELATIVE and read_blob(blob).model["blocks"] & BY_DISTANCE
    start = section(blob.read_bytes(), MODEL)[0]
    assert accepted_bits(blob, tmp_path, start + 72, start + 76) <= 2


def test_the_feature_comes_with_the_bit_and_an_encoder(made, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "f32", force=True)
    start = section(blob.read_bytes(), MODEL)[0]

    def flip_feature(data):
        flip_features(data, RELATIVE)

    def flip_bit(data):
        data[start + 72 : start + 76] = (int.from_bytes(data[start + 72 : start + 76], "little") ^ BY_DISTANCE).to_bytes(4, "little")

    for edit in (flip_feature, flip_bit):
        both_refuse(blob, tmp_path, edit, "relative feature")


def test_inspect_names_it(made, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "f32", force=True)
    shown = programs.smolconv("inspect", blob).stdout
    assert "relative positions" in shown and ", relative" in shown
    assert "relative" in json.loads(programs.smolconv("inspect", "--json", blob).stdout)["model"]["blocks"]

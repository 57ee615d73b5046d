"""smolconv diff of models of embeddings, and of checkpoints with what is made of them."""

import json
import re
import shutil
from pathlib import Path

import pytest
import test_embedder
import test_encoder_families
import test_roberta
import torch
from blobs import read_blob
from checkpoints import edit_config, make, make_of
from diffs import check_values, convert, diff, wide
from families import CONFIGS
from features import featured
from programs import smolconv
from safetensors.torch import load_file, save_file
from test_embedder import write_modules
from test_encoder import make as make_encoder
from nests import NESTS, make_nested
from test_rerank import make_bert, make_modern


def embedding_model(folder, max_length=250, **modules):
    make(folder)
    write_modules(folder, width=64, **modules)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_length}))
    return folder


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("change", "name", "cells"),
    [
        ({"pooling": "mean_tokens"}, "pooling", ("last token", "mean")),
        ({"normalizes": False}, "normalizes", ("yes", "no")),
        ({"max_length": 100}, "max_length", ("250", "100")),
        ({"prompts": {"query": "find "}}, "embedder", None),
        ({"default": "query"}, "embedder", None),
        ({"dense": [(32, "tanh", True)], "seed": 1}, "embedder", None),
        ({"dense": [(32, "identity", True)]}, "embedder", None),
    ],
)
def test_how_embeddings_are_made_is_compared(tmp_path, change, name, cells):
    """Each side is a checkpoint, or the blob that it would become."""
    plain = {"dense": [(32, "tanh", True)]}
    a, b = embedding_model(tmp_path / "a", **plain), embedding_model(tmp_path / "b", **plain | change)
    sides = {}
    for letter, folder in ("a", a), ("b", b):
        sides[letter] = [folder, *(convert(folder, tmp_path / f"{letter}-{dtype}", dtype) for dtype in ("f32", "bf16"))]
    for left, right in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0)]:
        found = diff(sides["a"][left], sides["b"][right])
        assert found.status == 1 and set(found.cells("settings")) == {name}
        assert cells in (None, found.cells("settings")[name])
        assert diff(sides["a"][left], sides["a"][right]).summary.startswith("the same")


def test_a_model_of_embeddings_is_not_one_of_texts(tmp_path):
    a, b = embedding_model(tmp_path / "a"), make(tmp_path / "b")
    for left, right in [(a, b), (convert(a, tmp_path / "a.smol", "f32"), b)]:
        assert diff(left, right).cells("settings")["embeddings"] == ("yes", "no")


def test_windows_that_see_both_sides_are_compared(tmp_path):
    folder = make_of(featured("gemma3"), tmp_path / "a")
    write_modules(folder, width=64)
    edit_config(folder, lambda config: config.update(architectures=["Gemma3TextModel"]))
    other = Path(shutil.copytree(folder, tmp_path / "b"))
    edit_config(other, lambda config: config.update(use_bidirectional_attention=True))
    for right in (other, convert(other, tmp_path / "b.smol", "bf16")):
        cells = diff(folder, right).cells("settings")
        assert cells["sees the whole text"] == ("no", "yes")


def encoder(folder, **settings):
    """A BERT. Returns its weights."""
    make_encoder(folder, WORDS, seed=1, **settings)
    return load_file(folder / "model.safetensors")


WORDS = ["some words of a text", "others"] * 9
SOURCES = {
    "bert": encoder,
    "a bert that scores": lambda folder: make_bert(folder, WORDS, 2),
    "a modernbert that scores": lambda folder: make_modern(folder, 2),
    "a llama of embeddings": lambda folder: embedding_model(folder, dense=[(32, "tanh", True)]),
    "without names' prefix": lambda folder: (test_embedder.make(folder, WORDS), write_modules(folder)),
}
for kind in test_roberta.KINDS:
    for head in "Model", "ForMaskedLM", "ForSequenceClassification":
        SOURCES[f"{kind}, {head}"] = lambda folder, kind=kind, head=head: test_roberta.make(folder, kind, 1, head, **test_roberta.small_of(kind))
for kind in test_encoder_families.KINDS:
    for seed in range(3):
        SOURCES[f"{kind} {seed}"] = lambda folder, kind=kind, seed=seed: test_encoder_families.make(folder, kind, seed)
for kind in NESTS:
    SOURCES[f"nested {kind}"] = lambda folder, kind=kind: (folder.mkdir(), make_nested(featured(NESTS[kind].family), kind, folder))
for kind in CONFIGS:
    SOURCES[kind] = lambda folder, kind=kind: make_of(featured(kind), folder)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_file_is_the_same_as_what_is_made_of_it(kind, tmp_path):
    """Whatever the blob renames, splits, moves, leaves out and adds to."""
    folder = tmp_path / "a"
    SOURCES[kind](folder)
    file, blob = folder / "model.safetensors", convert(folder, tmp_path / "a.smol", "f32")
    for a, b in [(file, blob), (blob, file), (file, folder)]:
        result = smolconv("diff", a, b)
        assert "\n\nthe same (tensors only:" in result.stdout, result.stdout
    assert diff(folder, blob).status == 0
    weights = load_file(file)
    norms = [x for x in weights if re.search(r"(layers?|h)\.0\..*(norm|ln_)", x.lower()) and not re.search("mtp|vis|projector", x)]
    name = max(norms, default="model.layers.0.mlp.up_proj.weight")  # OLMo 1 has no weights of norms
    weights[name].view(-1)[-1] += 1
    save_file(weights, file)
    n = len(read_blob(blob).tensors)
    for a, b in [(file, blob), (folder, blob)]:
        found = diff(a, b)
        assert len(found.tensors) == 1 and f"tensors 1 of {n}" in found.summary


def test_tensors_of_either_side_are_counted_once(tmp_path):
    save_file({"a": torch.zeros(1), "b": torch.zeros(1)}, tmp_path / "a")
    save_file({"b": torch.ones(1), "c": torch.zeros(1), "d": torch.zeros(1)}, tmp_path / "b")
    assert "tensors 4 of 4 " in diff(tmp_path / "a", tmp_path / "b").summary


def test_types_of_tokens_are_added_to_positions(tmp_path):
    """Their first row, as in a blob; transformers adds it to every token."""
    a, b, third = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    weights, types = encoder(a), "embeddings.token_type_embeddings.weight"
    for folder, row in (b, 0), (third, 1):
        shutil.copytree(a, folder)
        changed = weights[types].clone()
        changed[row] += 1
        save_file(weights | {types: changed}, folder / "model.safetensors")
    blobs = [convert(folder, tmp_path / f"{folder.name}.smol", "f32") for folder in (a, b)]
    values = [load_file(x / "model.safetensors")[types][0] for x in (a, b)]
    sums = [wide(weights["embeddings.position_embeddings.weight"] + row) for row in values]
    for left, right in [(a, b), (blobs[0], b), (a, blobs[1]), blobs]:
        found = diff(left, right)
        assert set(found.tensors) == {"positions"}
        check_values(found.tensors["positions"], *sums)
    for left, right in [(blobs[0], a), (b, blobs[1]), (a, third), (blobs[0], third)]:
        assert diff(left, right).status == 0

"""Embedding models whose layers have states, experts or latent vectors, against transformers' hidden states that are pooled
here; and the same bits however a text is split and whatever stands beside it."""

import json
import os
import random
import tempfile
from pathlib import Path

import numpy as np
import programs
import pytest
import torch
from blobs import read_blob
from checkpoints import randomize
from engine import Model, convert, kernel_sets
from families import CONFIGS, cases, configs
from features import featured
from hypothesis import given
from hypothesis import strategies as st
from package import smolrun
from safetensors.torch import save_file
from sequences import random_ids
from serving import serving
from test_embedder import cosine, embed, embedding_of, tokenizer_of, write_modules
from test_encoder import lines
from transformers import AutoModel

N_CASES = int(os.environ.get("SMOL_FAMILY_CASES", 8 if os.environ.get("SMOL_TEST_ALL") else 1))
FAMILIES = [
    "lfm2", "lfm2moe", "granitemoehybrid", "falconh1", "qwen3_5", "qwen3_5moe", "qwen3next", "olmoe", "qwen3moe", "granitemoe", "granitemoeshared",
    "minicpm3",
]  # fmt: skip
EXPERTS = {"lfm2moe", "granitemoehybrid", "qwen3_5moe", "qwen3next", "olmoe", "qwen3moe", "granitemoe", "granitemoeshared"}


def make(folder, config, seed=0, head=False):
    """A checkpoint of the body, or as one with a head has it; the body and the tokenizer."""
    folder.mkdir()
    tokenizer = tokenizer_of(lines(60, seed=1), folder)
    config.vocab_size, config.eos_token_id, config.bos_token_id, config.pad_token_id = tokenizer.get_vocab_size(), 0, None, None
    model = AutoModel.from_config(config).eval()
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    if head:
        change = json.loads((folder / "config.json").read_text())
        name = type(model).__name__.replace("TextModel", "Model").removesuffix("Model")
        (folder / "config.json").write_text(json.dumps(change | {"architectures": [f"{name}ForCausalLM"]}))
        tensors = {f"model.{name}": value.contiguous() for name, value in model.state_dict().items()}
        tensors["lm_head.weight"] = torch.randn(config.vocab_size, config.hidden_size)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.enable_truncation(config.max_position_embeddings)
    return model, tokenizer


def compare(config, pooling, seed, folder):
    """The least cosines of some texts in f32 and int8. With experts int8 may choose others."""
    model, tokenizer = make(folder / "c", config, seed, head=seed % 2)
    normalizes = seed % 3 > 0
    layers = write_modules(folder / "c", pooling, [(33, "tanh", True)] * (seed % 5 == 0), normalizes, width=config.hidden_size, seed=seed)
    texts = [*lines(3, seed), " ".join(lines(60, seed))[:1500]]
    expected = [embedding_of(model, tokenizer.encode(text).ids, pooling, layers, normalizes) for text in texts]
    blob = convert(folder / "c", folder / "f32.smol", "f32")
    rows = embed(blob, texts)
    assert np.abs(rows - expected).max() <= 1e-4 * np.abs(expected).max()
    assert "output" not in {t.name for t in read_blob(blob).tensors.values() if t.offset != read_blob(blob).tensors["embed"].offset}
    int8 = embed(convert(folder / "c", folder / "int8.smol", "int8"), texts)
    return min(map(cosine, rows, expected)), min(map(cosine, int8, expected))


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_drawn_checkpoints_embed_as_transformers_does(family):
    found = []

    @cases(N_CASES)
    @given(configs(family), st.sampled_from(["lasttoken", "mean_tokens"]), st.integers(0, 99))
    def compare_drawn(config, pooling, seed):
        with tempfile.TemporaryDirectory() as folder:
            found.append(compare(config, pooling, seed, Path(folder)))

    compare_drawn()
    exact, int8 = map(min, zip(*found, strict=True))
    print(f"{family}: {len(found)} checkpoints, at least {exact:.8f} in f32 and {int8:.6f} in int8")
    assert exact >= 0.999999 and int8 >= (0.9 if family in EXPERTS else 0.9995)


@pytest.fixture(scope="module", params=["lfm2moe", "falconh1", "qwen3_5", "qwen3moe", "minicpm3"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks") / "c"
    make(folder, featured(request.param), seed=3)
    write_modules(folder, "mean_tokens", width=featured(request.param).hidden_size)
    return folder


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["f32", "int8", "int4"])
def test_the_bits_depend_on_neither_threads_nor_kernels_nor_what_stands_beside(made, dtype, tmp_path, monkeypatch):
    texts = [*lines(9, seed=5), " ".join(lines(60, seed=6))[:1500]]
    blob = convert(made, tmp_path / "a.smol", dtype)
    expected = embed(blob, texts)
    for isa in [name for name, _, runs in kernel_sets() if runs]:
        monkeypatch.setenv("SMOL_ISA", isa)
        assert embed(blob, texts, "--threads", "3").tobytes() == expected.tobytes(), isa
    for i in (0, 7, 9):
        assert embed(blob, [texts[i]]).tobytes() == expected[i].tobytes()
    python = smolrun.Model(blob)
    assert python.embed(texts).tobytes() == expected.tobytes()
    with serving(blob) as server:
        found = server.client.embeddings.create(model=server.model, input=texts)
        assert np.array([row.embedding for row in found.data], np.float32).tobytes() == expected.tobytes()


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["f32", "int8"])
def test_the_bits_depend_on_no_split_and_on_nothing_cut_off(made, dtype, tmp_path):
    """What is cut off a text is read again, though the model computes no logits."""
    r = random.Random(1)
    ids = random_ids(np.random.default_rng(2), 500)
    with Model(convert(made, tmp_path / "a.smol", dtype)) as model:
        with model.context() as context:
            expected = context.embed(ids)
        for _ in range(3):
            with model.context() as context:
                at = 0
                while at < len(ids):
                    n = r.choice([1, 3, 100, 300])
                    assert context.embed(ids[at : at + n]).tobytes() == expected[at : at + n].tobytes()
                    at += n
                for length in (420, 299, 3):
                    context.truncate(length)
                    assert context.embed(ids[length:]).tobytes() == expected[length:].tobytes()


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["bf16", "int6", "int5"])
def test_other_dtypes_are_near(made, dtype, tmp_path):
    """Of random weights, which are harder to quantize than trained ones, and choose other experts."""
    texts = lines(12, seed=8)
    expected = embed(convert(made, tmp_path / "a.smol", "f32"), texts)
    assert min(map(cosine, embed(convert(made, tmp_path / "b.smol", dtype), texts), expected)) >= 0.9


def test_a_model_of_embeddings_with_states_generates_nothing(made, tmp_path):
    blob = convert(made, tmp_path / "a.smol", "int8")
    result = programs.smolrun(blob, "hello")
    assert result.returncode == 5 and b"an embedding model" in result.stderr and not result.stdout


def test_every_family_with_states_or_experts_is_here():
    odd = ("moe", "lfm2", "falcon", "qwen3_5", "next", "minicpm3")
    assert set(FAMILIES) == {family for family in CONFIGS if any(part in family for part in odd)}

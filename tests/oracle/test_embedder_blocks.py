"""Embedding models whose layers have states, experts or latent vectors, against transformers' hidden states that are pooled
here; and the same bits however a text is split and whatever stands beside it."""

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import programs
import pytest
import torch
from blobs import read_blob
from checkpoints import randomize, with_plain_experts
from engine import Model, Prefixes, convert, eval_many, kernel_sets
from families import CONFIGS, cases, configs
from features import featured
from hypothesis import given
from hypothesis import strategies as st
from internal import ROOT
from package import smolrun
from safetensors.torch import save_file
from sequences import random_ids
from serving import serving
from test_embedder import cosine, embed, embedding_of, tokenizer_of, write_modules
from test_encoder import lines
from transformers import AutoModel

N_CASES = int(os.environ.get("SMOL_FAMILY_CASES", 8 if os.environ.get("SMOL_TEST_ALL") else 1))
FAMILIES = [
    "lfm2", "lfm2moe", "lfm3", "granitemoehybrid", "falconh1", "qwen3_5", "qwen3_5moe", "qwen3next", "olmoe", "qwen3moe", "granitemoe", "granitemoeshared",
    "granitemoeswa", "minicpm3", "gemma4moe",
]  # fmt: skip


def make(folder, config, seed=0, head=False):
    """A checkpoint of the body, or as one with a head has it; the body and the tokenizer."""
    folder.mkdir()
    tokenizer = tokenizer_of(lines(60, seed=1), folder)
    config.vocab_size, config.eos_token_id, config.bos_token_id, config.pad_token_id = tokenizer.get_vocab_size(), 0, None, None
    model = with_plain_experts(AutoModel.from_config(config).eval())
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    if head:
        change = json.loads((folder / "config.json").read_text())
        name = type(model).__name__.replace("TextModel", "Model").removesuffix("Model")
        (folder / "config.json").write_text(json.dumps(change | {"architectures": [f"{name}ForCausalLM"]}))
        tensors = {f"model.{name}": value.contiguous() for name, value in model.state_dict().items()}
        tensors["lm_head.weight"] = torch.randn(config.vocab_size, config.hidden_size)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    rope = config.rope_parameters
    tokenizer.enable_truncation(rope["original_max_position_embeddings"] if rope.get("rope_type") == "longrope" else config.max_position_embeddings)
    return model, tokenizer


def compare(config, pooling, seed, folder):
    """The least cosines of some texts in f32 and int8. Of a few experts int8 may choose others, so here and there all are used, and
    int8 counts only there."""
    n_experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)
    if n_experts and seed % 2 == 0:
        config.num_experts_per_tok = n_experts
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
    return min(map(cosine, rows, expected)), 1 if n_experts and seed % 2 else min(map(cosine, int8, expected))


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
    print(f"{family}: {len(found)} checkpoints, at least 1 - {1 - exact:.1e} in f32 and {int8:.6f} in int8")
    assert exact >= 0.999999 and int8 >= 0.98


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
    """The tokens after a cut are evaluated again, though the model computes no logits."""
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
    """The bound is loose: random weights are harder to quantize than trained ones, and choose other experts."""
    texts = lines(12, seed=8)
    expected = embed(convert(made, tmp_path / "a.smol", "f32"), texts)
    assert min(map(cosine, embed(convert(made, tmp_path / "b.smol", dtype), texts), expected)) >= 0.9


def test_a_model_of_embeddings_with_states_generates_nothing(made, tmp_path):
    blob = convert(made, tmp_path / "a.smol", "int8")
    result = programs.smolrun(blob, "hello")
    assert result.returncode == 5 and b"an embedding model" in result.stderr and not result.stdout


# --- memory of states -------------------------------------------------------------------------------

LIMIT = 256 << 20  # bytes of the states that one call holds


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A small model with states of 11 MB, of which a text has two copies."""
    folder = tmp_path_factory.mktemp("large") / "c"
    config = featured("granitemoehybrid")
    config.mamba_n_heads, config.mamba_d_head, config.mamba_d_state, config.mamba_n_groups = 96, 32, 912, 1
    config.mamba_expand = 96 * 32 // config.hidden_size
    make(folder, config, seed=3)
    write_modules(folder, "mean_tokens", width=config.hidden_size)
    return convert(folder, folder / "int8.smol")


def peak_of(blob, texts):
    """The embeddings, and the peak of the memory that takes them, in bytes."""
    code = "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); "
    code += "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(done.returncode)"
    words = [sys.executable, "-c", code, ROOT / "build/smolrun", "embed", blob, "-", "--npy", "--threads", "1"]
    done = subprocess.run([str(word) for word in words], input="\n".join(texts).encode(), capture_output=True)
    assert done.returncode == 0, done.stderr
    return np.frombuffer(done.stdout[128:], np.float32).reshape(len(texts), -1), int(done.stderr) * 1024


def test_many_texts_hold_few_states(large):
    """Each text adds its states up to the most that one call may hold; further texts add none."""
    texts = [f"text {i}" for i in range(40)]
    with Model(large) as model, model.context() as context:
        context.embed([5, 6], "mean")
        full = context.info().state_bytes
        context.truncate(0)
        states = full - context.info().state_bytes
    assert 20e6 < states < LIMIT / 8  # so that 32 texts would hold twice the limit
    (first, one), (_, four), (found, all_), (last, _) = (peak_of(large, part) for part in (texts[:1], texts[:4], texts, texts[-1:]))
    assert states < four - one < 4 * states  # of the copy at the beginning, zeros, the system may share the pages
    assert all_ - one < LIMIT
    assert found[0].tobytes() == first[0].tobytes() and found[-1].tobytes() == last[0].tobytes()


@pytest.mark.parametrize("cached", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["", "with a cache of prefixes"])
def test_sequences_whose_states_were_given_up_continue_with_the_same_bits(large, cached):
    rng = np.random.default_rng(3)
    texts = [random_ids(rng, n) for n in (2, 300 if cached else 70, 1, *[3] * 11)]
    with Model(large) as model, contextlib.ExitStack() as ends:
        prefixes = ends.enter_context(Prefixes(model, 1000)) if cached else None
        first = ends.enter_context(model.context(prefixes=prefixes))
        contexts = [first, *(ends.enter_context(model.context(share=first, prefixes=prefixes)) for _ in texts[1:])]
        base = first.info().state_bytes
        for _ in range(2):
            rows = eval_many([(context, ids, 0) for context, ids in zip(contexts, texts, strict=True)], "mean")
            held = [context.info().state_bytes - base > 20e6 for context in contexts]
            assert not any(held[:3]) and all(held[-9:])
            for i in range(len(texts)):
                with model.context() as alone:
                    assert alone.embed(texts[i], "mean").tobytes() == rows[i].tobytes()
                    more = random_ids(rng, 3)
                    assert alone.embed(more).tobytes() == contexts[i].embed(more).tobytes()
                contexts[i].truncate(0)
                assert contexts[i].info().state_bytes - base < 1e6


def test_every_family_with_states_or_experts_is_here():
    odd = ("moe", "lfm", "falcon", "qwen3_5", "next", "minicpm3")
    assert set(FAMILIES) == {family for family in CONFIGS if any(part in family for part in odd)}

"""One answer everywhere: the same logits to the bit for any number of threads, any way of splitting
the sequence, every instruction set and every floating-point state of the caller; and the same blob
for any number of threads."""

import ctypes
import ctypes.util
import hashlib
import os
import platform
import shutil
import subprocess

import numpy as np
import pytest
import torch
from checkpoints import make
from engine import Model, blob_of, convert, isa_params, kernel, kernel_sets
from internal import ROOT
from texts import prose
from tokenizers import Tokenizer

THREADS = [1, 2, 3, 7]
DTYPES = ["f32", "bf16", "int8"]
MIXES = ["int6", "int5", "int4"]
KVS = ["f32", "f16", "int8", "int4"]
DEMO = ROOT / "demo/model"
LONG = [int(i) for i in (ROOT / "tests/data/demo-tokens.txt").read_text().split()]
TOKENS = LONG[:150]
TOKENS_OF_FAINT = [i % 101 for i in TOKENS[:70]]
DIGESTS = ROOT / "tests/data/demo-logits.sha256"


def same_bits(a, b):
    return a.dtype == b.dtype == np.float32 and a.tobytes() == b.tobytes()


def eval_in_parts(context, ids, sizes):
    """Evaluates `ids` in parts of the given sizes, the rest at once."""
    parts, done = [], 0
    for size in [*sizes, len(ids)]:
        if part := ids[done : done + size]:
            parts.append(context.eval(part))
        done += size
    return np.concatenate(parts)


def random_sizes(seed, n):
    rng = np.random.default_rng(seed)
    return rng.integers(1, rng.choice([4, 20, 70, n]), n).tolist()


def random_threads(*seed):
    return int(np.random.default_rng(seed).integers(1, 9))


# --- the bundled model ------------------------------------------------------------------------


CASES = [(dtype, kv) for dtype in DTYPES for kv in KVS] + [(dtype, "f16") for dtype in MIXES]


@pytest.fixture(scope="module", params=CASES, ids="/".join)
def case(request):
    """(model, kv, the logits of TOKENS in one call on one thread)"""
    dtype, kv = request.param
    with Model(blob_of(DEMO, dtype)) as model:
        yield model, kv, model.logits(TOKENS, kv=kv)


def test_kv_types_and_dtypes_differ():
    """Otherwise the comparisons below would compare less than they say."""
    seen = set()
    for dtype in ("f32", "int8"):
        with Model(blob_of(DEMO, dtype)) as model:
            seen |= {model.logits(TOKENS, kv=kv).tobytes() for kv in KVS}
    assert len(seen) == 2 * len(KVS)


def test_bf16_blob_of_a_bf16_checkpoint_gives_the_logits_of_its_f32_blob():
    with Model(blob_of(DEMO, "f32")) as f32, Model(blob_of(DEMO, "bf16")) as bf16:
        assert bf16.info.dtype == b"bf16" and bf16.info.blob_bytes < f32.info.blob_bytes
        assert same_bits(f32.logits(TOKENS, kv="f32"), bf16.logits(TOKENS, kv="f32"))


def test_tokens_cross_two_kv_blocks_and_all_of_them_a_span(case):
    """Blocks of 64 positions, spans of 256."""
    model, _, _ = case
    assert 128 < len(TOKENS) and 256 < len(LONG) <= model.info.context_length
    assert max(LONG) < model.vocab_size


@pytest.mark.sample(10)
@pytest.mark.parametrize("threads", THREADS)
def test_logits_are_the_same_for_any_number_of_threads(threads, case):
    model, kv, expected = case
    for _ in range(2):  # a race would not show every time
        with model.context(threads, kv) as context:
            assert context.info().n_threads == threads
            assert same_bits(context.eval(TOKENS), expected)


@pytest.mark.sample(8)
def test_logits_are_the_same_token_by_token(case):
    model, kv, expected = case
    with model.context(2, kv) as context:
        assert same_bits(eval_in_parts(context, TOKENS, [1] * len(TOKENS)), expected)


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(6))
def test_logits_are_the_same_for_random_splits(seed, case):
    model, kv, expected = case
    with model.context(THREADS[seed % 4], kv) as context:
        parts = eval_in_parts(context, TOKENS, random_sizes(seed, len(TOKENS)))
    assert same_bits(parts, expected)


@pytest.mark.sample(8)
def test_logits_are_the_same_however_many_are_asked_for(case):
    model, kv, expected = case
    for n_logits in (0, 1, 2, 33, 64, 65, len(TOKENS) - 1):
        ours = model.logits(TOKENS, n_logits, threads=2, kv=kv)
        assert same_bits(ours, expected[len(TOKENS) - n_logits :])


@pytest.mark.sample(12)
@pytest.mark.parametrize("isa", isa_params(kernel_sets()))
def test_logits_are_the_same_for_every_instruction_set(isa, case, monkeypatch):
    model, kv, expected = case
    monkeypatch.setenv("SMOL_ISA", isa)
    with model.context(2, kv) as context:
        assert context.info().isa.decode() == isa
        assert same_bits(eval_in_parts(context, TOKENS, [70, 1, 1, 3]), expected)


@pytest.mark.sample(4)
@pytest.mark.parametrize("isa", isa_params(kernel_sets()))
def test_long_prompt_is_the_same_for_every_set_with_random_threads_and_splits(
    isa, case, monkeypatch
):
    model, kv, _ = case
    expected = model.logits(LONG, kv=kv)
    seed = [*isa.encode(), *model.info.dtype, KVS.index(kv)]
    monkeypatch.setenv("SMOL_ISA", isa)
    with model.context(random_threads(*seed), kv) as context:
        assert same_bits(eval_in_parts(context, LONG, random_sizes(seed, len(LONG))), expected)


@pytest.mark.sample(10)
@pytest.mark.parametrize("keep", [0, 1, 63, 64, 65, 100, 128, 149])
def test_truncated_context_forgets_the_rest(keep, case):
    """Positions after the newest one, here with other tokens' keys and values, have no effect."""
    model, kv, expected = case
    with model.context(3, kv) as context:
        context.eval(TOKENS[:keep] + TOKENS[::-1])
        context.truncate(keep)
        assert len(context) == keep
        assert same_bits(context.eval(TOKENS[keep:]), expected[keep:])
        context.truncate(keep)
        assert same_bits(eval_in_parts(context, TOKENS[keep:], [1, 2]), expected[keep:])


def test_contexts_of_one_model_do_not_disturb_each_other(case):
    model, kv, expected = case
    with model.context(2, kv) as one, model.context(3, kv) as other:
        parts = []
        for start in range(0, len(TOKENS), 37):
            parts.append(one.eval(TOKENS[start : start + 37]))
            other.eval(TOKENS[::-1][start : start + 37])
        assert same_bits(np.concatenate(parts), expected)


@pytest.fixture(scope="module")
def unrounded(tmp_path_factory):
    """The bundled model with weights that bf16 rounds; scripts/check-digest uses it too."""
    folder = tmp_path_factory.mktemp("unrounded") / "model"
    subprocess.run([ROOT / "scripts/unrounded-model", folder], check=True)
    return folder


@pytest.mark.parametrize("kv", KVS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_logits_have_the_committed_digest(dtype, kv, unrounded):
    """After a change of demo/model: scripts/update-digests."""
    assert DIGESTS.is_file(), f"{DIGESTS} is missing: run scripts/update-digests"
    digests = dict(reversed(line.split()) for line in DIGESTS.read_text().splitlines())
    with Model(blob_of(unrounded if dtype == "bf16" else DEMO, dtype)) as model:
        logits = model.logits(LONG, threads=2, kv=kv)
    name = f"demo-{dtype}-kv-{kv}.logits"
    assert hashlib.sha256(logits.tobytes()).hexdigest() == digests[name]


# --- a real model -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_ids(real_model_dir):
    return Tokenizer.from_file(str(real_model_dir / "tokenizer.json")).encode(prose()[:8000]).ids


REAL = [pytest.param(pair, marks=pytest.mark.slow) if "f32" in pair[0] else pair for pair in zip([*DTYPES, "int8"], KVS, strict=True)]


@pytest.fixture(scope="module", params=REAL, ids="/".join)
def real_case(request, real_model_dir, real_ids):
    """(model, kv, tokens, their logits in one call on one thread); each type of weights and of the cache once, as
    the bundled model has every pair. All the tests take tokens across two spans, which the bundled model has too."""
    dtype, kv = request.param
    ids = real_ids[: 530 if os.environ.get("SMOL_TEST_ALL") else 150]
    with Model(blob_of(real_model_dir, dtype)) as model:
        yield model, kv, ids, model.logits(ids, kv=kv)


WIDE = isa_params(kernel_sets()[1:])  # scalar ones take minutes on a real model


@pytest.mark.sample(1)
@pytest.mark.parametrize("isa", WIDE)
def test_real_model_gives_the_same_logits_for_random_threads_and_splits(
    isa, real_case, monkeypatch
):
    model, kv, ids, expected = real_case
    seed = [*isa.encode(), *model.info.dtype, KVS.index(kv)]
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(1, len(ids)), rng.integers(4, 24), replace=False))
    monkeypatch.setenv("SMOL_ISA", isa)
    with model.context(random_threads(*seed), kv) as context:
        for part in np.split(np.array(ids), cuts):
            logits = context.eval(part, min(3, len(part)))
            assert same_bits(logits, expected[len(context) - len(logits) : len(context)])


def logits_at_depths(model, kv, ids, threads):
    """The logits of four tokens at each of some depths, decoded; those of prefill are the same."""
    rows = []
    with model.context(threads, kv) as context:
        for depth in (300, 700, 1100):
            context.eval(ids[len(context) : depth - 140], 0)
            prefilled = context.eval(ids[depth - 140 : depth], 4)
            context.truncate(depth - 4)
            rows += [context.eval(ids[i : i + 1]) for i in range(depth - 4, depth)]
            assert same_bits(np.concatenate(rows[-4:]), prefilled)
    return np.concatenate(rows)


@pytest.mark.slow
@pytest.mark.parametrize("kv", KVS)
def test_real_model_decodes_at_depth_what_it_prefills(kv, real_model_dir, real_ids, monkeypatch):
    found = []
    with Model(blob_of(real_model_dir, "int8")) as model:
        for isa, _, runs in kernel_sets()[1:]:
            if not runs:
                print(f"this machine cannot run the {isa} kernels: not compared")
                continue
            monkeypatch.setenv("SMOL_ISA", isa)
            threads = random_threads(*isa.encode(), KVS.index(kv))
            found.append(logits_at_depths(model, kv, real_ids, threads))
    assert all(same_bits(other, found[0]) for other in found)


@pytest.mark.slow
def test_real_model_in_f32_decodes_at_depth_what_it_prefills(real_model_dir, real_ids):
    with Model(blob_of(real_model_dir, "f32")) as model:
        logits_at_depths(model, "f32", real_ids, threads=3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_real_model_gives_the_same_logits_for_every_instruction_set(
    dtype, real_model_dir, real_ids, monkeypatch
):
    ids = real_ids[:12]  # the scalar kernels are slow
    logits = {}
    with Model(blob_of(real_model_dir, dtype)) as model:
        for name, _, runs in kernel_sets():
            if not runs:
                print(f"this machine cannot run the {name} kernels: not compared")
                continue
            monkeypatch.setenv("SMOL_ISA", name)
            logits[name] = model.logits(ids, threads=2)
    assert all(same_bits(other, logits["scalar"]) for other in logits.values())


# --- the caller's floating-point state --------------------------------------------------------

libm = ctypes.CDLL(ctypes.util.find_library("m"))
FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO = {
    "x86_64": (0x400, 0x800, 0xC00),
    "aarch64": (0x800000, 0x400000, 0xC00000),
}[platform.machine()]
SMALLEST = np.float32(1e-45)  # subnormal
ONE = np.float32(1)


def set_flush(on):
    assert torch.set_flush_denormal(on), "this processor cannot flush subnormals to zero"


def set_rounding(mode):
    assert libm.fesetround(mode) == 0


# name: (sets the state, what arithmetic in it shows, puts the usual state back)
STATES = {
    "flush to zero": (
        lambda: set_flush(True),
        lambda: SMALLEST * ONE == 0,
        lambda: set_flush(False),
    ),
    "upward": (
        lambda: set_rounding(FE_UPWARD),
        lambda: ONE + SMALLEST > ONE,
        lambda: set_rounding(0),
    ),
    "downward": (
        lambda: set_rounding(FE_DOWNWARD),
        lambda: -ONE - SMALLEST < -ONE,
        lambda: set_rounding(0),
    ),
    "toward zero": (
        lambda: set_rounding(FE_TOWARDZERO),
        lambda: ONE - SMALLEST < ONE and not ONE + SMALLEST > ONE,
        lambda: set_rounding(0),
    ),
}


@pytest.fixture(scope="module")
def faint(tmp_path_factory):
    """An f32 blob of a model whose embedding is subnormal, so that flushing it shows."""

    def scale(weights):
        weights["model.embed_tokens.weight"] *= 1e-40
        for name in weights:
            if "o_proj" in name or "down_proj" in name:
                weights[name] *= 0
        weights["lm_head.weight"] *= 1e4

    folder = tmp_path_factory.mktemp("faint")
    make(folder, edit=scale, dtype="F32", tie_word_embeddings=False)
    with Model(convert(folder, folder / "faint.smol", "f32")) as model:
        assert model.logits([1, 2, 3]).any()
        yield model


def logits_in_state(state, model, ids, threads, kv):
    """The logits of a context that is made and used in the state, and whether it holds after."""
    enter, holds, leave = STATES[state]
    assert not holds()
    enter()
    try:
        held_before = holds()
        with model.context(threads, kv) as context:
            logits = context.eval(ids)
            held_between = holds()
            logits = np.concatenate([logits, context.eval(ids[:3])])
        held_after = holds()
    finally:
        leave()
    assert held_before and not holds()
    return logits, held_between and held_after


@pytest.mark.sample(8)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("state", STATES)
def test_callers_rounding_and_flushing_change_nothing_and_stay(state, threads, case, faint):
    model, kv, expected = case
    logits, kept = logits_in_state(state, model, TOKENS, threads, kv)
    assert kept
    assert same_bits(logits[: len(TOKENS)], expected)

    usual = faint.logits(TOKENS_OF_FAINT + TOKENS_OF_FAINT[:3], kv="f32")
    logits, kept = logits_in_state(state, faint, TOKENS_OF_FAINT, threads, "f32")
    assert kept
    assert same_bits(logits, usual)


@pytest.mark.parametrize("state", STATES)
def test_states_would_change_results_that_are_not_protected(state):
    """The kernels themselves do not set the state: what the test above guards against is real."""
    name, address, _ = kernel_sets()[0]
    assert name == "scalar"
    x = np.concatenate([np.full(40, 1e-39), np.random.default_rng(3).normal(size=60) * 1e-19])
    x, weight, out = x.astype(np.float32), np.ones(100, np.float32), {}
    pointer = ctypes.c_void_p
    kinds = [pointer, pointer, ctypes.c_size_t, ctypes.c_float, pointer]
    rms_norm = kernel(address, "rms_norm", None, *kinds)
    enter, _, leave = STATES[state]
    for protected in (True, False):
        out[protected] = np.empty(100, np.float32)
        if not protected:
            enter()
        rms_norm(x.ctypes.data, weight.ctypes.data, 100, 1e-5, out[protected].ctypes.data)
        if not protected:
            leave()
    assert not same_bits(out[True], out[False])


# --- blobs ------------------------------------------------------------------------------------


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.fixture(scope="module")
def odd_checkpoint(tmp_path_factory):
    """Rows and columns that fill no tile, biases, a head of its own."""
    return make(
        tmp_path_factory.mktemp("odd"),
        vocab_size=203,
        hidden_size=44,
        intermediate_size=71,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=False,
        head_dim=10,
    )


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", DTYPES + MIXES)
@pytest.mark.parametrize("source", ["demo", "odd"])
def test_blob_is_the_same_for_any_number_of_threads(source, dtype, odd_checkpoint, tmp_path):
    folder = DEMO if source == "demo" else odd_checkpoint
    digests = set()
    for i, threads in enumerate(THREADS + [1, 7]):
        digests.add(sha256(convert(folder, tmp_path / f"{i}.smol", dtype, threads)))
    assert len(digests) == 1


def test_blob_does_not_depend_on_where_its_source_lies(tmp_path):
    elsewhere = shutil.copytree(DEMO, tmp_path / "an other name")
    ours = convert(elsewhere, tmp_path / "a.smol", "int8")
    same = convert(elsewhere / "model.safetensors", tmp_path / "b.smol", "int8")
    assert sha256(ours) == sha256(same) == sha256(blob_of(DEMO, "int8"))


@pytest.mark.slow
@pytest.mark.sample(1)
def test_blob_of_a_real_model_is_the_same_for_any_number_of_threads(real_model_dir, tmp_path):
    digests = {sha256(blob_of(real_model_dir, "int8"))}
    for threads in (1, 3):
        blob = convert(real_model_dir, tmp_path / "real.smol", "int8", threads, force=True)
        digests.add(sha256(blob))
    assert len(digests) == 1

"""Dtypes by `smolconv --size`, `--bits` and `--max-kl`: the sensitivities that they rest on against transformers, the expected
divergence against numpy, and that the goals hold."""

import os
import re
import resource
import struct

import numpy as np
import pytest
import torch
from blobs import read_blob, xxh3
from checkpoints import load_reference, make, make_of
from engine import Model, kernel_sets
from families import CONFIGS
from features import featured
from folding import Folding
from internal import DAMAGED, ROOT, USAGE
from programs import assert_fails, smolconv, smolrun
from stats_reader import HEADER, Stats
from transformers import MiniCPM3Config, OlmoeConfig

DEMO = ROOT / "demo/model"
GROUP = 32
RECORDS = {"attn_q": 0, "attn_k": 0, "attn_v": 0, "attn_o": 1, "mlp_gate": 2, "mlp_up": 2, "mlp_down": 3}
MATRICES = list(RECORDS)
NAMES = "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj mlp.gate_proj mlp.up_proj mlp.down_proj"


def text_file(folder, size):
    path = folder / "text"
    path.write_text("Anna the baker met Otto in Willowby. Mila and her cat Pepper slept. 1, 2, 3! " * (size // 76 + 1))
    return path


def calibrated(checkpoint, folder, *options, size=3000):
    """The statistics' path; the f32 blob is beside it."""
    assert smolconv("--quiet", "--force", "--dtype", "f32", checkpoint, folder / "f32.smol").returncode == 0
    words = ["calibrate", folder / "f32.smol", text_file(folder, size), "-o", folder / "stats", *options]
    result = smolrun(*words)
    assert result.returncode == 0, result.stderr
    return folder / "stats"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return calibrated(DEMO, tmp_path_factory.mktemp("sizes"))


def coarse(weights):
    """Rounded in groups of 32 inputs to 15 steps, and to bf16."""
    rounded = np.array(weights, np.float32)
    for start in range(0, rounded.shape[-1], GROUP):
        group = rounded[..., start : start + GROUP]
        step = np.abs(group).max(axis=-1, keepdims=True) / np.float32(7)
        group[:] = np.where(step > 0, step * np.rint(group / np.where(step > 0, step, 1)), group)
    return torch.tensor(rounded).bfloat16().float().numpy()


# --- sensitivities --------------------------------------------------------------------------------


# whose statistics have minor version 1
TWELVE = ("olmoe", "qwen3_moe", "granitemoe", "granitemoeshared", "granitemoe_swa", "granitemoehybrid", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next",
          "lfm2_moe", "nemotron_h")  # fmt: skip
FURTHER = ("lfm3", "gemma4", "gemma4moe", "gemma4unified")  # whose layers have matrices that `matrices` does not list


def twelve(parameters, place, q, key_heads):
    """The places of a layer of minor version 1, the experts' matrices as one each."""
    there = {name[len(place) :].removesuffix(".weight"): p.data for name, p in parameters.items() if name.startswith(place)}
    there = {name.replace("feed_forward", "mlp").replace("block_sparse_moe", "mlp"): p for name, p in there.items()}
    views = [None] * 12
    if "norm" in there:  # Nemotron-H's, of one block
        kind = "mamba" if "mixer.in_proj" in there else "self_attn" if "mixer.q_proj" in there else "mlp"
        there = {name.replace("mixer", kind).replace("shared_experts.", ""): p for name, p in there.items()}
        views[5], views[6] = there.get("mlp.up_proj"), there.get("mlp.down_proj")
        views[10], views[11] = there.get("mlp.experts.up_proj"), there.get("mlp.experts.down_proj")
        if kind == "mlp":
            return views
    if "mamba.in_proj" in there:
        n_out = there["mamba.out_proj"].shape[1]
        n_heads = there["mamba.A_log"].shape[0]
        whole = there["mamba.in_proj"]
        views[1], views[0], views[2] = whole.split([n_out, len(whole) - n_out - n_heads, n_heads])
        views[3] = there["mamba.out_proj"]
    elif "linear_attn.in_proj_qkv" in there:
        views[:4] = [there[f"linear_attn.{n}"] for n in ("in_proj_qkv", "in_proj_z", "in_proj_a", "out_proj")]
        views[7] = there["linear_attn.in_proj_b"]
    elif "linear_attn.in_proj_qkvz" in there:  # head of keys by head of keys: q, k, v and z; b and a
        views[3] = there["linear_attn.out_proj"]
        whole, n_out = there["linear_attn.in_proj_qkvz"].view(key_heads, -1, views[3].shape[0]), views[3].shape[1] // key_heads
        views[0], views[1] = whole.split([whole.shape[1] - n_out, n_out], 1)
        views[7], views[2] = there["linear_attn.in_proj_ba"].view(key_heads, 2, -1, views[3].shape[0]).unbind(1)
    elif "conv.in_proj" in there:
        views[0], views[3] = there["conv.in_proj"], there["conv.out_proj"]
    else:
        views[:3] = [there[f"self_attn.{n}_proj"] for n in "qkv"]
        views[3] = there.get("self_attn.o_proj", there.get("self_attn.out_proj"))
        if len(views[0]) == 2 * q:  # queries and gates, head by head
            dim = there["self_attn.q_norm"].shape[0]
            views[0], views[7] = views[0].view(-1, 2, dim, views[0].shape[1]).unbind(1)
    if "shared_mlp.input_linear" in there:
        views[4], views[5] = there["shared_mlp.input_linear"].chunk(2)
        views[6] = there["shared_mlp.output_linear"]
    for names in (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"),
                  ("shared_expert.gate_proj", "shared_expert.up_proj", "shared_expert.down_proj")):  # fmt: skip
        if f"mlp.{names[0]}" in there:
            views[4:7] = [there[f"mlp.{n}"] for n in names]
    if "mlp.experts.down_proj" in there:
        views[9], views[10] = there["mlp.experts.gate_up_proj"].chunk(2, 1)
        views[11] = there["mlp.experts.down_proj"]
    return views


def matrices(model):
    """Views of all matrices in the order of the tensor table, rows last but one; None for a gate that there
    is not. A tied output becomes a matrix of its own."""
    parameters = dict(model.named_parameters())
    embedding, output = model.get_input_embeddings().weight, model.get_output_embeddings()
    if output.weight is embedding:
        output.weight = torch.nn.Parameter(embedding.detach().clone())
    yield embedding.data
    c = model.config
    dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    q, kv = c.num_attention_heads * dim, getattr(c, "num_key_value_heads", c.num_attention_heads) * dim

    def of(place, *names):
        for name in names:
            yield None if name is None else parameters[f"{place}{name}.weight"].data

    for layer in range(c.num_hidden_layers):
        place = f"model.layers.{layer}."
        if c.model_type in TWELVE:
            yield from twelve(parameters, place, q, getattr(c, "linear_num_key_heads", 0))
        elif c.model_type == "gpt_neox":
            place = f"gpt_neox.layers.{layer}."
            heads = parameters[place + "attention.query_key_value.weight"].data
            yield from heads.view(c.num_attention_heads, 3, dim, -1).unbind(1)
            yield from of(place, "attention.dense", None, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
        elif c.model_type == "gpt2":
            place = f"transformer.h.{layer}."
            yield from parameters[place + "attn.c_attn.weight"].data.T.chunk(3)
            names = ("attn.c_proj", None, "mlp.c_fc", "mlp.c_proj")
            yield from (None if view is None else view.T for view in of(place, *names))
        elif c.model_type == "lfm2":
            mlp = ("feed_forward.w1", "feed_forward.w3", "feed_forward.w2")
            if c.layer_types[layer] == "conv":
                yield from of(place, "conv.in_proj", None, None, "conv.out_proj", *mlp)
            else:
                yield from of(place, *NAMES.split()[:3], "self_attn.out_proj", *mlp)
        elif c.model_type == "falcon_h1":
            yield from of(place, *NAMES.split()[:4], *(f"feed_forward.{name}_proj" for name in ("gate", "up", "down")))
            sizes = [c.mamba_d_ssm, c.mamba_d_ssm + 2 * c.mamba_n_groups * c.mamba_d_state, c.mamba_n_heads]
            gate, mixed, step = parameters[place + "mamba.in_proj.weight"].data.split(sizes)
            yield from (mixed, gate, step, *of(place, "mamba.out_proj"), None)
        elif c.model_type in ("minicpm3", "youtu"):
            both = parameters[place + "self_attn.kv_b_proj.weight"].data.view(c.num_attention_heads, -1, c.kv_lora_rank)
            k_up, v_up = both.split([c.qk_nope_head_dim, c.v_head_dim], 1)
            first, last = ("q_a_proj", "q_b_proj") if c.q_lora_rank else (None, "q_proj")
            first, last = (name and f"self_attn.{name}" for name in (first, last))
            yield from (*of(place, last, "self_attn.kv_a_proj_with_mqa"), v_up, *of(place, *NAMES.split()[3:]))
            yield from (*of(place, first), k_up.transpose(1, 2), None, None, None)
        elif c.model_type == "phi":
            yield from of(place, *NAMES.split()[:3], "self_attn.dense", None, "mlp.fc1", "mlp.fc2")
        elif (fused := parameters.get(place + "self_attn.qkv_proj.weight")) is not None:
            yield from fused.data.split([q, kv, kv])
            yield parameters[place + "self_attn.o_proj.weight"].data
            yield from parameters[place + "mlp.gate_up_proj.weight"].data.chunk(2)
            yield parameters[place + "mlp.down_proj.weight"].data
        elif (fused := parameters.get(place + "mlp.gate_up_proj.weight")) is not None:
            yield from (*of(place, *NAMES.split()[:4]), *fused.data.chunk(2), *of(place, "mlp.down_proj"))
        elif place + "mlp.c_fc.weight" in parameters:
            yield from of(place, *NAMES.split()[:4], None, "mlp.c_fc", "mlp.c_proj")
        else:
            has_gate = place + "mlp.gate_proj.weight" in parameters
            yield from of(place, *(name if has_gate or name != "mlp.gate_proj" else None for name in NAMES.split()))
    yield output.weight.data


def passages(ids, n):
    """n ids from each of four evenly spaced places."""
    places = len(ids) - n + 1
    return [ids[places * (2 * i + 1) // 8 :][:n] for i in range(4)]


def divergence(model, view, ids):
    """Half the variance of the logits' change when the matrix is rounded, of the last half of the tokens."""
    if view is None:
        return 0.0

    def logits():
        with torch.inference_mode():
            return model(torch.tensor([ids]), use_cache=False).logits[0, len(ids) // 2 :].double()

    before, saved = logits(), view.clone()
    view[:] = torch.tensor(coarse(saved.numpy()))
    change = logits() - before
    view[:] = saved
    p = before.softmax(-1)
    return float((p * (change - (p * change).sum(-1, keepdim=True)) ** 2).sum(-1).mean() / 2)


@pytest.mark.sample(4)
@pytest.mark.parametrize("family, window", [*((family, 512) for family in CONFIGS if family not in FURTHER), ("llama", 24), ("qwen3", 3)])
def test_sensitivities_are_those_of_transformers(family, window, tmp_path):
    make_of(featured(family), tmp_path, 3)
    stats = Stats(calibrated(tmp_path, tmp_path, "--diagonal", "--window", window, size=600).read_bytes())
    shown = smolrun("tokenize", tmp_path / "f32.smol", "-", input=(tmp_path / "text").read_bytes()).stdout
    ids = [int(i) for i in shown.split()]
    model = load_reference(tmp_path)
    views = list(matrices(model))
    text = sum(passages(ids, max(1, min(8, len(ids) // 4, window // 4))), [])[:window]
    expected = np.array([divergence(model, view, text) for view in views])
    few = range(0, len(views), len(views) // 8 + 1)
    n = min(128, len(ids), window)
    later = [divergence(model, views[i], text) for text in passages(ids, n) for i in few]
    expected *= sum(later) / 4 / sum(expected[few])
    assert len(stats.sensitivities) == len(expected) == stats.per_layer * stats.n_layers + 2
    np.testing.assert_allclose(stats.sensitivities, expected, rtol=0.02, atol=1e-4 * max(expected))


# --- the choice -----------------------------------------------------------------------------------


def choose(stats, out, *goal, checkpoint=DEMO, options=(), env=None):
    return smolconv("--force", "--calibration", stats, *goal, *options, checkpoint, out, env=env)


def chosen(stats, out, *goal, **kwargs):
    """The blob, the expected divergence and the bits for each weight."""
    result = choose(stats, out, *goal, **kwargs)
    assert result.returncode == 0, result.stderr
    found = re.search(r"([\d.]+) bits for each weight, expected KL divergence (\S+) nats", result.stderr)
    return read_blob(out), float(found[2]), float(found[1])


def tensors(blob):
    return blob.tensors if isinstance(blob.tensors, dict) else {t.name: t for t in blob.tensors}


def expected_divergence(blob, exact, stats):
    """Computes the divergence from the errors of all rows, in float64."""
    folding, total = Folding(stats, exact.model), 0
    sensitivity = iter(stats.sensitivities.astype(float))
    errors_of = {}

    def add(name, *records):
        """A matrix that has as many equal parts, each with inputs of its own."""
        nonlocal total
        w = tensors(exact)[name].values().astype(np.float64)
        ones = np.ones_like(w)
        e = (tensors(blob)[name].values() - folding.tensor(name, w)) / folding.tensor(name, ones)
        grams = [stats.records[record].astype(np.float64) for record in records] or [np.eye(w.shape[1])]
        parts = zip(grams, *(np.split(x, len(grams)) for x in (coarse(w) - w, e)), strict=True)
        before, after = sum(np.array([np.einsum("ij,jk,ik", x, gram, x) for x in pair]) for gram, *pair in parts)
        total += next(sensitivity) * after / before

    def add_latent(layer):
        add(f"layers.{layer}.attn_q_down", 4 * layer)
        add(f"layers.{layer}.attn_k_up", *(stats.head(layer, head) for head in range(stats.n_heads)))
        assert [next(sensitivity) for _ in range(3)] == [0, 0, 0]

    add("embed")
    for layer in range(stats.n_layers):
        for kind in MATRICES:
            if kind == "attn_v" and stats.n_heads:
                add(f"layers.{layer}.attn_v_up", *(stats.head(layer, head) + 1 for head in range(stats.n_heads)))
            else:
                is_query = kind == "attn_q" and stats.n_heads
                add(f"layers.{layer}.{kind}", stats.query(layer) if is_query else 4 * layer + RECORDS[kind])
        if stats.n_heads:
            add_latent(layer)
    add("output" if "output" in tensors(exact) else "embed", 4 * stats.n_layers)
    return total


LATENT = dict(num_attention_heads=2, num_key_value_heads=2, q_lora_rank=40, kv_lora_rank=32, qk_nope_head_dim=20, qk_rope_head_dim=8,
              v_head_dim=32, num_hidden_layers=2, max_position_embeddings=4096)  # fmt: skip


@pytest.mark.parametrize("kind", ["tied", "untied", "latent"])
def test_the_expected_divergence_is_that_of_numpy(kind, tmp_path):
    """With at most 64 rows each, every row block is measured."""
    shape = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 64, "tie_word_embeddings": kind == "tied"}
    if kind == "latent":
        make_of(MiniCPM3Config(**LATENT, **shape, bos_token_id=None, eos_token_id=None, pad_token_id=None), tmp_path, 7)
    else:
        make(tmp_path, 7, num_attention_heads=4, num_key_value_heads=2, head_dim=16, **shape)
    stats = calibrated(tmp_path, tmp_path)
    exact = read_blob(tmp_path / "f32.smol")
    for bits in (5.2, 7.2) if kind == "latent" else (4.5, 5, 6, 7.2, 8.5):  # rows of heads are short, and padded
        blob, nats, _ = chosen(stats, tmp_path / "blob", "--bits", bits, checkpoint=tmp_path)
        expected = expected_divergence(blob, exact, Stats(stats.read_bytes()))
        assert nats == pytest.approx(expected, rel=0.06), bits  # two digits are printed


def bits_of(blob):
    """Bits for each weight of a matrix."""
    found = [t for t in tensors(blob).values() if not t.is_vector and not (t.name == "output" and blob.model["tied_embeddings"])]
    return 8 * sum(t.size for t in found) / sum(t.rows * t.cols for t in found)


@pytest.mark.parametrize("family", ["gpt2", "gptneox", "phi", "stablelm"])
def test_goals_hold_for_models_of_other_parts(family, tmp_path):
    """The models have no gate, one norm for two inputs, or positions that are not rounded."""
    make_of(featured(family), tmp_path, 4)
    stats = calibrated(tmp_path, tmp_path, "--window", 200)
    exact, out = tmp_path / "f32.smol", tmp_path / "blob"
    ids = np.random.default_rng(1).integers(0, 101, 100)
    with Model(exact) as model:
        due = model.logits(ids, kv="f32")
    last = np.inf
    for bits in (7, 8, 10):  # rows are short, and padded
        _, nats, shown = chosen(stats, out, "--bits", bits, checkpoint=tmp_path)
        assert shown <= bits and nats < last
        last = nats
    size = out.stat().st_size
    chosen(stats, out, "--size", size, checkpoint=tmp_path)
    assert out.stat().st_size <= size
    with Model(out) as model:
        found = model.logits(ids, kv="f32")
    assert np.corrcoef(found.ravel(), due.ravel())[0, 1] > 0.95


@pytest.mark.sample(1)
def test_goals_hold_and_more_bytes_diverge_less(demo, tmp_path):
    out = tmp_path / "blob"
    last = np.inf
    for bits in (5.2, 5.5, 6, 7, 8) if os.environ.get("SMOL_TEST_ALL") else (5.5,):
        blob, nats, shown = chosen(demo, out, "--bits", bits)
        assert shown == pytest.approx(bits_of(blob), abs=0.001)
        assert shown <= bits and shown > bits - 0.3 and nats < last
        last = nats
        size = out.stat().st_size
        same = out.read_bytes()
        chosen(demo, out, "--size", size)
        assert out.stat().st_size <= size
        *_, smaller = chosen(demo, out, "--max-kl", nats * 1.06)
        assert smaller <= shown + 0.25  # the step of the embedding
        chosen(demo, out, "--bits", bits)
        assert out.read_bytes() == same
    sizes = [("1.9MB", 1900000), ("1.9MiB", 1.9 * 2**20), ("1900000", 1900000), ("1950kB", 1950000)]
    for text, most in sizes if os.environ.get("SMOL_TEST_ALL") else sizes[1::2]:
        chosen(demo, out, "--size", text)
        assert 0.97 * most < out.stat().st_size <= most


def seconds(*words):
    """Returns the processor time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    result = smolconv("--force", "--threads", 1, *words)
    assert result.returncode == 0, result.stderr
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


@pytest.mark.slow
def test_a_choice_for_many_matrices_takes_no_more_than_a_few_conversions(tmp_path):
    """6,144 of experts: the sums were made anew for each step, which took ten times as long as converting."""
    sizes = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2)
    config = OlmoeConfig(vocab_size=101, num_experts=512, num_experts_per_tok=8, max_position_embeddings=512, bos_token_id=None,
                         eos_token_id=None, pad_token_id=None, **sizes)  # fmt: skip
    checkpoint, out = make_of(config, tmp_path / "c"), tmp_path / "a.smol"
    stats = ["--calibration", calibrated(checkpoint, tmp_path, "--diagonal", size=1000), checkpoint, out]
    plain = min(seconds("--dtype", "int4", *stats) for _ in range(2))
    for goal in (["--size", "6MB"], ["--max-kl", "0.001"]):
        taken = seconds(*goal, *stats)
        print(f"{goal}: {taken:.2f} s, int4: {plain:.2f} s")
        assert taken < 7 * plain + 0.2, goal


@pytest.mark.slow
def test_the_choice_is_the_same_everywhere(demo, tmp_path):
    out, expected = tmp_path / "blob", None
    for threads in (1, 2, 5):
        chosen(demo, out, "--bits", 6, options=["--threads", threads])
        data = out.read_bytes()
        assert expected in (None, data)
        expected = data
    for isa in [name for name, _, runs in kernel_sets() if runs]:
        chosen(demo, out, "--bits", 6, env={**os.environ, "SMOL_ISA": isa})
        assert out.read_bytes() == expected
    result = smolconv("verify", out, "--source", DEMO, "--calibration", demo)
    assert result.returncode == 0 and "every byte is the same" in result.stdout


def test_a_chosen_blob_runs_and_says_what_it_is(demo, tmp_path):
    out = tmp_path / "blob"
    blob, *_ = chosen(demo, out, "--bits", 6)
    assert len({t.dtype for t in tensors(blob).values() if not t.is_vector}) > 2
    assert smolrun(out, "Anna", "-n", 4, "--temp", 0).returncode == 0
    assert "mixed" in smolconv("inspect", out).stdout


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    "words, message",
    [
        (["--bits", 5], "--bits 5: int4 takes 5.19"),
        (["--size", "1kB"], "--size: 1000 bytes: the smallest blob, all in int4, has "),
        (["--max-kl", 1e-7], "--max-kl 1e-07: the least that can be expected is "),
        (["--bits", 6, "--size", "2MB"], "give only one of them"),
        (["--dtype", "int4", "--max-kl", 1], "give only one of them"),
        (["--size", "2 MB"], "is not a size: give one such as"),
        (["--size", "2e6"], "is not a size: give one such as"),
        (["--size", "MB"], "is not a size: give one such as"),
        (["--size", "0"], "is not a size: give one such as"),
        (["--size", "1.5"], "is not a size: give one such as"),
        (["--size", "99999999999GB"], "is not a size: give one such as"),
        (["--bits", "nan"], "is not a number"),
        (["--max-kl", "0"], "out of range"),
    ],
)
def test_goals_that_cannot_be(words, message, demo, tmp_path):
    result = choose(demo, tmp_path / "blob", *words)
    assert_fails(result, USAGE, message)
    assert not (tmp_path / "blob").exists()


def test_a_goal_needs_statistics(tmp_path):
    assert_fails(smolconv("--bits", 6, DEMO, tmp_path / "blob"), USAGE, "--calibration STATS")


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_sensitivities_that_cannot_be(value, demo, tmp_path):
    """They are refused even with the right digest."""
    data, stats = demo.read_bytes(), Stats(demo.read_bytes())
    n = 4 * len(stats.sensitivities)
    values = struct.pack("<f", value) + data[-8 - n + 4 : -8]
    digest = xxh3(struct.pack("<3Q", xxh3(data[: HEADER.size]), len(stats.records), xxh3(values)))
    (tmp_path / "stats").write_bytes(data[: -8 - n] + values + struct.pack("<Q", digest))
    assert_fails(choose(tmp_path / "stats", tmp_path / "blob", "--bits", 6), DAMAGED, "is damaged")

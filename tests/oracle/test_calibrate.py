"""`smolrun calibrate`: its Gram matrices against those of transformers' activations, the same bytes
however they come about, runs that are interrupted, and what may be wrong with input and output."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from checkpoints import make_of, reference_of
from engine import blob_of, convert, kernel_sets
from families import CONFIGS
from features import featured
from internal import BUILD, FILE, ROOT, UNSUPPORTED, USAGE
from programs import assert_fails, smolrun
from stats_reader import Stats

DEMO = ROOT / "demo/model"
INPUTS = (
    ("self_attn.q_proj", "self_attn.qkv_proj", "attention.query_key_value", "attn.c_attn",
     "self_attn.q_a_proj", "conv.in_proj", "mamba.in_proj", "linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz",
     "mixer.q_proj", "mixer.in_proj"),
    ("self_attn.o_proj", "self_attn.dense", "attention.dense", "attn.c_proj", "self_attn.out_proj",
     "conv.out_proj", "mamba.out_proj", "linear_attn.out_proj", "mixer.o_proj", "mixer.out_proj"),
    ("mlp.gate_proj", "mlp.gate_up_proj", "mlp.dense_h_to_4h", "mlp.c_fc", "mlp.fc1", "feed_forward.w1", "feed_forward.gate_proj",
     "shared_mlp.input_linear", "mlp.gate", "block_sparse_moe.router", "feed_forward.gate",
     "mixer.up_proj", "mixer.shared_experts.up_proj", "mlp.up_proj"),
    ("mlp.down_proj", "mlp.dense_4h_to_h", "mlp.c_proj", "mlp.fc2", "feed_forward.w2", "feed_forward.down_proj", "shared_mlp.output_linear",
     "mlp.shared_expert.down_proj", "mixer.down_proj", "mixer.shared_experts.down_proj"),
)
EXPERTS = ("experts", "mlp.experts", "block_sparse_moe.experts", "feed_forward.experts", "mixer.experts")
PLACES = ("model.layers.{}.{}", "gpt_neox.layers.{}.{}", "transformer.h.{}.{}")
RUN = 128
TEXT = (ROOT / "README.md").read_text()[:1500]


def reference_grams(model, windows, stats):
    """float64 Gram matrices of the inputs, in the order of the records."""
    n_layers = model.config.num_hidden_layers
    # MiniCPM 3 divides the input of the output layer, smol the logits
    divisor = model.config.hidden_size / model.config.dim_model_base if model.config.model_type == "minicpm3" else 1
    grams = {}

    def add(number, run):
        energies = (run**2).sum(axis=1)
        most = 16 * np.sort(energies)[len(run) // 2]
        counts = np.minimum(1, most / np.maximum(energies, 1e-300))
        grams[number] = grams.get(number, 0) + (counts[:, None] * run).T @ run

    def runs(x):
        x = x.detach().double().flatten(0, -2).numpy()
        return np.split(x, range(RUN, len(x), RUN))

    def add_to(number):
        def hook(module, arguments):
            for run in runs(arguments[0]):
                add(number, run)

        return hook

    def add_experts(layer):
        def hook(module, arguments):
            x, chosen, _ = arguments
            has_gate = hasattr(module, "gate_up_proj")
            for expert, weight in enumerate(module.gate_up_proj if has_gate else module.up_proj):
                product = torch.nn.functional.linear(x, weight)
                gate, up = product.chunk(2, -1) if has_gate else (product, 1)
                number = stats.expert(layer, expert)
                used = (chosen == expert).any(-1).split(RUN)
                for i, rows in enumerate((x, module.act_fn(gate) * up)):
                    for run, its in zip(runs(rows), used):
                        if its.any():
                            add(number + i, run[its.numpy()])

        return hook

    def add_heads(layer, attention):
        """Adds the inputs of the matrices that work on latent vectors: a head's query, and the latent vectors that its
        attention adds up."""
        latent = []
        yield attention.kv_a_layernorm.register_forward_hook(lambda module, arguments, output: latent.append(output[0]))
        if attention.q_b_proj is not None:
            yield attention.q_b_proj.register_forward_pre_hook(add_to(stats.query(layer)))

        def add_queries(module, arguments, output):
            for head, x in enumerate(output[0].view(len(output[0]), stats.n_heads, -1)[..., : attention.qk_nope_head_dim].unbind(1)):
                for run in runs(x):
                    add(stats.head(layer, head), run)

        def add_attended(module, arguments, output):
            for head, weights in enumerate(output[1][0]):
                for run in runs(weights @ latent[-1]):
                    add(stats.head(layer, head) + 1, run)

        yield (attention.q_b_proj or attention.q_proj).register_forward_hook(add_queries)
        yield attention.register_forward_hook(add_attended)

    modules = dict(model.named_modules())
    beside = {layer: 4 * n_layers + 1 + i for i, layer in enumerate(stats.stateful if stats.minor == 2 else ())}
    output = model.get_output_embeddings()
    hooks = [output.register_forward_pre_hook(lambda module, arguments: add_to(4 * n_layers)(module, [arguments[0] * divisor]))]
    for layer in range(n_layers):
        for i, names in enumerate(INPUTS):
            there = [place.format(layer, name) for place in PLACES for name in names]
            found = [modules[name] for name in there if name in modules]
            if found:
                hooks.append(found[0].register_forward_pre_hook(add_to(4 * layer + i)))
        if layer in beside:
            hooks.append(modules[f"model.layers.{layer}.mamba.out_proj"].register_forward_pre_hook(add_to(beside[layer])))
        if f"model.layers.{layer}.per_layer_input_gate" in modules:
            for i, name in enumerate(("per_layer_input_gate", "per_layer_projection")):
                hooks.append(modules[f"model.layers.{layer}.{name}"].register_forward_pre_hook(add_to(4 * n_layers + 1 + 2 * layer + i)))
        if stats.minor == 3:
            hooks += add_heads(layer, modules[f"model.layers.{layer}.self_attn"])
        there = [place.format(layer, name) for place in PLACES for name in EXPERTS]
        for module in [modules[name] for name in there if name in modules]:
            hooks.append(module.register_forward_pre_hook(add_experts(layer)))
    with torch.inference_mode():
        for window in windows:
            model(torch.tensor([window]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return [grams.get(i, np.zeros_like(record)) for i, record in enumerate(stats.records)]


def calibrate(blob, text, out, *options, **kwargs):
    result = smolrun("calibrate", blob, text, "-o", out, *options, **kwargs)
    assert result.returncode == 0 and not result.stderr, result.stderr
    return out.read_bytes()


def cut(blob, text, window):
    ids = [int(i) for i in smolrun("tokenize", blob, "-", input=text.read_bytes()).stdout.split()]
    return [ids[i : i + window] for i in range(0, len(ids), window)]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def demo():
    return blob_of(DEMO, "f32")


@pytest.mark.sample(4)
@pytest.mark.parametrize("family", CONFIGS)
def test_gram_matrices_are_those_of_transformers(family, text, tmp_path):
    make_of(featured(family), tmp_path, 3)
    compare_grams(tmp_path, text)


def compare_grams(tmp_path, text):
    """Compares the Gram matrices of the checkpoint in tmp_path with the reference's."""
    blob = convert(tmp_path, tmp_path / "f32.smol", "f32")
    text.write_text(TEXT[:400])
    stats = Stats(calibrate(blob, text, tmp_path / "stats", "--window", 150))
    windows = cut(blob, text, 150)
    assert (stats.n_windows, stats.n_tokens) == (len(windows), sum(map(len, windows)))
    grams = reference_grams(reference_of(tmp_path, attn_implementation="eager"), windows, stats)
    assert len(stats.records) == len(grams)
    for ours, reference in zip(stats.records, grams):
        if reference.size == 0:  # of the MLP beside experts, of which there is none
            continue
        spread = np.sqrt(np.outer(reference.diagonal(), reference.diagonal()))
        assert np.abs(ours - reference).max() <= 1e-4 * spread.max()
    diagonal = Stats(calibrate(blob, text, tmp_path / "diagonal", "--window", 150, "--diagonal"))
    assert diagonal.kind == "diagonal"
    for line, matrix in zip(diagonal.records, stats.records):
        assert (line == matrix.diagonal()).all()


def test_experts_bytes_do_not_depend_on_threads(text, tmp_path):
    """More threads than cores come late to stages, when the list of experts may be another layer's."""
    make_of(featured("nemotronh"), tmp_path, 3)
    blob = convert(tmp_path, tmp_path / "f32.smol", "f32")
    text.write_text(TEXT[:400])
    expected = calibrate(blob, text, tmp_path / "one", "--window", 150, "--threads", 1)
    for _ in range(20):
        assert calibrate(blob, text, tmp_path / "many", "--window", 150, "--threads", 4) == expected


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_threads_memory_or_kernels(demo, text, tmp_path):
    expected = calibrate(demo, text, tmp_path / "a")
    assert calibrate(demo, text, tmp_path / "b", "--memory", 1, "--threads", 3) == expected
    assert calibrate(demo, text, tmp_path / "c", "--threads", 1) == expected
    for isa in [name for name, _, runs in kernel_sets() if runs]:
        environment = {**os.environ, "SMOL_ISA": isa}
        assert calibrate(demo, text, tmp_path / isa, env=environment) == expected
    assert not list(tmp_path.glob("*.part"))


def test_several_texts_are_separate_windows(demo, text, tmp_path):
    other = tmp_path / "other"
    other.write_text("Anna the baker met Otto.")
    stats = tmp_path / "stats"
    result = smolrun("calibrate", demo, text, other, "-o", stats)
    assert result.returncode == 0, result.stderr
    windows = cut(demo, text, 512) + cut(demo, other, 512)
    assert Stats(stats.read_bytes()).n_windows == len(windows)
    assert Stats(stats.read_bytes()).n_tokens == sum(map(len, windows))


def test_an_interrupted_run_continues_where_it_was(demo, text, tmp_path):
    """Some records are right, one is damaged; what follows is computed again."""
    stats, part = tmp_path / "stats", tmp_path / "stats.part"
    expected = calibrate(demo, text, stats)
    damaged = [(len(expected), 300000), (len(expected) // 2, None), (30, None), (0, None)]
    for size, flip in damaged if os.environ.get("SMOL_TEST_ALL") else damaged[:3]:
        data = bytearray(expected[:size])
        if flip:
            data[flip] ^= 1
        part.write_bytes(data)
        assert calibrate(demo, text, stats, "--memory", 1) == expected
        assert not part.exists()
    part.write_bytes(b"another file" * 9999999)  # larger, too
    assert calibrate(demo, text, stats) == expected


def test_a_run_that_fails_keeps_what_an_earlier_one_has_done(demo, text, tmp_path):
    stats, part = tmp_path / "stats", tmp_path / "stats.part"
    expected = calibrate(demo, text, stats)
    part.write_bytes(expected[:5000])
    assert_fails(smolrun("calibrate", demo, tmp_path / "none", "-o", stats), FILE, "cannot open")
    assert_fails(smolrun("calibrate", demo, "-", "-o", stats, input=b""), USAGE, "no tokens")
    assert part.read_bytes() == expected[:5000]
    assert calibrate(demo, text, stats) == expected


@pytest.mark.slow
def test_a_signal_leaves_what_is_done(demo, tmp_path):
    text, stats, part = tmp_path / "text", tmp_path / "stats", tmp_path / "stats.part"
    text.write_text(TEXT * 20)
    command = [BUILD / "smolrun", "calibrate", demo, text, "-o", stats, "--memory", "1", "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not (part.exists() and part.stat().st_size > 100000):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == -signal.SIGINT
    assert part.exists() and not stats.exists()
    assert calibrate(demo, text, stats) == calibrate(demo, text, tmp_path / "whole")


def test_an_f32_and_a_bf16_blob_have_the_same_key(demo, text, tmp_path):
    bf16 = blob_of(DEMO, "bf16")
    keys = [Stats(calibrate(b, text, tmp_path / "s")).model_key for b in (demo, bf16)]
    assert keys[0] == keys[1]


def test_quantized_weights_are_refused(text, tmp_path):
    result = smolrun("calibrate", blob_of(DEMO, "int8"), text, "-o", tmp_path / "stats")
    assert_fails(result, UNSUPPORTED, "its weights are quantized: calibrate a blob of f32 or bf16")
    assert not list(tmp_path.glob("stats*"))


@pytest.mark.parametrize(
    "words, status, message",
    [
        ([], USAGE, "TEXT is missing"),
        (["{text}"], USAGE, "-o STATS is missing"),
        (["{text}", "-o", "{text}"], USAGE, "is a text itself"),
        (["{text}", "-o", "{blob}"], USAGE, "is the blob itself"),
        (["-", "-", "-o", "{out}"], USAGE, "only once"),
        (["-", "-o", "{out}"], USAGE, "no tokens"),
        (["{out}", "-o", "{out}.stats"], FILE, "cannot open"),
        (["{text}", "-o", "{out}/none/stats"], FILE, "stats"),
    ],
)
def test_wrong_words_are_errors(words, status, message, demo, text, tmp_path):
    places = {"text": text, "blob": demo, "out": tmp_path / "out"}
    before = sorted(tmp_path.iterdir())
    result = smolrun("calibrate", demo, *[w.format(**places) for w in words])
    assert_fails(result, status, message)
    assert sorted(tmp_path.iterdir()) == before

"""`smolrun perplexity` against transformers on the same windows; its saved logits, and what may be
wrong with them."""

import json
import os
import re
import struct
import subprocess

import numpy as np
import pytest
from blobs import xxh3
from engine import Model
from internal import BUILD, DAMAGED, FILE, ROOT, UNSUPPORTED, USAGE
from programs import assert_fails, on_terminal, smolrun, wiped
from test_cli_run import VOCABULARY, output
from tokenizers import Tokenizer

CTX = 100
HEADER = struct.Struct("<8sIIII QQQQ")
ROW = 4 * VOCABULARY + 8


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Some 700 tokens: several windows and a part of one."""
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text((ROOT / "README.md").read_text()[:1000] + "Anna the baker met Otto. " * 40)
    return path


@pytest.fixture(scope="module")
def ids(text, demo_tokenizer):
    return demo_tokenizer.encode(text.read_text()).ids


def windows(ids, n):
    """Returns the windows that have something to score."""
    return [w for w in (ids[i : i + n] for i in range(0, len(ids), n)) if len(w) > 1]


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def likelihoods(ids, n, logits_of):
    """The negative log-likelihood of every scored token, logits_of(window) being those of each."""
    values = []
    for window in windows(ids, n):
        rows = log_softmax(logits_of(window)[:-1])
        values.extend(-rows[np.arange(len(rows)), window[1:]])
    return np.array(values)


def perplexity(blob, text, *options, **kwargs):
    return json.loads(output("perplexity", blob, text, "--json", *options, **kwargs))


@pytest.fixture(scope="module")
def saved(demo_blob, text, tmp_path_factory):
    """The f32 blob's logits, and what was printed."""
    path = tmp_path_factory.mktemp("saved") / "logits"
    return path, perplexity(demo_blob("f32"), text, "--ctx", CTX, "--save-logits", path)


# --- perplexity -------------------------------------------------------------------------------


@pytest.mark.parametrize("ctx", [20, CTX, 512])
def test_f32_equals_transformers_on_the_same_windows(demo_blob, text, ids, demo_logits, ctx):
    found = perplexity(demo_blob("f32"), text, "--ctx", ctx)
    values = likelihoods(ids, ctx, demo_logits)
    assert found["tokens"] == len(ids) and found["scored"] == len(values)
    assert found["windows"] == len(windows(ids, ctx)) and found["ctx"] == ctx
    assert found["nll"] == pytest.approx(values.mean(), rel=1e-6)
    assert found["perplexity"] == pytest.approx(np.exp(values.mean()), rel=1e-5)
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert found["nll_error"] == pytest.approx(error, rel=1e-5)
    assert found["perplexity_error"] == pytest.approx(error * np.exp(values.mean()), rel=1e-5)


@pytest.mark.parametrize("dtype", ["f32", "int8"])
def test_figures_are_those_of_the_logits(demo_blob, text, ids, dtype):
    with Model(demo_blob(dtype)) as model:
        values = likelihoods(ids, CTX, model.logits)
    found = perplexity(demo_blob(dtype), text, "--ctx", CTX, "--threads", 2)
    assert found["nll"] == pytest.approx(values.mean(), rel=1e-13)


@pytest.mark.skipif(not os.environ.get("SMOL_PERPLEXITY"), reason="longer: make perplexity")
def test_the_real_model_equals_transformers(real_model_dir, tmp_path):
    import torch
    from engine import blob_of
    from texts import prose
    from transformers import AutoModelForCausalLM

    (tmp_path / "text").write_text(prose()[:9000])
    tokenizer = Tokenizer.from_file(str(real_model_dir / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(real_model_dir, dtype=torch.float32).eval()

    def logits(ids):
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0].numpy()

    ids = tokenizer.encode((tmp_path / "text").read_text()).ids
    found = perplexity(blob_of(real_model_dir, "f32"), tmp_path / "text", "--ctx", 512)
    values = likelihoods(ids, 512, logits)
    assert found["scored"] == len(values) > 1500
    assert found["nll"] == pytest.approx(values.mean(), rel=1e-6)


def test_figures_are_the_same_for_any_threads_and_kernels(demo_blob, text):
    arguments = demo_blob("int8"), text, "--ctx", CTX
    expected = perplexity(*arguments, "--threads", 1)
    assert perplexity(*arguments, "--threads", 3) == expected
    assert perplexity(*arguments, env={**os.environ, "SMOL_ISA": "scalar"}) == expected


def test_the_last_window_may_be_short_and_a_single_token_is_not_scored(
    demo_blob, ids, demo_tokenizer, tmp_path
):
    for n, n_windows, n_scored in ((2, 1, 1), (10, 1, 9), (11, 1, 9), (12, 2, 10), (20, 2, 18)):
        (tmp_path / "text").write_text(demo_tokenizer.decode(ids[-n:]))
        found = perplexity(demo_blob("int8"), tmp_path / "text", "--ctx", 10)
        assert (found["tokens"], found["windows"], found["scored"]) == (n, n_windows, n_scored)
        assert (found["nll_error"] is None) == (n_scored == 1)


def test_the_text_may_come_from_a_pipe(demo_blob, text):
    blob = demo_blob("int8")
    expected = perplexity(blob, text)
    assert perplexity(blob, "-", input=text.read_bytes()) == expected
    for sandbox in ("", "off"):
        script = '"$0" perplexity "$1" <(cat "$2") --json'
        found = subprocess.run(
            ["bash", "-c", script, BUILD / "smolrun", blob, text],
            capture_output=True, env={**os.environ, "SMOL_SANDBOX": sandbox},
        )  # fmt: skip
        assert json.loads(found.stdout) == expected, found.stderr


def test_the_text_output_has_the_same_figures(demo_blob, text, saved):
    arguments = demo_blob("int8"), text, "--ctx", CTX, "--kl-from", saved[0]
    figures = perplexity(*arguments)
    lines = output("perplexity", *arguments).splitlines()
    assert lines[0].split()[1] == f"{figures['tokens']},"
    for line, name in zip(lines[1:], ("nll", "perplexity", "reference_perplexity", "kl")):
        value, sign, error = line[22:].split()[:3]
        assert float(value) == pytest.approx(figures[name], rel=1e-3) and sign == "+/-"
        if name + "_error" in figures:
            assert float(error) == pytest.approx(figures[name + "_error"], rel=0.05, abs=1e-6)
    assert f"{100 * figures['same_top']:.2f} %" in lines[-1]


# --- logits that are saved ----------------------------------------------------------------------


def test_the_file_holds_the_logits_of_every_scored_token(demo_blob, ids, saved):
    data = saved[0].read_bytes()
    magic, version, vocabulary, window, zero, n_ids, n_rows, ids_digest, digest = HEADER.unpack_from(data)
    assert (magic, version, zero) == (b"\x8bLOGIT\r\n", 1, 0)
    assert (vocabulary, window, n_ids, n_rows) == (VOCABULARY, CTX, len(ids), saved[1]["scored"])
    assert digest == xxh3(data[: HEADER.size - 8])
    end = HEADER.size + 4 * n_ids
    assert np.frombuffer(data[HEADER.size : end], np.uint32).tolist() == ids
    assert ids_digest == xxh3(data[HEADER.size : end])
    assert len(data) == end + n_rows * ROW
    with Model(demo_blob("f32")) as model:
        expected = np.concatenate([model.logits(window)[:-1] for window in windows(ids, CTX)])
    for i, row in enumerate(expected):
        part = data[end + i * ROW : end + (i + 1) * ROW]
        assert part[:-8] == row.tobytes() and part[-8:] == xxh3(row.tobytes()).to_bytes(8, "little")


def test_divergence_equals_that_of_the_logits(demo_blob, text, ids, saved):
    found = perplexity(demo_blob("int8"), text, "--ctx", CTX, "--kl-from", saved[0])
    divergences, same = [], []
    with Model(demo_blob("f32")) as f32, Model(demo_blob("int8")) as int8:
        for window in windows(ids, CTX):
            p, q = (log_softmax(model.logits(window)[:-1]) for model in (f32, int8))
            divergences.extend((np.exp(p) * (p - q)).sum(axis=1))
            same.extend(p.argmax(axis=1) == q.argmax(axis=1))
    assert found["kl"] == pytest.approx(np.mean(divergences), rel=1e-9) and found["kl"] > 1e-5
    error = np.std(divergences, ddof=1) / np.sqrt(len(divergences))
    assert found["kl_error"] == pytest.approx(error, rel=1e-9)
    assert found["kl_largest"] == pytest.approx(max(divergences), rel=1e-9)
    assert found["same_top"] == pytest.approx(np.mean(same), rel=1e-12)
    assert found["reference_nll"] == saved[1]["nll"]
    assert found["reference_perplexity"] == saved[1]["perplexity"]


def test_a_model_does_not_diverge_from_itself(demo_blob, text, saved, tmp_path):
    """Reading, and saving again at the same time, through a pipe."""
    words = ["perplexity", demo_blob("f32"), text, "--ctx", CTX, "--json", "--kl-from", "-"]
    with open(saved[0], "rb") as file:
        found = json.loads(output(*words, "--save-logits", tmp_path / "again", stdin=file))
    assert (found["kl"], found["kl_largest"], found["same_top"]) == (0, 0, 1)
    assert (tmp_path / "again").read_bytes() == saved[0].read_bytes()


def repaired(data, header=None, row=None):
    """Digests made right again: of the header, and of one row."""
    data = bytearray(data)
    if row is not None:
        start = HEADER.size + 4 * HEADER.unpack_from(data)[5] + row * ROW
        struct.pack_into("<Q", data, start + ROW - 8, xxh3(data[start : start + ROW - 8]))
    struct.pack_into("<Q", data, HEADER.size - 8, xxh3(data[: HEADER.size - 8]))
    return bytes(data)


def changed(data, offset, kind, value):
    data = bytearray(data)
    struct.pack_into(kind, data, offset, value)
    return bytes(data)


def bad_files(data):
    """(name, bytes, status, words) of files that are refused."""
    rows = HEADER.size + 4 * HEADER.unpack_from(data)[5]
    cut = {"empty": 0, "the header": 55, "the ids": rows - 1, "a row": rows + 3 * ROW + 7, "the end": len(data) - 1}
    for name, size in cut.items():
        yield f"cut in {name}", data[:size], DAMAGED, "truncated"
    yield "longer", data + b"\0", DAMAGED, "longer"
    yield "text", b"No logits at all. " * 100, DAMAGED, "not a file that --save-logits wrote"
    yield "magic", changed(data, 0, "<B", 0x89), DAMAGED, "not a file that --save-logits wrote"
    yield "version", repaired(changed(data, 8, "<I", 2)), UNSUPPORTED, "version 2"
    yield "reserved", repaired(changed(data, 20, "<I", 1)), UNSUPPORTED, "version"
    for name, offset, kind, value in (
        ("vocabulary", 12, "<I", VOCABULARY + 1), ("no vocabulary", 12, "<I", 0),
        ("window", 16, "<I", CTX + 1), ("ids", 24, "<Q", 2**63), ("rows", 32, "<Q", 2**64 - 1),
    ):  # fmt: skip
        yield name, repaired(changed(data, offset, kind, value)), USAGE, "models of one tokenizer"
        yield name + ", digest", changed(data, offset, kind, value), DAMAGED, "header"
    yield "other ids", repaired(changed(data, 40, "<Q", 5)), USAGE, "other token ids"
    yield "damaged ids", changed(data, HEADER.size + 8, "<I", 7), DAMAGED, "token ids"
    yield "damaged row", changed(data, rows + 2 * ROW + 40, "<B", 77), DAMAGED, "row 3"
    for value in (np.nan, np.inf, -np.inf):
        bad = changed(data, rows + 4 * ROW + 400, "<f", value)
        yield f"{value} in a row", repaired(bad, row=4), DAMAGED, "row 5"


def test_a_file_that_is_damaged_or_of_another_text_is_refused(demo_blob, text, saved, tmp_path):
    path = tmp_path / "logits"
    words = ["perplexity", demo_blob("int8"), text, "--ctx", CTX, "--kl-from", path]
    path.write_bytes(repaired(saved[0].read_bytes(), row=0))
    assert smolrun(*words).returncode == 0
    for name, data, status, part in bad_files(saved[0].read_bytes()):
        path.write_bytes(data)
        result = smolrun(*words)
        assert result.returncode == status, (name, result.stderr)
        assert_fails(result, status, "logits: ", part)
        assert result.stdout == b""


def test_another_text_or_window_is_refused(demo_blob, text, saved, tmp_path):
    arguments = "perplexity", demo_blob("int8")
    assert_fails(smolrun(*arguments, text, "--ctx", 99, "--kl-from", saved[0]), USAGE, "window")
    (tmp_path / "other").write_text(text.read_text().replace("Anna", "Otto"))
    result = smolrun(*arguments, tmp_path / "other", "--ctx", CTX, "--kl-from", saved[0])
    assert_fails(result, USAGE, "same text")


# --- how far it is --------------------------------------------------------------------------------


def test_a_terminal_is_told_how_far_it_is(demo_blob, text, ids):
    arguments = "perplexity", demo_blob("int8"), text, "--ctx", CTX
    drawn, rest = wiped(on_terminal(arguments, errors=subprocess.STDOUT))
    assert rest == output(*arguments)
    row = r"window (\d+) of (\d+): perplexity [\d.e+]+ so far, \d+ s left"
    numbers = [tuple(map(int, re.fullmatch(row, shown).groups())) for shown in drawn]
    assert numbers[0] == (1, len(windows(ids, CTX))) and numbers == sorted(numbers)
    assert on_terminal([*arguments, "--json"], errors=subprocess.STDOUT) == output(*arguments, "--json")


# --- what makes no sense --------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused(demo_blob, text, tmp_path):
    blob = demo_blob("int8")
    (tmp_path / "empty").touch()
    (tmp_path / "word").write_text("Anna")
    assert_fails(smolrun("perplexity", blob), USAGE, "TEXTFILE")
    assert_fails(smolrun("perplexity", blob, tmp_path / "empty"), USAGE, "0 tokens", "longer")
    assert_fails(smolrun("perplexity", blob, tmp_path / "missing"), FILE, "missing: cannot open")
    assert_fails(smolrun("perplexity", blob, tmp_path), FILE, "cannot read")
    assert_fails(smolrun("perplexity", blob, text, "--ctx", 1), USAGE, "--ctx")
    assert_fails(smolrun("perplexity", blob, text, "--ctx", 513), USAGE, "at most 512")
    assert_fails(smolrun("perplexity", blob, "-", "--kl-from", "-"), USAGE, "only once")
    assert_fails(smolrun("perplexity", blob, text, "--kl-from", tmp_path / "no"), FILE, "no: cannot open")
    result = smolrun("perplexity", blob, text, "--save-logits", tmp_path / "no/where")
    assert_fails(result, FILE, "no/where")

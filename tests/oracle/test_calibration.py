"""`smolconv --calibration`: folded factors and the codes of error feedback against numpy, the same bytes for any number of
threads, and statistics that are damaged or of another model."""

import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from blobs import read_blob, xxh3
from checkpoints import make, make_of
from families import CONFIGS
from features import featured
from folding import NO_INPUT_NORMS, Folding
from internal import DAMAGED, NO, ROOT, UNSUPPORTED, USAGE
from programs import assert_fails, smolconv, smolrun
from stats_reader import HEADER, Stats

DEMO = ROOT / "demo/model"
DAMPING = 0.01
MATRICES = [
    (("attn_q", "attn_k", "attn_v"), 0),
    (("attn_o",), 1),
    (("mlp_gate", "mlp_up"), 2),
    (("mlp_down",), 3),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """f32.smol, and the statistics gram and diagonal, of the bundled model."""
    path = tmp_path_factory.mktemp("calibration")
    (path / "text").write_text("Anna the baker met Otto in Willowby. Mila and her cat Pepper slept. " * 40)
    assert smolconv("--quiet", "--dtype", "f32", DEMO, path / "f32.smol").returncode == 0
    for name, words in [("gram", []), ("diagonal", ["--diagonal"])]:
        words = ["calibrate", path / "f32.smol", path / "text", "-o", path / name, *words]
        assert smolrun(*words).returncode == 0
    return path


def convert(stats, out, dtype="int4", checkpoint=DEMO, *options):
    words = ["--quiet", "--force", "--dtype", dtype, "--calibration", stats, *options, checkpoint, out]
    return smolconv(*words)


def converted(*arguments):
    result = convert(*arguments)
    assert result.returncode == 0, result.stderr
    return read_blob(arguments[1])


def factor(gram):
    """U with H = U D UT, ones on its diagonal and zeros below, of the damped matrix."""
    h = gram.astype(np.float64)
    h += np.eye(len(h)) * DAMPING * h.diagonal().mean()
    lower = np.linalg.cholesky(h[::-1, ::-1])[::-1, ::-1]
    return lower / lower.diagonal()


def tensors(blob):
    return blob.tensors if isinstance(blob.tensors, dict) else {t.name: t for t in blob.tensors}


@pytest.mark.parametrize("family", CONFIGS)
def test_folded_tensors_are_those_of_numpy(family, tmp_path):
    """Vectors in each bit, int8 matrices within half a step of the folded weights."""
    make_of(featured(family), tmp_path, 5)
    blob, stats = tmp_path / "f32.smol", tmp_path / "stats"
    assert smolconv("--quiet", "--dtype", "f32", tmp_path, blob).returncode == 0
    (tmp_path / "text").write_text("Anna the baker met Otto. " * 20)
    assert smolrun("calibrate", blob, tmp_path / "text", "-o", stats, "--diagonal").returncode == 0
    source = read_blob(blob)
    folding = Folding(Stats(stats.read_bytes()), source.model)
    folded = converted(stats, tmp_path / "int8.smol", "int8", tmp_path)
    assert any((inverses != 1).any() for inverses in folding.inverses)
    for name, tensor in tensors(folded).items():
        values = folding.tensor(name, tensors(source)[name].values())
        if tensor.is_vector:
            assert (tensor.values() == values).all(), name
        else:
            scales = tensor.steps_and_scales(tensor.rows, tensor.cols)[1].astype(np.float64)
            assert (np.abs(tensor.values() - values) <= 0.501 * scales).all(), name


@pytest.mark.parametrize("dtype", ["int4", "int5", "int6"])
def test_codes_are_those_of_error_feedback(dtype, folder, tmp_path):
    """Each target from the errors of the blob's own codes before it, so that a tie stays alone."""
    blob = converted(folder / "gram", tmp_path / "blob", dtype)
    exact, stats = read_blob(folder / "f32.smol"), Stats((folder / "gram").read_bytes())
    folding = Folding(stats, exact.model)
    n_wrong = n = 0
    for layer in range(stats.n_layers):
        for names, number in MATRICES:
            u = factor(folding.gram(stats, 4 * layer + number))
            for name in names:
                tensor = tensors(blob)[f"layers.{layer}.{name}"]
                weights = folding.tensor(tensor.name, tensors(exact)[tensor.name].values())
                levels = np.array(tensor.levels, np.float64)
                codes, scales = tensor.steps_and_scales(tensor.rows, tensor.cols)
                scales = scales.astype(np.float64)
                errors = weights - levels[codes] * scales
                targets = weights + errors @ np.triu(u, 1)
                distance = np.abs(targets[..., None] / np.where(scales, scales, 1)[..., None] - levels)
                chosen = np.take_along_axis(distance, codes[..., None].astype(int), -1)[..., 0]
                n_wrong += ((chosen > distance.min(axis=-1) + 0.05) & (scales != 0)).sum()
                n += codes.size
    assert n_wrong == 0, (n_wrong, n)


def test_feedback_reduces_the_error_of_products(folder, tmp_path):
    stats, source = Stats((folder / "gram").read_bytes()), read_blob(folder / "f32.smol")
    exact, folding = tensors(source), Folding(stats, source.model)
    blobs = [
        converted("none", tmp_path / "plain"),
        converted(folder / "diagonal", tmp_path / "diagonal"),
        converted(folder / "gram", tmp_path / "gram"),
    ]
    sums = []
    for blob, is_folded in zip(blobs, (False, True, True)):
        total = 0
        for layer in range(stats.n_layers):
            for names, number in MATRICES:
                record = 4 * layer + number
                gram = folding.gram(stats, record) if is_folded else stats.records[record].astype(np.float64)
                for name in names:
                    name = f"layers.{layer}.{name}"
                    w = exact[name].values().astype(np.float64)
                    w = folding.tensor(name, w) if is_folded else w
                    e = w - tensors(blob)[name].values()
                    total += np.einsum("ij,jk,ik", e, gram, e) / np.einsum("ij,jk,ik", w, gram, w)
        sums.append(total)
    assert sums[1] < sums[0] and sums[2] < 0.5 * sums[1], sums


def estimate(source):
    """The mean squares that smolconv estimates from the weights, as records of statistics."""
    model, weights = source.model, tensors(source)
    heads, kv_heads, dim = (model[name] for name in ("n_heads", "n_kv_heads", "head_dim"))

    def square(name):
        return weights[name].values().astype(np.float64) ** 2

    def normed(squares, name):
        return square(name).reshape(-1) * squares / squares.mean()

    def entered(squares, name):
        return squares if model["blocks"] & NO_INPUT_NORMS else normed(squares, name)

    def left(squares, name):
        scale = (model["residual_scale"] or 1) ** 2
        return scale * (normed(squares, name) if name in weights else squares)

    stream, records = square("embed").mean(0) * (model["embedding_scale"] or 1) ** 2, []
    for layer in range(model["n_layers"]):
        of = f"layers.{layer}."
        x = entered(stream, of + "attn_norm")
        values = (square(of + "attn_v") @ x).reshape(kv_heads, dim)
        values = np.repeat(values, heads // kv_heads, axis=0).reshape(-1)
        stream = stream + left(square(of + "attn_o") @ values, of + "attn_out_norm") * 0.3
        y = entered(stream, of + "mlp_norm")
        gate = square(of + "mlp_gate") @ y
        inner = square(of + "mlp_up") @ y * gate * (1 + gate / (1 + gate)) / 4
        stream = stream + left(square(of + "mlp_down") @ inner, of + "mlp_out_norm")
        records += [x, values, y, inner]
    return [record.astype(np.float32) for record in [*records, normed(stream, "final_norm")]]


@pytest.mark.parametrize("family", CONFIGS)
def test_without_statistics_they_are_estimated_from_the_weights(family, tmp_path):
    make_of(featured(family), tmp_path, 6)
    assert smolconv("--quiet", "--dtype", "f32", tmp_path, tmp_path / "f32.smol").returncode == 0
    assert smolconv("--quiet", "--dtype", "int5", tmp_path, tmp_path / "int5.smol").returncode == 0
    source = read_blob(tmp_path / "f32.smol")
    folding = Folding(SimpleNamespace(records=estimate(source)), source.model)
    for name, tensor in tensors(read_blob(tmp_path / "int5.smol")).items():
        if tensor.is_vector:
            assert np.allclose(tensor.values(), folding.tensor(name, tensors(source)[name].values()), 1e-5, 0), name
    assert "quantization       calibrated: estimated from the weights\n" in smolconv("inspect", tmp_path / "int5.smol").stdout


def test_a_plain_blob_is_verified_as_one(tmp_path):
    converted("none", tmp_path / "blob")
    assert "quantization       plain\n" in smolconv("inspect", tmp_path / "blob").stdout
    assert smolconv("verify", tmp_path / "blob", "--source", DEMO, "--calibration", "none").returncode == 0
    assert smolconv("verify", tmp_path / "blob", "--source", DEMO).returncode == NO


@pytest.mark.parametrize("kind", ["gram", "diagonal"])
def test_the_bytes_do_not_depend_on_threads(kind, folder, tmp_path):
    expected = None
    for threads in (1, 2, 5):
        converted(folder / kind, tmp_path / "blob", "int5", DEMO, "--threads", threads)
        data = (tmp_path / "blob").read_bytes()
        assert expected in (None, data)
        expected = data


def test_a_blob_names_its_statistics_and_is_verified_with_them(folder, tmp_path):
    blob, stats = tmp_path / "blob", folder / "gram"
    converted(stats, blob)
    data = stats.read_bytes()
    shown = smolconv("inspect", blob).stdout
    statistics = f"Gram matrices, {Stats(data).n_tokens} tokens, text xxh3 {Stats(data).text_digest:016x}"
    assert f"quantization       calibrated: {statistics}\n" in shown and f"calibration: {statistics}\n" in shown
    described = json.loads(smolconv("inspect", "--json", blob).stdout)
    assert described["quantization"] == {"method": "calibrated", "statistics": statistics}
    assert f"source: gram, {len(data)} bytes, xxh3 {xxh3(data):016x}" in shown
    result = smolconv("verify", blob, "--source", DEMO, "--calibration", stats)
    assert result.returncode == 0 and "every byte is the same" in result.stdout
    assert smolconv("verify", blob, "--source", DEMO).returncode == NO


def edited(data, offset, new):
    """The file with other bytes in its header, and the right digest."""
    head = bytearray(data[: HEADER.size])
    head[offset : offset + len(new)] = new
    return bytes(head) + struct.pack("<Q", xxh3(bytes(head))) + data[HEADER.size + 8 :]


CASES = [
    ("empty", lambda d: b"", UNSUPPORTED, "not a file of calibration statistics"),
    ("text", lambda d: b"Once upon a time" * 9, UNSUPPORTED, "not a file of calibration statistics"),
    ("half a header", lambda d: d[:40], DAMAGED, ""),
    ("header without records", lambda d: d[:72], DAMAGED, "72 bytes, expected"),
    ("truncated", lambda d: d[:-1], DAMAGED, "bytes, expected"),
    ("longer", lambda d: d + b"\0", DAMAGED, "bytes, expected"),
    ("flipped header", lambda d: d[:20] + b"\xff" + d[21:], DAMAGED, "the header's digest is wrong"),
    ("flipped record", lambda d: d[:5000] + bytes([d[5000] ^ 1]) + d[5001:], DAMAGED, "record 0 is damaged"),
    ("flipped last digest", lambda d: d[:-1] + bytes([d[-1] ^ 1]), DAMAGED, "is damaged"),
    ("newer", lambda d: edited(d, 8, b"\2"), UNSUPPORTED, "version 2.0"),
    ("kind", lambda d: edited(d, 12, b"\3"), DAMAGED, "out of range"),
    ("no layers", lambda d: edited(d, 44, bytes(4)), DAMAGED, "out of range"),
    ("many layers", lambda d: edited(d, 44, b"\xff\xff\xff\xff"), DAMAGED, "out of range"),
    ("width", lambda d: edited(d, 60, b"\xff\xff\xff\xff"), DAMAGED, "out of range"),
    ("other key", lambda d: edited(d, 16, b"\1\2\3\4"), USAGE, "a model with other weights"),
]  # fmt: skip


@pytest.mark.parametrize("name, edit, status, message", CASES, ids=[c[0] for c in CASES])
def test_hostile_statistics_are_errors(name, edit, status, message, folder, tmp_path):
    stats = tmp_path / "stats"
    stats.write_bytes(edit((folder / "gram").read_bytes()))
    result = convert(stats, tmp_path / "blob")
    assert_fails(result, status, message)
    assert not (tmp_path / "blob").exists()


def with_record(data, number, values):
    """The file with another record, and the right digest of it."""
    stats = Stats(data)
    at = HEADER.size + 8
    for width in (stats.widths * stats.n_layers)[:number]:
        at += 2 * width * (width + 1) + 8
    raw = values.astype("<f4").tobytes()
    digest = xxh3(struct.pack("<3Q", xxh3(data[: HEADER.size]), number, xxh3(raw)))
    return data[:at] + raw + struct.pack("<Q", digest) + data[at + len(raw) + 8 :]


@pytest.mark.parametrize("name", ["NaN", "negative diagonal", "zeros", "indefinite", "huge"])
def test_a_record_that_is_no_gram_matrix_is_an_error_or_damped(name, folder, tmp_path):
    data = (folder / "gram").read_bytes()
    width = Stats(data).widths[0]
    matrix = np.eye(width)
    if name == "NaN":
        matrix[3, 7] = np.nan
    elif name == "negative diagonal":
        matrix[5, 5] = -1
    elif name == "zeros":
        matrix[:] = 0
    elif name == "indefinite":
        matrix[:] = -1
        matrix[np.diag_indices(width)] = 1
    else:
        matrix[:] = 3e38
    stats = tmp_path / "stats"
    stats.write_bytes(with_record(data, 0, matrix[np.triu_indices(width)]))
    result = convert(stats, tmp_path / "blob")
    if name in ("NaN", "negative diagonal"):
        assert_fails(result, DAMAGED, "record 0 is damaged")
    else:
        assert result.returncode == 0, result.stderr
        assert smolconv("verify", tmp_path / "blob").returncode == 0


def test_statistics_need_a_dtype_and_a_model_that_they_fit(folder, tmp_path):
    assert_fails(convert(folder / "gram", tmp_path / "blob", "bf16"), USAGE, "has no effect on --dtype bf16")
    make(tmp_path)
    assert_fails(
        convert(folder / "gram", tmp_path / "blob", "int4", tmp_path), USAGE, "of a model of another shape"
    )

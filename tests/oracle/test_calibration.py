"""`smolconv --calibration`: folded factors and the codes of error feedback against numpy, the same bytes for any number of
threads, and what `diff` and `verify` tell about calibrated blobs. hostile_stats.py has bad statistics."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from blobs import read_blob, xxh3
from checkpoints import make, make_of
from families import CONFIGS
from features import featured
from folding import NO_GATE, NO_INPUT_NORMS, ONE_NORM, PARALLEL, Folding
from internal import FILE, NO, ROOT, USAGE
from programs import assert_fails, smolconv, smolrun
from smol_reader import F32
from stats_reader import Stats

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


@pytest.mark.sample(12)
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
        elif tensor.dtype == F32:  # routers
            assert np.allclose(tensor.values(), values, 1e-6, 0), name
        else:
            scales = tensor.steps_and_scales(tensor.rows, tensor.cols)[1].astype(np.float64)
            assert (np.abs(tensor.values() - values) <= 0.501 * scales).all(), name


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["int4", "int5", "int6"])
def test_codes_are_those_of_error_feedback(dtype, folder, tmp_path):
    """Each target follows from the errors of the blob's own earlier codes, so that a tie does not affect the rest."""
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


@pytest.mark.slow
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


def activated(squares):
    return squares * (1 + squares / (1 + squares)) / 4


def entered_state(model, square, of, x):
    """The mean squares of what a state gives."""
    mixed, taps = square(of + "mixer_in") @ x, square(of + "mixer_conv").sum(0)
    if model["state_kind"] == 1:
        b, c, v = np.split(mixed, 3)
        return taps * b * v * c
    heads, head_dim, _, groups = model["state_sizes"]
    width, delta = heads * head_dim, model["state_kind"] == 3
    scales = model["hybrid"]
    norm = scales["norm"]
    place = slice(len(mixed) - width, None) if delta else slice(width)
    values = activated((mixed * taps)[place] * (scales["mixer_in"] * scales["x"]) ** 2)
    gate = activated(square(of + "mixer_gate") @ x * (scales["mixer_in"] * scales["gate"]) ** 2)

    def normed(values, n_groups):
        values = values.reshape(n_groups, -1)
        values = values / values.mean(axis=1, keepdims=True)
        return (values.reshape(-1, square(of + "mixer_norm").size) * square(of + "mixer_norm").reshape(-1)).reshape(-1)

    if delta:
        return normed(values, heads) * gate
    if norm == 2:
        return values * gate
    return normed(values, groups) * gate if norm else normed(values * gate, groups)


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

    after, of_heads = [], []  # records after the output's
    scales = model["hybrid"]
    stream, records = square("embed").mean(0) * (model["embedding_scale"] or 1) ** 2, []
    for layer in range(model["n_layers"]):
        of = f"layers.{layer}."
        mixes, has_mlp = layer not in model["no_mixer"], layer not in model["no_mlp"]
        x = values = entered(stream, of + "attn_norm") if mixes else np.zeros(0)
        mlp_norm = of + ("attn_norm" if model["blocks"] & ONE_NORM else "mlp_norm")
        before = entered(stream, mlp_norm) if has_mlp else np.zeros(0)
        if mixes and (layer not in model["stateful"] or model["parallel"]):
            if model["kv_rank"]:
                entering = x
                if model["q_rank"]:
                    entering = normed(square(of + "attn_q_down") @ x, of + "attn_q_down_norm")
                    after += [entering]
                queries = (square(of + "attn_q") @ entering).reshape(heads, -1)[:, : model["query_dim"]]
                latent = normed((square(of + "attn_k") @ x)[: model["kv_rank"]], of + "attn_latent_norm")
                values = square(of + "attn_v_up") @ latent
                of_heads += [part for query in queries for part in (query, latent)]
            else:
                second = layer in model["second_layers"]
                n, width = (model["second_kv_heads"], model["second_head_dim"]) if second else (kv_heads, dim)
                name = next((of + kind for kind in ("attn_v", "attn_k") if of + kind in weights), None)
                values = (square(name) @ x if name else np.ones(n * width)).reshape(n, width)
                if model["second_head_dim"]:
                    values = values / values.mean(axis=1, keepdims=True)
                values = np.repeat(values, heads // n, axis=0).reshape(-1)
            scale = (scales["attention_in"] * scales["attention_out"]) ** 2
            stream = stream + left(square(of + "attn_o") @ values, of + "attn_out_norm") * 0.3 * scale
        if layer in model["stateful"]:
            given = entered_state(model, square, of, x)
            stream = stream + left(square(of + "mixer_out") @ given, of + "attn_out_norm") * scales["mixer_out"] ** 2
            if model["parallel"]:
                after += [given]
            else:
                values = given
        y = before if model["blocks"] & PARALLEL or not has_mlp else entered(stream, mlp_norm)
        has_gate = not model["blocks"] & NO_GATE

        def inner_of(gate, up, y):
            inner = activated(square(of + (gate if has_gate else up)) @ y * scales["mlp_gate"] ** 2)
            return square(of + up) @ y * inner if has_gate else inner

        added, inner = np.zeros(len(stream)), np.zeros(0)
        if of + "mlp_up" in weights:
            inner = inner_of("mlp_gate", "mlp_up", y)
            added = square(of + "mlp_down") @ inner * (0.25 if of + "shared_gate" in weights else 1)
        beside, of_expert = 0, y
        if of + "router_norm" in weights:
            beside, added = normed(added, of + "shared_out_norm"), np.zeros(len(stream))
            of_expert = normed(stream, of + "expert_norm")
        for expert in range(model["experts"]["n_experts"] if of + "router" in weights else 0):
            place = f"experts.{expert}."
            activation = inner_of(place + "gate", place + "up", of_expert)
            share = model["experts"]["scale"] ** 2 / (model["experts"]["n_used"] * model["experts"]["n_experts"])
            added += share * (square(of + place + "down") @ activation)
            after += [of_expert, activation]
        if of + "router_norm" in weights:
            added = normed(added, of + "expert_out_norm") + beside
        stream = stream + left(added, of + "mlp_out_norm") * scales["mlp_out"] ** 2
        records += [x, values, y, inner]
        if of + "input_gate" in weights:
            activation = activated(square(of + "input_gate") @ stream)
            after += [stream, activation]
            stream = stream + normed(square(of + "input_out") @ activation, of + "input_out_norm")
        if of + "layer_scale" in weights:
            stream = stream * square(of + "layer_scale").reshape(-1)
    return [record.astype(np.float32) for record in [*records, normed(stream, "final_norm"), *after, *of_heads]]


@pytest.mark.sample(8)
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
    assert smolconv("verify", tmp_path / "blob", "--source", DEMO).returncode == 0  # as its provenance says


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


def verify(blob, *options):
    return smolconv("verify", blob, "--source", DEMO, *options)


def test_a_calibrated_blob_needs_its_own_statistics(folder, tmp_path):
    blob, plain = tmp_path / "blob", tmp_path / "plain"
    converted(folder / "gram", blob)
    assert_fails(verify(blob), USAGE, "was converted with calibration statistics: name the same file with --calibration")
    assert_fails(verify(blob, "--calibration", tmp_path / "none"), FILE, "none")
    other = verify(blob, "--calibration", folder / "diagonal")
    assert_fails(other, NO, "was converted with other calibration statistics than", str(folder / "diagonal"))
    assert smolconv("--quiet", "--dtype", "int4", DEMO, plain).returncode == 0
    assert verify(plain).returncode == 0
    for path in (plain, folder / "f32.smol"):
        result = verify(path, "--calibration", folder / "gram")
        assert_fails(result, USAGE, f"--calibration: {path.name} was converted without: leave it out")


def test_diff_explains_what_calibration_does_to_elements(folder, tmp_path):
    """Where both have the same calibration, there is nothing to explain."""
    plain = tmp_path / "plain"
    assert smolconv("--quiet", "--dtype", "int4", "--calibration", "none", DEMO, plain).returncode == 0
    blobs = {}
    for dtype, kind in (("int4", "gram"), ("int8", "gram"), ("int4", "diagonal")):
        blobs[dtype, kind] = tmp_path / f"{dtype}-{kind}"
        converted(folder / kind, blobs[dtype, kind], dtype)
    gram, diagonal = blobs["int4", "gram"], blobs["int4", "diagonal"]
    for pair, explains in (
        ((DEMO, gram), True), ((gram, DEMO), True), ((plain, gram), True), ((gram, diagonal), True),
        ((gram, blobs["int8", "gram"]), False), ((plain, DEMO), False), ((gram, gram), False),
    ):  # fmt: skip
        result = smolconv("diff", *pair)
        assert ("do not have the same calibration" in result.stdout) == explains, pair
        assert result.returncode == (pair[0] != pair[1])


def test_statistics_need_a_dtype_and_a_model_that_they_fit(folder, tmp_path):
    assert_fails(convert(folder / "gram", tmp_path / "blob", "bf16"), USAGE, "has no effect on --dtype bf16")
    make(tmp_path)
    assert_fails(
        convert(folder / "gram", tmp_path / "blob", "int4", tmp_path), USAGE, "of a model of another shape"
    )

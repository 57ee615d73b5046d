"""The parts of blocks, in any combination, against a forward pass in numpy that is written from FORMAT.md
alone. (test_families.py compares families with transformers; not every combination has a family.)"""

import ctypes
import json
import statistics
import struct
from types import SimpleNamespace

import numpy as np
import programs
import pytest
from blobs import read_blob
from engine import Model, kernel_sets
from internal import NO, OK, Error, lib, open_writer
from smol_reader import (
    F32,
    LAYER_NORM,
    MODEL_FIELDS,
    NO_GATE,
    NO_INPUT_NORMS,
    NO_ROTATION,
    NO_TOKEN,
    NORM_OUTPUTS,
    ONE_NORM,
    OUTPUT_BIAS,
    PARALLEL,
    POSITIONS,
    QK_NORM_ALL,
    QK_NORM_HEADS,
    QK_NORM_LATE,
    ROLES,
    ROTATE_NEIGHBOURS,
    SECOND_TABLE,
    WINDOWED,
)
from test_format import Contents, example_tokenizer
from test_logits import largest_difference

TOLERANCE = 2e-4  # of a position's spread, as for families
SEEDS = 16
N_POSITIONS = 330  # crosses blocks of 64 positions and a span of 256
PLAIN = dict(
    family=1, dtype=F32, n_layers=3, hidden_size=40, intermediate_size=50, n_heads=4, n_kv_heads=2,
    head_dim=12, vocab_size=61, context_length=512, bos_id=NO_TOKEN, tied_embeddings=0,
    rms_norm_eps=1e-5, attention_bias=0, mlp_bias=0, activation=0, rope_theta=10000.0, blocks=0,
    embedding_scale=1.0, residual_scale=1.0, attention_scale=12**-0.5, attention_softcap=0.0,
    logit_divisor=1.0, logit_softcap=0.0, sliding_window=0, rotary_dim=12, n_rope_tables=1,
    rope_scale=1.0, rope_scale1=0.0, query_growth=0.0, query_period=0,
)  # fmt: skip
MODEL_LAYOUT = "<12IfIIIdI6fIIIfffI"


# --- making blobs -----------------------------------------------------------------------------


def extents(m):
    query, key = m["n_heads"] * m["head_dim"], m["n_kv_heads"] * m["head_dim"]
    whole = m["blocks"] & QK_NORM_ALL
    return {
        "H": m["hidden_size"], "I": m["intermediate_size"], "V": m["vocab_size"], "Q": query, "A": query, "i": m["hidden_size"],
        "C": m["context_length"], "K": key, "q": query if whole else m["head_dim"], "k": key if whole else m["head_dim"],
    }  # fmt: skip


def tensors_of(m):
    """7.1: (name, shape), in order."""
    sizes, m = extents(m), m | {"kv_rank": 0, "keeps": True, "has_values": True, "mixes": True, "has_mlp": True, "second_head_dim": 0, "input_width": 0}
    have = [r for r in ROLES if r[0] < 28 and (r[4] is None or (r[4](m) if callable(r[4]) else m[r[4]]))]
    roles = [r for r in have if r[1] in ("embed", "positions")]
    layers = [(f"layers.{i}.{r[1]}", r[3]) for i in range(m["n_layers"]) for r in have if r[2]]
    named = [(r[1], r[3]) for r in roles] + layers
    named += [(r[1], r[3]) for r in have if not r[2] and r not in roles]
    return [(name, [sizes[letter] for letter in shape]) for name, shape in named]


def random_weights(m, rng):
    weights = {}
    for name, shape in tensors_of(m):
        values = rng.normal(size=shape)
        if name.endswith("norm"):
            values = 1 + 0.3 * values
        elif name.endswith("bias"):
            values *= 0.5
        elif name not in ("embed", "positions"):
            values *= (4 if name == "output" else 1.2) / shape[1] ** 0.5
        weights[name] = values.astype(np.float32)
    return weights


def stored(name, values):
    """7.2 and 7.3: the bytes of a vector or of rows, of an f32 matrix."""
    if values.ndim == 1 or name == "positions":
        return np.pad(values.reshape(-1), (0, -values.size % 16)).tobytes()
    rows = np.pad(values, ((0, -len(values) % 16), (0, 0)))
    return rows.reshape(-1, 16, rows.shape[1]).transpose(0, 2, 1).tobytes()


def write(path, m, layers, inv_freq, weights, tokenizer=None):
    error, writer = Error(), ctypes.c_void_p()
    fields = struct.pack(MODEL_LAYOUT, *(m[name] for name in MODEL_FIELDS)).ljust(2048, b"\0")  # with the sections after it
    tokenizer = tokenizer or example_tokenizer()
    contents = Contents(
        fields, inv_freq.tobytes(), b"", 0, bytes(64), b"", 0, tokenizer, len(tokenizer), layers=layers
    )
    status = open_writer(path, contents, writer, error)
    assert status == OK, error
    for name, _ in tensors_of(m):
        data = stored(name, weights[name])
        assert lib.smol_writer_append(writer, data, len(data), ctypes.byref(error)) == OK, error
    assert lib.smol_writer_finish(writer, ctypes.byref(error)) == OK, error
    return path


# --- the forward pass -------------------------------------------------------------------------


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    d = x - x.mean(axis=-1, keepdims=True)
    return rms_norm(d, weight, eps) + bias


def softcap(x, cap):
    return np.tanh(x / cap) * cap if cap else x


def activate(x, kind):
    if kind == 0:
        return x / (1 + np.exp(-x))
    if kind == 2:
        return x * np.vectorize(statistics.NormalDist().cdf)(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


class Reference:
    """A forward pass in double precision. Weights have the names of section 7.1."""

    def __init__(self, m, layers, inv_freq, weights):
        self.m, self.layers = SimpleNamespace(**m), layers
        self.inv_freq = inv_freq.reshape(m["n_rope_tables"], -1).astype(np.float64)
        self.weights = {name: value.astype(np.float64) for name, value in weights.items()}

    def get(self, layer, name):
        return self.weights.get(f"layers.{layer}.{name}")

    def linear(self, x, layer, name):
        y, bias = x @ self.get(layer, name).T, self.get(layer, f"{name}_bias")
        return y if bias is None else y + bias

    def norm(self, x, layer, name):
        weight, bias = self.get(layer, name), self.get(layer, f"{name}_bias")
        if weight is None:
            return x
        eps = self.m.rms_norm_eps
        return rms_norm(x, weight, eps) if bias is None else layer_norm(x, weight, bias, eps)

    def head_norm(self, x, layer, norm):
        """The norm of x (n, positions, head_dim), if the model has it."""
        if self.m.blocks & QK_NORM_HEADS:
            return self.norm(x, layer, norm)
        if self.m.blocks & QK_NORM_ALL:
            n, positions, dim = x.shape
            whole = self.norm(x.transpose(1, 0, 2).reshape(positions, -1), layer, norm)
            return whole.reshape(positions, n, dim).transpose(1, 0, 2)
        return x

    def heads(self, x, layer, norm, n):
        """(n, positions, head_dim), normed and rotated."""
        x = x.reshape(len(x), n, -1).transpose(1, 0, 2)
        if self.m.blocks & QK_NORM_LATE:
            return self.head_norm(self.rotated(x, layer), layer, norm)
        return self.rotated(self.head_norm(x, layer, norm), layer)

    def rotated(self, x, layer):
        bits, half = self.layers[layer], self.m.rotary_dim // 2
        if bits & NO_ROTATION:
            return x
        table = 1 if bits & SECOND_TABLE else 0
        scale = (self.m.rope_scale, self.m.rope_scale1)[table]
        angles = np.arange(x.shape[1])[:, None] * self.inv_freq[table]
        c, s = np.cos(angles) * scale, np.sin(angles) * scale
        if self.m.blocks & ROTATE_NEIGHBOURS:
            a, b = x[..., : 2 * half : 2], x[..., 1 : 2 * half : 2]
            turned = np.stack([a * c - b * s, b * c + a * s], axis=-1).reshape(*a.shape[:-1], -1)
            return np.concatenate([turned, x[..., 2 * half :]], axis=-1)
        a, b = x[..., :half], x[..., half : 2 * half]
        return np.concatenate([a * c - b * s, b * c + a * s, x[..., 2 * half :]], axis=-1)

    def attention(self, x, layer):
        m, n = self.m, len(x)
        q = self.heads(self.linear(x, layer, "attn_q"), layer, "attn_q_norm", m.n_heads)
        k = self.heads(self.linear(x, layer, "attn_k"), layer, "attn_k_norm", m.n_kv_heads)
        if m.query_period:
            periods = np.arange(n) // m.query_period
            q = q * (1 + m.query_growth * np.log(1 + periods))[:, None]
        v = self.linear(x, layer, "attn_v").reshape(n, m.n_kv_heads, -1).transpose(1, 0, 2)
        k, v = (np.repeat(y, m.n_heads // m.n_kv_heads, axis=0) for y in (k, v))
        scores = softcap(q @ k.transpose(0, 2, 1) * m.attention_scale, m.attention_softcap)
        distance = np.arange(n)[:, None] - np.arange(n)
        window = m.sliding_window if self.layers[layer] & WINDOWED else n
        scores[:, (distance < 0) | (distance >= window)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = weights / weights.sum(axis=-1, keepdims=True) @ v
        return self.linear(mixed.transpose(1, 0, 2).reshape(n, -1), layer, "attn_o")

    def mlp(self, x, layer):
        if self.m.blocks & NO_GATE:
            up = activate(self.linear(x, layer, "mlp_up"), self.m.activation)
            return self.linear(up, layer, "mlp_down")
        gate = activate(self.linear(x, layer, "mlp_gate"), self.m.activation)
        return self.linear(gate * self.linear(x, layer, "mlp_up"), layer, "mlp_down")

    def logits(self, ids):
        m, x = self.m, self.weights["embed"][ids] * self.m.embedding_scale
        if m.blocks & POSITIONS:
            x = x + self.weights["positions"][: len(ids)]
        for layer in range(m.n_layers):
            before = x
            for block, name in ((self.attention, "attn"), (self.mlp, "mlp")):
                norm = "attn_norm" if m.blocks & ONE_NORM else f"{name}_norm"
                read = before if m.blocks & PARALLEL else x
                out = block(self.norm(read, layer, norm), layer)
                x = x + self.norm(out, layer, f"{name}_out_norm") * m.residual_scale
        if m.blocks & LAYER_NORM:
            bias = self.weights["final_norm_bias"]
            x = layer_norm(x, self.weights["final_norm"], bias, m.rms_norm_eps)
        else:
            x = rms_norm(x, self.weights["final_norm"], m.rms_norm_eps)
        logits = x @ self.weights["output"].T + self.weights.get("output_bias", 0)
        return softcap(logits / m.logit_divisor, m.logit_softcap)


# --- drawing ----------------------------------------------------------------------------------


def draw_components(rng, blocks):
    """Bits of components that go with these blocks: none, or about half of them."""
    if rng.integers(2):
        return 0
    norms, inputs = blocks & (QK_NORM_HEADS | QK_NORM_ALL), not blocks & NO_INPUT_NORMS
    possible = [ROTATE_NEIGHBOURS, NO_GATE, POSITIONS, OUTPUT_BIAS]
    possible += [QK_NORM_LATE] * bool(norms) + [LAYER_NORM] * (not blocks & NORM_OUTPUTS)
    parallel = int(rng.choice([0, PARALLEL, PARALLEL | ONE_NORM if inputs else PARALLEL]))
    return parallel | sum(bit for bit in possible if rng.integers(2))


def draw(seed):
    """A model with about half of all that there is, its layers and its inv_freq."""
    rng = np.random.default_rng(seed)

    def perhaps(value, otherwise):
        return value if rng.integers(2) else otherwise

    layers = rng.choice([0, 1, 2, 3, 4, 5], PLAIN["n_layers"])
    tables = 2 if any(layers & SECOND_TABLE) else 1
    norms = int(rng.choice([0, QK_NORM_HEADS, QK_NORM_ALL]))
    blocks = norms | int(rng.choice([0, NORM_OUTPUTS, NORM_OUTPUTS | NO_INPUT_NORMS]))
    components = draw_components(rng, blocks)
    growth = (0.3, 100) if components and rng.integers(2) else (0.0, 0)
    m = PLAIN | dict(
        attention_bias=int(rng.integers(3)), mlp_bias=int(rng.integers(2)),
        activation=int(rng.integers(3 if components else 2)), blocks=blocks | components,
        query_growth=growth[0], query_period=growth[1],
        embedding_scale=perhaps(3.5, 1.0), residual_scale=perhaps(0.4, 1.0),
        attention_scale=perhaps(0.5, PLAIN["attention_scale"]),
        attention_softcap=perhaps(1.5, 0.0), logit_divisor=perhaps(3.0, 1.0),
        logit_softcap=perhaps(4.0, 0.0), rotary_dim=int(rng.choice([2, 6, 12])),
        sliding_window=int(rng.choice([1, 3, 64, 100, 270])) if any(layers & WINDOWED) else 0,
        n_rope_tables=tables, rope_scale=perhaps(1.25, 1.0),
        rope_scale1=0.75 if tables == 2 else 0.0,
        n_kv_heads=int(rng.choice([1, 2, 4])),
    )  # fmt: skip
    thetas = (10000.0, 100.0)[:tables]
    exponents = np.arange(0, m["rotary_dim"], 2) / m["rotary_dim"]
    inv_freq = np.array([theta**-exponents for theta in thetas], np.float32)
    return m, bytes(layers.astype(np.uint8)), inv_freq, random_weights(m, rng)


@pytest.fixture(params=range(SEEDS))
def drawn(request, tmp_path):
    """(path of a blob, its reference, some ids)"""
    parts = draw(request.param)
    ids = np.random.default_rng(request.param).integers(0, PLAIN["vocab_size"], N_POSITIONS)
    return write(tmp_path / "drawn.smol", *parts), Reference(*parts), ids


@pytest.mark.sample(8)
def test_any_combination_is_computed(drawn):
    path, reference, ids = drawn
    read_blob(path).check_padding()
    with Model(path) as model:
        ours = model.logits(ids, threads=2, kv="f32")
        assert largest_difference(ours, reference.logits(ids)) <= TOLERANCE
        for isa in [name for name, _, runs in kernel_sets() if runs]:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SMOL_ISA", isa)
                with model.context(3, "f32") as context:
                    parts = [context.eval(part) for part in np.split(ids, [70, 71, 72, 260])]
            assert np.concatenate(parts).tobytes() == ours.tobytes(), isa


def run(program, *arguments, status=OK):
    result = programs.run(program, arguments, text=True)
    assert result.returncode == status, result.stderr
    return result.stdout


def everything():
    """Returns a model with as many parts as fit together."""
    m = PLAIN | dict(
        hidden_size=12, intermediate_size=20, n_heads=3, n_kv_heads=1, head_dim=6, vocab_size=41,
        attention_bias=2, mlp_bias=1, activation=1, blocks=NORM_OUTPUTS | QK_NORM_HEADS,
        embedding_scale=2.0, residual_scale=0.5, attention_scale=0.25, attention_softcap=50.0,
        logit_divisor=3.0, logit_softcap=30.0, sliding_window=7, rotary_dim=4, n_rope_tables=2,
        rope_scale1=0.75,
    )  # fmt: skip
    inv_freq = np.array([[1, 0.1], [1, 0.5]], np.float32)
    return m, bytes([1, 2, 5]), inv_freq, random_weights(m, np.random.default_rng(1))


def test_every_command_takes_such_blobs(tmp_path):
    m, layers, inv_freq, weights = everything()
    a = write(tmp_path / "a.smol", m, layers, inv_freq, weights)
    other = m | dict(sliding_window=8, logit_softcap=31.0, rope_scale1=1.0)
    b = write(tmp_path / "b.smol", other, bytes([3, 2, 5]), inv_freq, weights)
    assert "good" in run("smolconv", "verify", a)
    shown = " ".join(run("smolconv", "inspect", a).split())
    for part in [
        ".smol 1.1", "activation gelu_tanh", "norms inputs outputs q-heads k-heads",
        "embedding 2, residual 0.5, attention 0.25, logits 1/3", "attention 50, logits 30",
        "rope 4 of 6 elements, scale 1, and 0.75 by a second table", "sliding_window 7",
        "windowed layers 0 2", "not rotated 1", "second table 2", "attention q, k, v",
    ]:  # fmt: skip
        assert part in shown, part
    assert run("smolconv", "diff", a, a)
    differences = run("smolconv", "diff", a, b, status=NO)
    for part in ("sliding_window", "logit_softcap", "rope_scale[1]", "layers[0]"):
        assert part in differences
    for part in ("attention_softcap", "layers[1]", "rotary_dim"):
        assert part not in differences
    run("smolconv", "pack", a, tmp_path / "a.zst")
    run("smolconv", "unpack", tmp_path / "a.zst", tmp_path / "unpacked.smol")
    assert (tmp_path / "unpacked.smol").read_bytes() == a.read_bytes()
    run("smolconv", "delta", a, b, tmp_path / "ab.smoldelta")
    run("smolconv", "patch", a, tmp_path / "ab.smoldelta", tmp_path / "patched.smol")
    assert (tmp_path / "patched.smol").read_bytes() == b.read_bytes()
    assert len(run("smolrun", a, "ab", "-n", "4", "--ids").split()) == 4


def test_draws_have_everything():
    drawn = [draw(seed) for seed in range(SEEDS)]
    models, layers = [d[0] for d in drawn], [d[1] for d in drawn]
    for name in MODEL_FIELDS[MODEL_FIELDS.index("attention_bias") :]:
        wanted = 1 if name == "rope_theta" else 2
        assert len({m[name] for m in models}) >= wanted, name
    assert {bits for row in layers for bits in row} == set(range(6))
    used = [{bit for bit in range(12) if m["blocks"] >> bit & 1} for m in models]
    assert set.union(*used) == set(range(12)) and any(max(bits, default=0) < 4 for bits in used)


def test_components_are_described(tmp_path):
    bits = LAYER_NORM | NO_GATE | PARALLEL | ONE_NORM | POSITIONS | OUTPUT_BIAS | ROTATE_NEIGHBOURS
    m = everything()[0] | dict(blocks=bits, activation=2, query_growth=0.5, query_period=9)
    weights = random_weights(m, np.random.default_rng(2))
    a = write(tmp_path / "a.smol", m, bytes([1, 2, 5]), everything()[2], weights)
    other = m | dict(query_growth=0.25, query_period=10, activation=1)
    b = write(tmp_path / "b.smol", other, bytes([1, 2, 5]), everything()[2], weights)
    assert "good" in run("smolconv", "verify", a)
    shown = " ".join(run("smolconv", "inspect", a).split())
    for part in [
        ".smol 1.4", "blocks, components", "activation gelu ", "norms inputs ", "components LayerNorm,",
        "attention and MLP in parallel, one norm for both, learned positions, output bias,",
        "query scale 1 + 0.5 ln(1 + floor(position / 9))",
    ]:  # fmt: skip
        assert part in shown, part
    told = json.loads(run("smolconv", "inspect", "--json", a))["model"]
    assert {"layer_norm", "no_gate", "positions"} < set(told["blocks"]) and told["query_period"] == 9
    differences = run("smolconv", "diff", a, b, status=NO)
    for part in ("query_growth", "query_period", "gelu_tanh"):
        assert part in differences
    assert len(run("smolrun", a, "ab", "-n", "4", "--ids").split()) == 4

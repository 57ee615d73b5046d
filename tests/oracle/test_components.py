"""The parts of the forward pass, one by one, against PyTorch and transformers, for every kernel
set that this machine runs."""

import ctypes
import math
import os
import struct
import subprocess

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from checkpoints import load_reference, make, reference_logits
from engine import Model, convert, kernel, kernel_sets
from internal import OK, ROOT, Error, lib
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

KV_BLOCK, GROUP, ROWS = 64, 32, 16
POINTER, SIZE, FLOAT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float
WIDTHS = [1, 2, 15, 16, 17, 31, 32, 33, 64, 100, 576, 1537]


@pytest.fixture(params=kernel_sets(), ids=lambda kernels: kernels[0])
def kernels(request):
    """Takes the arguments of engine.kernel behind the address."""
    name, address, runs = request.param
    if not runs:
        pytest.skip(f"this machine cannot run the {name} kernels")
    return lambda *arguments, **options: kernel(address, *arguments, **options)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def aligned(size, dtype=np.uint8):
    """Zeros at a multiple of 64 bytes, as tiles lie."""
    buffer = np.zeros(size * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size * np.dtype(dtype).itemsize].view(dtype)


def assert_close(ours, reference, relative, absolute=0.0):
    np.testing.assert_allclose(ours, reference, rtol=relative, atol=absolute)


# --- normalization, activation ----------------------------------------------------------------


@pytest.mark.parametrize("eps", [1e-5, 1e-6, 0.1])
@pytest.mark.parametrize("n", WIDTHS)
def test_rms_norm_is_that_of_transformers(n, eps, kernels, rng):
    rms_norm = kernels("rms_norm", None, POINTER, POINTER, SIZE, FLOAT, POINTER)
    reference = LlamaRMSNorm(n, eps)
    for scale in (1, 1e-3, 300, 1e15):
        x, weight, out = normal(rng, n) * np.float32(scale), normal(rng, n), normal(rng, n)
        reference.weight.data = torch.from_numpy(weight)
        rms_norm(x.ctypes.data, weight.ctypes.data, n, eps, out.ctypes.data)
        assert_close(out, reference(torch.from_numpy(x)).detach().numpy(), 1e-6)


@pytest.mark.parametrize("n", WIDTHS)
def test_swiglu_is_that_of_transformers(n, kernels, rng):
    swiglu = kernels("swiglu", None, POINTER, POINTER, SIZE)
    config = LlamaConfig(hidden_size=n, intermediate_size=n, num_attention_heads=1, head_dim=2)
    mlp = LlamaMLP(config)
    for linear in (mlp.gate_proj, mlp.up_proj, mlp.down_proj):
        linear.weight.data = torch.eye(n)
    x = normal(rng, n) * 8
    gate, up = x.copy(), x.copy()
    swiglu(gate.ctypes.data, up.ctypes.data, n)
    assert_close(gate, mlp(torch.from_numpy(x)).detach().numpy(), 1e-6)


def test_swiglu_of_extremes_is_that_of_torch(kernels):
    swiglu = kernels("swiglu", None, POINTER, POINTER, SIZE)
    gate = np.array([0, -0.0, 1e-30, -1e-30, 88, -80, -87.5, -100, -1e4, 1e4, 1e38], np.float32)
    up = np.full(len(gate), 1.5, np.float32)
    expected = (F.silu(torch.from_numpy(gate)) * 1.5).numpy()
    swiglu(gate.ctypes.data, up.ctypes.data, len(gate))
    assert_close(gate, expected, 1e-6, absolute=1e-33)


# --- softmax, attention -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 40, 63, 64])
def test_softmax_is_that_of_torch(n, kernels, rng):
    softmax = kernels("softmax", FLOAT, POINTER, SIZE, POINTER)
    for spread in (0, 1, 10, 200):
        scores = normal(rng, KV_BLOCK) * np.float32(spread)
        expected = torch.softmax(torch.from_numpy(scores[:n].copy()), 0).numpy()
        largest, most = scores[:n].max(), ctypes.c_float()
        scores[n:] = 1e30  # what lies behind must not matter
        total = softmax(scores.ctypes.data, n, ctypes.byref(most))
        assert most.value == largest and not scores[n:].any()
        # beyond e^-87 weights end at about 1e-38
        assert_close(scores[:n] / total, expected, 1e-6, absolute=1e-37)


class KvBlock(ctypes.Structure):
    """struct kv_block of runtime/kernels/kernels.h."""

    _fields_ = [(name, POINTER) for name in ("k", "v", "k_scale", "v_scale")]


lib.smol_kv_init.argtypes = [POINTER, ctypes.c_int] + [SIZE] * 4 + [POINTER]
lib.smol_kv_reserve.argtypes = [POINTER, SIZE, POINTER]
lib.smol_kv_store.argtypes = [POINTER, POINTER] + [SIZE] * 3 + [POINTER, POINTER]
lib.smol_kv_store.restype = None
lib.smol_kv_block.argtypes = [POINTER] + [SIZE] * 3
lib.smol_kv_block.restype = KvBlock
lib.smol_kv_free.argtypes = [POINTER]
lib.smol_kv_free.restype = None


class KvCache:
    """A cache of 2 layers and 3 heads, of which layer 1, head 2 is used."""

    def __init__(self, kv_type, head_dim, n, address):
        self.address, self.error = address, Error()
        self.memory = ctypes.create_string_buffer(4096)  # more than struct kv_cache needs
        status = lib.smol_kv_init(
            self.memory, kv_type, 2, 3, head_dim, n, ctypes.byref(self.error)
        )
        assert status == OK, self.error
        assert lib.smol_kv_reserve(self.memory, n, ctypes.byref(self.error)) == OK, self.error

    def store(self, position, k, v):
        lib.smol_kv_store(
            self.memory, self.address, 1, 2, position, k.ctypes.data, v.ctypes.data
        )

    def block(self, index):
        return lib.smol_kv_block(self.memory, 1, 2, index)

    def free(self):
        lib.smol_kv_free(self.memory)


def stored_f32(x):
    return x


def stored_f16(x):
    return x.half().float()


def stored_int8(x):
    """Steps of amax / 127 per position."""
    amax = x.abs().amax(dim=1, keepdim=True)
    return torch.round(x * (127 / amax)) * (amax / 127)


STORED = [stored_f32, stored_f16, stored_int8]


def attend(kernels, kv_type, cache, query, n):
    """One head over the cache's first n positions, blocks combined in double."""
    head_dim = len(query)
    scores_of = kernels(
        "attention_scores", None, POINTER, POINTER, SIZE, FLOAT, POINTER, index=kv_type
    )
    softmax = kernels("softmax", FLOAT, POINTER, SIZE, POINTER)
    values_of = kernels(
        "attention_values", None, POINTER, SIZE, POINTER, SIZE, POINTER, index=kv_type
    )
    parts = []
    for start in range(0, n, KV_BLOCK):
        rest, block = min(KV_BLOCK, n - start), cache.block(start // KV_BLOCK)
        scores, values = np.zeros(KV_BLOCK, np.float32), np.zeros(head_dim + 15, np.float32)
        most = ctypes.c_float()
        scale = 1 / math.sqrt(head_dim)
        scores_of(query.ctypes.data, ctypes.byref(block), head_dim, scale, scores.ctypes.data)
        total = softmax(scores.ctypes.data, rest, ctypes.byref(most))
        values_of(scores.ctypes.data, rest, ctypes.byref(block), head_dim, values.ctypes.data)
        parts.append((most.value, total, values[:head_dim].astype(np.float64)))
    top = max(most for most, _, _ in parts)
    weights = [math.exp(most - top) for most, _, _ in parts]
    total = sum(w * part for w, (_, part, _) in zip(weights, parts))
    return sum(w * values for w, (_, _, values) in zip(weights, parts)) / total


@pytest.mark.parametrize("kv_type", [0, 1, 2], ids=["f32", "f16", "int8"])
@pytest.mark.parametrize("head_dim", [2, 10, 16, 64, 80])
def test_attention_over_a_cache_is_that_of_torch(head_dim, kv_type, request, kernels, rng):
    address = request.node.callspec.params["kernels"][1]
    for n in (1, 17, 63, 64, 65, 200):
        query = normal(rng, head_dim) * 2
        k, v = normal(rng, 2, 256, head_dim)
        cache = KvCache(kv_type, head_dim, 256, address)
        for position in range(256):  # those from n on must not matter
            factor = np.float32(1 if position < n else 1000)
            cache.store(position, k[position] * factor, v[position] * factor)
        ours = attend(kernels, kv_type, cache, query, n)
        cache.free()
        stored = [STORED[kv_type](torch.from_numpy(x[:n])) for x in (k, v)]
        expected = F.scaled_dot_product_attention(torch.from_numpy(query)[None], *stored)[0]
        assert_close(ours, expected.numpy(), 1e-5, absolute=2e-6)


# --- quantizing, matrix products --------------------------------------------------------------


def quantize_with_torch(x):
    """(steps, scales) of groups of 32, the last one shorter."""
    padded = F.pad(torch.from_numpy(x), (0, -len(x) % GROUP)).view(-1, GROUP)
    amax = padded.abs().amax(dim=1, keepdim=True)
    steps = torch.where(amax > 0, torch.round(padded * (127 / amax)), 0)  # to nearest even
    return steps.to(torch.int8).numpy().ravel(), (amax / 127).numpy().ravel()


@pytest.mark.parametrize("n", WIDTHS)
def test_quantizing_is_that_of_torch_to_the_bit(n, kernels, rng):
    quantize = kernels("quantize", ctypes.c_bool, POINTER, SIZE, POINTER, POINTER)
    for scale in (1, 1e-20, 1e20, 0):
        x = normal(rng, n) * np.float32(scale)
        steps, scales = quantize_with_torch(x)
        q, s = np.full(len(steps), 99, np.int8), np.full(len(scales), 99, np.float32)
        assert quantize(x.ctypes.data, n, q.ctypes.data, s.ctypes.data)
        assert (q == steps).all() and s.tobytes() == scales.tobytes()
        restored = (q.reshape(-1, GROUP) * s[:, None]).ravel()[:n]
        bound = np.repeat(s, GROUP)[:n].astype(np.float64)
        assert (abs(restored.astype(np.float64) - x) <= 0.50001 * bound).all()


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_quantizing_refuses_what_is_not_finite(bad, kernels, rng):
    quantize = kernels("quantize", ctypes.c_bool, POINTER, SIZE, POINTER, POINTER)
    for place in (0, 31, 32, 69):
        x, q, s = normal(rng, 70), np.zeros(96, np.int8), np.zeros(3, np.float32)
        x[place] = bad
        assert not quantize(x.ctypes.data, 70, q.ctypes.data, s.ctypes.data)


@pytest.mark.parametrize("n_tokens", [1, 3, 4, 64])
@pytest.mark.parametrize("cols", [1, 33, 576])
def test_f32_product_is_that_of_torch(cols, n_tokens, kernels, rng):
    matmul = kernels("matmul_f32", None, POINTER, SIZE, POINTER, SIZE, SIZE, POINTER, SIZE)
    weight, x = normal(rng, ROWS, cols), normal(rng, n_tokens, cols + 3)
    block, out = aligned(cols * ROWS, np.float32), np.zeros((n_tokens, 20), np.float32)
    block[:] = weight.T.ravel()  # a column's 16 rows side by side
    matmul(block.ctypes.data, cols, x.ctypes.data, cols + 3, n_tokens, out.ctypes.data, 20)
    expected = F.linear(*(torch.from_numpy(a).double() for a in (x[:, :cols], weight)))
    bound = F.linear(*(torch.from_numpy(abs(a)).double() for a in (x[:, :cols], weight)))
    assert (abs(out[:, :ROWS] - expected.numpy()) <= 1e-6 * bound.numpy()).all()
    assert not out[:, ROWS:].any()


def int8_block(steps, scales):
    """A row block: pairs of groups, each pair's 2 x 16 f16 scales in front of its weights; within
    a group 4 inputs of each of 16 rows side by side."""
    n_groups = scales.shape[1]
    block = aligned((n_groups + 1) // 2 * 1088)
    for group in range(n_groups):
        start = group // 2 * 1088
        at = start + group % 2 * 32
        block[at : at + 32] = scales[:, group].copy().view(np.uint8)
        at = start + 64 + group % 2 * 512
        quads = steps[:, group * GROUP : (group + 1) * GROUP].reshape(ROWS, 8, 4)
        block[at : at + 512] = quads.swapaxes(0, 1).ravel().view(np.uint8)
    return block


@pytest.mark.parametrize("n_tokens", [1, 3, 4, 64])
@pytest.mark.parametrize("n_groups", [1, 2, 5, 18])
def test_int8_product_is_that_of_torch(n_groups, n_tokens, kernels, rng):
    matmul = kernels(
        "matmul_int8", None, POINTER, SIZE, POINTER, SIZE, POINTER, SIZE, SIZE, POINTER, SIZE
    )
    cols = n_groups * GROUP
    weights = rng.integers(-127, 128, (ROWS, cols)).astype(np.int8)
    scales = np.ascontiguousarray(abs(normal(rng, ROWS, n_groups)).astype(np.float16))
    q = rng.integers(-127, 128, (n_tokens, cols)).astype(np.int8)
    weights[0], weights[1], q[0] = 127, -127, -127  # the largest sums
    steps = abs(normal(rng, n_tokens, n_groups))
    block, out = int8_block(weights, scales), np.zeros((n_tokens, ROWS), np.float32)
    matmul(
        block.ctypes.data, n_groups, q.ctypes.data, cols, steps.ctypes.data, n_groups, n_tokens,
        out.ctypes.data, ROWS,
    )  # fmt: skip
    x = torch.from_numpy(q * np.repeat(steps.astype(np.float64), GROUP, axis=1))
    weight = torch.from_numpy(weights * np.repeat(scales.astype(np.float64), GROUP, axis=1))
    bound = F.linear(x.abs(), weight.abs()).numpy()
    assert (abs(out - F.linear(x, weight).numpy()) <= 1e-6 * bound).all()


# --- rotary embedding -------------------------------------------------------------------------


def inv_freq_of(blob):
    """SECTION_INV_FREQ of a blob (format/FORMAT.md)."""
    data = blob.read_bytes()
    n_sections = struct.unpack_from("<I", data, 20)[0]
    for i in range(n_sections):
        kind, _, offset, size = struct.unpack_from("<IIQQ", data, 64 + 24 * i)
        if kind == 2:
            return np.frombuffer(data, "<f4", size // 4, offset)
    raise AssertionError("no inv_freq")


THETAS = [10000.0, 100000.0, 500000.0, 1e6, 1e7, 10.0, 150000.0, 1234567.89]


@pytest.mark.parametrize("theta", THETAS)
def test_inv_freq_is_that_of_transformers(theta, tmp_path, record_property):
    """Torch's power in f32 is an ulp off for about one element in eighty, which its reciprocal may
    make two; ours is rounded once. All others are equal to the bit."""
    ulps = []
    for head_dim in (2, 10, 28, 64, 80, 96, 128, 256):
        settings = {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}
        make(tmp_path, hidden_size=8, head_dim=head_dim, num_hidden_layers=1, **settings)
        ours = inv_freq_of(convert(tmp_path, tmp_path / "a.smol", "f32", force=True))
        config = LlamaConfig.from_pretrained(tmp_path)
        theirs = LlamaRotaryEmbedding(config).inv_freq.numpy()
        assert len(ours) == len(theirs) == head_dim // 2
        ulps.append(abs(ours.view(np.int32).astype(int) - theirs.view(np.int32)))
    ulps = np.concatenate(ulps)
    different = f"{(ulps > 0).sum()} of {len(ulps)} by at most {ulps.max()} ulp"
    record_property("different", different)
    print(f"theta {theta}: {different}")
    assert ulps.max() <= 2 and (ulps > 0).mean() < 0.05


@pytest.fixture(scope="module")
def elementary(tmp_path_factory):
    """The inline functions of runtime/kernels/math.h as a library."""
    folder = tmp_path_factory.mktemp("math")
    source = folder / "elementary.c"
    source.write_text("""
        #include "runtime/kernels/math.h"
        #include <stddef.h>
        void sincos_all(const float *x, size_t n, float *sine, float *cosine)
        {
            for (size_t i = 0; i < n; i++)
                math_sincos(x[i], &sine[i], &cosine[i]);
        }
        void exp_all(const float *x, size_t n, float *out)
        {
            for (size_t i = 0; i < n; i++)
                out[i] = math_exp(x[i]);
        }
    """)
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-std=c11", "-O2", "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run([*command, "-I", ROOT, "-o", folder / "elementary.so", source], check=True)
    library = ctypes.CDLL(str(folder / "elementary.so"))
    library.sincos_all.argtypes = [POINTER, SIZE, POINTER, POINTER]
    library.exp_all.argtypes = [POINTER, SIZE, POINTER]
    return library


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("head_dim", [28, 64, 128])
def test_rope_tables_are_those_of_transformers(head_dim, theta, elementary):
    """Positions from 0 to a million, of which the models known today reach an eighth."""
    config = LlamaConfig(
        hidden_size=head_dim,
        num_attention_heads=1,
        head_dim=head_dim,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
    )
    rotary = LlamaRotaryEmbedding(config)
    positions = torch.cat([torch.arange(600), torch.arange(7000, 1_000_000, 7919)])
    tables = rotary(torch.zeros(1), positions[None])
    cosine, sine = (table[0, :, : head_dim // 2].numpy() for table in tables)
    angles = positions.numpy().astype(np.float32)[:, None] * rotary.inv_freq.numpy()
    s, c = np.empty_like(angles), np.empty_like(angles)
    elementary.sincos_all(angles.ctypes.data, angles.size, s.ctypes.data, c.ctypes.data)
    assert abs(s - sine).max() <= 2**-23 and abs(c - cosine).max() <= 2**-23  # an ulp below 1
    exact = abs(s - np.sin(angles.astype(np.float64))).max()
    assert exact <= 2**-25 * 1.001  # half an ulp


def test_rotation_holds_far_behind(tmp_path):
    """One layer, one head, 12,000 positions: the score of a pair depends on both rotations."""
    make(
        tmp_path,
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=12000,
    )
    ids = np.random.default_rng(2).integers(0, 64, 12000)
    with Model(convert(tmp_path, tmp_path / "a.smol", "f32")) as model:
        ours = model.logits(ids, 64, threads=2)
    expected = reference_logits(load_reference(tmp_path), ids, 64)
    assert abs(ours - expected).max() <= 1e-5 * np.ptp(expected)


def test_rotating_halves_is_that_of_transformers():
    """The formula of `rotate` in runtime/forward.c: channel i turns with channel i + half."""
    q = torch.randn(1, 1, 5, 8, generator=torch.Generator().manual_seed(1))
    config = LlamaConfig(hidden_size=8, num_attention_heads=1)
    cos, sin = LlamaRotaryEmbedding(config)(q, torch.arange(5)[None])
    expected, _ = apply_rotary_pos_emb(q, q, cos, sin)
    a, b = q[0, 0, :, :4], q[0, 0, :, 4:]
    c, s = cos[0, :, :4], sin[0, :, :4]
    assert torch.equal(torch.cat([a * c - b * s, b * c + a * s], dim=1), expected[0, 0])


def test_exponential_is_that_of_torch(elementary):
    x = np.linspace(-87, 88, 200_001, dtype=np.float32)
    out = np.empty_like(x)
    elementary.exp_all(x.ctypes.data, len(x), out.ctypes.data)
    assert_close(out, torch.from_numpy(x).double().exp().numpy(), 2.4e-7)  # two ulp

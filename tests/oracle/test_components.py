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
from smol_reader import MODEL_FIELDS
from structs import c_struct
from transformers import LlamaConfig
from transformers.activations import ACT2FN
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as gemma2_attention
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

KV_BLOCK, QUERY_TILE, GROUP, ROWS = 64, 24, 32, 16
POINTER, SIZE, FLOAT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float
WIDTHS = [1, 2, 15, 16, 17, 31, 32, 33, 64, 100, 576, 1537]


@pytest.fixture(params=kernel_sets(), ids=lambda kernels: kernels[0])
def kernels(request):
    """Takes the arguments of engine.kernel after the address."""
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


def round_up(n, multiple):
    return -(-n // multiple) * multiple


def assert_close(ours, reference, relative, absolute=0.0):
    np.testing.assert_allclose(ours, reference, rtol=relative, atol=absolute)


# --- normalization, activation ----------------------------------------------------------------


@pytest.mark.sample(90)
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


@pytest.mark.parametrize(("name", "reference"), [("geglu_tanh", "gelu_pytorch_tanh"), ("geglu", "gelu")])
def test_geglu_is_that_of_transformers(kernels, rng, name, reference):
    geglu = kernels(name, None, POINTER, POINTER, SIZE)
    extremes = [0, -0.0, 1e-30, -1e-30, 88, -80, -5, 5, -10, 10, -1e4, 1e4, 1e18, -1e18, 3e38]
    gate = np.concatenate([normal(rng, 3000) * 4, np.array(extremes, np.float32)])
    up = normal(rng, len(gate))
    expected = ACT2FN[reference](torch.from_numpy(gate).double()).numpy() * up  # that of floats overflows
    geglu(gate.ctypes.data, up.ctypes.data, len(gate))
    assert_close(gate, expected, 2e-6, absolute=2e-6)


def test_softcap_is_that_of_torch(kernels, rng):
    softcap = kernels("softcap", None, POINTER, SIZE, FLOAT)
    for cap in (0.1, 1, 30, 50, 1e30):
        x = np.concatenate([normal(rng, 1000) * 100, np.array([0, 1e-30, 3e38, -3e38], np.float32)])
        expected = (torch.tanh(torch.from_numpy(x) / cap) * cap).numpy()
        softcap(x.ctypes.data, len(x), cap)
        assert_close(x, expected, 1e-6)


# --- softmax, attention -----------------------------------------------------------------------


KvBlock = c_struct("runtime/kernels/kernels.h", "kv_block")
AttentionState = c_struct("runtime/kernels/kernels.h", "attention")


class Attention:
    """Attention of some queries (n, head_dim), taking in one block after the other."""

    def __init__(self, kernels, kv_type, queries, softcap=0):
        n, head_dim = queries.shape
        self.padded = kv_type == 3  # int4 has no level 0, so padding has some value
        self.function = kernels("attend", None, POINTER, POINTER, POINTER, index=kv_type)
        self.queries = np.full((head_dim, QUERY_TILE), np.nan, np.float32)
        self.queries[:, :n] = queries.T
        self.max = np.full(n, np.finfo(np.float32).min)
        self.sums = np.zeros((n, 16), np.float32)
        self.values = np.zeros((n, round_up(head_dim, 16)), np.float32)
        self.scores = np.full((n, KV_BLOCK), np.nan, np.float32)
        arrays = (self.queries, self.max, self.sums, self.values, self.scores)
        pointers = (array.ctypes.data for array in arrays)
        self.state = AttentionState(n, head_dim, *pointers, softcap)

    def add(self, block, visible, first=0):
        """Query j sees the positions first[j] to visible[j] - 1 of the block."""
        ranges = np.stack(np.broadcast_arrays(first, visible), axis=-1).astype(np.uint32)
        assert ranges.shape == (self.state.n, 2) and ranges.max() <= KV_BLOCK
        assert np.all(ranges[:, 0] <= ranges[:, 1])
        self.function(ctypes.byref(self.state), ctypes.byref(block), ranges.ctypes.data)

    def result(self):
        if not self.padded:
            assert not self.values[:, self.state.head_dim :].any()
        total = self.sums.sum(axis=1, dtype=np.float64, keepdims=True)
        return self.values[:, : self.state.head_dim] / total


def block_of_scores(kv_type, scores, n):
    """(a block, its arrays, the scores as it stores them): the query (1, 0, ..., 0) has these
    scores, and V are unit vectors, so that the values are the weights. V from n on is NaN."""
    dtype = (np.float32, np.float16, np.int8)[kv_type]
    k, v = np.zeros((2, KV_BLOCK, KV_BLOCK), dtype)
    np.fill_diagonal(v[:n], 1)
    if dtype == np.int8:
        k[0], v_scale = 1, np.ones(KV_BLOCK, np.float32)
        v[n:], v_scale[n:] = 1, np.nan
        arrays = [k, v, scores, v_scale]
    else:
        k[0], v[n:] = scores, np.nan
        arrays = [k, v]
        scores = k[0].astype(np.float32)
    return KvBlock(*(array.ctypes.data for array in arrays)), arrays, scores


@pytest.mark.parametrize("kv_type", [0, 1, 2], ids=["f32", "f16", "int8"])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 40, 63, 64])
def test_softmax_is_that_of_torch(n, kv_type, kernels, rng):
    query = np.eye(1, KV_BLOCK, dtype=np.float32)
    for spread in (0, 1, 10, 200):
        scores = normal(rng, KV_BLOCK) * np.float32(spread)
        scores[n:] = 6e4  # what comes after must not matter
        block, _arrays, scores = block_of_scores(kv_type, scores, n)
        expected = torch.softmax(torch.from_numpy(scores[:n].copy()), 0).numpy()
        attention = Attention(kernels, kv_type, query)
        attention.add(block, [n])
        weights = attention.values[0]
        assert attention.max[0] == scores[:n].max() and not weights[n:].any()
        lanes = np.pad(weights[:n], (0, KV_BLOCK - n)).reshape(-1, 16).astype(np.float64)
        assert_close(attention.sums[0], lanes.sum(axis=0), 1e-6)
        # beyond e^-87 weights end at about 1e-38
        total = attention.sums[0].sum(dtype=np.float32)
        assert_close(weights[:n] / total, expected, 1e-6, absolute=1e-37)


lib.smol_kv_init.argtypes = [POINTER, ctypes.c_int, POINTER, POINTER, SIZE, ctypes.c_bool, POINTER]
lib.smol_kv_reserve.argtypes = [POINTER, SIZE, SIZE, POINTER]
lib.smol_kv_store.argtypes = [POINTER, POINTER] + [SIZE] * 3 + [POINTER, POINTER]
lib.smol_kv_store.restype = None
lib.smol_kv_block.argtypes = [POINTER] + [SIZE] * 3
lib.smol_kv_block.restype = KvBlock
lib.smol_hadamard.argtypes = lib.smol_hadamard_inverse.argtypes = [POINTER, SIZE, SIZE]
lib.smol_hadamard.restype = lib.smol_hadamard_inverse.restype = None
lib.smol_kv_free.argtypes = [POINTER]
lib.smol_kv_free.restype = None


class KvCache:
    """A cache of 2 layers and 3 heads, of which layer 1, head 2 is used."""

    def __init__(self, kv_type, head_dim, n, address):
        self.address, self.error = address, Error()
        self.memory = ctypes.create_string_buffer(4096)  # more than struct kv_cache needs
        model = np.zeros(256, np.uint32)  # more than struct blob_model, of which these are the first fields
        for name, value in dict(n_layers=2, n_kv_heads=3, head_dim=head_dim).items():
            model[MODEL_FIELDS.index(name)] = value
        status = lib.smol_kv_init(
            self.memory, kv_type, model.ctypes.data, None, n, False, ctypes.byref(self.error)
        )
        assert status == OK, self.error
        assert lib.smol_kv_reserve(self.memory, 0, n, ctypes.byref(self.error)) == OK, self.error

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


LEVELS = torch.tensor([-116, -90, -71, -56, -43, -29, -17, -6, 6, 17, 29, 43, 56, 71, 90, 116.0])


def stored_int4(x):
    """These steps, and the nearest level of each, the lower one of two."""
    amax = x.abs().amax(dim=1, keepdim=True)
    steps = torch.round(x * (127 / amax))
    return LEVELS[(steps[..., None] - LEVELS).abs().argmin(dim=-1)] * (amax / 127)


STORED = [stored_f32, stored_f16, stored_int8, stored_int4]


def attend(kernels, kv_type, cache, queries, visible, first=None, softcap=0):
    """At most QUERY_TILE queries (n, head_dim), which see visible (n_blocks, n) positions of the
    cache's blocks, from the first ones on."""
    scale = np.float32(1) / np.sqrt(np.float32(queries.shape[1]))
    attention = Attention(kernels, kv_type, queries * scale, softcap)
    for index, counts in enumerate(visible):
        attention.add(cache.block(index), counts, 0 if first is None else first[index])
    return attention.result()


def seen_in_blocks(n_seen):
    """(n_blocks, n) for queries that see the first n_seen positions."""
    n_blocks = -(-max(n_seen) // KV_BLOCK)
    starts = np.arange(n_blocks)[:, None] * KV_BLOCK
    return np.clip(np.asarray(n_seen) - starts, 0, KV_BLOCK)


@pytest.fixture
def filled_cache(request, kernels, rng):
    """Makes caches of random K and V; returns them and what they hold as (K, V) of torch."""
    address = request.node.callspec.params["kernels"][1]
    caches = []

    def fill(kv_type, head_dim, n, loud_from=None):
        k, v = normal(rng, 2, n, head_dim)
        if loud_from is not None:
            k[loud_from:] *= 1000
            v[loud_from:] *= 1000
        caches.append(KvCache(kv_type, head_dim, n, address))
        for position in range(n):
            caches[-1].store(position, k[position], v[position])
        return caches[-1], [STORED[kv_type](torch.from_numpy(x)) for x in (k, v)]

    yield fill
    for cache in caches:
        cache.free()


def attention_cases(test):
    test = pytest.mark.parametrize("kv_type", range(4), ids=["f32", "f16", "int8", "int4"])(test)
    return pytest.mark.parametrize("head_dim", [2, 10, 16, 64, 80])(test)


@pytest.mark.sample(50)
@attention_cases
def test_attention_over_a_cache_is_that_of_torch(head_dim, kv_type, kernels, filled_cache, rng):
    for n in (1, 17, 63, 64, 65, 200):
        query = normal(rng, 1, head_dim) * 2
        # those from n on must not matter
        cache, stored = filled_cache(kv_type, head_dim, 256, loud_from=n)
        ours = attend(kernels, kv_type, cache, query, seen_in_blocks([n]))
        k, v = (x[:n] for x in stored)
        expected = F.scaled_dot_product_attention(torch.from_numpy(query), k, v)
        assert_close(ours, expected.numpy(), 1e-5, absolute=2e-6)


@pytest.mark.sample(15)
@attention_cases
def test_causal_attention_is_that_of_torch(head_dim, kv_type, kernels, filled_cache, rng):
    """Every position's query, as many at a time as go together."""
    n = 150
    cache, (k, v) = filled_cache(kv_type, head_dim, n)
    queries = normal(rng, n, head_dim) * 2
    q = torch.from_numpy(queries)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True).numpy()
    for together in (1, 2, 3, 7, QUERY_TILE):
        for first in range(0, n, together):
            rows = range(first, min(first + together, n))
            visible = seen_in_blocks([row + 1 for row in rows])
            ours = attend(kernels, kv_type, cache, queries[rows], visible)
            assert_close(ours, expected[rows], 1e-5, absolute=2e-6)


@pytest.mark.sample(50)
@attention_cases
def test_masked_attention_is_that_of_torch(head_dim, kv_type, kernels, filled_cache, rng):
    """Each query sees any number of positions of each block, none too, at least one in all."""
    n_blocks = 4
    for n in (1, 2, 3, 4, 5, 12, 23, QUERY_TILE):
        cache, (k, v) = filled_cache(kv_type, head_dim, n_blocks * KV_BLOCK)
        queries = normal(rng, n, head_dim) * 2
        visible = rng.integers(0, KV_BLOCK + 1, (n_blocks, n))
        visible[rng.random((n_blocks, n)) < 0.3] = 0
        visible[rng.integers(0, n_blocks, n), np.arange(n)] = rng.integers(1, KV_BLOCK + 1, n)
        mask = np.arange(KV_BLOCK) < visible.T[:, :, None]  # (n, n_blocks, KV_BLOCK)
        mask = torch.from_numpy(mask.reshape(n, -1))
        q = torch.from_numpy(queries)
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).numpy()
        ours = attend(kernels, kv_type, cache, queries, visible)
        assert_close(ours, expected, 1e-5, absolute=2e-6)


@pytest.mark.sample(50)
@attention_cases
def test_windows_and_softcaps_are_those_of_gemma2(head_dim, kv_type, kernels, filled_cache, rng):
    """Queries at neighbouring positions, whose windows begin in any block, against the eager
    attention of transformers."""
    n, module = 200, torch.nn.Module().eval()
    module.num_key_value_groups, module.head_dim = 1, head_dim
    cache, (k, v) = filled_cache(kv_type, head_dim, n)
    for window, softcap in [(1, 0), (3, 5.0), (64, 0), (65, 2.0), (150, 30.0), (300, 1.0)]:
        start = int(rng.integers(0, n - QUERY_TILE))
        rows = np.arange(start, start + QUERY_TILE)
        queries = normal(rng, QUERY_TILE, head_dim) * 2
        seen = np.arange(n) <= rows[:, None]
        seen &= np.arange(n) > rows[:, None] - window
        mask = torch.zeros(seen.shape).masked_fill(~torch.from_numpy(seen), -torch.inf)
        expected, _ = gemma2_attention(
            module, *(torch.as_tensor(x)[None, None] for x in (queries, k, v)), mask[None, None],
            scaling=head_dim**-0.5, softcap=softcap or None,
        )  # fmt: skip
        after = seen_in_blocks(rows + 1)
        starts = np.arange(len(after))[:, None] * KV_BLOCK
        first = np.clip(rows + 1 - window - starts, 0, after)
        ours = attend(kernels, kv_type, cache, queries, after, first, softcap)
        assert_close(ours, expected[0, :, 0].numpy(), 1e-5, absolute=2e-6)


@pytest.mark.parametrize("head_dim", [2, 6, 10, 16, 64, 80, 96, 128, 1024])
def test_the_hadamard_transform_is_sylvester_s_matrix(head_dim, rng):
    part = head_dim & -head_dim
    index = np.arange(part)
    matrix = 1 - 2 * (np.bitwise_count(index[:, None] & index) % 2).astype(np.float32)
    heads = normal(rng, 3, head_dim)
    expected = (heads.reshape(-1, part) @ matrix).reshape(heads.shape)
    ours = heads.copy()
    lib.smol_hadamard(ours.ctypes.data, 3, head_dim)
    assert_close(ours, expected, 1e-5, absolute=1e-4)
    lib.smol_hadamard_inverse(ours.ctypes.data, 3, head_dim)
    assert_close(ours, heads, 1e-5, absolute=1e-6)


# --- quantizing, matrix products --------------------------------------------------------------


QuantizedView = c_struct("runtime/kernels/kernels.h", "quantized")


class Quantized:
    """Room for quantized activations; what nothing was written to is 99."""

    def __init__(self, n, stride, n_groups):
        self.steps = np.full((n_groups, stride, GROUP), 99, np.int8)
        self.scales = np.full((n_groups, stride), 99, np.float32)
        self.offsets = np.full((n_groups, stride), 99, np.int32)
        arrays = (self.steps, self.scales, self.offsets)
        self.view = QuantizedView(*(array.ctypes.data for array in arrays), n, stride)
        self.pointer = ctypes.byref(self.view)

    def by_token(self):
        """Steps (stride, n_groups, GROUP), scales and offsets (stride, n_groups)."""
        return self.steps.swapaxes(0, 1), self.scales.T, self.offsets.T


def quantize_with_torch(x):
    """(steps (n_groups, GROUP), scales, offsets) of groups of 32, the last one shorter."""
    padded = F.pad(torch.from_numpy(x), (0, -len(x) % GROUP)).view(-1, GROUP)
    amax = padded.abs().amax(dim=1, keepdim=True)
    steps = torch.where(amax > 0, torch.round(padded * (127 / amax)), 0)  # to nearest even
    offsets = -128 * steps.sum(dim=1, dtype=torch.int32)
    return steps.to(torch.int8).numpy(), (amax / 127).numpy().ravel(), offsets.numpy()


def same_bits(ours, expected):
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(ours, expected))


def untouched(arrays):
    return all((array == 99).all() for array in arrays)


QUANTIZE = ("quantize", ctypes.c_bool, POINTER, SIZE, POINTER, SIZE)
QUANTIZE_SLICE = ("quantize_slice", ctypes.c_bool, POINTER, SIZE, POINTER, SIZE)


@pytest.mark.parametrize("n", WIDTHS)
def test_quantizing_is_that_of_torch_to_the_bit(n, kernels, rng):
    quantize, stride = kernels(*QUANTIZE), 5
    for scale in (1, 1e-20, 1e20, 0):
        quantized = Quantized(stride, stride, round_up(n, GROUP) // GROUP)
        for t in (3, 0, 4):
            x = normal(rng, n) * np.float32(scale)
            assert quantize(x.ctypes.data, n, quantized.pointer, t)
            steps, scales, offsets = (array[t] for array in quantized.by_token())
            assert same_bits((steps, scales, offsets), quantize_with_torch(x))
            assert (offsets == -128 * steps.sum(axis=1, dtype=np.int32)).all()
            restored = (steps * scales[:, None]).ravel()[:n]
            bound = np.repeat(scales, GROUP)[:n].astype(np.float64)
            assert (abs(restored.astype(np.float64) - x) <= 0.50001 * bound).all()
        assert untouched(array[1:3] for array in quantized.by_token())


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 32, 33, 40])
def test_quantizing_a_slice_is_that_of_torch_to_the_bit(n, kernels, rng):
    """The slice is one group of the first n tokens."""
    quantize_slice = kernels(*QUANTIZE_SLICE)
    for scale in (1, 1e-20, 1e20, 0):
        for group in (0, 1, 2):
            quantized = Quantized(n + 3, n + 3, 3)
            x = normal(rng, n, GROUP) * np.float32(scale)
            assert quantize_slice(x.ctypes.data, n, quantized.pointer, group)
            arrays = quantized.by_token()
            for t in range(n):
                ours = [array[t, group : group + 1] for array in arrays]
                assert same_bits(ours, quantize_with_torch(x[t]))
            others = [i for i in range(3) if i != group]
            assert untouched(array[n:] for array in arrays)
            assert untouched(array[:, others] for array in arrays)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_quantizing_refuses_what_is_not_finite(bad, kernels, rng):
    quantize, quantize_slice = kernels(*QUANTIZE), kernels(*QUANTIZE_SLICE)
    for place in (0, 31, 32, 69):
        x, quantized = normal(rng, 70), Quantized(2, 2, 3)
        assert quantize(x.ctypes.data, 70, quantized.pointer, 1)
        x[place] = bad
        assert not quantize(x.ctypes.data, 70, quantized.pointer, 1)
    for token, place in ((0, 0), (0, 31), (15, 7), (16, 16), (19, 31)):
        x, quantized = normal(rng, 20, GROUP), Quantized(20, 20, 2)
        assert quantize_slice(x.ctypes.data, 20, quantized.pointer, 1)
        x[token, place] = bad
        assert not quantize_slice(x.ctypes.data, 20, quantized.pointer, 1)


def f32_blocks(weight):
    """Row blocks: a column's 16 rows side by side."""
    blocks = aligned(weight.size, np.float32)
    blocks[:] = weight.reshape(-1, ROWS, weight.shape[1]).swapaxes(1, 2).ravel()
    return blocks


def bf16_blocks(weight):
    """Row blocks: pairs of columns of 16 rows, the even column in the low half."""
    rows, cols = weight.shape
    bits = torch.from_numpy(weight).bfloat16().view(torch.int16).numpy().view(np.uint16)
    pairs = np.pad(bits, ((0, 0), (0, cols % 2))).reshape(-1, ROWS, (cols + 1) // 2, 2)
    blocks = aligned(pairs.size, np.uint16)
    blocks[:] = pairs.swapaxes(1, 2).ravel()
    return blocks


@pytest.mark.sample(120)
@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("n_tokens", [1, 3, 4, 64])
@pytest.mark.parametrize("cols", [1, 33, 576])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_float_product_is_that_of_torch(dtype, cols, n_tokens, n_blocks, kernels, rng):
    matmul = kernels(
        f"matmul_{dtype}", None, POINTER, SIZE, SIZE, POINTER, SIZE, SIZE, POINTER, SIZE
    )
    rows = n_blocks * ROWS
    weight, x = normal(rng, rows, cols), normal(rng, n_tokens, cols + 3)
    x[:, cols:] = np.nan  # not to be read
    if dtype == "bf16":
        weight = torch.from_numpy(weight).bfloat16().float().numpy()
    blocks = f32_blocks(weight) if dtype == "f32" else bf16_blocks(weight)
    out = np.zeros((n_tokens, rows + 4), np.float32)
    matmul(
        blocks.ctypes.data, n_blocks, cols, x.ctypes.data, cols + 3, n_tokens, out.ctypes.data,
        rows + 4,
    )  # fmt: skip
    expected = F.linear(*(torch.from_numpy(a).double() for a in (x[:, :cols], weight)))
    bound = F.linear(*(torch.from_numpy(abs(a)).double() for a in (x[:, :cols], weight)))
    assert (abs(out[:, :rows] - expected.numpy()) <= 1e-6 * bound.numpy()).all()
    assert not out[:, rows:].any()


def int8_blocks(steps, scales):
    """Row blocks: pairs of groups, each pair's 2 x 16 f16 scales in front of its weights; within
    a group 4 inputs of each of 16 rows side by side. The last of an odd number of groups ends the
    block."""
    n_groups = scales.shape[1]
    size = n_groups * 512 + (n_groups + 1) // 2 * 64
    blocks = aligned(len(steps) // ROWS * size)
    for start, row in zip(range(0, len(blocks), size), range(0, len(steps), ROWS)):
        rows = slice(row, row + ROWS)
        for group in range(n_groups):
            pair = start + group // 2 * 1088
            at = pair + group % 2 * 32
            blocks[at : at + 32] = scales[rows, group].copy().view(np.uint8)
            at = pair + 64 + group % 2 * 512
            quads = steps[rows, group * GROUP : (group + 1) * GROUP].reshape(ROWS, 8, 4)
            blocks[at : at + 512] = quads.swapaxes(0, 1).ravel().view(np.uint8)
    return blocks


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("n_tokens", [1, 3, 4, 64])
@pytest.mark.parametrize("n_groups", [1, 2, 5, 18])
def test_int8_product_is_that_of_torch(n_groups, n_tokens, n_blocks, kernels, rng):
    matmul = kernels("matmul_int8", None, POINTER, SIZE, SIZE, POINTER, POINTER, POINTER, SIZE)
    cols, rows = n_groups * GROUP, n_blocks * ROWS
    weights = rng.integers(-127, 128, (rows, cols)).astype(np.int8)
    scales = np.ascontiguousarray(abs(normal(rng, rows, n_groups)).astype(np.float16))
    q = rng.integers(-127, 128, (n_tokens, cols)).astype(np.int8)
    weights[0], weights[1], q[0] = 127, -127, -127  # the largest sums
    weights[-2], weights[-1] = 127, -127
    steps = abs(normal(rng, n_tokens, n_groups))
    quantized = Quantized(n_tokens, n_tokens + 3, n_groups)
    quantized.steps[:, :n_tokens] = q.reshape(n_tokens, n_groups, GROUP).swapaxes(0, 1)
    quantized.scales[:, :n_tokens] = steps.T
    sums = q.reshape(n_tokens, n_groups, GROUP).sum(axis=2, dtype=np.int32)
    quantized.offsets[:, :n_tokens] = -128 * sums.T
    blocks, out = int8_blocks(weights, scales), np.zeros((n_tokens, rows + 4), np.float32)
    matmul(
        blocks.ctypes.data, n_blocks, n_groups, None, quantized.pointer, out.ctypes.data, rows + 4
    )  # fmt: skip
    x = torch.from_numpy(q * np.repeat(steps.astype(np.float64), GROUP, axis=1))
    weight = torch.from_numpy(weights * np.repeat(scales.astype(np.float64), GROUP, axis=1))
    bound = F.linear(x.abs(), weight.abs()).numpy()
    assert (abs(out[:, :rows] - F.linear(x, weight).numpy()) <= 1e-6 * bound).all()
    assert not out[:, rows:].any()


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


@pytest.mark.sample(4)
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


def test_rotation_holds_far_into_a_text(tmp_path):
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
    """The formula of `rotate` in runtime/engine/forward.c: channel i turns with channel i + half."""
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

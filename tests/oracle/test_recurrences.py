"""Mamba2 and gated DeltaNet: their kernels beside transformers' functions, for every kernel set that this machine runs, and
models with such layers: whatever is done to a sequence, its logits are the bits of a new context with the same tokens."""

import ctypes

import numpy as np
import pytest
import torch
from checkpoints import make_of
from engine import Model, Prefixes, convert, eval_many, isa_params, kernel_sets
from sequences import Text, check_splits, random_ids
from structs import c_struct
from test_components import POINTER, SIZE, assert_close, kernels, normal, rng  # noqa: F401: fixtures
from test_determinism import same_bits
from transformers import FalconH1Config, GraniteMoeHybridConfig, NemotronHConfig, Qwen3_5TextConfig
from transformers.models.granitemoehybrid.modeling_granitemoehybrid import (
    causal_conv1d_fn,
    mamba2_chunk_scan,
)
from transformers.models.qwen3_5.modeling_qwen3_5 import l2norm, torch_recurrent_gated_delta_rule

FLOAT, FLAG = ctypes.c_float, ctypes.c_bool
SLICE = 16


Convolution = c_struct("runtime/kernels/kernels.h", "convolution")
Scan = c_struct("runtime/kernels/kernels.h", "scan")
DeltaRule = c_struct("runtime/kernels/kernels.h", "delta_rule")


def at(array):
    return array.ctypes.data


def new_states(size):
    """Returns those before a text, and room for those after it."""
    return np.zeros((size, SLICE), np.float32), np.full((size, SLICE), np.nan, np.float32)


@pytest.mark.parametrize("channels, taps, n", [(1, 2, 1), (16, 4, 9), (83, 3, 5), (100, 7, 2)])
def test_convolve_is_that_of_transformers(channels, taps, n, kernels, rng):  # noqa: F811
    convolve = kernels("convolve", None, POINTER, SIZE, POINTER, SIZE, SIZE)
    weight, bias, x = normal(rng, taps, channels), normal(rng, channels), normal(rng, n, channels)
    reference = causal_conv1d_fn(
        torch.from_numpy(x.T[None].copy()), torch.from_numpy(weight.T.copy()), torch.from_numpy(bias), activation="silu"
    )
    window = np.zeros((taps - 1, channels), np.float32)
    given = x.copy()
    what = Convolution(at(weight), at(bias), at(window), taps, channels, True)
    convolve(ctypes.addressof(what), channels, at(x), channels, n)
    assert_close(x, reference[0].numpy().T, 1e-5, 1e-6)
    assert np.array_equal(window, np.concatenate([np.zeros((taps - 1, channels), np.float32), given])[n:])


@pytest.mark.parametrize("width, size, n", [(1, 1, 1), (16, 128, 40), (5, 33, 7)])
def test_scan_is_that_of_transformers(width, size, n, kernels, rng):  # noqa: F811
    scan = kernels("scan", None, POINTER)
    x, b, c = normal(rng, n, width), normal(rng, n, size), normal(rng, n, size)
    step, a, skip = np.abs(normal(rng, n)), np.float32(-0.3), np.float32(1.3)
    tensors = [torch.from_numpy(values.copy()) for values in (x, b, c, step)]
    reference, final = mamba2_chunk_scan(
        tensors[0][None, :, None], tensors[3][None, :, None], torch.tensor([a]), tensors[1][None, :, None],
        tensors[2][None, :, None], chunk_size=16, D=torch.tensor([skip]), return_final_states=True,
    )  # fmt: skip
    rows, decay = np.concatenate([x, b, c], axis=1), np.exp(step * a)
    before, state = new_states(size)
    first, stride = at(rows), rows.shape[1]
    what = Scan(
        n, width, size, first, first + 4 * width, first + 4 * (width + size), at(step), at(decay), stride, 1, skip, at(before), at(state)
    )
    scan(ctypes.addressof(what))
    assert_close(rows[:, :width], reference[0, :, 0].numpy(), 1e-4, 1e-5 * size)
    assert_close(state[:, :width], final[0, 0].numpy().T, 1e-4, 1e-5)
    assert not state[:, width:].any()


@pytest.mark.parametrize("width, size, n", [(1, 1, 1), (16, 128, 40), (5, 33, 7)])
def test_delta_rule_is_that_of_transformers(width, size, n, kernels, rng):  # noqa: F811
    delta_rule = kernels("delta_rule", None, POINTER)
    unit_norm = kernels("unit_norm", None, POINTER, SIZE, FLOAT, FLOAT, POINTER)
    value, query, key = normal(rng, n, width), normal(rng, n, size), normal(rng, n, size)
    rate, decay = 1 / (1 + np.exp(-normal(rng, n))), np.exp(-np.abs(normal(rng, n)))
    tensors = [torch.from_numpy(values.copy())[None, :, None] for values in (query, key, value, np.log(decay), rate)]
    reference, final = torch_recurrent_gated_delta_rule(
        *tensors[:3], g=tensors[3], beta=tensors[4], initial_state=None, output_final_state=True, use_qk_l2norm_in_kernel=True
    )
    for t in range(n):
        unit_norm(at(query[t]), size, 1e-6, size**-0.5, at(query[t]))
        unit_norm(at(key[t]), size, 1e-6, 1, at(key[t]))
    assert_close(key, l2norm(tensors[1][0, :, 0]).numpy(), 1e-6)
    rows, (before, state) = np.concatenate([value, query, key], axis=1), new_states(size)
    first, stride = at(rows), rows.shape[1]
    what = DeltaRule(
        n, width, size, first, first + 4 * width, first + 4 * (width + size), at(rate), at(decay), stride, 1, at(before), at(state)
    )
    delta_rule(ctypes.addressof(what))
    assert_close(rows[:, :width], reference[0, :, 0].numpy(), 1e-4, 1e-5)
    assert_close(state[:, :width], final[0, 0].numpy(), 1e-4, 1e-5)


# --- models -------------------------------------------------------------------------------------

SIZES = dict(
    vocab_size=101, hidden_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096,
    bos_token_id=None, eos_token_id=None, pad_token_id=None,
    layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"],
)  # fmt: skip
MODELS = {
    "mamba2": GraniteMoeHybridConfig(
        **SIZES, shared_intermediate_size=40, num_local_experts=0, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=16
    ),
    "beside": FalconH1Config(
        **{key: value for key, value in SIZES.items() if key != "layer_types"}, intermediate_size=40, mamba_d_ssm=40,
        mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=16, mamba_rms_norm=True, ssm_out_multiplier=0.6, key_multiplier=0.5,
        ssm_multipliers=[0.5, 1.5, 0.7, 0.8, 0.9],
    ),
    "single": NemotronHConfig(
        **SIZES | {"layer_types": ["linear_attention", "moe", "full_attention", "linear_attention", "mlp"], "num_hidden_layers": 5},
        intermediate_size=40, head_dim=12, mamba_num_heads=4, mamba_head_dim=12, n_groups=2, ssm_state_size=16,
        n_routed_experts=5, moe_intermediate_size=24, moe_shared_expert_intermediate_size=37,
    ),
    "delta": Qwen3_5TextConfig(
        **SIZES, intermediate_size=40, head_dim=12, linear_key_head_dim=8, linear_value_head_dim=20,
        linear_num_key_heads=2, linear_num_value_heads=4,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=[(kind, dtype) for kind in MODELS for dtype in ("f32", "bf16", "int8")], ids="-".join)
def model(request, tmp_path_factory):
    kind, dtype = request.param
    folder = make_of(MODELS[kind], tmp_path_factory.mktemp(kind) / "checkpoint")
    with Model(convert(folder, folder / "a.smol", dtype)) as model:
        yield model


@pytest.mark.sample(5)
@pytest.mark.parametrize("isa", isa_params(kernel_sets()))
def test_any_split_threads_and_instruction_set_give_the_same_bits(model, isa, monkeypatch):
    check_splits(model, 600, isa, monkeypatch)


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(3))
def test_any_way_back_leads_to_the_same_bits(model, seed):
    rng = np.random.default_rng(seed)
    with Text(model) as text:
        for _ in range(10):
            assert same_bits(text.add(random_ids(rng, rng.choice([1, 2, 17, 128, 300, 700]))), text.expected())
            if rng.random() < 0.6:
                text.cut(int(rng.integers(len(text.ids) + 1)))
            if rng.random() < 0.4:
                text.restore(text.save(), text.ids)


@pytest.mark.sample(5)
def test_several_sequences_in_one_pass(model):
    rng = np.random.default_rng(3)
    with Text(model) as first, model.context(share=first.context) as second, model.context(share=first.context) as third:
        texts, contexts = [[], [], []], (first.context, second, third)
        for _ in range(5):
            new = [list(random_ids(rng, rng.choice([1, 2, 90, 260]))) for _ in contexts]
            results = eval_many([(context, ids, 1) for context, ids in zip(contexts, new, strict=True)])
            for text, ids, got in zip(texts, new, results, strict=True):
                text += ids
                first.ids = text
                assert same_bits(got, first.expected())


@pytest.mark.sample(5)
def test_prefixes_are_reused(model):
    rng = np.random.default_rng(4)
    shared = random_ids(rng, 700)
    with Prefixes(model, 1000) as cache:
        for _ in range(6):
            with Text(model, prefixes=cache, group=0) as text:
                assert same_bits(text.add(np.concatenate([shared, random_ids(rng, 30)])), text.expected())
        assert cache.info().n_reused >= 5 * 512

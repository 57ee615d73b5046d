"""The sampler against transformers' logits processors: the same ids survive every filter, with the
same probabilities, on random logits; and what is drawn follows them.

Where a filter's edge falls within rounding of an id's cumulative probability, transformers' own
float32 sums decide by chance; such an id may be on either side."""

import ctypes

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from internal import Error, lib
from smol_h import SamplerParams
from structs import c_struct
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation.utils import GenerationMixin

ROUNDING = 2e-5  # of a sum of a few thousand float32 probabilities


Candidate = c_struct("runtime/sampler.h", "candidate")


Bias = c_struct("smol.h", "smol_logit_bias")


Sampler = c_struct("runtime/sampler.h", "smol_sampler", candidates=ctypes.POINTER(Candidate), scores=ctypes.POINTER(ctypes.c_float))


FLOATS, IDS = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_uint32)
SAMPLER = ctypes.POINTER(Sampler)
lib.smol_sample.argtypes = [
    SAMPLER, FLOATS, ctypes.c_size_t, IDS, ctypes.c_size_t, IDS, ctypes.c_void_p,
]  # fmt: skip
lib.smol_sampler_filter.argtypes = [SAMPLER, FLOATS, ctypes.c_size_t, ctypes.c_float]
lib.smol_sampler_filter.restype = ctypes.c_size_t
lib.smol_sampler_penalize.argtypes = [SAMPLER, FLOATS, ctypes.c_size_t, IDS, ctypes.c_size_t, ctypes.c_size_t]
lib.smol_sampler_penalize.restype = None


def pointer(array, kind):
    return array.ctypes.data_as(kind)


class Ours:
    """A sampler of ours; `history` is what the repetition penalty sees."""

    def __init__(self, logit_bias=None, **params):
        self.handle, error = SAMPLER(), Error()
        biases = (Bias * len(logit_bias or {}))(*(logit_bias or {}).items())  # copied
        if logit_bias:
            params |= {"logit_bias": ctypes.addressof(biases), "n_logit_bias": len(biases)}
        status = lib.smol_sampler_create(
            ctypes.byref(SamplerParams(**params)), ctypes.byref(self.handle), ctypes.byref(error)
        )
        assert status == 0, str(error)

    def __del__(self):
        lib.smol_sampler_free(self.handle)

    def sample(self, logits, history=(), allowed=None):
        """`allowed`: whether each id is in the mask."""
        logits, history = np.asarray(logits, np.float32), np.asarray(history, np.uint32)
        chosen, error = ctypes.c_uint32(), Error()
        scores = self.handle, pointer(logits, FLOATS), len(logits)
        rest = pointer(history, IDS), len(history), ctypes.byref(chosen), ctypes.byref(error)
        if allowed is None:
            status = lib.smol_sample(*scores, *rest)
        else:
            bits = np.packbits(np.pad(allowed, (0, -len(allowed) % 64)), bitorder="little")
            status = lib.smol_sample_masked(*scores, bits.ctypes.data_as(ctypes.c_void_p), *rest)
        assert status == 0, str(error)
        return chosen.value

    def probabilities(self, logits, history=()):
        """Returns the probability of every id; 0 for those that the filters drop."""
        self.sample(logits, history)  # makes room
        logits, history = np.asarray(logits, np.float32), np.asarray(history, np.uint32)
        lib.smol_sampler_penalize(
            self.handle, pointer(logits, FLOATS), len(logits), pointer(history, IDS), len(history), len(history)
        )
        scores = self.handle.contents.scores
        best = max(scores[: len(logits)])
        n = lib.smol_sampler_filter(self.handle, scores, len(logits), best)
        result = np.zeros(len(logits))
        for candidate in self.handle.contents.candidates[:n]:
            result[candidate.id] = candidate.weight
        return result / result.sum()


def reference_processors(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0):
    """In the order of generation/utils.py, which test_order_is_that_of_generate checks."""
    processors = LogitsProcessorList()
    if repetition_penalty != 1:
        processors.append(RepetitionPenaltyLogitsProcessor(repetition_penalty))
    if temperature != 1:
        processors.append(TemperatureLogitsWarper(temperature))
    if top_k:
        processors.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        processors.append(TopPLogitsWarper(top_p))
    if min_p:
        processors.append(MinPLogitsWarper(min_p))
    return processors


def reference(logits, history=(), **params):
    scores = torch.tensor(np.asarray(logits, np.float32))[None]
    ids = torch.tensor(np.asarray(history, np.int64))[None]
    return reference_processors(**params)(ids, scores)[0].double().softmax(-1).numpy()


def edges_of_top_p(logits, history, params):
    """The ids whose cumulative probability, from below, is within rounding of the edge."""
    if params.get("top_p", 1.0) >= 1:
        return np.zeros(len(logits), bool)
    before = {key: params[key] for key in params.keys() - {"top_p", "min_p"}}
    p = reference(logits, history, **before)
    order = np.lexsort((np.arange(len(p)), p))
    near = np.zeros(len(p), bool)
    near[order] = abs(np.cumsum(p[order]) - (1 - params["top_p"])) < ROUNDING
    return near


def assert_agree(logits, history=(), **params):
    expected = reference(logits, history, **params)
    found = Ours(**params).probabilities(logits, history)
    near = edges_of_top_p(logits, history, params)
    if (near & ((expected > 0) != (found > 0))).any():
        return  # one id more or less shifts all others' share
    negligible = np.maximum(expected, found) < 1e-30  # below the range of float32's exp
    differs = ((expected > 0) != (found > 0)) & ~negligible
    assert not differs.any(), np.flatnonzero(differs)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-12)


# --- filters ----------------------------------------------------------------------------------


def random_logits(seed, n=2000, scale=3.0):
    return np.random.default_rng(seed).normal(0, scale, n).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.7},
        {"temperature": 5.0},
        {"temperature": 1.0, "top_k": 1},
        {"temperature": 1.0, "top_k": 40},
        {"temperature": 1.0, "top_k": 5000},
        {"temperature": 1.0, "top_p": 0.1},
        {"temperature": 1.0, "top_p": 0.9},
        {"temperature": 1.0, "top_p": 0.999},
        {"temperature": 1.0, "min_p": 0.05},
        {"temperature": 1.0, "min_p": 1.0},
        {"temperature": 1.0, "repetition_penalty": 1.3},
        {"temperature": 1.0, "repetition_penalty": 0.6},
        {"temperature": 0.8, "top_k": 50, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.1},
        {"temperature": 1.7, "top_k": 7, "top_p": 0.3, "min_p": 0.5, "repetition_penalty": 2.0},
    ],
    ids=lambda params: ",".join(f"{key}={value}" for key, value in params.items()),
)
def test_filters_agree_with_transformers(params, seed):
    history = np.random.default_rng(seed + 100).integers(0, 2000, 300)
    assert_agree(random_logits(seed), history, **params)


def test_filters_agree_on_a_whole_vocabulary():
    for params in ({"top_p": 0.95}, {"top_k": 100, "top_p": 0.5}, {"min_p": 0.01}):
        assert_agree(random_logits(9, n=49152), temperature=1.0, **params)


@given(
    # few different values: ties everywhere
    logits=st.lists(
        st.sampled_from([-2.0, -1.5, -0.5, 0.0, 0.25, 1.0, 3.0]), min_size=1, max_size=24
    ),
    history=st.lists(st.integers(0, 23), max_size=8),
    temperature=st.sampled_from([0.3, 0.5, 1.0, 1.5, 4.0]),
    top_k=st.integers(0, 26),
    top_p=st.sampled_from([1e-4, 0.05, 0.33, 0.51, 0.77, 0.9, 0.99, 1.0]),
    min_p=st.sampled_from([0.0, 0.03, 0.11, 0.4, 0.97]),
    repetition_penalty=st.sampled_from([1.0, 1.25, 1.9, 0.7]),
)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_filters_agree_on_logits_full_of_ties(logits, history, **params):
    history = [id for id in history if id < len(logits)] or [0]
    assert_agree(logits, history, **params)


def test_top_p_breaks_ties_as_transformers_does():
    assert_agree(np.zeros(10), temperature=1.0, top_p=0.35)


def test_greedy_agrees_with_transformers():
    for seed in range(20):
        logits, history = random_logits(seed), [1, 5, 5, 99, 1999]
        scores = reference(logits, history, repetition_penalty=1.8)
        assert Ours(repetition_penalty=1.8).sample(logits, history) == scores.argmax()


def test_order_is_that_of_generate():
    """transformers itself, asked for all of them, builds the list that we compare with."""
    everything = {
        "temperature": 0.8, "top_k": 50, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.1,
    }  # fmt: skip

    class Model(GenerationMixin):
        class config:
            is_encoder_decoder = False

    config = GenerationConfig(do_sample=True, **everything)
    built = Model()._get_logits_processor(config, input_ids_seq_length=1)
    assert [type(p) for p in built] == [type(p) for p in reference_processors(**everything)]


# --- drawing ----------------------------------------------------------------------------------


def test_draws_follow_the_probabilities():
    logits, n = random_logits(4, n=60, scale=1.5), 20000
    params = {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "min_p": 0.03}
    expected = reference(logits, **params)
    ours = Ours(seed=5, **params)
    counts = np.bincount([ours.sample(logits) for _ in range(n)], minlength=60)
    assert (counts[expected == 0] == 0).all()
    kept = expected > 0
    statistic = ((counts - n * expected)[kept] ** 2 / (n * expected[kept])).sum()
    freedom = kept.sum() - 1
    assert statistic < freedom + 4 * np.sqrt(2 * freedom)


# --- biases, and OpenAI's penalties ------------------------------------------------------------------


def scores_of(sampler, logits, history, n_output):
    sampler.sample(logits, history)  # makes room
    logits, history = np.asarray(logits, np.float32), np.asarray(history, np.uint32)
    lib.smol_sampler_penalize(
        sampler.handle, pointer(logits, FLOATS), len(logits), pointer(history, IDS), len(history), n_output
    )
    return np.array(sampler.handle.contents.scores[: len(logits)], np.float32)


def test_biases_come_first_as_in_transformers():
    rng = np.random.default_rng(8)
    for _ in range(50):
        logits = rng.normal(0, 4, 50).astype(np.float32)
        history = rng.integers(0, 50, 20)
        biases = {int(id): float(bias) for id, bias in zip(rng.permutation(50)[:9], rng.normal(0, 9, 9))}
        reference = LogitsProcessorList([
            SequenceBiasLogitsProcessor([[[id], bias] for id, bias in biases.items()]), RepetitionPenaltyLogitsProcessor(1.3),
        ])  # fmt: skip
        expected = reference(torch.tensor(history)[None], torch.tensor(logits)[None])[0].numpy()
        found = scores_of(Ours(logit_bias=biases, repetition_penalty=1.3), logits, history, 0)
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("frequency", "presence"), [(0.5, 0), (0, 0.7), (-1.5, 0.3), (2, 2)])
def test_penalties_are_those_of_openai(frequency, presence):
    """mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence, c counting what was generated."""
    rng = np.random.default_rng(9)
    for _ in range(50):
        logits = rng.normal(0, 4, 30).astype(np.float32)
        history = rng.integers(0, 30, 40)
        n_output = int(rng.integers(0, 41))
        counts = np.bincount(history[40 - n_output :], minlength=30)
        expected = logits - counts * frequency - (counts > 0) * presence
        sampler = Ours(frequency_penalty=frequency, presence_penalty=presence)
        assert np.allclose(scores_of(sampler, logits, history, n_output), expected, rtol=1e-6, atol=1e-5)
        assert sampler.sample(logits, history[40 - n_output :]) == np.argmax(expected)


MASKED = [{"temperature": 1.3}, {"temperature": 0.8, "top_k": 4}, {"temperature": 2.0, "top_p": 0.7}, {"temperature": 1.0, "min_p": 0.2},
          {"temperature": 1.5, "top_k": 9, "top_p": 0.9, "repetition_penalty": 1.4}]  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("params", MASKED, ids=str)
def test_what_is_drawn_under_a_mask_is_what_transformers_draws_without_the_other_tokens(params):
    """The other logits are -inf there, before top-k and top-p."""
    n, draws, rng = 130, 4000, np.random.default_rng(5)
    for _ in range(3):
        logits, history = rng.normal(0, 2, n).astype(np.float32), rng.integers(0, n, 20)
        allowed = rng.random(n) < 0.15
        allowed[np.argsort(logits)[-9:-1]] = False  # the best ones are not allowed
        allowed[rng.integers(n)] = True
        expected = reference(np.where(allowed, logits, -np.inf), history, **params)
        sampler = Ours(**params, seed=int(rng.integers(1 << 30)))
        counts = np.bincount([sampler.sample(logits, history, allowed) for _ in range(draws)], minlength=n)
        assert not counts[~allowed].any() and not counts[expected == 0].any()
        some = expected * draws > 5
        deviation = (counts - expected * draws)[some] / np.sqrt(expected * draws * (1 - expected) + 1e-9)[some]
        assert abs(deviation).max() < 5, (params, deviation)


def test_the_best_allowed_token_is_chosen_greedily():
    rng = np.random.default_rng(6)
    for _ in range(20):
        logits, allowed = rng.normal(0, 2, 200).astype(np.float32), rng.random(200) < 0.05
        allowed[rng.integers(200)] = True
        assert Ours().sample(logits, (), allowed) == np.argmax(np.where(allowed, logits, -np.inf))
    with pytest.raises(AssertionError, match="mask"):
        Ours().sample(logits, (), np.zeros(200, bool))


def test_biases_hold_in_greedy_and_masked_decoding():
    logits = np.zeros(70, np.float32)
    assert Ours(logit_bias={65: 1, 3: 0.5}).sample(logits, (), np.arange(70) < 60) == 3
    assert Ours(logit_bias={65: 1, 3: 0.5}).sample(logits) == 65
    assert Ours(logit_bias={0: -100}, temperature=0.01).sample(logits) != 0
    sampler, error, chosen = Ours(logit_bias={70: 1}), Error(), ctypes.c_uint32()
    status = lib.smol_sample(sampler.handle, pointer(logits, FLOATS), 70, None, 0, ctypes.byref(chosen), ctypes.byref(error))
    assert status == 2 and "logit_bias of token 70" in str(error)

"""Caches of prefixes: whatever a context takes from one, its logits are the bits of a context without,
and those of transformers. (tests/unit/test_prefix.c has truncated, sliding and restored contexts.)"""

import threading

import numpy as np
import pytest
from checkpoints import SMALL, make_of
from engine import Model, Prefixes, blob_of, convert, eval_many
from internal import ROOT
from test_determinism import KVS, same_bits
from test_logits import check
from transformers import MistralConfig

DEMO = ROOT / "demo/model"
BLOCK = 64


def prompts(seed, vocab_size, n=24, longest=400):
    """Prompts of which most begin as an earlier one does, for a random number of tokens."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        new = rng.integers(0, vocab_size, rng.integers(1, longest)).tolist()
        if found and rng.random() < 0.8:
            old = found[rng.integers(len(found))]
            new = (old[: rng.integers(len(old) + 1)] + new)[:longest]
        found.append(new)
    return found


@pytest.fixture(scope="module", params=["int8", "f32", "windowed"])
def model(request, tmp_path_factory):
    if request.param != "windowed":
        with Model(blob_of(DEMO, request.param)) as model:
            yield model
        return
    folder = tmp_path_factory.mktemp("windowed")
    settings = SMALL | {"sliding_window": 100, "max_position_embeddings": 512}
    make_of(MistralConfig(**settings), folder / "checkpoint")
    with Model(convert(folder / "checkpoint", folder / "blob.smol")) as model:
        yield model


@pytest.mark.sample(4)
@pytest.mark.parametrize("kv", KVS)
@pytest.mark.parametrize("n_blocks", [4, 1000])
def test_logits_have_the_same_bits_with_and_without_hits(model, kv, n_blocks):
    with Prefixes(model, n_blocks, kv) as cache:
        for seed, ids in enumerate(prompts(n_blocks, model.vocab_size)):
            n_logits = min(1 + seed % 3, len(ids)) if seed % 5 else len(ids)
            expected = model.logits(ids, n_logits, kv=kv)
            with model.context(1 + seed % 3, kv, prefixes=cache) as context:
                first = seed * 37 % (len(ids) - n_logits + 1)
                if first:
                    known, before = cache.count(ids[:first]), cache.info().n_reused
                    context.eval(ids[:first], 0)
                    assert cache.info().n_reused - before == known
                assert same_bits(context.eval(ids[first:], n_logits), expected)
        info = cache.info()
        assert info.n_reused > 5 * BLOCK and info.bytes <= info.max_bytes and info.n_used == 0
        assert (info.n_evicted > 0) == (n_blocks == 4)


def test_sequences_that_are_evaluated_together_share(model):
    ids = prompts(7, model.vocab_size, n=12)
    with Prefixes(model, 100) as cache, model.context(2, prefixes=cache) as base:
        for first in range(0, len(ids), 4):
            contexts = [model.context(share=base, prefixes=cache) for _ in range(4)]
            found = eval_many([(c, i, 1) for c, i in zip(contexts, ids[first : first + 4], strict=True)])
            for logits, i in zip(found, ids[first : first + 4], strict=True):
                assert same_bits(logits, model.logits(i, 1))
            for context in contexts:
                context.close()
        assert cache.info().n_reused > BLOCK


def test_logits_after_a_hit_are_those_of_transformers(demo_logits):
    with Model(blob_of(DEMO, "f32")) as model, Prefixes(model, 100) as cache:
        for ids in prompts(3, model.vocab_size, n=8, longest=200):
            with model.context(prefixes=cache) as context:
                check(context.eval(ids, 1), demo_logits(ids)[-1:])
        assert cache.info().n_reused > BLOCK


def test_threads_share_a_cache_and_groups_do_not(model):
    ids = prompts(11, model.vocab_size, n=10)
    expected = [model.logits(i, 1) for i in ids]
    wrong = []

    def work(group, cache, order):
        with model.context(prefixes=cache, group=group) as context:
            for i in order:
                context.truncate(0)
                if not same_bits(context.eval(ids[i], 1), expected[i]):
                    wrong.append((group, i))

    with Prefixes(model, 12) as cache:
        orders = [np.random.default_rng(i).permutation(len(ids)) for i in range(4)]
        threads = [threading.Thread(target=work, args=(i % 2, cache, o)) for i, o in enumerate(orders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and cache.info().n_used == 0
    with Prefixes(model, 100) as cache:
        for group in range(3):
            work(group, cache, [int(np.argmax([len(i) for i in ids]))])
        assert cache.info().n_reused == 0 and not wrong

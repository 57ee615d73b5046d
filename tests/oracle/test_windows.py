"""Windowed layers keep the keys and values of their windows only, also in a cache of prefixes. Whatever is done to a
sequence, its logits are the bits of a new context, and those of transformers."""

from contextlib import nullcontext

import numpy as np
import pytest
from checkpoints import make_of
from engine import Model, Prefixes, SmolError, convert
from internal import DAMAGED, lib
from sequences import Text, check_long_text, random_ids
from session_reader import edited, read
from test_determinism import KVS, same_bits
from transformers import Gemma3TextConfig

WINDOW, SPARE, BLOCK, CAPACITY, N_LAYERS = 100, 256, 64, 4096, 6
KEEPS_ALL = WINDOW + 2 * SPARE  # the capacity of a context that does
SETTINGS = dict(
    vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=N_LAYERS, num_attention_heads=2,
    num_key_value_heads=1, head_dim=16, max_position_embeddings=CAPACITY, sliding_window=WINDOW, bos_token_id=None,
    eos_token_id=2, pad_token_id=None, query_pre_attn_scalar=16,
    layer_types=["sliding_attention"] * 3 + ["full_attention"] + ["sliding_attention"] * 2,
)  # fmt: skip


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_of(Gemma3TextConfig(**SETTINGS), tmp_path_factory.mktemp("windowed") / "checkpoint")


@pytest.fixture(scope="module", params=["f32", "int8"])
def model(request, checkpoint):
    with Model(convert(checkpoint, checkpoint / f"{request.param}.smol", request.param, force=True)) as model:
        yield model


def test_long_texts_are_those_of_transformers(checkpoint, model):
    if model.info.dtype != b"f32":
        pytest.skip("for weights that are not rounded")
    check_long_text(model, checkpoint, 1500, [1, 700, 701, 1400])


@pytest.mark.parametrize("kv", KVS)
def test_memory_does_not_grow_in_windowed_layers(model, kv):
    rng = np.random.default_rng(1)
    with Text(model, kv) as text:
        text.add(random_ids(rng, BLOCK))
        block_bytes = text.context.info().kv_bytes
        for n in (500, 1, 2000, 1, 63):
            text.add(random_ids(rng, n))
        n_blocks, most = -(-len(text.ids) // BLOCK), (WINDOW + SPARE) // BLOCK + 2
        assert text.context.info().kv_bytes <= block_bytes * (n_blocks + 5 * most) / N_LAYERS


@pytest.mark.sample(4)
@pytest.mark.parametrize("n_blocks", [0, 14, 1000])
@pytest.mark.parametrize("kv", KVS)
@pytest.mark.parametrize("seed", range(6))
def test_any_way_back_leads_to_the_same_bits(model, kv, seed, n_blocks):
    """With a cache of prefixes of so many blocks, or without."""
    rng = np.random.default_rng(seed)
    with Prefixes(model, n_blocks, kv) if n_blocks else nullcontext() as cache, Text(model, kv, prefixes=cache) as text:
        for _ in range(12):
            size = rng.choice([1, 2, 17, 128, 300, 700])
            got = text.add(random_ids(rng, size))
            assert same_bits(got, text.expected())
            if rng.random() < 0.6:
                text.cut(int(rng.integers(len(text.ids) + 1)))
            if rng.random() < 0.2:
                text.cut(int(rng.integers(len(text.ids) + 1)))
            if len(text.ids) > CAPACITY - 800:
                text.cut(10)


@pytest.mark.sample(10)
@pytest.mark.parametrize("n, keeps_all", [(n, keeps) for n in (30, 163, 164, 165, 500, 1000) for keeps in (False, n <= 500)])
def test_a_session_has_what_windows_need(model, n, keeps_all):
    """Also one that was cut to a length of which keys and values are lost."""
    rng = np.random.default_rng(n)
    with Prefixes(model, 1000) as cache, Text(model) as text, Text(model) as other:
        text.add(random_ids(rng, n))
        saved, ids = text.save(), list(text.ids)
        for options in ({"n_ctx": KEEPS_ALL} if n < KEEPS_ALL else {}, {"prefixes": cache}, {"prefixes": cache}):
            other.context.close()
            other.context = model.context(2, **options)
            other.context.eval(ids, 0)
            assert other.save() == saved  # whatever a context keeps
        other.context.close()
        other.context = model.context(1, n_ctx=KEEPS_ALL if keeps_all else 0)
        more = random_ids(rng, 70)
        other.restore(saved, ids)
        assert same_bits(other.add(more), text.add(more))
        for back in (n - 1, n // 2, 0):  # the first without its own token, as a resumed generation does
            other.restore(saved, ids).cut(back)
            got = other.add(more)
            assert same_bits(got, other.expected())
        text.cut(n)
        text.add(random_ids(rng, 700))
        text.add(random_ids(rng, 200))  # the place where the newest evaluation began is not lost
        text.cut(n)
        lost = text.save()
        text.restore(lost, ids)
        assert same_bits(text.add(more), text.expected())
    session = read(lost, N_LAYERS, 1, 16, WINDOW, [0, 1, 2, 4, 5])
    assert session.header["n_positions"] == session.header["n_lost"] == n and not session.records
    session = read(saved, N_LAYERS, 1, 16, WINDOW, [0, 1, 2, 4, 5])
    assert session.header["n_positions"] == n and session.header["n_lost"] == 0


def n_lost(saved, n):
    header = read(saved, N_LAYERS, 1, 16, WINDOW, [0, 1, 2, 4, 5]).header
    assert header["n_positions"] == n
    return header["n_lost"]


def check_goes_on(model, saved, ids):
    """A restored text has the bits of one that keeps everything."""
    with Text(model) as text:
        got = text.restore(saved, ids).add(ids[:3])
        assert same_bits(got, text.expected())


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [547, 611])
def test_a_text_that_was_cut_to_any_length_can_be_saved(model, n):
    """The last lengths, to which it can go back at no cost, have all that a session holds."""
    rng = np.random.default_rng(n)
    with Text(model) as text, Text(model, n_ctx=KEEPS_ALL) as whole:
        for part in np.split(random_ids(rng, n), [400, n - 1]):
            text.add(part), whole.add(part)
        for length in range(n, n - SPARE - 2 * BLOCK, -1):
            text.cut(length), whole.cut(length)
            saved = text.save()
            assert saved == whole.save() or (length < n - SPARE and n_lost(saved, length) > 0)
            if length % BLOCK == (WINDOW - 1) % BLOCK:
                check_goes_on(model, saved, text.ids)
        assert n_lost(saved, length) > 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("longest, capacity", [(740, 0), (600, KEEPS_ALL)])
def test_a_restored_text_can_be_cut_and_saved_again(model, longest, capacity):
    """It can go on without its last token, also where a session of that length would begin a block earlier."""
    with Text(model) as text, Text(model, n_ctx=capacity) as other:
        text.add(random_ids(np.random.default_rng(0), longest))
        for n in range(longest, longest - BLOCK - 2, -1):
            text.cut(n)
            other.restore(text.save(), text.ids).cut(n - 1)
            saved = other.save()
            lacks = (n - 1 - WINDOW) // BLOCK < (n - WINDOW) // BLOCK
            assert (n_lost(saved, n - 1) > 0) == lacks
            if lacks:
                check_goes_on(model, saved, other.ids)
                assert same_bits(other.add(text.ids[:3]), other.expected())


def test_a_cache_of_prefixes_gives_up_what_windows_have_passed(model):
    """Five of six layers keep a window, so a long text fits into a cache for less than half of it."""
    ids = random_ids(np.random.default_rng(2), 40 * BLOCK)
    with Prefixes(model, 18) as cache, Text(model, prefixes=cache) as text:
        text.add(ids)
        info = cache.info()
        assert (info.n_blocks, info.n_evicted) == (40, 0) and info.bytes <= info.max_bytes
        assert text.context.info().kv_bytes < 18 * info.block_bytes
    with Prefixes(model, 41) as cache, Text(model, prefixes=cache) as text:
        text.add(ids)
        info = cache.info()
        assert info.bytes == 40 * info.block_bytes  # there is room


def test_a_beginning_is_kept_once_it_was_missed(model):
    """Three long texts begin alike, and there is no room for all that their windows have passed."""
    rng = np.random.default_rng(2)
    start, found = list(random_ids(rng, 14 * BLOCK + 5)), []
    with Prefixes(model, 14) as cache:
        for ids in (start + list(random_ids(rng, 1200)) for _ in range(3)):
            with Text(model, prefixes=cache) as text:
                known, before = cache.count(ids), cache.info().n_reused
                assert same_bits(text.add(ids), text.expected())
                found.append(cache.info().n_reused - before)
                assert found[-1] == known
    assert found[0] == 0 and found[1] < 14 * BLOCK and found[2] == 14 * BLOCK


def test_sessions_that_lost_more_than_they_have_are_refused(model):
    with Text(model) as text:
        text.add(random_ids(np.random.default_rng(0), 300))
        saved = text.save()
        for n_lost in (301, 2**32 - 1):
            with pytest.raises(SmolError) as refused:
                text.restore(edited(saved, n_lost=n_lost), [])
            assert refused.value.status == DAMAGED


def test_a_failed_evaluation_changes_nothing(model):
    rng = np.random.default_rng(5)
    with Text(model) as text:
        text.add(random_ids(rng, 900))
        text.cut(300)
        lib.smol_context_cancel(text.context.handle, 1)
        with pytest.raises(SmolError):
            text.context.eval(random_ids(rng, 10))
        lib.smol_context_cancel(text.context.handle, 0)
        with pytest.raises(SmolError):
            text.context.eval([SETTINGS["vocab_size"]])
        assert len(text.context) == 300
        got = text.add(random_ids(rng, 5))
        assert same_bits(got, text.expected())

"""Layers with a state in place of attention (LFM's short convolutions), also beside windows (LFM3). A state cannot be cut back; whatever is done to a
sequence, its logits are the bits of a new context with the same tokens, and those of transformers."""

import ctypes
import json
import shutil
import struct
from contextlib import ExitStack

import numpy as np
import pytest
import sequences
import torch
from checkpoints import make_of
from engine import Model, Prefixes, SmolError, as_ids, convert, eval_many, isa_params, kernel_sets
from internal import DAMAGED, ROOT, lib
from programs import smolrun
from sequences import check_long_text, check_splits, random_ids
from session_reader import digest, edited, read, start_sizes
from smol_h import GenerateParams, GenerateResult
from structured_output import Sampler, call
from test_determinism import (
    KVS,
    same_bits,
)
from transformers import AutoModelForCausalLM, Lfm2Config, Lfm3Config

INTERVAL, SPARE, BLOCK, CAPACITY, HIDDEN, TAPS = 256, 256, 64, 4096, 48, 4
TYPES = ["conv", "conv", "full_attention", "conv", "full_attention", "conv"]
STATEFUL = [i for i, kind in enumerate(TYPES) if kind == "conv"]
N_FLOATS = len(STATEFUL) * (TAPS - 1) * HIDDEN
SETTINGS = dict(
    vocab_size=101, hidden_size=HIDDEN, intermediate_size=40, num_hidden_layers=len(TYPES), num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=CAPACITY, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    layer_types=TYPES, conv_L_cache=TAPS, conv_bias=True, block_auto_adjust_ff_dim=False,
)  # fmt: skip
WINDOWED = SETTINGS | dict(layer_types=[*TYPES[:4], "sliding_attention", "conv"], head_dim=12, sliding_window=300)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_of(Lfm2Config(**SETTINGS), tmp_path_factory.mktemp("states") / "checkpoint")


@pytest.fixture(scope="module", params=["f32", "bf16", "int8", "windowed"])
def model(request, checkpoint):
    dtype, folder = request.param, checkpoint
    if dtype == "windowed":
        dtype, folder = "f32", make_of(Lfm3Config(**WINDOWED), checkpoint / "windowed")
    with Model(convert(folder, folder / f"{dtype}.smol", dtype, force=True)) as model:
        model.checkpoint = folder
        window = (300, [4]) if request.param == "windowed" else (0, ())
        model.shape = (len(TYPES), 2, 12, *window, N_FLOATS, STATEFUL)  # of a session
        yield model


class Text(sequences.Text):
    def n_lost(self):
        """Tokens that are read again before the next."""
        return read(self.save(), *self.model.shape).header["n_lost"]


def test_long_texts_are_those_of_transformers(model):
    if model.info.dtype != b"f32":
        pytest.skip("for weights that are not rounded")
    check_long_text(model, model.checkpoint, 1500, [1, 2, 4, 700, 701, 1400])


@pytest.mark.sample(8)
@pytest.mark.parametrize("isa", isa_params(kernel_sets()))
def test_any_split_threads_and_instruction_set_give_the_same_bits(model, isa, monkeypatch):
    check_splits(model, 600, isa, monkeypatch)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kv", KVS)
@pytest.mark.parametrize("seed", range(6))
def test_any_way_back_leads_to_the_same_bits(model, kv, seed):
    rng = np.random.default_rng([seed, KVS.index(kv)])
    with Text(model, kv) as text:
        restored, longest = 0, 0  # a session has few snapshots
        for _ in range(12):
            size = rng.choice([1, 2, 3, 17, 128, 300, 700])
            got = text.add(random_ids(rng, size), rng.integers(1, min(size, 4) + 1))
            assert same_bits(got, text.expected())
            longest = len(text.ids)
            for probability in (0.6, 0.3):
                if rng.random() < probability:
                    text.cut(int(rng.integers(len(text.ids) + 1)))
                    is_far = model.shape[3] and len(text.ids) < longest - SPARE  # windows do not have what is before
                    assert is_far or text.n_lost() < INTERVAL or len(text.ids) <= restored
                    restored = min(restored, len(text.ids))
            if rng.random() < 0.3:
                text.restore(text.save(), text.ids)
                restored = len(text.ids)
            if rng.random() < 0.3 and len(text.ids) > 20:
                text.slide(int(rng.integers(20)), CAPACITY - len(text.ids) + 1)
            if len(text.ids) > CAPACITY - 800:
                text.cut(10)


@pytest.mark.parametrize("n", [767, 1000])
def test_going_back_a_little_reads_little_again(model, n):
    """Also with windows, which keep what the newest states need that a text can be cut back to."""
    with Text(model) as text:
        text.add(random_ids(np.random.default_rng(n), n))
        for length in range(n, n - SPARE - 1, -16):
            text.cut(length)
            assert text.n_lost() < INTERVAL
        assert same_bits(text.add([5]), text.expected())


def test_several_sequences_in_one_pass(model):
    rng = np.random.default_rng(3)
    with Text(model) as first:
        texts = [first, *(Text(model, share=first.context) for _ in range(4))]
        for text in texts[1:]:
            text.context.close()
            text.context = model.context(share=first.context)
        for _ in range(8):
            for text in texts:
                if rng.random() < 0.3:
                    text.cut(int(rng.integers(len(text.ids) + 1)))
            new = [random_ids(rng, rng.choice([1, 2, 90, 260])) for _ in texts]
            results = eval_many([(text.context, ids, 1) for text, ids in zip(texts, new, strict=True)])
            for text, ids, got in zip(texts, new, results, strict=True):
                text.ids += list(ids)
                assert same_bits(got, text.expected())
        for text in texts[1:]:
            text.context.close()


@pytest.fixture(scope="module")
def speaking(tmp_path_factory):
    """A blob with the bundled model's tokenizer, whose output soon repeats itself in part."""
    folder = tmp_path_factory.mktemp("speaking")
    make_of(Lfm2Config(**SETTINGS | {"vocab_size": 1990}), folder)
    for path in (ROOT / "demo/model").glob("tokenizer*.json"):
        shutil.copy(path, folder)
    return convert(folder, folder / "int8.smol")


@pytest.mark.parametrize("options", [[], ["--ctx", 100, "--slide"], ["--ctx", 300, "--slide", "--temp", 0.7]])
def test_guesses_and_slides_leave_the_text_as_it_is(speaking, options):
    """A wrong guess takes the sequence back."""
    words = [speaking, "the cat sat on the mat. " * 3, "-n", 700, *options]
    results = [smolrun(*words, *more) for more in ([], ["--lookup"], ["--lookup", "--threads", 3])]
    assert {result.returncode for result in results} == {0}
    assert len(results[0].stdout) > 500 and len({result.stdout for result in results}) == 1


def pointer_at(address, word):
    return ctypes.c_void_p.from_address(address + 8 * word).value


def n_runs(context):
    """The number of the last run of the context's threads, if they are several (common/pool.c)."""
    pool = pointer_at(pointer_at(context.handle.value, 1), 2)  # struct smol_context, struct engine
    return ctypes.c_uint32.from_address(pool + 12).value


@pytest.mark.parametrize("temperature", [2, 4])
def test_what_a_wrong_guess_takes_back_is_read_with_the_next_token(speaking, temperature):
    """It takes no pass of its own."""
    sampler, result = Sampler(temperature=temperature, top_k=2, seed=5), GenerateResult()
    params = GenerateParams(max_tokens=600, lookup=1)
    with Model(speaking) as model, model.context(threads=2) as context:
        prompt = as_ids(model.tokenize("the cat sat on the mat. " * 3))
        call(lib.smol_generate, context.handle, sampler.handle, prompt.ctypes, ctypes.c_size_t(len(prompt)),
             ctypes.byref(params), ctypes.byref(result))  # fmt: skip
        assert result.n_guessed > result.n_guessed_right + 50 > 60
        assert n_runs(context) == result.n_generated - result.n_guessed_right


def test_wrong_guesses_leave_no_snapshots(speaking):
    with Model(speaking) as model:
        prompt, sizes = as_ids(model.tokenize("the cat sat on the mat. " * 40)), []
        for lookup in (0, 1):
            sampler, result = Sampler(temperature=4, top_k=2, seed=1), GenerateResult()
            params = GenerateParams(max_tokens=len(prompt) - 2, lookup=lookup)
            with model.context(n_ctx=2 * len(prompt)) as context:  # which has room for all ids at once
                call(lib.smol_generate, context.handle, sampler.handle, prompt.ctypes, ctypes.c_size_t(len(prompt)),
                     ctypes.byref(params), ctypes.byref(result))  # fmt: skip
                sizes.append(context.info().state_bytes)
        assert result.n_guessed > result.n_guessed_right + 5 and sizes[0] == sizes[1]


def test_guesses_of_several_sequences_leave_their_texts_as_they_are(speaking):
    prompts = ["the cat sat on the mat. " * n for n in (1, 3, 2, 5, 4)]
    sampling = {"temperature": 1.5, "top_k": 2}
    lines = [json.dumps({"prompt": text, "seed": i, "max_tokens": 150 + 9 * i, **sampling}) for i, text in enumerate(prompts)]
    ways = [[1], [1, "--lookup"], [3, "--lookup"], [5, "--lookup"]]
    answers = [smolrun(speaking, "--jsonl", "--sequences", *way, input="\n".join(lines).encode()) for way in ways]
    assert {answer.returncode for answer in answers} == {0}
    assert len({answer.stdout for answer in answers}) == 1


# --- sessions -----------------------------------------------------------------------------------


@pytest.mark.sample(12)
@pytest.mark.parametrize("n", [1, 2, 63, 64, 255, 256, 257, 1000])
def test_a_session_has_the_states(model, n):
    rng = np.random.default_rng(n)
    with Text(model) as text, Text(model) as other:
        text.add(random_ids(rng, n))
        saved, ids, more = text.save(), list(text.ids), random_ids(rng, 70)
        session = read(saved, *model.shape)
        assert session.header["n_lost"] == 0 and list(session.states) == [n]
        other.restore(saved, ids)
        assert other.save() == saved
        assert same_bits(other.add(more), text.add(more))
        for back in (n - 1, n // 2, 0):
            other.restore(saved, ids).cut(back)
            assert same_bits(other.add(more), other.expected())
        text.cut(n)
        assert text.save() == saved
        for token in (5, 6, 7):
            text.add([token])
        text.cut(n + 1)  # before the last pass, and between two snapshots
        lost = text.save()
        assert read(lost, *model.shape).header["n_lost"] == bool((n + 1) % INTERVAL)
        other.restore(lost, text.ids)
        assert same_bits(other.add(more), text.add(more))


def test_the_states_of_a_session_are_those_of_the_reference(model):
    """The first layer is compared, because no layer before it changes its input."""
    if model.info.dtype != b"f32":
        pytest.skip("for weights that are not rounded")
    ids = random_ids(np.random.default_rng(4), 50)
    with Text(model, "f32") as text:
        text.add(ids)
        state = read(text.save(), *model.shape).states[50][: (TAPS - 1) * HIDDEN].reshape(TAPS - 1, HIDDEN)
    reference = AutoModelForCausalLM.from_pretrained(model.checkpoint, dtype=torch.float32)
    with torch.no_grad():
        cache = reference(torch.tensor(ids[None]), use_cache=True).past_key_values
        theirs = cache.get_conv_state(0, state_idx=0)[0].numpy().T[-(TAPS - 1) :]
    np.testing.assert_allclose(state, theirs, rtol=1e-4, atol=1e-6)


def chained(saved, replace):
    """The session with records [(size, bytes or None: as it is)] replaced and all digests right."""
    out, at, before = b"", 0, 0
    for size, record in replace:
        record = saved[at : at + size] if record is None else record
        before = digest(before, record)
        out += record + struct.pack("<Q", before)
        at += size + 8
    return out


def sizes_of(saved, shape):
    session = read(saved, *shape)
    sizes = start_sizes(session.header)
    sizes.append(16)
    row = 2 * len(session.records[0][0][0]) * (4 if session.header["kv"] == 1 else 2)
    sizes += [row * len(keys) for keys, _ in session.records]
    states = [min(16384, 4 * N_FLOATS - at) for at in range(0, 4 * N_FLOATS, 16384)]
    return sizes + states * len(session.states)


def test_hostile_sessions_are_refused(model):
    with Text(model) as text:
        text.add(random_ids(np.random.default_rng(0), 100))
        saved = text.save()
        sizes = sizes_of(saved, model.shape)
        place = len(start_sizes(read(saved, *model.shape).header))
        assert chained(saved, [(size, None) for size in sizes]) == saved

        def refused(bad):
            with pytest.raises(SmolError) as error:
                text.restore(bad, [])
            assert error.value.status == DAMAGED, str(error.value)
            assert len(text.context) == 0
            text.ids = []
            assert same_bits(text.add([7, 8, 9]), text.expected())

        for positions in ((0, 0, 0, 0), (1, 99, 0, 0), (1, 101, 0, 0), (2, 100, 100, 0), (2, 100, 0, 0),
                          (1, 100, 1, 0), (3, 5, 3, 100), (4, 1, 2, 100), (2**32 - 1, 1, 2, 100)):  # fmt: skip
            records = [(size, None) for size in sizes]
            records[place] = (16, struct.pack("<4I", *positions))
            refused(chained(saved, records))
        for value in (np.nan, np.inf):
            records = [(size, None) for size in sizes]
            records[-1] = (sizes[-1], struct.pack("<f", value) + b"\0" * (sizes[-1] - 4))
            refused(chained(saved, records))
        for n_lost in (101, 2**32 - 1):
            refused(edited(saved, n_lost=n_lost))
        for end in range(0, len(saved), 97):
            refused(saved[:end])
        for at in np.random.default_rng(1).integers(24, len(saved), 60):
            refused(saved[:at] + bytes([saved[at] ^ 1 << at % 8]) + saved[at + 1 :])
        refused(saved + b"\0")


# --- caches of prefixes ---------------------------------------------------------------------------


@pytest.mark.sample(5)
@pytest.mark.parametrize("n_blocks", [1000, 20, 6])
def test_prefixes_are_reused_up_to_a_known_state(model, n_blocks):
    rng = np.random.default_rng(n_blocks)
    shared = random_ids(rng, 700)
    with Prefixes(model, n_blocks) as cache:
        for i in range(12):
            with Text(model, prefixes=cache, group=i % 2) as text:
                ids = np.concatenate([shared[: rng.integers(700)], random_ids(rng, rng.integers(1, 300))])
                known, before = cache.count(ids[:-1], i % 2), cache.info().n_reused
                assert same_bits(text.add(ids), text.expected())
                assert cache.info().n_reused - before == known and known % INTERVAL == 0
                text.cut(int(rng.integers(len(text.ids) + 1)))
                lost, before = text.n_lost(), cache.info().n_reused
                assert same_bits(text.add(random_ids(rng, 40)), text.expected())
                assert lost - (cache.info().n_reused - before) < INTERVAL
                assert cache.info().bytes <= cache.info().max_bytes
        if n_blocks == 1000:
            assert cache.info().n_reused >= 6 * INTERVAL


def test_a_generation_takes_states_from_the_cache(model):
    ids = random_ids(np.random.default_rng(4), 1100)
    with Prefixes(model, 1000) as cache:
        with Text(model, prefixes=cache) as text:
            text.add(ids)
        with Text(model, prefixes=cache) as text:
            assert text.generate(ids[:700], 3) == 2 * INTERVAL
            assert same_bits(text.add([5]), text.expected())
            text.cut(5 * BLOCK)  # between two known states
            assert text.generate(ids[5 * BLOCK :], 3) == 4 * INTERVAL - 5 * BLOCK
            assert same_bits(text.add([5]), text.expected())


@pytest.mark.parametrize(("n_other", "n_shared", "n_steps", "n_read"), [(150, 140, 2, 85), (260, 258, 3, 0)])
def test_a_prompt_waits_for_another_only_where_a_state_will_be_known(model, n_other, n_shared, n_steps, n_read):
    """A step reads 128 tokens: one of the sequence that decodes, the rest of the other prompt, and then of this one."""
    rng = np.random.default_rng(n_other)
    other = random_ids(rng, n_other)
    prompts = [random_ids(rng, 20), other, np.concatenate([other[:n_shared], random_ids(rng, 300)])]
    params, samplers = GenerateParams(max_tokens=9, slice_prompt=1), [Sampler() for _ in prompts]
    generations = (ctypes.c_void_p * 3)()
    with Prefixes(model, 1000) as cache, ExitStack() as stack:
        first = stack.enter_context(Text(model, prefixes=cache))
        texts = [first, *(stack.enter_context(Text(model, prefixes=cache, share=first.context)) for _ in range(2))]
        for i, ids in enumerate(map(as_ids, prompts)):
            place = ctypes.byref(generations, i * ctypes.sizeof(ctypes.c_void_p))
            call(lib.smol_generation_create, texts[i].context.handle, samplers[i].handle, ids.ctypes, ctypes.c_size_t(len(ids)),
                 ctypes.byref(params), place)  # fmt: skip
        for _ in range(n_steps):
            lib.smol_generation_step(generations, ctypes.c_size_t(3))
        assert [len(text.context) for text in texts[1:]] == [n_other, n_read]
        for generation in generations:
            lib.smol_generation_free(ctypes.c_void_p(generation))


# --- failures -------------------------------------------------------------------------------------


def test_a_failed_evaluation_changes_nothing(model):
    rng = np.random.default_rng(5)
    with Text(model) as text:
        for n in (900, 1, 300):
            text.add(random_ids(rng, n))
            lib.smol_context_cancel(text.context.handle, 1)
            with pytest.raises(SmolError):
                text.context.eval(random_ids(rng, 10))
            lib.smol_context_cancel(text.context.handle, 0)
            with pytest.raises(SmolError):
                text.context.eval([SETTINGS["vocab_size"]])
            assert len(text.context) == len(text.ids)
            assert same_bits(text.add(random_ids(rng, 5)), text.expected())

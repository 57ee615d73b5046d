"""Generation beyond the end of the context: what `--slide` prints is what the reference continues the
kept text with. (tests/unit/test_generate.c compares the bits.)"""

import ctypes
import json

import numpy as np
import pytest
from engine import Model
from internal import CONTEXT_FULL, OK, USAGE, lib
from programs import assert_fails, smolrun
from test_cli_run import STOP_ID, output

PROMPT = "Anna the baker lives in a small house. Once upon a time"
CTX, N_NEW = 48, 80


@pytest.fixture(scope="module")
def prompt_ids(demo_tokenizer):
    return demo_tokenizer.encode(PROMPT).ids


@pytest.fixture(scope="module")
def reference(demo_logits):
    """best_after(ids): the most likely next one."""
    return lambda ids: int(demo_logits(ids)[-1].argmax())


def continued(ids, n_keep, best_after):
    """The greedy continuation, and how often the text was cut on the way."""
    new, n_slides = [], 0
    while len(new) < N_NEW:
        if len(ids) > CTX:  # the newest id has no place
            half = (CTX - n_keep) // 2
            ids = ids[:n_keep] + ids[CTX - half :]
            n_slides += 1
        new.append(best_after(ids))
        if new[-1] == STOP_ID:
            return new[:-1], n_slides
        ids = ids + new[-1:]
    return new, n_slides


@pytest.mark.sample(2)
@pytest.mark.parametrize("keep", [None, 5, CTX - 2])
def test_the_text_goes_on_as_transformers_continues_what_was_kept(
    demo_blob, prompt_ids, reference, keep
):
    options = [] if keep is None else ["--keep", keep]
    n_keep = min(len(prompt_ids), CTX // 2) if keep is None else keep
    expected, n_slides = continued(prompt_ids, n_keep, reference)
    found = json.loads(
        output(demo_blob("f32"), PROMPT, "-n", N_NEW, "--ctx", CTX, "--slide", "--json", *options)
    )
    assert found["ids"] == expected
    assert found["timings"]["slides"] == n_slides >= 2
    assert 0 < found["timings"]["slide_ms"]


def test_a_text_that_fits_is_not_touched(demo_blob):
    arguments = demo_blob("int8"), PROMPT, "-n", 20
    assert output(*arguments, "--slide") == output(*arguments)
    assert json.loads(output(*arguments, "--slide", "--json"))["timings"]["slides"] == 0


def test_it_goes_on_far_beyond_the_context_and_a_seed_repeats(demo_blob):
    arguments = demo_blob("int8"), PROMPT, "--ctx", 40, "--slide", "-n", 700, "--temp", 2.5, "--seed", 34
    texts = {output(*arguments, "--ids", "--threads", threads) for threads in (1, 2)}
    assert len(texts) == 1
    assert len(texts.pop().split()) == 700


def test_what_cannot_be_kept_is_refused(demo_blob):
    blob = demo_blob("int8")
    assert_fails(smolrun(blob, PROMPT, "--keep", 3), USAGE, "--keep", "--slide")
    assert_fails(smolrun(blob, PROMPT, "--slide", "--ctx", 40, "--keep", 40), USAGE, "keep")
    assert_fails(smolrun(blob, PROMPT, "--slide", "--ctx", 4), CONTEXT_FULL, "4 tokens")
    assert smolrun(blob, PROMPT, "--slide", "--ctx", 40, "--keep", 39).returncode == OK


def test_the_ids_of_a_context_are_those_given(demo_blob):
    def ids_in(context):
        n = ctypes.c_size_t()
        return lib.smol_context_ids(context.handle, ctypes.byref(n))[: n.value]

    ids = np.random.default_rng(5).integers(20, 1900, 300).tolist()
    with Model(demo_blob("int8")) as model, model.context() as context:
        for first, last in ((0, 1), (1, 7), (7, 140), (140, 300)):
            context.eval(ids[first:last], 0)
            assert ids_in(context) == ids[:last]
        context.truncate(100)
        context.eval(ids[:5], 0)
        assert ids_in(context) == ids[:100] + ids[:5]


def test_a_session_slides_as_one_text(demo_blob, prompt_ids, reference, tmp_path):
    """The ids of a session count as the prompt: all of them are kept, but at most half of the context."""
    arguments = demo_blob("f32"), "--ctx", CTX, "--session", tmp_path / "session", "--ids", "--slide"
    first = output(*arguments, PROMPT, "-n", 5)
    more = output(*arguments, "", "-n", N_NEW)
    ids = prompt_ids + list(map(int, first.split()))
    expected, n_slides = continued(ids, min(len(ids), CTX // 2), reference)
    assert list(map(int, more.split())) == expected and n_slides >= 2

"""smolserve's cache of prefixes: the same answers with and without hits, for whom it may be used, and
what it reports."""

import os
import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from programs import assert_refuses, run
from serving import serving
from test_serve import ROUTE, by_smolrun, draw, streamed, user, words

BLOCK = 64  # tokens
COMPLETIONS = "/v1/completions"


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def complete(server, ids, **members):
    """A completion of token ids, so that their number is known."""
    status, answer = server.post(COMPLETIONS, {"prompt": ids, "max_tokens": 1} | members)
    assert status == 200, answer
    return answer


def block_bytes(blob):
    refused = run("smolserve", [blob, "--port", 0, "--cache-memory", 1])
    assert_refuses(refused, 2, "--cache-memory", "a block of 64 tokens")
    return int(re.search(rb"tokens takes (\d+)", refused.stderr)[1])


def ids(seed, n):
    return random.Random(seed).choices(range(300, 900), k=n)


def conversations(rng, n):
    """Requests of which most share the beginning of a system prompt, or continue an earlier conversation."""
    systems = [{"role": "system", "content": words(rng, length)} for length in (5, 60, 120)]
    requests = []
    for _ in range(n):
        request = draw(rng)
        old = rng.choice(requests)["messages"] if requests and rng.random() < 0.5 else [rng.choice(systems)]
        turns = [] if len(old) < 2 else [{"role": "assistant", "content": words(rng, 9)}]
        request["messages"] = [*old[:4], *turns, *user(words(rng, rng.choice([1, 30])))]
        requests.append(request)
    return requests


@pytest.mark.quick
@pytest.mark.parametrize("n_blocks", [1000, 5, 0])
def test_answers_are_those_of_smolrun_with_hits_and_without(blob, n_blocks):
    """Many at a time, so that some read what others are just about to add, or evict."""
    rng = random.Random(5)
    requests = conversations(rng, 40 if os.environ.get("SMOL_TEST_ALL") else 20)
    expected = by_smolrun(blob, requests)
    with serving(blob, "--sequences", 12, "--cache-memory", n_blocks * block_bytes(blob)) as server:
        for n in (12, 1):
            with ThreadPoolExecutor(n) as pool:
                found = list(pool.map(lambda request: streamed(server, request), requests))
            for (text, finish, usage), one in zip(found, expected, strict=True):
                assert (text, finish) == (one["text"], one["finish_reason"].replace("context_full", "length"))
                assert usage.prompt_tokens == one["usage"]["prompt_tokens"]
        metrics = server.metrics()
        assert (metrics["smolserve_cached_tokens_total"] > 0) == (n_blocks > 0)
        assert (metrics["smolserve_cache_evictions_total"] > 0) == (n_blocks == 5)


def test_blocks_that_are_known_are_not_read_again(blob):
    with serving(blob) as server:
        first = complete(server, ids(1, 200))
        assert cached(first) == 0 and server.metrics()["smolserve_cached_tokens_total"] == 0
        assert cached(complete(server, ids(1, 200))) == 192  # three blocks of 64
        assert cached(complete(server, ids(1, 150) + ids(2, 50))) == 150  # the third one is copied in part
        assert cached(complete(server, ids(3, 1) + ids(1, 200))) == 0
        assert cached(complete(server, ids(1, 64))) == 63  # the last token is always evaluated
        assert server.metrics()["smolserve_cached_tokens_total"] == 192 + 150 + 63


def test_an_answer_and_the_conversation_that_continues_it_share(server):
    turns = user("Tell me a story " + "about a very long night " * 8)
    _, first = server.post(ROUTE, {"messages": turns, "max_tokens": 80, "temperature": 0})
    turns = [*turns, {"role": "assistant", "content": first["choices"][0]["message"]["content"]}, *user("More")]
    _, second = server.post(ROUTE, {"messages": turns, "max_tokens": 2, "temperature": 0})
    assert first["usage"]["prompt_tokens"] - BLOCK < cached(second) < second["usage"]["prompt_tokens"]


@pytest.fixture(scope="module")
def server(blob):
    with serving(blob, "--sequences", 16) as server:
        yield server


def test_all_endpoints_report_hits(server):
    text = "Tell me another story " * 20
    request = {"messages": user(text), "max_tokens": 3, "temperature": 0}
    status, _ = server.post(ROUTE, request)
    assert status == 200
    _, whole = server.post(ROUTE, request)
    _, _, usage = streamed(server, request)
    assert usage.prompt_tokens_details.cached_tokens == cached(whole) >= BLOCK
    response = server.client.responses.create(model=server.model, input=text, max_output_tokens=3, temperature=0)
    assert response.usage.input_tokens_details.cached_tokens == cached(whole)


def test_a_long_prompt_that_is_known_does_not_wait_for_shorter_ones(blob):
    """The first event is that of the last prompt, of which two tokens are left to read. In the order of their
    lengths, this would never be so; it is not always seen, because events may pile up."""
    known = ids(60, 450)
    with serving(blob, "--threads", 1) as server:
        complete(server, known)
        for i in range(20):
            prompts = [*(ids(1000 + 10 * i + j, 300) for j in range(10)), known]
            stream = server.client.completions.create(model=server.model, prompt=prompts, max_tokens=2, logprobs=1, stream=True)
            if next(choice.index for event in stream for choice in event.choices) == 10:
                return
        raise AssertionError("the known prompt was never the first")


def test_choices_of_one_prompt_share_it(server):
    """The first one reads the prompt, and the others wait for it block by block."""
    before = server.metrics()["smolserve_cached_tokens_total"]
    answer = complete(server, ids(10, 300), n=8, temperature=1, seed=1)
    assert cached(answer) == 0 and answer["usage"]["prompt_tokens"] == 300
    assert server.metrics()["smolserve_cached_tokens_total"] == before + 7 * 256
    again = complete(server, ids(10, 300), n=8, temperature=1, seed=1)
    assert cached(again) == 256 and again["choices"] == answer["choices"]


def test_several_prompts_of_a_request_share(server):
    """Equal ones and those with a common beginning, in one request."""
    prompts = [ids(20, 200) + ids(21 + i, i) for i in range(4)]
    answer = complete(server, [*prompts, prompts[0]])
    assert cached(answer) == 4 * 192
    for i, choice in enumerate(answer["choices"]):
        assert complete(server, ids(90, 3) + prompts[0], temperature=0)  # something else in between
        assert complete(server, [*prompts, prompts[0]][i], seed=answer["seed"])["choices"][0]["text"] == choice["text"]


def test_least_recently_used_blocks_go_first_and_memory_is_bounded(blob):
    most = 5 * block_bytes(blob)
    with serving(blob, "--cache-memory", most) as server:
        for i in range(5):
            complete(server, ids(30 + i, 65))
        metrics = server.metrics()
        assert metrics["smolserve_cache_evictions_total"] == 0 and metrics["smolserve_cache_bytes"] == most
        assert cached(complete(server, ids(30, 65))) == 64  # now 31 is the oldest
        complete(server, ids(40, 65))
        assert cached(complete(server, ids(30, 65))) == 64
        assert server.metrics()["smolserve_cache_evictions_total"] == 1
        assert cached(complete(server, ids(31, 65))) == 0
        complete(server, ids(50, 400))  # more than the cache holds, and yet it is answered
        metrics = server.metrics()
        assert metrics["smolserve_cache_bytes"] <= most and metrics["smolserve_cache_evictions_total"] > 2


def test_without_a_cache_nothing_is_reused(blob):
    with serving(blob, "--cache-memory", 0) as server:
        for _ in range(2):
            assert cached(complete(server, ids(1, 200))) == 0
        metrics = server.metrics()
        assert metrics["smolserve_cache_bytes"] == metrics["smolserve_cached_tokens_total"] == 0


@pytest.mark.parametrize("shared", [True, False])
def test_keys_do_not_share_unless_they_may(blob, tmp_path, shared):
    (tmp_path / "keys").write_text("alice secret-of-alice\nbob secret-of-bob\n")
    with serving(blob, "--api-keys", tmp_path / "keys", *["--share-cache"] * shared) as server:
        def ask(name, prompt):
            status, answer = server.post(COMPLETIONS, {"prompt": prompt, "max_tokens": 1}, Authorization=f"Bearer secret-of-{name}")
            assert status == 200
            return cached(answer)

        assert ask("alice", ids(1, 200)) == 0
        assert ask("bob", ids(1, 200)) == (192 if shared else 0)
        assert ask("alice", ids(1, 200)) == ask("bob", ids(1, 200)) == 192
        with ThreadPoolExecutor(8) as pool:  # at the same time, too
            found = list(pool.map(lambda name: (name, ask(name, ids(2, 200))), ["alice", "bob"] * 4))
        per_key = [sum(n for name, n in found if name == who) for who in ("alice", "bob")]
        assert shared or per_key == [3 * 192] * 2
        assert sum(per_key) == (7 if shared else 6) * 192

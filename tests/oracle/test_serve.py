"""smolserve: chat completions, as the openai package and smolrun --jsonl see them."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from internal import BUILD
from programs import assert_refuses, run, smolconv, smolrun
from serving import ENDLESS, Server, post_bytes, read_all, serving
from test_docs import blocks, commands
from test_jsonl import WORDS

ROUTE = "/v1/chat/completions"


@pytest.fixture(scope="module")
def server(blob, slow_blob):
    with serving([blob, slow_blob], "--sequences", 16) as server:
        yield server


def user(text):
    return [{"role": "user", "content": text}]


def words(rng, n):
    return " ".join(rng.choice(WORDS) for _ in range(n))


def draw(rng):
    """Members that mean the same in a chat completion and in a line of --jsonl."""
    request = {
        "messages": user(words(rng, rng.choice([1, 3, 20, 200]))),
        "max_tokens": rng.randint(1, 40),
        "temperature": rng.choice([0, 0.5, 1, 1.7]),
        "seed": rng.randint(0, 2**53),
        "top_p": rng.choice([0, 0.8, 1]),
    }
    if rng.random() < 0.4:
        request |= {"top_k": rng.choice([0, 5, 40]), "min_p": rng.choice([0, 0.05])}
    if rng.random() < 0.3:
        request["repetition_penalty"] = 1.2
    if rng.random() < 0.3:
        request |= {"frequency_penalty": rng.choice([-0.5, 0, 1]), "presence_penalty": rng.choice([0, 0.7])}
        request["logit_bias"] = {str(rng.randrange(500)): rng.uniform(-100, 8) for _ in range(20)}
    if rng.random() < 0.4:
        request["stop"] = rng.choice([".", [" the", "a t"]])
    if rng.random() < 0.3:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        request["response_format"] = rng.choice([
            {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
            {"type": "regex", "pattern": "[a-z]+( [a-z]+){0,9}"},
            {"type": "text"},
        ])  # fmt: skip
    return request


def by_smolrun(blob, requests):
    """The answers of smolrun --jsonl, one request at a time."""
    lines = "\n".join(map(json.dumps, requests)).encode()
    result = smolrun(blob, "--jsonl", "--sequences", 1, input=lines)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def streamed(server, request):
    """(text, finish_reason, usage) of a streamed answer, through the openai package."""
    own = {name: request[name] for name in ("top_k", "min_p", "repetition_penalty") if name in request}
    standard = {name: value for name, value in request.items() if name not in own}
    text, finish, usage = "", None, None
    for chunk in server.client.chat.completions.create(
        model=server.model, stream=True, stream_options={"include_usage": True}, extra_body=own, **standard
    ):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
        usage = chunk.usage or usage
    return text, finish, usage


# --- the same text as smolrun ---------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("n", [1, 16])
def test_each_answer_is_that_of_smolrun_for_its_request_alone(server, blob, n):
    """Whatever else is generated at the same time, streamed or whole."""
    rng = random.Random(n)
    requests = [draw(rng) for _ in range(24 if n == 1 else 96)]
    expected = by_smolrun(blob, requests)

    def ask(i):
        if i % 2:
            return streamed(server, requests[i])
        answer = server.client.chat.completions.create(model=server.model, **openai_members(requests[i]))
        return answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage

    with ThreadPoolExecutor(n) as pool:
        found = list(pool.map(ask, range(len(requests))))
    for (text, finish, usage), one in zip(found, expected, strict=True):
        assert (text, finish) == (one["text"], one["finish_reason"].replace("context_full", "length"))
        assert usage.model_dump(include=set(one["usage"])) == one["usage"]
    assert {finish for _, finish, _ in found} == {"stop", "length"}


def openai_members(request):
    """The arguments of the package: members that it does not know go elsewhere."""
    own = {name: request[name] for name in ("top_k", "min_p", "repetition_penalty") if name in request}
    return {name: value for name, value in request.items() if name not in own} | {"extra_body": own}


def test_choices_are_those_of_consecutive_seeds(server, blob):
    request = {"messages": user("Tell me a story"), "max_tokens": 20, "temperature": 1.3, "seed": 7}
    expected = by_smolrun(blob, [request | {"seed": 7 + i} for i in range(5)])
    answer = server.client.chat.completions.create(model=server.model, n=5, **request)
    assert [choice.index for choice in answer.choices] == list(range(5))
    assert [choice.message.content for choice in answer.choices] == [one["text"] for one in expected]
    assert len({choice.message.content for choice in answer.choices}) > 1
    texts = [""] * 5
    for chunk in server.client.chat.completions.create(model=server.model, n=5, stream=True, **request):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [one["text"] for one in expected]


def test_without_a_seed_the_answer_tells_the_one_that_was_drawn(server):
    drawn = [server.chat("Tell me a story", max_tokens=30) for _ in range(2)]
    assert drawn[0]["seed"] != drawn[1]["seed"]
    for answer in drawn:
        again = server.chat("Tell me a story", max_tokens=30, seed=answer["seed"])
        assert again["choices"] == answer["choices"]


def test_log_probabilities_are_those_of_smolrun(server, blob):
    request = {"messages": user("Hello"), "max_tokens": 12, "temperature": 1, "seed": 3}
    (expected,) = by_smolrun(blob, [request | {"logprobs": 4}])
    request |= {"logprobs": True, "top_logprobs": 4}
    whole = server.client.chat.completions.create(model=server.model, **request).choices[0].logprobs.content
    chunks = list(server.client.chat.completions.create(model=server.model, stream=True, **request))
    parts = [token for chunk in chunks for token in chunk.choices[0].logprobs.content]
    assert parts == whole and len(whole) == len(expected["ids"])
    for found, one in zip(whole, expected["logprobs"], strict=True):
        assert (found.token, found.logprob) == (one["text"], one["logprob"])
        tops = [(top.token, top.logprob) for top in found.top_logprobs]
        assert tops == [(top["text"], top["logprob"]) for top in one["top"]] and len(tops) == 4
        assert bytes(found.bytes).decode(errors="replace") == found.token


def test_contents_in_parts_are_joined_by_lines(server):
    parts = [{"type": "text", "text": "Once\n\"upon\" "}, {"type": "text", "text": "\u00e9\U0001f600"}]
    one = server.chat("Once\n\"upon\" \n\u00e9\U0001f600", max_tokens=10, temperature=0)
    other = server.chat(parts, max_tokens=10, temperature=0)
    assert one["choices"] == other["choices"] and one["usage"] == other["usage"]


def test_several_models_have_their_names(demo_blob):
    blobs = [demo_blob("int8"), demo_blob("f32")]
    with serving(blobs) as server:
        listed = server.client.models.list().data
        assert [model.id for model in listed] == [blob.stem for blob in blobs]
        for blob, model in zip(blobs, listed, strict=True):
            assert server.client.models.retrieve(model.id) == model
            (expected,) = by_smolrun(blob, [{"messages": user("Hi"), "max_tokens": 9}])
            answer = server.chat("Hi", max_tokens=9, temperature=0, model=model.id)
            assert answer["model"] == model.id and answer["choices"][0]["message"]["content"] == expected["text"]
        with pytest.raises(openai.NotFoundError, match="other.*not served"):
            server.client.chat.completions.create(model="other", messages=user("Hi"))


def test_a_model_may_sample_as_its_authors_recommend(checkpoint, tmp_path):
    (checkpoint / "generation_config.json").write_text('{"do_sample": true, "temperature": 0.3, "top_k": 3}')
    blob = tmp_path / "own.smol"
    assert smolconv("--quiet", checkpoint, blob).returncode == 0
    request = {"messages": user("Tell me a story"), "max_tokens": 30, "seed": 5}
    with serving(blob, "--model-defaults") as server:
        answer = server.chat(**request | {"text": "Tell me a story"})
    (expected,) = by_smolrun(blob, [request | {"temperature": 0.3, "top_k": 3}])
    assert answer["choices"][0]["message"]["content"] == expected["text"]


def test_the_manual_asks_as_it_says(blob, tmp_path):
    """The program of docs/server.md and the command of the manual page, with another port and model."""
    (_, program), *_ = [block for block in blocks("docs/server.md")[0] if block[0] == "python server"]
    (command,) = [command for command, _ in commands("docs/man/smolserve.1.scd") if command.startswith("curl ")]
    with serving(blob) as server:
        for words in ([sys.executable, "-c", program], ["sh", "-c", command]):
            words[-1] = words[-1].replace(":8080", f":{server.port}").replace("smollm2", server.model)
            result = subprocess.run(words, capture_output=True, text=True, timeout=60)
            assert result.returncode == 0 and len(result.stdout) > 5, result.stderr
        assert json.loads(result.stdout)["choices"][0]["message"]["content"]


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({"functions": [{"name": "a"}]}, "functions", "functions: not supported by this server"),
        ({"logit_bias": {"x": 2}}, "logit_bias", "expected token ids"),
        ({"logit_bias": {"999999": 2}}, None, "the vocabulary has"),
        ({"frequency_penalty": 3}, "frequency_penalty", "from -2 to 2"),
        ({"audio": {"voice": "x"}}, "audio", "not supported"),
        ({"store": True}, "store", "stores nothing"),
        ({"unknown": 1}, "unknown", "unknown: no such member"),
        ({"n": 0}, "n", "at least 1"),
        ({"n": 17}, "n", "from 0 to 16"),
        ({"temperature": -1}, "temperature", "from 0"),
        ({"top_p": 2}, "top_p", "from 0 to 1"),
        ({"stop": [""]}, "stop", "not empty"),
        ({"stream": 1}, "stream", "true or false"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "only with stream"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options", "unknown"),
        ({"top_logprobs": 2}, "top_logprobs", "only with logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "from 0 to 20"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": "x"}, "messages", "a list"),
        ({"messages": [1]}, "messages", "must be an object"),
        ({"messages": user([{"type": "image_url"}])}, "messages", "image_url: only text"),
        ({"messages": user([{"type": "text"}])}, "messages", "`text` in it must be a string"),
        ({"messages": user(None)}, "messages", "has no content"),
        ({"messages": [{"content": None, "role": "tool"}]}, "messages", "has no content"),
        ({"messages": [{"role": "user"}]}, "messages", "has no content"),
        ({"messages": [{"role": "assistant", "content": 5}]}, "messages", "a list of texts or null"),
        ({"messages": [{"role": "robot", "content": ""}]}, None, "robot"),
        ({"messages": None}, "messages", "missing"),
        ({"response_format": {"type": "x"}}, "response_format", "type must be"),
        ({"response_format": {"type": "regex", "pattern": "("}}, None, ""),
        ({"response_format": {"type": "json_object", "schema": {"type": "object"}}}, "response_format", "schema: no such member"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "mode": 1}}}, "response_format", "mode: no such member"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format", "missing"),
        ({"modalities": ["audio"]}, "modalities", "text"),
        ({"modalities": []}, "modalities", "text"),
        ({"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options", "prewarm: no such member"),
        ({"model": 1}, "model", "a string"),
    ],
)
def test_members_are_refused_by_name(server, members, param, message):
    status, answer = server.post(ROUTE, {"messages": user("Hi")} | members)
    assert status == 400 and set(answer) == {"error"}
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["param"] == param and message in answer["error"]["message"]


def test_members_that_ask_for_nothing_are_accepted(server):
    inert = {
        "tools": [], "tool_choice": None, "parallel_tool_calls": False, "logit_bias": {}, "frequency_penalty": 0,
        "presence_penalty": 0.0, "user": "me", "safety_identifier": "me", "metadata": {"a": "b"}, "store": False,
        "service_tier": "auto", "modalities": ["text"], "verbosity": "medium", "prompt_cache_key": "k", "prompt_cache_retention": "24h",
        "prompt_cache_options": {"mode": "explicit", "ttl": "30m"}, "response_format": {"type": "text", "json_schema": None},
    }  # fmt: skip
    plain = server.chat("Hi", max_tokens=5, temperature=0)
    assert server.chat("Hi", max_tokens=5, temperature=0, **inert)["choices"] == plain["choices"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'{"model": "\xff"}', b'{"model": "m"} x', b'{"model": "m", "model": "m"}',
        b'{"messages": ' + b"[" * 100_000, b'{"x": ' + b'{"x":' * 100_000, b"\0" * 1000, b'"' + b"x" * 10000,
        b'{"model": "\\ud800"}', b'{"temperature": 1e999}', b'{"model": ""}', b'{"model": "painter\\u0000"}',
    ],
)  # fmt: skip
def test_bodies_that_are_no_requests_are_refused(server, body):
    status, answer = server.post(ROUTE, body.replace(b"painter", server.model.encode()))
    assert status in (400, 404) and answer["error"]["message"]
    assert answer["error"]["param"] in (None, "model")
    assert server.chat("Hi", max_tokens=1)


def test_a_prompt_longer_than_the_context_is_refused(server, blob):
    status, answer = server.post(ROUTE, {"messages": user("word " * 600)})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded" and answer["error"]["param"] == "messages"
    assert "512" in answer["error"]["message"]


def test_paths_methods_and_types(server):
    assert server.get("/none")[0] == 404
    assert server.get("/v1/models/none")[0] == 404
    assert server.get("/health") == (200, {"status": "ok"})
    status, headers, _ = server.http("GET", ROUTE)
    assert (status, headers["Allow"]) == (405, "POST")
    status, headers, _ = server.http("POST", "/v1/models", b"{}")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert server.http("HEAD", "/health")[0] == 200
    for content_type in ("text/plain", "application/jsonp", "application/x-www-form-urlencoded"):
        assert server.post(ROUTE, {}, Content_Type=content_type)[0] == 415
    assert server.post(ROUTE, {"messages": user("Hi"), "max_tokens": 1}, Content_Type="application/json; charset=utf-8")[0] == 200


def test_answers_allow_no_other_site(server):
    status, headers, _ = server.http("OPTIONS", ROUTE, Origin="http://evil.example")
    assert status == 405 and not [name for name in headers if name.lower().startswith("access-control")]


# --- time -----------------------------------------------------------------------------------------


def test_requests_join_and_leave_while_others_are_generated(server):
    """A short answer does not wait for the end of a long one."""
    body = {"model": "slow", "stream": True, "messages": user("Hi")} | ENDLESS
    connection = server.socket(post_bytes(ROUTE, body))
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")  # its first event
    server.chat("Hi", max_tokens=3, model="slow")
    assert server.metrics()["smolserve_sequences"] == 1
    connection.close()
    server.wait_for("smolserve_sequences", 0)


def test_a_short_prompt_does_not_wait_for_long_ones_before_it(blob):
    """The first event is that of the last prompt. In the order of arrival, this would never be so; it is
    not always seen, because events that have piled up are sent in another order."""
    rng = random.Random(1)
    with serving(blob, "--threads", 1, "--cache-memory", 0) as server:
        for _ in range(50):
            prompts = [rng.choices(range(300, 900), k=length) for length in [500] * 20 + [5]]
            stream = server.client.completions.create(model=server.model, prompt=prompts, max_tokens=2, logprobs=1, stream=True)
            indices = [choice.index for event in stream for choice in event.choices]
            assert set(indices) == set(range(21))
            if indices[0] == 20:
                return
        raise AssertionError("the short prompt was never the first")


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_ends_when_its_client_goes_away(server, stream):
    before = server.metrics()["smolserve_cancelled_total"]
    body = {"model": "slow", "stream": stream, "messages": user("Hi")} | ENDLESS
    connections = [server.socket(post_bytes(ROUTE, body)) for _ in range(3)]
    server.wait_for("smolserve_sequences", 3)
    for connection in connections:
        connection.close()
    server.wait_for("smolserve_cancelled_total", before + 3)
    server.wait_for("smolserve_sequences", 0)


def test_a_request_that_takes_too_long_ends(slow_blob):
    """While it is answered, or while it waits."""
    with serving(slow_blob, "--timeout", 2, "--sequences", 1) as server:
        body = {"messages": user("Hi")} | ENDLESS
        with ThreadPoolExecutor(40) as pool:
            found = list(pool.map(lambda _: server.post(ROUTE, body), range(40)))
        assert {(status, answer["error"]["code"]) for status, answer in found} == {(504, "timeout")}
        assert server.post(ROUTE, body | {"max_tokens": 1})[0] == 200


def test_more_requests_than_the_queue_holds_are_refused(slow_blob):
    with serving(slow_blob, "--sequences", 1, "--queue", 2) as server:
        body = {"model": server.model, "messages": user("Hi")} | ENDLESS
        first = server.socket(post_bytes(ROUTE, body))
        server.wait_for("smolserve_sequences", 1)
        waiting = [server.socket(post_bytes(ROUTE, body | {"max_tokens": 1})) for _ in range(2)]
        server.wait_for("smolserve_waiting", 2)
        status, headers, data = server.http("POST", ROUTE, body)
        assert status == 429 and int(headers["Retry-After"]) >= 1
        assert json.loads(data)["error"]["type"] == "rate_limit_error"
        with pytest.raises(openai.RateLimitError):
            server.client.chat.completions.create(model=server.model, messages=user("Hi"))
        first.close()
        for connection in waiting:
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            connection.close()


# --- start and end --------------------------------------------------------------------------------


def test_the_first_signal_lets_requests_finish(slow_blob):
    with serving(slow_blob) as server:
        body = {"model": server.model, "messages": user("Hi")} | ENDLESS | {"max_tokens": 600}
        idle, busy = server.socket(), server.socket(post_bytes(ROUTE, body))
        server.wait_for("smolserve_sequences", 1)
        server.drain()
        socket.create_server(("127.0.0.1", server.port)).close()  # another process may listen
        answer = read_all(busy)
        assert server.process.wait(60) == 0
        assert answer.startswith(b"HTTP/1.1 200") and b'"completion_tokens": 600' in answer
        assert read_all(idle) == b""
        server.process.returncode = None  # for the check at the end
        server.stop = lambda: 0


def test_a_second_signal_ends_at_once(slow_blob):
    server = Server([slow_blob], "--sequences", 1)
    try:
        body = {"model": server.model, "messages": user("Hi")} | ENDLESS
        connections = [server.socket(post_bytes(ROUTE, body)) for _ in range(20)]
        server.wait_for("smolserve_waiting", 19)
        server.drain()
        assert server.process.poll() is None
        assert server.stop() == -15
        for connection in connections:
            connection.close()
    finally:
        server.process.kill()


def test_a_signal_ends_the_verification_of_a_blob(blob):
    def send_a_signal():  # which waits, also after the start of the program
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)

    command = [BUILD / "smolserve", blob, "--port", "0", "--verify", "open"]
    result = subprocess.run(command, preexec_fn=send_a_signal, capture_output=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_failures_to_start(blob, tmp_path):
    broken = tmp_path / "broken.smol"
    broken.write_bytes(blob.read_bytes()[:-1])
    assert_refuses(run("smolserve", []), 2, "missing")
    assert_refuses(run("smolserve", [tmp_path / "none.smol"]), 3, "none.smol")
    assert_refuses(run("smolserve", [broken, "--port", 0]), 4, "broken.smol")
    assert_refuses(run("smolserve", [blob, blob, "--port", 0]), 2, "same name")
    assert_refuses(run("smolserve", [blob, "--host", "999.1.1.1"]), 2, "--host")
    assert_refuses(run("smolserve", [blob, "--host", "192.0.2.1"]), 3, "192.0.2.1")
    few = ["sh", "-c", 'ulimit -n 300; exec "$@"', "sh", BUILD / "smolserve", blob, "--port", "0"]
    result = subprocess.run(few, capture_output=True)
    assert result.returncode == 2 and b"--connections 1024: needs 1280 open files" in result.stderr
    with serving(blob) as server:
        assert_refuses(run("smolserve", [blob, "--port", server.port]), 3, "in use")

"""smolserve's other endpoints: completions, embeddings, tokens."""

import json
import random
import select
import typing
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import openai.types.responses
import pytest
from checkpoints import load_reference, reference_logits
from conftest import ROOT
from engine import Model
from serving import ENDLESS, post_bytes, serving
from test_serve import by_smolrun, openai_members, user, words


MANY = {"input": ["a long text " * 40] * 1000}  # embeddings that take seconds, with slow_blob


@pytest.fixture(scope="module")
def server(blob):
    with serving(blob, "--sequences", 16) as server:
        yield server


@pytest.fixture(scope="module")
def model(blob):
    with Model(blob) as model:
        yield model


# --- completions ----------------------------------------------------------------------------------


def complete(server, **request):
    return server.client.completions.create(model=server.model, **openai_members(request))


def test_completions_are_those_of_smolrun(server, blob):
    rng = random.Random(5)
    requests = [
        {"prompt": words(rng, rng.choice([1, 5, 100])), "max_tokens": rng.randint(0, 30), "seed": i,
         "temperature": rng.choice([0, 1]), "top_k": rng.choice([0, 9]), "stop": rng.choice([None, ["."], "a"])}
        for i in range(20)
    ]  # fmt: skip
    for request, one in zip(requests, by_smolrun(blob, requests), strict=True):
        (choice,) = complete(server, **request).choices
        assert (choice.text, choice.finish_reason) == (one["text"], one["finish_reason"])
        chunks = list(complete(server, stream=True, **request))
        assert "".join(chunk.choices[0].text for chunk in chunks) == one["text"]
        assert chunks[-1].choices[0].finish_reason == one["finish_reason"]


def test_without_a_limit_completions_have_sixteen_tokens(server):
    answer = complete(server, prompt="Once upon a time", temperature=0)
    assert answer.usage.completion_tokens == 16 and answer.choices[0].finish_reason == "length"


def test_several_prompts_as_texts_or_tokens(server, model, blob):
    prompts = ["Once upon", "The cat", "One day, a little girl"]
    expected = [
        one["text"]
        for prompt in prompts
        for one in by_smolrun(blob, [{"prompt": prompt, "max_tokens": 8, "temperature": 1, "seed": 4 + i} for i in range(2)])
    ]
    ids = [list(map(int, model.tokenize(prompt))) for prompt in prompts]
    for form in (prompts, ids):
        answer = complete(server, prompt=form, max_tokens=8, temperature=1, seed=4, n=2)
        assert [choice.index for choice in answer.choices] == list(range(6))
        assert [choice.text for choice in answer.choices] == expected
        assert answer.usage.prompt_tokens == sum(map(len, ids))
    assert complete(server, prompt=ids[0], max_tokens=8, temperature=1, seed=4).choices[0].text == expected[0]


def test_log_probabilities_of_completions_are_those_of_smolrun(server, blob):
    request = {"prompt": "Once upon a time", "max_tokens": 10, "seed": 1, "temperature": 1.5, "logprobs": 3}
    (expected,) = by_smolrun(blob, [request])
    found = complete(server, **request).choices[0].logprobs
    assert found.token_logprobs == [one["logprob"] for one in expected["logprobs"]]
    assert found.tokens == [one["text"] for one in expected["logprobs"]]
    for tops, one in zip(found.top_logprobs, expected["logprobs"], strict=True):
        whole = {text: value for text, value in tops.items() if not text.startswith("bytes:")}
        shown = {top["text"]: top["logprob"] for top in [*one["top"], one] if "\ufffd" not in top["text"]}
        assert whole == shown and len(tops) in (3, 4)
    text = "".join(found.tokens)
    assert [text[at:].startswith(token) for at, token in zip(found.text_offset, found.tokens)] == [True] * 10
    chunks = list(complete(server, stream=True, **request))
    assert sum((chunk.choices[0].logprobs.text_offset for chunk in chunks), []) == found.text_offset


def likelihoods(logits, ids):
    """The log-probability of each token after the first one, and whether it is the most likely one."""
    rows = logits[: len(ids) - 1].astype(float)
    scores = rows - rows.max(axis=1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return scores[np.arange(len(rows)), ids[1:]], scores.argmax(axis=1) == ids[1:]


def test_echoed_prompts_have_the_likelihoods_of_transformers(demo_blob):
    """As local-completions of lm-eval 0.4.13 asks, and computes from the answer: the newest token, even a stop token, is
    dropped. What the cache of prefixes knows changes nothing."""
    reference = load_reference(ROOT / "demo/model")
    with serving(demo_blob("f32"), "--sequences", 4) as server:
        story = complete(server, prompt="Once upon a time", max_tokens=400, temperature=0)
        assert story.choices[0].finish_reason == "stop"  # so the token after the story is a stop token
        texts = ["Once upon a time" + story.choices[0].text, "The cat sat", "One day, a little girl " * 60]
        prompts = [server.post("/tokenize", {"prompt": text})[1]["tokens"] for text in texts]
        asked = {"prompt": prompts, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
        for _ in range(2):
            status, answer = server.post("/v1/completions", asked)
            assert status == 200 and answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
            for choice, ids, text in zip(answer["choices"], prompts, texts, strict=True):
                found, context = choice["logprobs"], len(ids) // 2
                assert choice["text"].startswith(text) and len(found["tokens"]) == len(ids) + 1
                assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
                expected, greedy = likelihoods(reference_logits(reference, ids), np.array(ids))
                assert np.abs(expected - np.array(found["token_logprobs"][1:-1])).max() < 1e-4
                scores, tops = found["token_logprobs"][context:-1], found["top_logprobs"][context:-1]
                assert [score == max(top.values()) for score, top in zip(scores, tops)] == greedy[context - 1 :].tolist()
                starts = [text[at:].startswith(token) for at, token in zip(found["text_offset"], found["tokens"][:-1])]
                assert all(starts), found
            assert answer["choices"][0]["text"] == texts[0] and answer["choices"][0]["finish_reason"] == "stop"
        for more in ({"max_tokens": 0}, {"max_tokens": 0, "prompt": texts[1], "logprobs": None}, {"max_tokens": 5, "best_of": 1}):
            chunks = list(complete(server, stream=True, **asked | more))
            whole = complete(server, **asked | more)
            for choice in whole.choices:
                parts = [part for chunk in chunks for part in chunk.choices if part.index == choice.index]
                assert "".join(part.text for part in parts) == choice.text and parts[-1].finish_reason == choice.finish_reason
                if more.get("logprobs", 1):
                    assert sum((part.logprobs.token_logprobs for part in parts), []) == choice.logprobs.token_logprobs
                    assert sum((part.logprobs.text_offset for part in parts), []) == choice.logprobs.text_offset
            if more["max_tokens"] == 0:
                assert whole.choices[0].text == (more["prompt"] if "prompt" in more else texts[0])


def test_tokens_that_are_parts_of_characters_are_shown_as_bytes(server):
    format = {"type": "choices", "choices": ["\U0001f600\u20ac\U0001f4a9"]}
    answer = server.client.completions.create(
        model=server.model, prompt="Once", max_tokens=12, logprobs=0, extra_body={"response_format": format}
    )
    tokens = answer.choices[0].logprobs.tokens
    assert any(token.startswith("bytes:\\x") for token in tokens), tokens
    back = b"".join(bytes.fromhex(t[6:].replace("\\x", "")) if t.startswith("bytes:") else t.encode() for t in tokens)
    assert back.decode() == answer.choices[0].text == "\U0001f600\u20ac\U0001f4a9"


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({}, "prompt", "missing"),
        ({"prompt": []}, "prompt", "empty"),
        ({"prompt": [[]]}, "prompt", "empty"),
        ({"prompt": [1, "x"]}, "prompt", "whole number"),
        ({"prompt": ["x", 1]}, "prompt", "expected a string"),
        ({"prompt": [1 << 40]}, "prompt", "whole number from 0"),
        ({"prompt": {}}, "prompt", "expected a string"),
        ({"prompt": ["x"] * 17}, "prompt", "at most 16"),
        ({"prompt": ["x"] * 9, "n": 2}, "prompt", "at most 8"),
        ({"prompt": "x", "echo": 1}, "echo", "true or false"),
        ({"prompt": "x", "best_of": 2}, "best_of", "the value of n, 1"),
        ({"prompt": "x", "suffix": "y"}, "suffix", "not supported"),
        ({"prompt": "x", "logprobs": 21}, "logprobs", "from 0 to 20"),
        ({"prompt": "x", "messages": []}, "messages", "no such member"),
    ],
)
def test_wrong_completions_are_refused(server, members, param, message):
    status, answer = server.post("/v1/completions", members)
    assert (status, answer["error"]["param"]) == (400, param) and message in answer["error"]["message"]


# --- embeddings -----------------------------------------------------------------------------------


def unit(vector):
    return vector / np.linalg.norm(vector)


def test_embeddings_are_the_means_of_hidden_states(demo_blob):
    import torch

    blob = demo_blob("f32")
    reference = load_reference(ROOT / "demo/model").model
    texts = ["Once upon a time", "x", words(random.Random(1), 250)]
    with serving(blob) as server, Model(blob) as model:
        found = server.client.embeddings.create(model=server.model, input=texts)
        assert [one.index for one in found.data] == [0, 1, 2]
        for text, one in zip(texts, found.data, strict=True):
            ids = list(map(int, model.tokenize(text)))
            with torch.no_grad():
                states = reference(torch.tensor([ids])).last_hidden_state[0].double().numpy()
            assert np.abs(np.array(one.embedding) - unit(states.mean(0))).max() < 2e-5
            assert abs(np.linalg.norm(one.embedding) - 1) < 1e-6
        assert found.usage.prompt_tokens == sum(len(model.tokenize(text)) for text in texts)


def test_embeddings_have_the_same_bits_in_any_form_and_beside_anything(slow_blob):
    """Here a long answer."""
    text = words(random.Random(2), 200)
    with serving(slow_blob) as server, Model(slow_blob) as model:
        expected = server.client.embeddings.create(model=server.model, input=text).data[0].embedding
        mean = model.context().embed(model.tokenize(text)).astype(np.float64).sum(0)
        assert np.array_equal(np.float32(expected), np.float32(unit(mean)))
        body = {"model": server.model, "messages": user("Hi")} | ENDLESS
        with server.socket(post_bytes("/v1/chat/completions", body)):
            server.wait_for("smolserve_sequences", 1)
            for form in ([text], model.tokenize(text), [model.tokenize(text)]):
                status, answer = server.post("/v1/embeddings", {"input": form, "encoding_format": "float"})
                assert status == 200, answer
                assert np.array_equal(np.float32(answer["data"][0]["embedding"]), np.float32(expected))
            assert server.metrics()["smolserve_sequences"] == 1
        server.wait_for("smolserve_cancelled_total", 1)


def test_the_http_thread_neither_reads_requests_nor_writes_answers(server):
    """The time of a processor that it takes: to send floats little more than to send base64, which is half as long
    and quickly written; and to receive ids no more than to receive other bytes."""

    def times():
        threads = Path(f"/proc/{server.process.pid}/task").iterdir()
        return {thread.name: int((thread / "schedstat").read_text().split()[0]) for thread in threads}

    def took(send):
        before = times()
        send()
        return {thread: time - before[thread] for thread, time in times().items()}

    idle = took(lambda: [server.get("/health") for _ in range(50)])
    http = max(idle, key=idle.get)

    def cost(body, status):
        def send():
            assert server.http("POST", "/v1/embeddings", body)[0] == status

        return min(took(send)[http] for _ in range(5))

    request = {"model": server.model, "input": [[5]] * 1000}
    floats, base64 = (cost(request | {"encoding_format": form}, 200) for form in ("float", "base64"))
    assert floats < 8 * base64
    ids = json.dumps({"model": server.model, "input": [5] * 500_000}).encode()
    members, noise = cost(ids, 400), cost(b"x" * len(ids), 400)
    assert members < 4 * noise


def test_embeddings_may_be_cut_to_fewer_dimensions(server):
    def embed(**members):
        found = server.client.embeddings.create(model=server.model, input=["the sea", "the sky"], **members)
        return np.array([one.embedding for one in found.data], np.float32)

    whole = embed()
    for n in (1, 10, whole.shape[1]):
        expected = whole[:, :n] / np.linalg.norm(whole[:, :n].astype(float), axis=1, keepdims=True)
        assert np.abs(embed(dimensions=n) - expected).max() < 1e-7
    assert np.array_equal(embed(dimensions=whole.shape[1]), whole)


def test_shorter_requests_do_not_wait_until_long_ones_are_read(server):
    """Neither a short one nor one of 100 KB."""
    body = post_bytes("/tokenize", {"model": server.model, "prompt": "the quick brown fox " * 100_000})

    def answered(seconds):
        return len(select.select(long, [], [], seconds)[0])

    with ExitStack() as stack:
        long = [stack.enter_context(server.socket(body)) for _ in range(16)]
        assert answered(60) < 4  # when the first one is, the others have arrived
        assert server.chat("Hi", max_tokens=1)
        assert server.post("/tokenize", {"prompt": "the quick brown fox " * 5000})[0] == 200
        assert answered(0) < 12
        assert long[0].recv(15) == b"HTTP/1.1 200 OK"


def test_an_embedding_does_not_wait_for_sequences(slow_blob):
    """Before it, a request waits that needs two sequences, of which one is in use."""
    with serving(slow_blob, "--sequences", 2) as server:
        body = {"model": server.model, "messages": user("Hi")} | ENDLESS
        with server.socket(post_bytes("/v1/chat/completions", body)):
            server.wait_for("smolserve_sequences", 1)
            with server.socket(post_bytes("/v1/chat/completions", body | {"n": 2})):
                server.wait_for("smolserve_waiting", 1)
                assert server.post("/v1/embeddings", {"input": "x"})[0] == 200
                metrics = server.metrics()
                assert (metrics["smolserve_waiting"], metrics["smolserve_sequences"]) == (1, 1)
        server.wait_for("smolserve_cancelled_total", 2)


def test_a_full_queue_keeps_no_request_from_free_sequences(slow_blob):
    """It is full of embeddings, of which one is in progress."""
    with serving(slow_blob, "--queue", 1) as server:
        n_tokens = 1000 * server.post("/tokenize", {"prompt": MANY["input"][0]})[1]["count"]
        with server.socket(post_bytes("/v1/embeddings", {"model": server.model} | MANY)):
            server.wait_for("smolserve_prompt_tokens_total", n_tokens)
            with server.socket(post_bytes("/v1/embeddings", {"model": server.model} | MANY)):
                server.wait_for("smolserve_waiting", 1)
                status, answer = server.post("/v1/embeddings", {"input": "x"})
                assert (status, answer["error"]["code"]) == (429, "queue_full")
                assert server.chat("Hi", max_tokens=1)
                assert server.metrics()["smolserve_waiting"] == 1
        server.wait_for("smolserve_cancelled_total", 2)


def test_a_model_without_prompts_says_so(server):
    status, answer = server.post("/v1/embeddings", {"input": "x", "prompt_name": "query"})
    assert status == 400 and answer["error"]["message"] == 'the model has no named prompts, so "query" cannot be chosen'


@pytest.mark.parametrize(
    ("members", "param"),
    [({}, "input"), ({"input": "x", "dimensions": 0}, "dimensions"), ({"input": "x", "dimensions": 1000}, "dimensions"), ({"input": ["x"] * 2049}, "input"),
     ({"input": "x", "encoding_format": "hex"}, "encoding_format"), ({"input": "word " * 600}, "input")],
)  # fmt: skip
def test_wrong_embeddings_are_refused(server, members, param):
    status, answer = server.post("/v1/embeddings", members)
    assert (status, answer["error"]["param"]) == (400, param)


# --- tokens ---------------------------------------------------------------------------------------


def test_tokens_there_and_back(server, demo_tokenizer):
    for text in ("Once upon a time", "caf\u00e9 \U0001f600\n\n", ""):
        status, found = server.post("/tokenize", {"prompt": text})
        if not text and status == 400:
            continue  # no bos token
        assert status == 200
        if text:
            assert found["tokens"] == demo_tokenizer.encode(text).ids
            assert server.post("/detokenize", {"tokens": found["tokens"]}) == (200, {"prompt": text})
        assert found["count"] == len(found["tokens"]) and found["max_model_len"] == 512
    assert server.post("/detokenize", {"tokens": []})[1] == {"prompt": ""}


def test_tokens_of_a_conversation_are_those_of_its_answer(server):
    _, found = server.post("/tokenize", {"messages": user("Hello")})
    assert found["count"] == server.chat("Hello", max_tokens=1)["usage"]["prompt_tokens"]
    _, text = server.post("/detokenize", {"tokens": found["tokens"]})
    assert "Hello" in text["prompt"] and "<|im_start|>" in text["prompt"]


def test_a_text_of_any_length_is_tokenized(server):
    status, found = server.post("/tokenize", {"prompt": "word " * 100_000})
    assert status == 200 and found["count"] > 100_000


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
@pytest.mark.parametrize("members", [{}, {"prompt": "x", "messages": []}, {"tokens": "x"}, {"tokens": [-1]}, {"tokens": [10**6]}, {"prompt": 1}])
def test_wrong_requests_for_tokens_are_refused(server, path, members):
    status, answer = server.post(path, members)
    assert status == 400 and json.dumps(answer["error"])


# --- responses ------------------------------------------------------------------------------------


def test_responses_are_those_of_chats(server):
    request = {"max_output_tokens": 20, "temperature": 1, "extra_body": {"seed": 3}}
    messages = [{"role": "system", "content": "Be brief"}, *user("Hello")]
    expected = server.client.chat.completions.create(model=server.model, messages=messages, max_tokens=20, temperature=1, seed=3)
    text, finish = expected.choices[0].message.content, expected.choices[0].finish_reason
    items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}], "id": "x", "status": "completed"}]
    for form in ("Hello", user("Hello"), items):
        found = server.client.responses.create(model=server.model, instructions="Be brief", input=form, **request)
        assert found.output_text == text and found.instructions == "Be brief"
        assert found.status == {"stop": "completed", "length": "incomplete"}[finish]
        assert (found.usage.input_tokens, found.usage.output_tokens) == (expected.usage.prompt_tokens, expected.usage.completion_tokens)
    again = [*items, *[item.model_dump() for item in found.output], *user("More")]
    assert server.client.responses.create(model=server.model, input=again, max_output_tokens=3).output_text


def test_streamed_responses_have_their_events(server):
    request = {"model": server.model, "input": "Hello", "temperature": 0, "max_output_tokens": 40}
    whole = server.client.responses.create(**request)
    with server.client.responses.stream(**request) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == whole.output_text and final.usage == whole.usage
    kinds = [event.type for event in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    assert kinds[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    *_, last = server.client.responses.create(stream=True, **request | {"max_output_tokens": 2})
    assert last.type == "response.incomplete" and last.response.incomplete_details.reason == "max_output_tokens"


def test_responses_have_what_the_types_of_openai_require(server):
    """The package itself does not check that."""
    (union, *_) = typing.get_args(openai.types.responses.ResponseStreamEvent)
    types = {typing.get_args(one.model_fields["type"].annotation)[0]: one for one in typing.get_args(union)}
    request = {"model": server.model, "input": "Hello", "instructions": "Be brief", "max_output_tokens": 5}
    openai.types.responses.Response.model_validate(server.post("/v1/responses", request)[1])
    _, _, data = server.http("POST", "/v1/responses", request | {"stream": True})
    events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: ")]
    assert len(events) > 8
    for event in events:
        types[event["type"]].model_validate(event)


def test_responses_may_include_log_probabilities(server):
    members = {"max_tokens": 20, "temperature": 1, "seed": 3}
    chat = server.client.chat.completions.create(model=server.model, messages=user("Hello"), logprobs=True, top_logprobs=3, **members)
    expected = [one.model_dump() for one in chat.choices[0].logprobs.content]
    request = {"model": server.model, "input": "Hello", "include": ["message.output_text.logprobs"], "top_logprobs": 3,
               "text": {"verbosity": "medium"}, "max_output_tokens": 20, "temperature": 1, "extra_body": {"seed": 3}, "tools": []}  # fmt: skip
    whole = server.client.responses.create(**request)
    (part,) = whole.output[0].content
    assert [one.model_dump() for one in part.logprobs] == expected and whole.top_logprobs == 3
    events = list(server.client.responses.create(stream=True, **request))
    assert events[-1].response.output[0].content == [part]
    for kind in ("delta", "done"):
        listed = [event.logprobs for event in events if event.type == f"response.output_text.{kind}"]
        assert [one.model_dump() for one in sum(listed, [])] == expected
    none = server.client.responses.create(**request | {"include": [], "top_logprobs": 0})
    assert none.output[0].content[0].logprobs == [] and none.output_text == whole.output_text


def test_a_conversation_that_is_too_long_loses_its_oldest_turns(server):
    turns = []
    for i in range(40):
        turns += [*user(f"Number {i}: " + "so it was " * 5), {"role": "assistant", "content": "Yes."}]
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    turns[-2:-2] = [call, {"type": "function_call_output", "call_id": "a", "output": "{}"}]
    request = {"model": server.model, "instructions": "Be brief", "input": turns, "temperature": 0, "max_output_tokens": 50}
    status, answer = server.post("/v1/responses", request)
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    found = server.client.responses.create(truncation="auto", **request)
    assert found.truncation == "auto" and 300 < found.usage.input_tokens <= 512 - 50
    starts = [i for i, turn in enumerate(turns) if turn.get("role") == "user"]
    counts = {}
    for i in starts[20:]:  # the rest of a conversation begins with a user's message
        _, tokens = server.post("/tokenize", {"messages": [{"role": "system", "content": "Be brief"}, *as_messages(turns[i:])]})
        counts[tokens["count"]] = i
    rest = turns[counts[found.usage.input_tokens] :]
    assert server.client.responses.create(**request | {"input": rest}).output_text == found.output_text
    status, answer = server.post("/v1/responses", request | {"input": "so it was " * 400, "truncation": "auto"})
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")  # one turn


def as_messages(items):
    """Items of a response as messages of a chat."""
    messages = []
    for item in items:
        if item.get("type") == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": function}
            messages[-1] = messages[-1] | {"tool_calls": [call]}
        elif item.get("type") == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        else:
            messages.append(item)
    return messages


def test_a_streamed_response_that_fails_ends_with_an_event_of_its_own(slow_blob):
    with serving(slow_blob, "--timeout", 1) as server:
        text = {"format": ENDLESS["response_format"]}
        short = {"model": server.model, "input": "Hi", "text": text, "max_output_tokens": 1}
        while server.post("/v1/responses", short)[0] != 200:
            pass  # the constraint is being compiled, for which the time may be too short
        events = list(server.client.responses.create(model=server.model, input="Hi", stream=True, text=text))
        *before, last = [event.model_dump() for event in events]
    assert before and [event["sequence_number"] for event in before] == list(range(len(before)))
    message = "the request took longer than 1 seconds"
    assert last == {"type": "error", "code": "timeout", "message": message, "param": None, "sequence_number": len(before)}


def test_what_no_answer_has_may_be_included(server):
    include = ["reasoning.encrypted_content", "web_search_call.action.sources", "code_interpreter_call.outputs"]
    found = server.client.responses.create(model=server.model, input="Hi", include=include, max_output_tokens=3)
    assert found.output_text


def test_responses_may_have_a_format(server):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["n"], "additionalProperties": False}
    text = {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}
    found = server.client.responses.create(model=server.model, input="A number", text=text)
    assert found.status == "completed" and 0 <= json.loads(found.output_text)["n"] <= 99


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({}, "input", "missing"), ({"input": []}, "input", "at least one"), ({"input": 1}, "input", "a list"), ({"input": "x", "store": True}, "store", "stores nothing"),
        ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id", "not supported"), ({"input": "x", "truncation": "most"}, "truncation", "disabled"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input", "item_reference: only message"), ({"input": "x", "n": 2}, "n", "no such member"),
        ({"input": "x", "text": {"verbosity": "low"}}, "text", "expected medium"), ({"input": "x", "text": {"format": {"type": "text", "x": 1}}}, "text", "x: no such member"),
        ({"input": "x", "include": ["message.output_text.probs"]}, "include", "names of parts"), ({"input": "x", "top_logprobs": 2}, "top_logprobs", "in include"), ({"input": "x", "include": [], "context_management": [{}]}, "context_management", "not supported"),
        ({"input": "x", "text": {"format": {"type": "json_schema"}}}, "text", "missing"), ({"input": "x", "max_output_tokens": -1}, "max_output_tokens", "whole number"),
    ],
)  # fmt: skip
def test_wrong_responses_are_refused(server, members, param, message):
    status, answer = server.post("/v1/responses", members)
    assert (status, answer["error"]["param"]) == (400, param) and message in answer["error"]["message"]

"""Anthropic's Messages over HTTP, with the anthropic package: what the same chat gets in OpenAI's form."""

import json
import typing

import anthropic
import jsonschema
import pydantic
import pytest
from anthropic import types
from serving import ENDLESS, serving
from test_reasoning import CASES, SPOKEN, speaker
from test_tools import FEW, painter  # noqa: F401 (a fixture)

FUNCTIONS = [tool.get("function", tool) for tool in FEW]
TOOLS = [
    {key: tool[key] for key in ("name", "description") if key in tool} | {"input_schema": tool.get("parameters", {"type": "object"})}
    for tool in FUNCTIONS
]
CHAT_TOOLS = [{"type": "function", "function": {key.replace("input_schema", "parameters"): value for key, value in tool.items()}} for tool in TOOLS]
USER = {"role": "user", "content": "Paint it."}
THINKERS = ("qwen", "caller", "silent")  # and "levels"


@pytest.fixture(scope="module")
def server(painter):  # noqa: F811
    with serving(painter) as server:
        yield server


@pytest.fixture(scope="module")
def thinkers(tmp_path_factory):
    folder, blobs = tmp_path_factory.mktemp("thinkers"), []
    for name in (*THINKERS, "levels"):
        (folder / name).mkdir()
        blobs.append(speaker(folder / name, *SPOKEN[name]))
    with serving(blobs) as server:
        yield server


def client(server, **options):
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", max_retries=0, **{"api_key": "none"} | options)


def split(members):
    """Members that the package knows, and others; it has dropped some of Anthropic's."""
    known = {"max_tokens": 100, "temperature": 0, "messages": [USER]} | members
    return known, {key: known.pop(key) for key in ("seed", "temperature", "top_p", "top_k") if key in known}


def create(server, model=None, **members):
    known, extra = split(members)
    return client(server).messages.create(model=model or server.model, extra_body=extra, **known)


def stream(server, model=None, **members):
    """The message that the package puts together from the events, and these."""
    known, extra = split(members)
    events = []
    with client(server).messages.stream(model=model or server.model, extra_body=extra, **known) as stream:
        for event in stream:
            events.append(event)
        return stream.get_final_message(), events


def check_events(events):
    """Each block begins, has pieces, and ends before the next one begins."""
    kinds = [event.type for event in events if event.type in ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop")]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    open_block, n = None, 0
    for event in events:
        if event.type == "content_block_start":
            assert open_block is None and event.index == n
            open_block, n = event.index, n + 1
        elif event.type in ("content_block_delta", "content_block_stop"):
            assert event.index == open_block
            if event.type == "content_block_stop":
                open_block = None
    assert open_block is None and n > 0


def plain(message):
    """What of a message does not depend on the time or on the cache."""
    found = json.loads(message.model_dump_json(exclude_unset=True))
    usage = found.pop("usage")
    for block in found["content"]:
        block.pop("parsed_output", None)
    return {key: found[key] for key in ("content", "stop_reason", "stop_sequence")} | {
        "input": usage["input_tokens"] + usage["cache_read_input_tokens"], "output": usage["output_tokens"]}  # fmt: skip


def chat(server, **members):
    body = {"messages": [USER], "max_tokens": 100, "temperature": 0} | members
    status, answer = server.post("/v1/chat/completions", body)
    assert status == 200, answer
    return answer


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_message_is_the_answer_to_the_chat(server, seed):
    members = {"temperature": 0.9, "top_p": 0.9, "top_k": 40, "seed": seed}
    expected = chat(server, messages=[{"role": "system", "content": "Be\nbrief"}, USER], **members)
    message = create(server, system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "brief", "cache_control": {"type": "ephemeral"}}], **members)
    assert message.content == [types.TextBlock(type="text", text=expected["choices"][0]["message"]["content"])]
    assert plain(message)["input"] == expected["usage"]["prompt_tokens"]
    assert message.usage.output_tokens == expected["usage"]["completion_tokens"]
    assert message.stop_reason == {"stop": "end_turn", "length": "max_tokens"}[expected["choices"][0]["finish_reason"]]
    streamed, events = stream(server, system="Be\nbrief", **members)
    check_events(events)
    assert plain(streamed) == plain(message) and streamed.id.startswith("msg_")


def test_tokens_from_the_cache_are_counted_apart(server):
    messages = [{"role": "user", "content": "so it was " * 60}]
    first, second = (create(server, messages=messages, max_tokens=3) for _ in range(2))
    assert first.usage.cache_read_input_tokens == 0 < second.usage.cache_read_input_tokens
    assert plain(first) == plain(second)


def test_answers_have_what_the_types_of_the_package_require(server):
    """The package itself does not check that."""
    body = {"messages": [USER], "max_tokens": 300, "tools": TOOLS, "tool_choice": {"type": "any"}}
    status, message = server.post("/v1/messages", body)
    assert status == 200 and {block["type"] for block in message["content"]} == {"tool_use"}
    types.Message.model_validate(message)
    _, _, data = server.http("POST", "/v1/messages", body | {"model": server.model, "stream": True})
    events = [part.split("\n") for part in data.decode().split("\n\n")[:-1]]
    adapter = pydantic.TypeAdapter(types.RawMessageStreamEvent)
    for name, line in events:
        event = json.loads(line.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        adapter.validate_python(event)
    assert len(events) > 6


def test_the_stop_sequence_is_named(server):
    text = create(server).content[0].text
    stops = ["not there", text[20:26], text[10:14]]
    first = min(stops[1:], key=lambda stop: text.index(stop) + len(stop))
    message = create(server, stop_sequences=stops)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", first)
    assert message.content[0].text == text[: text.index(first)]
    streamed, _ = stream(server, stop_sequences=stops)
    assert plain(streamed) == plain(message)
    empty = create(server, stop_sequences=[text[0]])
    assert empty.content == [types.TextBlock(type="text", text="")] and empty.stop_sequence == text[0]
    assert plain(stream(server, stop_sequences=[text[0]])[0]) == plain(empty)


def test_no_token_is_an_empty_text(server):
    message = create(server, max_tokens=0)
    assert (message.content[0].text, message.stop_reason, message.usage.output_tokens) == ("", "max_tokens", 0)


# --- conversations --------------------------------------------------------------------------------

CALL = {"type": "tool_use", "id": "abcdefghi", "name": "paint", "input": {"color": "r\u00e9d"}}
CHAT_CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "paint", "arguments": '{"color": "r\u00e9d"}'}}


def text(*texts):
    return [{"type": "text", "text": one, "citations": None} for one in texts]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([{"role": "user", "content": text("a\n", 'b"')}], [{"role": "user", "content": 'a\n\nb"'}]),
        ([USER, {"role": "assistant", "content": text("x", "y")}, USER], [USER, {"role": "assistant", "content": "x\ny"}, USER]),
        ([USER, {"role": "assistant", "content": [*text("x"), CALL, CALL]}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "abcdefghi", "content": [*text("done"), {"type": "tool_reference", "tool_name": "paint"}]}, {"type": "tool_result", "tool_use_id": "abcdefghi", "is_error": True, "content": text("no", "good")}, *text("And?", "Now")]}],
         [USER, {"role": "assistant", "content": "x", "tool_calls": [CHAT_CALL, CHAT_CALL]}, {"role": "tool", "tool_call_id": "abcdefghi", "content": "done\npaint"},
          {"role": "tool", "tool_call_id": "abcdefghi", "content": "no\ngood"}, {"role": "user", "content": "And?\nNow"}]),
        ([USER, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [*text("Before"), {"type": "tool_result", "tool_use_id": "abcdefghi"}]}],
         [USER, {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL]}, {"role": "user", "content": "Before"}, {"role": "tool", "tool_call_id": "abcdefghi", "content": ""}]),
        ([USER, {"role": "system", "content": text("x", "y")}, USER], [USER, {"role": "system", "content": "x\ny"}, USER]),
        ([USER, {"role": "user", "content": text("a", "b")}, {"role": "assistant", "content": "x"}, {"role": "assistant", "content": [*text("y"), CALL]}, {"role": "user", "content": []}],
         [{"role": "user", "content": "Paint it.\na\nb"}, {"role": "assistant", "content": "x\ny", "tool_calls": [CHAT_CALL]}, {"role": "user", "content": ""}]),
        ([USER, {"role": "assistant", "content": "x"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, CALL]}, {"role": "assistant", "content": "z"}, USER],
         [USER, {"role": "assistant", "content": "x"}, {"role": "assistant", "content": "", "reasoning_content": "t", "tool_calls": [CHAT_CALL]}, {"role": "assistant", "content": "z"}, USER]),
        ([{"role": "user", "content": []}], [{"role": "user", "content": ""}]),
        ([USER, {"role": "assistant", "content": []}, USER], [USER, {"role": "assistant", "content": ""}, USER]),
    ],
)  # fmt: skip
def test_a_conversation_is_that_of_a_chat(server, messages, expected):
    for tools in ({}, {"tools": TOOLS}):
        chat_tools = {"tools": CHAT_TOOLS, "tool_choice": "none"} if tools else {}
        answer = chat(server, messages=expected, max_tokens=10, **chat_tools)
        found = create(server, messages=messages, max_tokens=10, **tools, **({"tool_choice": {"type": "none"}} if tools else {}))
        assert found.content[0].text == answer["choices"][0]["message"]["content"]
        count = client(server).messages.count_tokens(model=server.model, messages=messages, **tools).input_tokens
        assert count == answer["usage"]["prompt_tokens"] == plain(found)["input"]


@pytest.mark.parametrize("begun", ["It", "Once upon a time", " a\n\n", ""])
def test_an_answer_that_is_begun_goes_on(server, begun):
    expected = chat(server, messages=[USER, {"role": "assistant", "content": begun}], continue_final_message=True)
    for messages in ([{"role": "assistant", "content": begun}], [{"role": "assistant", "content": text(begun)}]):
        found = create(server, messages=[USER, *messages])
        assert [block.text for block in found.content] == [expected["choices"][0]["message"]["content"]]
        assert plain(found)["input"] == expected["usage"]["prompt_tokens"]
        streamed, events = stream(server, messages=[USER, *messages])
        check_events(events)
        assert plain(streamed) == plain(found)
    count = client(server).messages.count_tokens(model=server.model, messages=[USER, *messages]).input_tokens
    assert count == plain(found)["input"]


def test_an_empty_system_message_is_none(server):
    (plain_count, *others) = (client(server).messages.count_tokens(model=server.model, messages=[USER], **system).input_tokens
                              for system in ({}, {"system": ""}, {"system": []}, {"system": "x"}))  # fmt: skip
    assert others[:2] == [plain_count] * 2 and others[2] > plain_count


def test_tokens_are_counted_for_what_a_message_asks(server):
    body = {"messages": [USER], "max_tokens": 5, "stream": True, "stop_sequences": ["x"], "temperature": 1}
    count = client(server).messages.count_tokens(model=server.model, messages=[USER]).input_tokens
    assert server.post("/v1/messages/count_tokens", body) == (200, {"input_tokens": count})


def test_an_answer_may_be_sent_back(server):
    first = create(server, tools=TOOLS, tool_choice={"type": "tool", "name": "paint"}, max_tokens=300)
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "done"} for block in first.content]
    second = create(server, messages=[USER, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}], tools=TOOLS, tool_choice={"type": "none"})
    assert second.content[0].type == "text" and plain(second)["input"] > plain(first)["input"]


# --- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("choice", "same"), [
    ({"type": "any"}, {"tool_choice": "required"}), ({"type": "any", "disable_parallel_tool_use": True}, {"tool_choice": "required", "parallel_tool_calls": False}),
    ({"type": "auto"}, {}), ({"type": "tool", "name": "paint"}, {"tool_choice": "paint"}), ({"type": "none"}, {"tool_choice": "none"})], ids=str)  # fmt: skip
def test_calls_are_those_of_the_chat(server, choice, same):
    for seed in range(4):
        members = {"seed": seed, "temperature": 1, "max_tokens": 300}
        (expected,) = chat(server, tools=CHAT_TOOLS, **members, **same)["choices"]
        message = create(server, tools=TOOLS, tool_choice=choice, **members)
        streamed, events = stream(server, tools=TOOLS, tool_choice=choice, **members)
        check_events(events)
        assert plain(streamed) == plain(message)
        assert "".join(block.text for block in message.content if block.type == "text") == (expected["message"]["content"] or "")
        reasons = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
        assert message.stop_reason == reasons[expected["finish_reason"]]
        calls = [[block.id, block.name, block.input] for block in message.content if block.type == "tool_use"]
        wanted = [[call["id"], call["function"]["name"], call["function"]["arguments"]] for call in expected["message"].get("tool_calls", [])]
        if message.stop_reason == "tool_use":
            wanted = [[*call, json.loads(arguments)] for *call, arguments in wanted]
            assert calls == wanted and calls


def test_a_call_that_is_cut_off_shows_its_text(server):
    members = {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "paint"}}
    n = create(server, max_tokens=300, **members).usage.output_tokens
    cut = 0
    for max_tokens in range(1, n):
        status, message = server.post("/v1/messages", {"messages": [USER], "max_tokens": max_tokens, "temperature": 0, **members})
        assert status == 200 and message["stop_reason"] == "max_tokens"
        inputs = [block["input"] for block in message["content"] if block["type"] == "tool_use"]
        if inputs and "INVALID_JSON" in inputs[-1]:
            cut += 1
            assert set(inputs[-1]) == {"INVALID_JSON"} and inputs[-1]["INVALID_JSON"][:1] in ("", "{")
        elif inputs:
            jsonschema.validate(inputs[-1], next(tool["input_schema"] for tool in TOOLS if tool["name"] == "paint"))
    assert cut > 5


def test_an_answer_has_the_format_that_is_asked_for(server):
    class Answer(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        color: typing.Literal["red", "blue"]
        good: bool

    found = client(server).messages.parse(model=server.model, max_tokens=200, messages=[USER], output_format=Answer)
    assert isinstance(found.parsed_output, Answer)
    schema = {"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"], "additionalProperties": False}
    form = {"type": "json_schema", "schema": schema}
    assert json.loads(create(server, output_config={"format": form}).content[0].text) == {"n": 7}
    status, message = server.post("/v1/messages", {"messages": [USER], "output_format": form})
    assert status == 200 and json.loads(message["content"][0]["text"]) == {"n": 7}


# --- thinking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", THINKERS)
def test_thinking_is_a_block_of_its_own(thinkers, name):
    thought, reply, calls, _, _ = CASES[name]
    members = {"tools": [{"name": "now", "input_schema": {"type": "object", "properties": {}}}]} if calls else {}
    message = create(thinkers, name, **members)
    blocks = [("thinking", thought)] * bool(thought) + [("text", reply)] + [("tool_use", arguments) for _, arguments in calls]
    assert [(block.type, json.dumps(block.input) if block.type == "tool_use" else getattr(block, block.type)) for block in message.content] == blocks
    streamed, events = stream(thinkers, name, **members)
    check_events(events)
    assert plain(streamed) == plain(message)
    turns = [USER, {"role": "assistant", "content": [*message.content, {"type": "redacted_thinking", "data": "x"}]}, USER]
    chat_turn = {"role": "assistant", "content": reply} | ({"reasoning_content": thought} if thought else {})
    if calls:
        chat_turn["tool_calls"] = [{"id": "x", "type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    count = client(thinkers).messages.count_tokens(model=name, messages=turns).input_tokens
    assert count == thinkers.post("/tokenize", {"model": name, "messages": [USER, chat_turn, USER]})[1]["count"]


def test_thinking_can_be_limited_and_switched_off_and_on(thinkers):
    def count(**members):
        return client(thinkers).messages.count_tokens(model="qwen", messages=[USER], **members).input_tokens

    assert create(thinkers, "qwen", thinking={"type": "disabled"}).content[0].type == "text"
    plain_count, off = count(), count(thinking={"type": "disabled"})
    assert off > plain_count == count(thinking={"type": "adaptive"}) == count(thinking={"type": "enabled", "budget_tokens": 5000})
    short = create(thinkers, "qwen", thinking={"type": "enabled", "budget_tokens": 2})
    assert short.content[0].thinking == "Well, 1 < 2" and len(short.content) == 2
    extra = {"chat_template_kwargs": {"enable_thinking": True}}
    assert off > client(thinkers).messages.count_tokens(model="qwen", messages=[USER], thinking={"type": "disabled"}, extra_body=extra).input_tokens
    assert create(thinkers, "qwen", output_config={"effort": "high"}).content[0].type == "thinking"  # without levels


@pytest.mark.parametrize("level", ["low", "max"])
def test_effort_is_a_level_of_the_template(thinkers, level):
    found = create(thinkers, "levels", output_config={"effort": level}, messages=[{"role": "user", "content": "x"}])
    assert found.content[0].thinking == "Well." if level == "low" else plain(found)["input"] == 4


def test_thinking_can_be_left_out_of_an_answer(thinkers):
    members = {"thinking": {"type": "adaptive", "display": "omitted"}}
    message, whole = create(thinkers, "qwen", **members), create(thinkers, "qwen")
    assert [getattr(block, block.type) for block in message.content] == ["", whole.content[1].text]
    assert plain(message)["output"] == plain(whole)["output"] and message.usage.output_tokens_details.thinking_tokens == 6
    assert plain(stream(thinkers, "qwen", **members)[0]) == plain(message)
    counts = {client(thinkers).messages.count_tokens(model="qwen", messages=[USER, {"role": "assistant", "content": content}, USER]).input_tokens
              for content in (message.content, message.content[1:])}  # fmt: skip
    assert len(counts) == 1


# --- programs -------------------------------------------------------------------------------------


def test_the_note_of_claude_code_is_not_for_the_model(server):
    note = "x-anthropic-billing-header: cc_version=2.1.332.0b8; cc_entrypoint=sdk-cli;"
    members = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
    found = [
        server.post("/v1/messages", {"messages": [USER], "max_tokens": 5, "temperature": 0, "system": system} | members)[1]
        for system in (text(note, "Be\nbrief", "x"), "Be\nbrief\nx", text(note), [])
    ]
    assert found[0]["content"] == found[1]["content"] and found[2]["content"] == found[3]["content"]
    sums = [one["usage"]["input_tokens"] + one["usage"]["cache_read_input_tokens"] for one in found]
    assert sums[0] == sums[1] and sums[2] == sums[3]


def test_the_package_goes_on_without_threads(server):
    @anthropic.beta_tool
    def paint(at: str) -> str:
        """Paints"""
        return "done"

    runner = client(server).beta.messages.tool_runner(
        model=server.model, max_tokens=60, messages=[USER], tools=[paint], tool_choice={"type": "none"}, max_iterations=1
    )
    assert [message.role for message in runner] == ["assistant"]


# --- errors ---------------------------------------------------------------------------------------


def test_errors_are_those_of_the_package(server, painter, tmp_path):  # noqa: F811
    with pytest.raises(anthropic.BadRequestError, match="temperature") as error:
        create(server, temperature=-1)
    assert error.value.body == {"type": "error", "error": {"type": "invalid_request_error", "message": error.value.body["error"]["message"], "param": "temperature", "code": None}}
    with pytest.raises(anthropic.NotFoundError) as error:
        create(server, "none")
    assert error.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="the prompt has"):
        create(server, messages=[{"role": "user", "content": "word " * 9000}])
    keys = tmp_path / "keys"
    keys.write_text("tester key-of-the-tests\n")
    with serving(painter, "--api-keys", keys) as locked:
        for options in ({"api_key": "key-of-the-tests"}, {"api_key": None, "auth_token": "key-of-the-tests"}):
            assert client(locked, **options).messages.create(model=locked.model, max_tokens=1, messages=[USER]).role == "assistant"
        headers = {"Authorization": "Bearer wrong", "x_api_key": "key-of-the-tests"}  # a proxy may have added the first
        assert locked.post("/v1/messages", {"messages": [USER], "max_tokens": 1}, **headers)[0] == 200
        for options in ({"api_key": "key-of-the-test"}, {"api_key": None, "auth_token": "wrong"}):
            with pytest.raises(anthropic.AuthenticationError) as error:
                client(locked, **options).messages.create(model=locked.model, max_tokens=1, messages=[USER])
            assert error.value.body["error"]["type"] == "authentication_error"


def test_a_stream_that_fails_ends_with_an_error(slow_blob):
    with serving(slow_blob, "--timeout", 1) as server:
        form = {"output_format": ENDLESS["response_format"]}
        while server.post("/v1/messages", {"messages": [USER], "max_tokens": 1, **form})[0] != 200:
            pass  # the constraint is being compiled, for which the time may be too short
        with pytest.raises(anthropic.APIStatusError, match="the request took longer than 1 seconds"):
            list(client(server).messages.create(model=server.model, max_tokens=8000, messages=[USER], stream=True, extra_body=form))


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({}, "messages", "missing"), ({"messages": []}, "messages", "at least one"), ({"messages": [5]}, "messages", "must be an object"), ({"messages": [{"role": "user"}]}, "messages", "`content` in it must be a string or a list"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages", "user, assistant or system"), ({"messages": [USER | {"name": "x"}]}, "messages", "name: no such member"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages", "a block of the user has the type image: only text and tool_result"),
        ({"messages": [{"role": "user", "content": [CALL]}]}, "messages", "tool_use"), ({"messages": [{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]}, "messages", "tool_result"),
        ({"messages": [{"role": "assistant", "content": [CALL | {"input": "{}"}]}]}, "messages", "`input` in it must be an object"), ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages", "`tool_use_id` in it must be a string"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": [{"type": "image"}]}]}]}, "messages", "image: only text"), ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages", "`text` in it must be a string"),
        ({"messages": [USER, {"role": "assistant", "content": [CALL]}]}, "messages", "the last one must not call a tool"),
        ({"messages": [USER], "output_format": {"type": "json_object"}, "output_config": {"format": {"type": "json_object"}}}, "output_config", "another member has a format too"),
        ({"messages": [USER], "tools": TOOLS, "tool_choice": {"type": "tool", "name": "auto"}}, "tool_choice", "cannot be chosen"), ({"messages": [USER], "tools": [{"type": 5, "name": "x", "input_schema": {}}]}, "tools", "`type` in it must be a string"),
        ({"messages": [USER], "system": 5}, "system", "a list of texts"), ({"messages": [USER], "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools", "web_search_20250305: only"),
        ({"messages": [USER], "tools": [{"name": "x"}]}, "tools", "`input_schema` in it must be an object"), ({"messages": [USER], "tools": TOOLS, "tool_choice": "any"}, "tool_choice", "an object"),
        ({"messages": [USER], "tools": TOOLS, "tool_choice": {"type": "tool"}}, "tool_choice", "expected the name of a tool"), ({"messages": [USER], "tools": TOOLS, "tool_choice": {"type": "auto", "name": "paint"}}, "tool_choice", "only for the type tool"), ({"messages": [USER], "tool_choice": {"type": "any"}}, "", "there are no tools"),
        ({"messages": [USER], "thinking": {"type": "enabled", "budget_tokens": -2}}, "thinking", "whole number"), ({"messages": [USER], "thinking": {"type": "on"}}, "thinking", "enabled, adaptive or disabled"),
        ({"messages": [USER], "thinking": {"type": "adaptive", "display": "all"}}, "thinking", "summarized, updates or omitted"), ({"messages": [USER], "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "context_management", "only clear_thinking"),
        ({"messages": [USER], "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}}]}}, "context_management", "only all is supported"), ({"messages": [USER], "stop": "x"}, "stop", "no such member"), ({"messages": [USER], "mcp_servers": [{}]}, "mcp_servers", "not supported"),
        ({"messages": [USER], "output_config": {"effort": "most"}}, "output_config", "xhigh or max"), ({"messages": [USER], "n": 2}, "n", "no such member"), ({"messages": [USER], "service_tier": "flex"}, "service_tier", "standard_only"),
    ],
)  # fmt: skip
def test_wrong_messages_are_refused(server, members, param, message):
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        status, answer = server.post(path, members)
        assert (status, answer["type"], answer["error"]["param"] or "") == (400, "error", param) and message in answer["error"]["message"]

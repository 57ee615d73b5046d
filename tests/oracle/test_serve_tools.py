"""Tools over HTTP, with the openai package: the same calls as smolrun --jsonl makes, whole and streamed."""

import json

import pytest
from checkpoints import byte_tokenizer, make
from openai import BadRequestError
from programs import smolconv
from serving import serving
from test_jsonl import answers
from test_tools import DEMO, RENDER, TOOLS, USER, painter, schema_of, source  # noqa: F401 (a fixture)

FUNCTIONS = [tool if "function" in tool else {"type": "function", "function": tool} for tool in TOOLS]


@pytest.fixture(scope="module")
def server(painter):  # noqa: F811
    with serving([painter]) as server:
        yield server


def body(**members):
    return {"messages": [USER], "tools": FUNCTIONS, "max_tokens": 300, "temperature": 1} | members


REPLY = {"type": "object", "properties": {"city": {"enum": ["Rome", "<tool_call>"]}}, "required": ["city"], "additionalProperties": False}
WITH_SCHEMA = {"response_format": schema_of(REPLY)}


def plain(calls):
    return [(call.id, call.function.name, call.function.arguments) for call in calls or []]


def streamed(server, **members):
    """Content, calls and the reason for the end, put together from the events."""
    content, calls, reason = "", [], None
    for chunk in server.client.chat.completions.create(model=server.model, stream=True, extra_body={}, **body(**members)):
        (choice,) = chunk.choices
        content += choice.delta.content or ""
        for piece in choice.delta.tool_calls or []:
            if piece.id:
                assert piece.index == len(calls) and piece.type == "function"
                calls.append([piece.id, piece.function.name, ""])
            assert piece.index == len(calls) - 1
            calls[-1][2] += piece.function.arguments
        reason = choice.finish_reason or reason
    return content, [tuple(call) for call in calls], reason


@pytest.mark.parametrize("members", [
    {"tool_choice": "required"}, {"tool_choice": "required", "parallel_tool_calls": False}, {}, WITH_SCHEMA,
    {"tool_choice": {"type": "function", "function": {"name": "paint"}}}, {"tool_choice": "none"}], ids=str)  # fmt: skip
def test_calls_are_those_of_smolrun(server, painter, members):  # noqa: F811
    for seed in range(4):
        whole = server.client.chat.completions.create(model=server.model, **body(seed=seed, **members)).choices[0]
        (line,) = answers(painter, [body(seed=seed, **members)])
        assert (whole.message.content or "") == line["text"] and whole.finish_reason == line["finish_reason"]
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in line.get("tool_calls", [])]
        assert plain(whole.message.tool_calls) == calls
        assert streamed(server, seed=seed, **members) == (line["text"], calls, line["finish_reason"])


def test_a_call_that_was_cut_off_may_be_sent_back(server):
    """As clients do, with an error as its result."""
    cut = '{"color": "r'
    call = {"id": "x", "type": "function", "function": {"name": "paint", "arguments": cut}}
    turns = [USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}], "tool_calls": [call]}, {"role": "tool", "tool_call_id": "x", "content": "Error"}, USER]
    chat = server.client.chat.completions.create(model=server.model, **body(messages=turns, tool_choice="none", max_tokens=2, temperature=0))
    whole = [USER, {"role": "assistant", "content": "No.", "tool_calls": [call | {"function": {"name": "paint", "arguments": json.dumps({"INVALID_JSON": cut})}}]}, *turns[2:]]
    same = server.client.chat.completions.create(model=server.model, **body(messages=whole, tool_choice="none", max_tokens=2, temperature=0))
    assert same.choices[0].message.content == chat.choices[0].message.content and same.usage.prompt_tokens == chat.usage.prompt_tokens
    items = [USER, {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
             {"type": "function_call", "call_id": "x", "name": "paint", "arguments": cut, "status": "incomplete"}, {"type": "function_call_output", "call_id": "x", "output": "Error"}, USER]  # fmt: skip
    response = server.client.responses.create(model=server.model, input=items, tools=FLAT, tool_choice="none", max_output_tokens=2)
    assert response.usage.input_tokens == chat.usage.prompt_tokens


def test_several_choices_have_calls_of_their_own(server):
    answer = server.client.chat.completions.create(
        model=server.model, **body(seed=1, n=3, tool_choice="required", parallel_tool_calls=False))  # fmt: skip
    ids = [call.id for choice in answer.choices for call in choice.message.tool_calls]
    assert len(ids) == len(set(ids)) == 3


def test_results_of_calls_continue_a_conversation(server):
    first = server.client.chat.completions.create(model=server.model, **body(seed=2, tool_choice="paint", temperature=0))
    turn = first.choices[0].message.model_dump(exclude_none=True)
    result = {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": "done"}
    second = server.client.chat.completions.create(
        model=server.model, **body(messages=[USER, turn, result, USER], tool_choice="none", max_tokens=5))  # fmt: skip
    assert second.usage.prompt_tokens > first.usage.prompt_tokens


def test_what_cannot_be_done_is_named(server):
    for members, part in (({"tool_choice": "fly"}, "fly"), ({"tools": []} | {"tool_choice": "required"}, "no tools"),
                          ({"extra_body": {"response_format": {"type": "regex", "pattern": "x"}}}, "response_format")):  # fmt: skip
        with pytest.raises(BadRequestError, match=part):
            server.client.chat.completions.create(model=server.model, **body(**members))
    status, answer = server.post("/v1/chat/completions", {"messages": [USER], "tools": [{"name": "a b"}]})
    assert status == 400 and "name" in answer["error"]["message"], json.dumps(answer)


# --- all styles -----------------------------------------------------------------------------------

FIXED = {"city": {"const": "a <b & c"}, "days": {"const": 3}, "on": {"const": True}}
ONE = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": FIXED, "required": [*FIXED]}}}]
MADE = ("get_weather", {name: schema["const"] for name, schema in FIXED.items()})


@pytest.fixture(scope="module")
def all_styles(tmp_path_factory):
    """The bundled model with the template of each style."""
    folder = tmp_path_factory.mktemp("styles")
    for style in RENDER:
        (folder / "chat.jinja").write_text(source(style))
        smolconv(DEMO, folder / f"{style}.smol", "--chat-template", folder / "chat.jinja", "--quiet", check=True)
    with serving([folder / f"{style}.smol" for style in RENDER]) as server:
        yield server


@pytest.mark.sample(12)
@pytest.mark.parametrize("style", RENDER)
def test_every_style_makes_its_call_whole_and_in_a_stream(all_styles, style):
    """The schema leaves one call. A stop string and max_tokens cut it, and it has no log-probabilities."""

    def ask(**more):
        request = {"model": style, "messages": [USER], "tools": ONE, "tool_choice": "required", "parallel_tool_calls": False, "temperature": 0, "logprobs": True}
        (choice,) = all_styles.client.chat.completions.create(**request | {"max_tokens": 200} | more).choices
        content, calls, reason, logprobs = "", [], None, []
        for chunk in all_styles.client.chat.completions.create(stream=True, **request | {"max_tokens": 200} | more):
            (one,) = chunk.choices
            content += one.delta.content or ""
            for piece in one.delta.tool_calls or []:
                calls += [[piece.id, piece.function.name, ""]] if piece.id else []
                calls[-1][2] += piece.function.arguments
            logprobs += one.logprobs.content
            reason = one.finish_reason or reason
        found = (choice.message.content or "", [[*call] for call in plain(choice.message.tool_calls)], choice.finish_reason)
        assert (content, calls, reason) == found and logprobs == choice.logprobs.content
        listed = bytes(byte for one in logprobs for byte in one.bytes)
        assert listed.decode(errors="replace") in (content, "")  # no token of a call is listed
        return content, [(name, arguments) for _, name, arguments in calls], reason

    content, ((name, whole),), reason = ask()
    assert (content, (name, json.loads(whole)), reason) == ("", MADE, "tool_calls")
    for more, expected in (({"stop": ["<b &"]}, "stop"), ({"max_tokens": 8}, "length"), ({"max_tokens": 16}, "length")):
        content, calls, reason = ask(**more)
        assert reason == expected and (expected != "stop" or "<b &" not in str(calls))
        assert all(name == "get_weather" and whole.startswith(arguments) for name, arguments in calls)


# --- responses ------------------------------------------------------------------------------------

FLAT = [{"type": "function"} | tool["function"] for tool in FUNCTIONS]


def items_of(response):
    """Text and calls of a response."""
    calls = [(item.call_id, item.name, item.arguments) for item in response.output if item.type == "function_call"]
    return response.output_text, calls


def choice_of(members):
    """Returns the members with their tool_choice and response_format in the form of a response."""
    choice = members.get("tool_choice")
    if "response_format" in members:
        return {"text": {"format": {"type": "json_schema", **members["response_format"]["json_schema"]}}}
    return members | ({"tool_choice": {"type": "function", **choice["function"]}} if isinstance(choice, dict) else {})


def check_order(events, final):
    """Events are numbered, and an item ends before the next one begins."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    items = [(event.type, event.output_index) for event in events if "output_item" in event.type]
    assert items == [(f"response.output_item.{what}", i) for i in range(len(final.output)) for what in ("added", "done")]


@pytest.mark.parametrize("members", [
    {"tool_choice": "required"}, {"tool_choice": "required", "parallel_tool_calls": False}, {}, WITH_SCHEMA,
    {"tool_choice": {"type": "function", "function": {"name": "paint"}}}, {"tool_choice": "none"}], ids=str)  # fmt: skip
def test_responses_have_the_calls_of_chats(server, members):
    for seed in range(4):
        chat = server.client.chat.completions.create(model=server.model, **body(seed=seed, **members)).choices[0]
        expected = (chat.message.content or "", plain(chat.message.tool_calls))
        request = {"model": server.model, "input": [USER], "tools": FLAT, "max_output_tokens": 300, "temperature": 1, "extra_body": {"seed": seed}, **choice_of(members)}
        whole = server.client.responses.create(**request)
        assert items_of(whole) == expected
        assert whole.status == {"tool_calls": "completed", "stop": "completed", "length": "incomplete"}[chat.finish_reason]
        assert [tool.name for tool in whole.tools] == [tool["name"] for tool in FLAT]
        with server.client.responses.stream(**request) as stream:
            events = list(stream)
        final = events[-1].response  # completed or incomplete
        assert final.text.format.type == whole.text.format.type == ("json_schema" if "response_format" in members else "text")
        assert events[-1].type == f"response.{whole.status}"
        assert items_of(final) == expected and [item.type for item in final.output] == [item.type for item in whole.output]
        check_order(events, final)
        done = {event.output_index: event.arguments for event in events if event.type == "response.function_call_arguments.done"}
        pieces = {index: "" for index in done}
        for event in events:
            if event.type == "response.function_call_arguments.delta":
                pieces[event.output_index] += event.delta
        assert pieces == done == {i: item.arguments for i, item in enumerate(final.output) if item.type == "function_call"}


def test_a_text_before_calls_is_an_item_that_ends_before_them(tmp_path):
    """A model with random weights, whose token for the start of calls is likely."""
    make(tmp_path / "model", vocab_size=280, eos_token_id=256, bos_token_id=None, num_hidden_layers=1)
    tokenizer = byte_tokenizer(256)
    tokenizer.add_special_tokens(["<|end|>", "<|tool_call|>"])
    tokenizer.save(str(tmp_path / "model/tokenizer.json"))
    (tmp_path / "model/chat_template.jinja").write_text(source("granite"))
    assert smolconv(tmp_path / "model", tmp_path / "model.smol", "--quiet").returncode == 0
    likely, n_both = {"logit_bias": {str(tokenizer.token_to_id("<|tool_call|>")): 100}, "temperature": 30}, 0
    with serving([tmp_path / "model.smol"]) as server:
        for seed in range(8):
            request = {"model": server.model, "input": [USER], "tools": FLAT, "max_output_tokens": 100, "extra_body": {"seed": seed, **likely}}
            with server.client.responses.stream(**request) as stream:
                events = list(stream)
            final, whole = events[-1].response, server.client.responses.create(**request)
            check_order(events, final)
            assert items_of(final) == items_of(whole) and [i.status for i in final.output] == [i.status for i in whole.output]
            assert streamed(server, seed=seed, max_tokens=100, **likely)[:2] == items_of(whole)
            kinds = [item.type for item in final.output]
            assert "message" not in kinds[1:]
            n_both += kinds[:2] == ["message", "function_call"]
    assert n_both > 0


def test_results_of_calls_continue_a_response(server):
    request = {"model": server.model, "tools": FLAT, "temperature": 0, "max_output_tokens": 300}
    first = server.client.responses.create(input=[USER], tool_choice="required", **request)
    results = [{"type": "function_call_output", "call_id": item.call_id, "output": "done"} for item in first.output]
    second = server.client.responses.create(input=[USER, *first.output, *results, USER], tool_choice="none", **request | {"max_output_tokens": 5})
    calls = [{"id": item.call_id, "type": "function", "function": {"name": item.name, "arguments": item.arguments}} for item in first.output]
    turns = [USER, {"role": "assistant", "content": "", "tool_calls": calls}, *({"role": "tool", "tool_call_id": c["id"], "content": "done"} for c in calls), USER]
    chat = server.client.chat.completions.create(model=server.model, **body(messages=turns, temperature=0, tool_choice="none", max_tokens=5))
    assert second.output_text == chat.choices[0].message.content and second.usage.input_tokens == chat.usage.prompt_tokens
    said = [USER, {"role": "assistant", "content": "Well."}, *first.output, {"type": "function_call_output", "call_id": "x", "output": [{"type": "input_text", "text": "done"}]}]
    turns = [USER, {"role": "assistant", "content": "Well.", "tool_calls": calls}, {"role": "tool", "tool_call_id": "x", "content": "done"}]
    status, tokens = server.post("/tokenize", {"messages": turns})
    assert status == 200
    found = server.client.responses.create(input=said, model=server.model, max_output_tokens=1)
    assert found.usage.input_tokens == tokens["count"]


@pytest.mark.parametrize(("members", "message"), [
    ({"tools": [{"type": "web_search"}]}, "only tools of type \"function\""), ({"tools": [1]}, "an object"), ({"tools": [{"type": 1}]}, "only tools of type"),
    ({"tools": [{"type": "function", "name": "a b"}]}, "name"), ({"tools": [{"type": "function"}]}, "name"), ({"tool_choice": "required"}, "no tools"),
    ({"input": [{"type": "function_call"}]}, "call_id"), ({"input": [{"type": "function_call", "call_id": "x", "name": "f"}]}, "arguments"),
    ({"input": [{"type": "function_call_output", "call_id": "x"}]}, "output"), ({"input": [{"type": "function_call_output", "call_id": "x", "output": [{}]}]}, "type"),
    ({"input": [{"type": 1}]}, "type"), ({"input": [{"type": "reasoning"}]}, "reasoning")], ids=str)  # fmt: skip
def test_wrong_tools_of_responses_are_refused(server, members, message):
    status, answer = server.post("/v1/responses", {"input": "x"} | members)
    assert status == 400 and message in answer["error"]["message"], answer

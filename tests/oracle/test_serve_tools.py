"""Tools over HTTP, with the openai package: the same calls as smolrun --jsonl makes, whole and streamed."""

import json

import pytest
from openai import BadRequestError
from serving import serving
from test_jsonl import answers
from test_tools import TOOLS, USER, painter  # noqa: F401 (a fixture)

FUNCTIONS = [tool if "function" in tool else {"type": "function", "function": tool} for tool in TOOLS]


@pytest.fixture(scope="module")
def server(painter):  # noqa: F811
    with serving([painter]) as server:
        yield server


def body(**members):
    return {"messages": [USER], "tools": FUNCTIONS, "max_tokens": 300, "temperature": 1} | members


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
    {"tool_choice": "required"}, {"tool_choice": "required", "parallel_tool_calls": False}, {},
    {"tool_choice": {"type": "function", "function": {"name": "paint"}}}, {"tool_choice": "none"}], ids=str)  # fmt: skip
def test_calls_are_those_of_smolrun(server, painter, members):  # noqa: F811
    for seed in range(4):
        whole = server.client.chat.completions.create(model=server.model, **body(seed=seed, **members)).choices[0]
        (line,) = answers(painter, [body(seed=seed, **members)])
        assert (whole.message.content or "") == line["text"] and whole.finish_reason == line["finish_reason"]
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in line.get("tool_calls", [])]
        assert plain(whole.message.tool_calls) == calls
        assert streamed(server, seed=seed, **members) == (line["text"], calls, line["finish_reason"])


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
                          ({"response_format": {"type": "json_object"}}, "response_format")):  # fmt: skip
        with pytest.raises(BadRequestError, match=part):
            server.client.chat.completions.create(model=server.model, **body(**members))
    status, answer = server.post("/v1/chat/completions", {"messages": [USER], "tools": [{"name": "a b"}]})
    assert status == 400 and "name" in answer["error"]["message"], json.dumps(answer)

"""Reasoning, separated from replies: by smolserve, asked with the openai package, by --jsonl and by the Python package.

The models are made to say a text: each token has an embedding of its own, nothing is added to it, and the head's row
of the token that follows it in the text is that embedding."""

import ctypes
import json
import random
import re
import socket
from http.client import HTTPConnection

import package  # noqa: F401
import pytest
import smolrun
import torch
from checkpoints import byte_tokenizer, make
from internal import ROOT
from programs import on_terminal, smolconv
from programs import smolrun as run_smolrun
from serving import serving
from smolrun import batch
from smolrun._library import lib
from smolrun._openai import message_of
from smolrun.settings import CONSTRAINT, Constraint
from test_jsonl import answers
from test_tools import schema_of
from tokenizers import AddedToken

USER = {"role": "user", "content": "2+2?"}
TOOLS = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]
QWEN3 = (ROOT / "tests/data/templates/qwen3.jinja").read_text()
TAIL = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tail }}"
MISTRAL = TAIL.replace("content }}", "content }}{% for c in m.tool_calls or [] %}{{ '[TOOL_CALLS]' + c.function.name + '[ARGS]' + (c.function.arguments | tojson) }}{% endfor %}")
COHERE = (ROOT / "tests/data/templates/command-r7b.jinja").read_text()
GEMMA = TAIL + "{% if tail == '<|channel>thought\n' %}{# <|tool_call>call:f{x:<|\"|>a<|\"|>}<tool_call|> #}{{ tools }}{% endif %}"
END = 256


def speaker(folder, template, *texts, special=()):
    """A blob of a model that says texts, lists of tokens or ids, each after a prompt whose last byte is its first element."""
    tokens = [END, *dict.fromkeys(token for text in texts for token in text[1:] if isinstance(token, str))]
    ids = {token: 256 + i for i, token in enumerate(tokens)}
    vocab_size = 256 + len(tokens)
    tokenizer = byte_tokenizer(256)
    tokenizer.add_special_tokens(["<|end|>"])
    for token in tokens[1:]:
        (tokenizer.add_special_tokens if token in special else tokenizer.add_tokens)([AddedToken(token, special=token in special)])
        assert tokenizer.token_to_id(token) == ids[token]
    ids |= {text[0]: tokenizer.encode(text[0]).ids[0] for text in texts}

    def speak(weights):
        generator = torch.Generator().manual_seed(0)
        embedding = (torch.randint(0, 2, (vocab_size, 128), generator=generator) * 2 - 1).bfloat16()
        head = torch.zeros_like(embedding)
        for text in texts:
            for before, after in zip(text, [*text[1:], END]):
                head[ids.get(after, after)] += embedding[ids.get(before, before)]
        for name in weights:
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weights[name].zero_()
        weights["model.embed_tokens.weight"], weights["lm_head.weight"] = embedding, head
        weights["model.norm.weight"].fill_(1)

    make(folder / "model", edit=speak, vocab_size=vocab_size, hidden_size=128, eos_token_id=END, num_hidden_layers=1,
         max_position_embeddings=1024)  # fmt: skip
    tokenizer.save(str(folder / "model/tokenizer.json"))
    (folder / "model/chat_template.jinja").write_text(template)
    smolconv(folder / "model", folder / f"{folder.name}.smol", "--quiet", check=True)
    return folder / f"{folder.name}.smol"


# name of the model: its template, and what it says
SPOKEN = {
    "qwen": (QWEN3, ["\n", "<think>", "\nWell, ", "1 < 2", " and so on.\n", "</th", "ink>", "\n\n", "The answer", " is 4."]),
    "caller": (QWEN3, ["\n", "<think>", "\nI ask.\n", "</think>", "\n\n", "Let me see.", "\n<tool_call>\n", '{"name": "now", ', '"arguments": {}}', "\n</tool_call>"]),
    "hasty": (QWEN3, ["\n", "<think>", "\nI ask.", "\n<tool_call>\n", '{"name": "now", ', '"arguments": {}}', "\n</tool_call>"]),
    "opened": (TAIL.replace("tail", "'<think>\\n'"), ["\n", "Well, ", "so it is.", "\n</think>", " \n", "Four."]),
    "special": (TAIL + "{% if tail == '[THINK]' %}{% endif %}", ["x", "[THINK]", "Well.", "[/THINK]", "Four", "<|x|>", ", yes."]),
    "wrapped": (TAIL + "{% if tail == '<answer>' %}{% endif %}<think>\n", ["\n", "Well.", "\n</think>\n", "<answer>", "\nFour", "\n</answer>"]),
    "silent": (QWEN3, ["\n", "Well, ", "so it is."]),
    "ministral": (MISTRAL, ["x", "[THINK]", "Well.", "[/THINK]", "[TOOL_CALLS]", "now", "[ARGS]", "{}"]),
    "gemma": (GEMMA, ["x", "<|channel>", "thought\n", "Well.\n", "<channel|>", "<|tool_call>", "call:now{", "}<tool_call|>"]),
    "thought": (TAIL + "{% if tail == '<|thought_start|>' %}{% endif %}", ["x", "<|thought_start|>", "\nWell.\n", "<|thought_end|>", "\nFour"]),
    "sentences": (TAIL + "{% if tail == 'after \"Here is my response:\".' %}{% endif %}", ["x", "Here is my thought", " process:", "\n\nWell.\n", "Here is my response:", " Four."]),
    "levels": (TAIL + "{{ reasoning_effort }}{% if tail == '</think>' %}{% endif %}", ["w", "<think>", "Well."]),
    "plain": (TAIL, ["x", "<think>", "Well.", "Four."]),
    "cohere": (COHERE, [">", "<|START_RESPONSE|>", "Four", ".\n", "<|END_RESPONSE|>"]),
    "cohere-thinker": (COHERE, [">", "<|START_THINKING|>", "Well.", "<|END_THINKING|>", "<|START_RESPONSE|>", "Four.", "<|END_RESPONSE|>"]),
    "cohere-caller": (COHERE, [">", "<|START_THINKING|>", "I ask.", "<|END_THINKING|>", "<|START_ACTION|>", '[\n    {"tool_call_id": "0", "tool_name": "now", "parameters": {',
                               '}},\n    {"tool_call_id": "1", "tool_name": "n', 'ow", "parameters": {}}', "\n]", "<|END_ACTION|>"]),
    "aya": (TAIL.replace("tail", "'<|START_RESPONSE|>'"), [">", "Four", " it is.", "<|END_RESPONSE|>"]),
    "spaced": (QWEN3, ["\n", "\n<think>", "</think>", "Well."]),
}  # fmt: skip
SPECIAL = {"special": ("[THINK]", "[/THINK]", "<|x|>"), "ministral": ("[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"),
           "gemma": ("<|channel>", "<channel|>", "<|tool_call>"), "thought": ("<|thought_start|>", "<|thought_end|>")}  # fmt: skip
THINKING = {"chat_template_kwargs": {"enable_thinking": True}}
VARIABLES = {"chat_template_kwargs": {"tail": "x"}}
# name: reasoning, reply, calls of tools, tokens of reasoning, and what else a request has
CASES = {
    "qwen": ("Well, 1 < 2 and so on.", "The answer is 4.", [], 6, {}),
    "caller": ("I ask.", "Let me see.", [("now", "{}")], 3, {"tools": TOOLS}),
    "hasty": ("I ask.", "", [("now", "{}")], 3, {"tools": TOOLS}),
    "opened": ("Well, so it is.", "Four.", [], 3, {}),
    "special": ("Well.", "Four, yes.", [], 3, VARIABLES),
    "wrapped": ("Well.", "Four", [], 2, {}),
    "silent": ("", "Well, so it is.", [], 0, {}),
    "ministral": ("Well.", "", [("now", "{}")], 3, {"tools": TOOLS} | VARIABLES),
    "gemma": ("Well.", "", [("now", "{}")], 4, {"tools": TOOLS} | VARIABLES),
    "thought": ("Well.", "Four", [], 3, VARIABLES),
    "sentences": ("Well.", "Four.", [], 4, VARIABLES),
    "levels": ("Well.", "", [], 2, {"chat_template_kwargs": {"reasoning_effort": "low"}}),
    "plain": ("", "<think>Well.Four.", [], 0, VARIABLES),
    "cohere": ("", "Four.", [], 0, THINKING),
    "cohere-thinker": ("Well.", "Four.", [], 3, THINKING),
    "cohere-caller": ("I ask.", "", [("now", "{}")] * 2, 3, {"tools": TOOLS} | THINKING),
    "aya": ("", "Four it is.", [], 0, {}),
    "spaced": ("", "Well.", [], 2, {}),
}


@pytest.fixture(scope="module")
def blobs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoken")
    found = {}
    for name, (template, text) in SPOKEN.items():
        (folder / name).mkdir()
        found[name] = speaker(folder / name, template, text, special=SPECIAL.get(name, ()))
    return found


@pytest.fixture(scope="module")
def server(blobs):
    with serving(list(blobs.values())) as server:
        yield server


def raw(name):
    """All that a model says, as a request without separation shows it."""
    return "".join(token for token in SPOKEN[name][1][1:] if token not in SPECIAL.get(name, ()))


def ask(server, name, stream=False, **members):
    body = {"messages": [USER], "temperature": 0, "max_tokens": 50} | CASES[name][4] | members
    known = {key: body.pop(key) for key in ("messages", "temperature", "max_tokens", "tools", "tool_choice", "response_format", "logprobs", "stop", "stream_options") if key in body}
    return server.client.chat.completions.create(model=name, stream=stream, extra_body=body, **known)


def plain(calls):
    return [(call.function.name, call.function.arguments) for call in calls or []]


@pytest.mark.parametrize("name", CASES)
def test_an_answer_has_its_reasoning_apart(server, blobs, name):
    reasoning, reply, calls, n_tokens, more = CASES[name]
    answer = ask(server, name)
    (choice,), usage = answer.choices, answer.usage
    assert getattr(choice.message, "reasoning_content", "") == reasoning
    assert (choice.message.content or "") == reply and plain(choice.message.tool_calls) == calls
    assert choice.finish_reason == ("tool_calls" if calls else "stop")
    assert (usage.completion_tokens_details.reasoning_tokens if n_tokens else usage.completion_tokens_details) == (n_tokens or None)
    found = {"reasoning_content": "", "content": "", "arguments": ""}
    order = []
    for chunk in ask(server, name, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            pieces = {key: getattr(choice.delta, key, None) for key in ("reasoning_content", "content")}
            pieces["arguments"] = "".join(call.function.arguments for call in choice.delta.tool_calls or [])
            for key, piece in pieces.items():
                found[key] += piece or ""
                order += [key] if piece else []
    assert found == {"reasoning_content": reasoning, "content": reply, "arguments": "".join(arguments for _, arguments in calls)}
    assert order == sorted(order, key=["reasoning_content", "content", "arguments"].index)
    assert chunk.usage.to_dict() | {"prompt_tokens_details": {}} == usage.to_dict() | {"prompt_tokens_details": {}}
    (line,) = answers(blobs[name], [{"messages": [USER], "max_tokens": 50} | more])
    assert (line.get("reasoning", ""), line["text"], line["finish_reason"]) == (reasoning, reply, answer.choices[0].finish_reason)
    assert message_of(line).get("reasoning_content", "") == reasoning  # of a file of results
    assert line["usage"].get("completion_tokens_details") == ({"reasoning_tokens": n_tokens} if n_tokens else None)
    with smolrun.Model(blobs[name]) as model:
        python = model.chat([USER], max_tokens=50, **more)
        assert python.to_dict() == {key: value for key, value in line.items() if key != "index"}
        thoughts = []
        stream = model.stream_chat([USER], max_tokens=50, on_reasoning=thoughts.append, **more)
        assert "".join(stream) == reply and "".join(thoughts) == reasoning and stream.answer == python
        with model.session() as session:
            for _ in range(2):  # the second one evaluates the last token of the prompt only
                again = session.chat([USER], max_tokens=50, **more)
                assert (again.reasoning, again.text, again.ids) == (python.reasoning, python.text, python.ids)


def test_reasoning_that_is_cut_off_is_all_of_the_answer(server):
    for name, n, reasoning in (("qwen", 3, "Well, 1 < 2"), ("qwen", 1, ""), ("qwen", 5, "Well, 1 < 2 and so on.\n</th"), ("opened", 1, "Well,")):
        (choice,) = ask(server, name, max_tokens=n).choices
        assert (getattr(choice.message, "reasoning_content", ""), choice.message.content, choice.finish_reason) == (reasoning, "", "length")


@pytest.mark.parametrize(("name", "begun"), [("special", "It is x"), ("qwen", "So:\n"), ("opened", "<think>\n")])
def test_the_rest_of_a_begun_answer_is_reply_unless_reasoning_was_begun(server, blobs, name, begun):
    """Then reasoning is neither looked for nor limited, and a constraint counts at once."""
    messages = [USER, {"role": "assistant", "content": begun}]
    expected = ("Well, so it is.", "Four.") if name == "opened" else ("", raw(name))
    more = {"messages": messages, "continue_final_message": True} | ({} if name == "opened" else {"thinking_budget_tokens": 0})
    (choice,) = ask(server, name, **more, chat_template_kwargs={}).choices
    assert (getattr(choice.message, "reasoning_content", ""), choice.message.content) == expected
    (line,) = answers(blobs[name], [more | {"max_tokens": 50}])
    assert (line.get("reasoning", ""), line["text"]) == expected
    form = {"type": "regex", "pattern": "[a-z]{3}"}
    with smolrun.Model(blobs[name]) as model:
        options = {key: value for key, value in more.items() if key != "messages"}
        assert model.chat(messages, max_tokens=50, **options).to_dict() == {key: value for key, value in line.items() if key != "index"}
        if name != "opened":
            constrained = model.chat(messages, max_tokens=50, response_format=form, **options)
            (choice,) = ask(server, name, **more, chat_template_kwargs={}, response_format=form).choices
            assert len(constrained.text) == 3 and not constrained.reasoning and choice.message.content == constrained.text


def test_a_prompt_that_ends_the_reasoning_leaves_the_answer_as_it_is(server):
    (choice,) = ask(server, "qwen", chat_template_kwargs={"enable_thinking": False}).choices
    assert choice.message.content == "The answer is 4." and not hasattr(choice.message, "reasoning_content")
    (choice,) = ask(server, "special", chat_template_kwargs={"tail": "[/THINK] \nx"}).choices
    assert choice.message.reasoning_content == "Well."  # x is no white space
    (choice,) = ask(server, "plain", chat_template_kwargs={"tail": "</think>x"}).choices
    assert choice.message.content == raw("plain")


@pytest.mark.parametrize("name", CASES)
def test_the_whole_text_can_be_had(server, blobs, name):
    more = {key: value for key, value in CASES[name][4].items() if key != "tools"}
    constraint = {"response_format": {"type": "regex", "pattern": "[^q]*"}}  # which allows no special token
    for how in ({}, *[constraint] * (name not in SPECIAL)):
        (choice,) = ask(server, name, tools=[], reasoning_format="none", **more | how).choices
        assert choice.message.content == raw(name) and not hasattr(choice.message, "reasoning_content")
    with smolrun.Model(blobs[name]) as model:
        assert model.chat([USER], max_tokens=50, reasoning_format="none", **more).text == raw(name)
    (line,) = answers(blobs[name], [{"messages": [USER], "reasoning_format": "none", "max_tokens": 50} | more])
    assert line["text"] == raw(name) and "reasoning" not in line


def test_the_server_may_leave_all_text_in_the_content(blobs):
    with serving([blobs["qwen"]], "--reasoning-format", "none") as server:
        assert ask(server, "qwen").choices[0].message.content == raw("qwen")
        assert ask(server, "qwen", reasoning_format="deepseek").choices[0].message.content == CASES["qwen"][1]
        status, answer = server.post("/v1/chat/completions", {"messages": [USER], "reasoning_format": "other"})
        assert status == 400 and answer["error"]["param"] == "reasoning_format"


def test_texts_are_not_conversations(server, blobs):
    """A prompt is continued as it is."""
    answer = server.client.completions.create(model="qwen", prompt="x\n", max_tokens=50, temperature=0)
    assert answer.choices[0].text == raw("qwen")
    with smolrun.Model(blobs["qwen"]) as model:
        assert model.generate("x\n", max_tokens=50).text == raw("qwen")


def test_stop_strings_count_in_the_reasoning_too(server):
    (choice,) = ask(server, "qwen", stop=["1 <"]).choices
    assert (choice.message.reasoning_content, choice.message.content, choice.finish_reason) == ("Well,", "", "stop")


@pytest.mark.parametrize(("name", "stop"), [("qwen", ">\n\nThe cat"), ("special", "]x")])
def test_text_that_waits_for_a_stop_string_counts_where_it_belongs(server, blobs, name, stop):
    """The end of the last marker comes together with the text of a later token."""
    for stream in (False, True):
        answers_of = [ask(server, name, stream, stop=one, stream_options={"include_usage": True} if stream else None) for one in ([], [stop])]
        usages = [[*answer][-1].usage if stream else answer.usage for answer in answers_of]
        assert [usage.completion_tokens_details.reasoning_tokens for usage in usages] == [CASES[name][3]] * 2
    body = {"messages": [USER], "max_tokens": 50} | CASES[name][4]
    lines = answers(blobs[name], [body, body | {"stop": [stop]}])
    assert lines[0] | {"index": 1} == lines[1]
    with smolrun.Model(blobs[name]) as model:
        python = [model.chat([USER], max_tokens=50, **CASES[name][4], **how).to_dict() for how in ({}, {"stop": [stop]})]
        assert python[0] == python[1] == {key: value for key, value in lines[0].items() if key != "index"}


# name: the tokens of the text, and what else a request has
LISTED = [("qwen", ["The answer", " is 4."], {}), ("caller", ["Let me see."], {}), ("hasty", [], {}), ("wrapped", ["\nFour"], {}), ("cohere", ["Four", ".\n"], {}), ("cohere-caller", [], {}),
          ("special", ["Four", "<|x|>", ", yes."], {}), ("special", ["Four", "<|x|>", ", yes."], {"stop": ["]Four, no"]}), ("silent", ["Well, ", "so it is."], {"tools": TOOLS}), ("levels", [], {}),
          ("qwen", SPOKEN["qwen"][1][1:], {"reasoning_format": "none"}), ("qwen", [], {"stop": ["1 <"]}),
          ("qwen", ["The answer"], {"stop": [" is"]}), ("caller", ["Let me see.", "\n<tool_call>\n"], {"stop": ['{"name']}), ("caller", SPOKEN["caller"][1][1:6], {"reasoning_format": "none"})]  # fmt: skip


@pytest.mark.parametrize(("name", "tokens", "more"), LISTED)
def test_log_probabilities_are_those_of_the_text(server, blobs, name, tokens, more, tmp_path):
    """Not of reasoning, calls and stop strings, in chats, responses and files of a batch."""
    more = CASES[name][4] | {"logprobs": True} | more
    whole = ask(server, name, **more).choices[0]
    expected = [one.to_dict() for one in whole.logprobs.content]
    assert [one["token"] for one in expected] == tokens
    chunks = [chunk.choices[0] for chunk in ask(server, name, stream=True, **more)]
    assert [one.to_dict() for chunk in chunks for one in chunk.logprobs.content] == expected
    assert all(chunk.delta.content for chunk in chunks if chunk.logprobs.content)
    body = {"messages": [USER], "temperature": 0, "max_tokens": 50} | more
    (tmp_path / "rows.jsonl").write_text(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}))
    batch.run(blobs[name], [tmp_path / "rows.jsonl"], tmp_path / "answers", row_format="openai")
    (part,) = (tmp_path / "answers").glob("part-*.jsonl")
    assert json.loads(part.read_text())["response"]["body"]["choices"][0]["logprobs"]["content"] == expected
    body = {"model": name, "input": [USER], "temperature": 0, "max_output_tokens": 50, "include": ["message.output_text.logprobs"]}
    body["extra_body"] = {key: value for key, value in flat(more).items() if key != "logprobs"}
    response = server.client.responses.create(**body)
    messages = [item for item in response.output if item.type == "message"]
    assert [one.to_dict() for item in messages for one in item.content[0].logprobs] == expected
    assert [item.type for item in response.output if item.type == "function_call"] == ["function_call"] * (len(CASES[name][2]) if "stop" not in more else 0)
    for kind in ("delta", "done"):
        events = server.client.responses.create(stream=True, **body)
        listed = [event.logprobs for event in events if event.type == f"response.output_text.{kind}"]
        assert [one.to_dict() for one in sum(listed, [])] == expected


def test_calls_wait_for_the_log_probabilities_of_the_text_before_them(tmp_path):
    """A client that reads late gets these in pieces, and nothing of a message after its end."""
    said = ["x", *(f"w{i} " for i in range(700)), "[TOOL_CALLS]", "now", "[ARGS]", "{}"]
    blob = speaker(tmp_path, MISTRAL, said, special=SPECIAL["ministral"])
    body = {"input": [USER], "tools": flat({"tools": TOOLS})["tools"], "temperature": 0, "stream": True,
            "include": ["message.output_text.logprobs"], "top_logprobs": 20}  # fmt: skip
    with serving(blob) as server:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.sock.connect(("127.0.0.1", server.port))
        connection.request("POST", "/v1/responses", json.dumps(body | {"model": server.model} | VARIABLES), {"Content-Type": "application/json"})
        server.wait_for("smolserve_completion_tokens_total", len(said) - 1, 120)
        lines = connection.getresponse().read().splitlines()
        connection.close()
    events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    assert events[-1]["type"] == "response.completed" and [item["type"] for item in events[-1]["response"]["output"]] == ["message", "function_call"]
    (done,) = (event for event in events if event["type"] == "response.output_text.done")
    deltas = [event["logprobs"] for event in events if event["type"] == "response.output_text.delta"]
    assert sum(deltas, []) == done["logprobs"] and "".join(one["token"] for one in done["logprobs"]).strip() == done["text"]


# --- constraints ----------------------------------------------------------------------------------

CHOICES = ["The answer is 5.", "No."]
CONSTRAINED = [(["qwen", "caller", "opened", "special", "wrapped", "gemma", "sentences", "cohere-thinker"], {"response_format": {"type": "choices", "choices": CHOICES}}),
               (["caller", "hasty", "ministral", "gemma", "cohere-caller"], {"tools": TOOLS, "tool_choice": "required"})]  # fmt: skip


@pytest.mark.parametrize(("name", "how"), [(name, how) for names, how in CONSTRAINED for name in names])
def test_reasoning_comes_before_a_constraint(server, blobs, name, how):
    """What follows it is what the constraint allows, though the model would say something else."""
    reasoning, _, _, n_tokens, more = CASES[name]
    more = {key: value for key, value in more.items() if key != "tools"}
    answer = ask(server, name, **{"tools": []} | more | how)
    (choice,) = answer.choices
    assert choice.message.reasoning_content == reasoning
    assert answer.usage.completion_tokens_details.reasoning_tokens == n_tokens
    assert choice.message.content in CHOICES if "response_format" in how else plain(choice.message.tool_calls) == CASES[name][2]
    (line,) = answers(blobs[name], [{"messages": [USER], "max_tokens": 50} | more | how])
    assert (line["reasoning"], line["text"] or None) == (reasoning, choice.message.content)
    with smolrun.Model(blobs[name]) as model:
        python = model.chat([USER], max_tokens=50, **more | how)
        assert (python.reasoning, python.ids) == (reasoning, line["ids"])
        with model.session() as session:
            assert session.chat([USER], max_tokens=50, **more | how).ids == line["ids"]
    if "response_format" in how:
        (line,) = answers(blobs[name], [{"messages": [USER], "max_tokens": 50} | more], "--choices", ",".join(CHOICES))
        assert (line["reasoning"], line["text"]) == (reasoning, choice.message.content)


REPLY = {"type": "object", "properties": {"a": {"enum": ["x", "<|END_RESPONSE|>!"]}}, "required": ["a"], "additionalProperties": False}
WITH_SCHEMA = {"tools": TOOLS, "response_format": schema_of(REPLY)}
WRAPPED = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ '<tool_call>\\n' + ({'name': c.function.name, 'arguments': c.function.arguments} | tojson) + '\\n</tool_call>' }}{% endfor %}{% endfor %}{% if tools %}{% endif %}{{ '<|START_RESPONSE|>' }}"
THOUGHT = ["\n", "<think>", "\nI ask.\n", "</think>", "\n\n"]
CALL = ["<tool_call>\n", '{"name": "now", ', '"arguments": {}}', "\n</tool_call>"]
# the template, what the model says, and its reasoning, text and calls
WITH_TOOLS_AND_SCHEMA = {
    "call": (QWEN3, [*THOUGHT, *CALL], "I ask.", "", [("now", "{}")]),
    "hasty": (QWEN3, [*THOUGHT[:2], "\nI ask.\n", *CALL], "I ask.", "", [("now", "{}")]),
    "reply": (QWEN3, [*THOUGHT, '{"a": ', '"x"}'], "I ask.", '{"a": "x"}', []),
    "wrapped": (WRAPPED, [">", '{"a": "', "<|END_RESPONSE|>", '!"}'], "", '{"a": "<|END_RESPONSE|>!"}', []),
}  # fmt: skip


@pytest.mark.parametrize("case", WITH_TOOLS_AND_SCHEMA)
def test_reasoning_comes_before_tools_and_a_schema(tmp_path, case):
    """Unless it is not separated: then all of the answer is a text of the schema, or calls."""
    template, said, reasoning, text, calls = WITH_TOOLS_AND_SCHEMA[case]
    blob = speaker(tmp_path, template, said)
    request = {"messages": [USER], "max_tokens": 50} | WITH_SCHEMA
    line, whole = answers(blob, [request, request | {"reasoning_format": "none"}])
    assert (line.get("reasoning", ""), line["text"]) == (reasoning, text)
    assert [(c["function"]["name"], c["function"]["arguments"]) for c in line.get("tool_calls", [])] == calls
    assert "reasoning" not in whole and (whole.get("tool_calls") or json.loads(whole["text"])["a"])
    with smolrun.Model(blob) as model:
        for how, expected in (({}, line), ({"reasoning_format": "none"}, whole)):
            answer = model.chat(**request | how)
            assert answer.to_dict() == {key: value for key, value in expected.items() if key != "index"}
            assert answer.parsed == (None if expected["text"] == "" else json.loads(expected["text"]))


def test_a_prompt_that_ends_the_reasoning_leaves_the_answer_to_the_constraint(server):
    for closed in ({"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_format": "none"}):
        (choice,) = ask(server, "qwen", response_format={"type": "choices", "choices": CHOICES}, **closed).choices
        assert choice.message.content in CHOICES and not hasattr(choice.message, "reasoning_content")


# The answer begins with white space, or within what the template calls a reply: a constraint that allows these has them.
EXACT = [("spaced", "\n<think>[a-z]{3}</think>W"), ("wrapped", "<answer>\n(Four|Five)\n</answer>")]


@pytest.mark.parametrize(("name", "pattern"), EXACT)
def test_nothing_of_a_constrained_reply_is_left_out(server, blobs, name, pattern):
    more = CASES[name][4] | {"thinking_budget_tokens": 0, "response_format": {"type": "regex", "pattern": pattern}}
    text = ask(server, name, **more).choices[0].message.content
    assert re.fullmatch(pattern, text)
    (line,) = answers(blobs[name], [{"messages": [USER], "max_tokens": 50} | more])
    with smolrun.Model(blobs[name]) as model:
        assert model.chat([USER], max_tokens=50, **more).text == line["text"] == text


def test_a_model_may_leave_reasoning_out(server):
    """The answer of a model that does not reason is as without a possibility to."""
    (choice,) = ask(server, "silent", response_format={"type": "regex", "pattern": "Well[, a-z.]*"}).choices
    assert choice.message.content == "Well, so it is." and not hasattr(choice.message, "reasoning_content")


@pytest.mark.parametrize("begun", [False, True])
def test_texts_with_reasoning_are_those_of_an_expression(blobs, begun):
    """Beside Python's regular expressions, on random texts of parts of markers."""
    rng = random.Random(begun)
    inside = r"((?!</think>)[^\xff])*</think>[ \t\r\n]{0,4}(ab?|<a)"
    expected = re.compile(inside if begun else f"<think>{inside}|(ab?|<a)", re.DOTALL)
    constraint = Constraint(CONSTRAINT["REGEX"], b"ab?|<a", reasoning=1 + begun)
    parts = ["<think>", "</think>", "</th", "ink>", "<", "a", "b", " ", "\n"]
    n_whole = 0
    with smolrun.Model(blobs["qwen"]) as model:
        handle = model._constraint(constraint)
        ids = {character: model.tokenize(character)[0] for character in "".join(parts)}
        for _ in range(400):
            text = "<think>" * (not begun and rng.random() < 0.8) + "".join(rng.choices(parts, k=rng.randint(0, 7)))
            text += rng.choice(["", "</think>", "</think>\na", "</think>ab"])
            n_whole += expected.fullmatch(text) is not None
            assert matches(handle, map(ids.get, text)) == (expected.fullmatch(text) is not None), text
    assert 50 < n_whole < 350


def matches(constraint, ids):
    """Returns whether a constraint allows a text."""
    pointer = ctypes.c_void_p()
    assert lib.smol_matcher_create(constraint.pointer, ctypes.byref(pointer), None) == 0
    good = all(lib.smol_matcher_accept(pointer, token, None) == 0 for token in ids) and lib.smol_matcher_complete(pointer) == 1
    lib.smol_matcher_free(pointer)
    return good


# --- a limit --------------------------------------------------------------------------------------

# name of the model, most tokens, reasoning, reply (None: another; a list: any of these), tokens of reasoning with
# those of the markers, which may be several, and what else a request has
LIMITED = [
    ("qwen", 0, "", "The answer is 4.", 3, {}),
    ("qwen", 1, "Well,", "The answer is 4.", 4, {}),
    ("qwen", 3, "Well, 1 < 2 and so on.", "The answer is 4.", 6, {}),
    ("qwen", 4, "Well, 1 < 2 and so on.", "The answer is 4.", 6, {}),  # the marker that has begun is completed
    ("caller", 0, "", "Let me see.", 2, {"tools": TOOLS}),
    ("hasty", 1, "I ask.", None, 10, {"tools": TOOLS}),
    ("opened", 0, "", None, 8, {}),
    ("opened", 1, "Well,", None, 9, {}),
    ("special", 0, "", "Four, yes.", 2, VARIABLES),
    ("plain", 0, "", "<think>Well.Four.", 0, VARIABLES),
    ("qwen", 1, "Well,", CHOICES, 4, {"response_format": {"type": "choices", "choices": CHOICES}}),
    ("special", 0, "", CHOICES, 2, {"response_format": {"type": "choices", "choices": CHOICES}} | VARIABLES),
    ("ministral", 0, "", "", 2, {"tools": TOOLS, "tool_choice": "required"} | VARIABLES),
]  # fmt: skip


@pytest.mark.parametrize(("name", "most", "reasoning", "reply", "n_tokens", "more"), LIMITED)
def test_reasoning_has_a_limit(server, blobs, name, most, reasoning, reply, n_tokens, more):
    more = {"thinking_budget_tokens": most} | more
    answer = ask(server, name, **{"tools": []} | more)
    message, details = answer.choices[0].message, answer.usage.completion_tokens_details
    assert getattr(message, "reasoning_content", "") == reasoning and (details.reasoning_tokens if details else 0) == n_tokens
    assert reply is None or (message.content in reply if isinstance(reply, list) else (message.content or "") == reply)
    (line,) = answers(blobs[name], [{"messages": [USER], "max_tokens": 50} | more])
    assert (line.get("reasoning", ""), line["text"]) == (reasoning, message.content or "")
    guessed = answers(blobs[name], [{"messages": [USER], "max_tokens": 50} | more] * 2, "--lookup", "--sequences", 2)
    assert [one["ids"] for one in guessed] == [line["ids"]] * 2
    with smolrun.Model(blobs[name]) as model:
        assert model.chat([USER], max_tokens=50, **more).ids == line["ids"]


def test_programs_have_a_limit(blobs, tmp_path):
    with serving([blobs["qwen"]], "--reasoning-budget", 1) as server:
        assert ask(server, "qwen").choices[0].message.reasoning_content == "Well,"
        assert ask(server, "qwen", thinking_budget_tokens=2).choices[0].message.reasoning_content == "Well, 1 < 2"
        assert ask(server, "qwen", thinking_budget_tokens=-1).choices[0].message.reasoning_content == CASES["qwen"][0]  # lifted
        for wrong in (-2, -1.5, "-1"):
            status, answer = server.post("/v1/chat/completions", {"model": "qwen", "messages": [USER], "thinking_budget_tokens": wrong})
            assert status == 400 and answer["error"]["param"] == "thinking_budget_tokens"
    with smolrun.Model(blobs["qwen"]) as model:
        assert model.chat([USER], max_tokens=50, thinking_budget_tokens=-1).reasoning == CASES["qwen"][0]
    said = json.loads(run_smolrun(blobs["qwen"], "--chat", USER["content"], "--reasoning-budget", 1, "--json").stdout)
    assert (said["reasoning"], said["text"]) == ("Well,", "The answer is 4.")
    (line,) = answers(blobs["qwen"], [{"messages": [USER]}], "--reasoning-budget", 1)
    assert line["reasoning"] == "Well,"
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": [USER]}))
    batch.run(blobs["qwen"], [tmp_path / "rows.jsonl"], tmp_path / "answers", thinking_budget_tokens=1)
    (part,) = (tmp_path / "answers").glob("part-*.jsonl")
    assert json.loads(part.read_text())["reasoning"] == "Well,"


def test_programs_limit_answers_to_prompts_that_they_have_read_in_part(blobs, tmp_path):
    """The beginning of the reasoning is in the prompt, of which only the last token is evaluated with the answer."""
    for _ in range(2):
        words = ("--chat", "hi", "--reasoning-budget", 0, "-n", 9, "--session", tmp_path / "session")
        assert run_smolrun(blobs["opened"], *words).stdout == b"Well, \n"
    for n in (121, 122, 249):
        said = run_smolrun("chat", blobs["opened"], "--reasoning-budget", 0, "-n", 9, input=b"h" * n + b"\n").stdout
        assert said == b"Well, \n", n
    with smolrun.Model(blobs["opened"]) as model, model.session() as session:
        for _ in range(2):
            assert session.chat([USER], max_tokens=9, thinking_budget_tokens=0).text == "Well, "


def test_a_continued_answer_has_the_limit_of_its_beginning(blobs):
    """It is cut before the limit, and within the marker, which takes eight tokens."""
    for name, budget, begins in (("qwen", 2, b"The answer"), ("opened", 0, b"Well, ")):
        said = [run_smolrun("chat", blobs[name], "--reasoning-budget", budget, "-n", n, input=b"hi\n" + b"/continue\n" * (12 // n)).stdout
                for n in (24, 1, 3)]  # fmt: skip
        shown = [text.partition(b"the last answer is complete")[0].replace(b"\n", b"") for text in said]
        assert all(text.startswith(begins.replace(b"\n", b"")) and shown[0].startswith(text) for text in shown), said


@pytest.mark.parametrize(("name", "n_tokens"), [("qwen", 6), ("opened", 3)])
def test_a_saved_chat_goes_on_within_its_reasoning(blobs, name, n_tokens, tmp_path):
    """It was cut off there, or within the last marker."""
    whole = run_smolrun("chat", blobs[name], input=b"2+2?\n").stdout
    for n in range(1, n_tokens + 1):
        chat = ("chat", blobs[name], "--session", tmp_path / f"{n}.session")
        assert run_smolrun(*chat, "-n", n, input=b"2+2?\n").stdout == b"\n"
        assert run_smolrun(*chat, input=b"/continue\n").stdout == whole == CASES[name][1].encode() + b"\n", n


def test_programs_show_reasoning_on_a_terminal_only(blobs):
    reasoning, reply = CASES["qwen"][:2]
    words = (blobs["qwen"], "--chat", USER["content"])
    assert run_smolrun(*words).stdout.decode() == reply + "\n"
    shown = on_terminal(words)
    dimmed = "".join(re.findall("\x1b\\[2m(.*?)\x1b\\[0m", shown, re.DOTALL))
    assert dimmed == reasoning + "\n\n" and shown.endswith("\x1b[0m" + reply + "\n")
    assert on_terminal(words, NO_COLOR="1").endswith(f"[reasoning]\n{reasoning}\n\n{reply}\n")
    said = run_smolrun("chat", blobs["qwen"], input=USER["content"].encode()).stdout.decode()
    assert said == reply + "\n"
    cut = run_smolrun(*words, "-n", 3)
    assert (cut.stdout, cut.returncode) == (b"\n", 0) and b"cut off within its reasoning" in cut.stderr


@pytest.mark.parametrize("name", ["qwen", "opened"])
def test_programs_reason_before_a_constraint(blobs, name, tmp_path):
    (line,) = answers(blobs[name], [{"messages": [USER], "max_tokens": 50}], "--choices", ",".join(CHOICES))
    words = (blobs[name], "--chat", USER["content"], "--choices", ",".join(CHOICES))
    found = json.loads(run_smolrun(*words, "--json").stdout)
    assert (found["reasoning"], found["text"], found["ids"]) == (CASES[name][0], line["text"], line["ids"]) and line["text"] in CHOICES
    assert run_smolrun(*words).stdout.decode() == line["text"] + "\n"
    chat = ("chat", blobs[name], "--choices", ",".join(CHOICES))
    assert run_smolrun(*chat, input=b"2+2?\n2+2?\n").stdout.decode() == 2 * (line["text"] + "\n")
    # a saved answer goes on in its constraint, whose reasoning is not in the file
    for n in (2, 4):
        file = tmp_path / f"{n}.session"
        run_smolrun(*chat, "-n", n, "--session", file, input=b"2+2?\n")
        assert run_smolrun(*chat, "--session", file, input=b"/continue\n").stdout.decode().endswith(line["text"] + "\n")


def test_a_call_ends_limited_reasoning(tmp_path):
    """Its first marker is a special token, which is no text."""
    said = ["x", "[THINK]", "Well.", "[TOOL_CALLS]", "now", "[ARGS]", "{}"]
    blob = speaker(tmp_path, MISTRAL, said, ["y", "[/THINK]"], special=SPECIAL["ministral"])
    request = {"messages": [USER], "tools": TOOLS, "thinking_budget_tokens": 2} | VARIABLES
    for line in answers(blob, [request | {"tool_choice": choice} for choice in ("auto", "required")]):
        assert (line["reasoning"], line["text"], line["tool_calls"][0]["function"]["name"]) == ("Well.", "", "now")


def test_reasoning_that_stays_in_the_text_has_a_limit(server, blobs):
    more = {"reasoning_format": "none", "thinking_budget_tokens": 1}
    for tools in ({}, {"tools": TOOLS}, {"tools": TOOLS, "tool_choice": "none"}):
        text = ask(server, "qwen", **more | tools).choices[0].message.content
        assert text == "<think>\nWell, </think>\n\nThe answer is 4."
        (line,) = answers(blobs["qwen"], [{"messages": [USER], "max_tokens": 50} | more | tools])
        with smolrun.Model(blobs["qwen"]) as model:
            assert model.chat([USER], max_tokens=50, **more | tools).text == line["text"] == text


def test_a_limit_leaves_characters_whole(tmp_path):
    """The limit is in the middle of a character of three bytes, which is completed."""
    euro = byte_tokenizer(256).encode("€").ids
    blob = speaker(tmp_path, TAIL.replace("tail", "'<think>\\n'"), ["\n", *euro, " so", "</think>", "Four."])
    for most, reasoning in ((1, "€"), (2, "€"), (3, "€"), (4, "€ so")):
        (line,) = answers(blob, [{"messages": [USER], "max_tokens": 50, "thinking_budget_tokens": most}])
        assert line["reasoning"] == reasoning


def test_effort_is_what_the_template_or_a_limit_makes_of_it(server, blobs):
    """"none" is a template's own switch, or a limit of no tokens; further levels are a variable of the template."""
    (choice,) = ask(server, "qwen", reasoning_effort="none").choices
    closed = ask(server, "qwen", chat_template_kwargs={"enable_thinking": False})
    assert choice.message.content == closed.choices[0].message.content and not hasattr(choice.message, "reasoning_content")
    answer = ask(server, "special", reasoning_effort="none")  # whose template has no such switch
    assert answer.choices[0].message.content == "Four, yes." and answer.usage.completion_tokens_details.reasoning_tokens == 2
    assert ask(server, "qwen", reasoning_effort="medium").choices[0].message.reasoning_content == CASES["qwen"][0]
    for level in ("low", "xhigh"):
        sizes = [ask(server, "levels", reasoning_effort=level, chat_template_kwargs=own).usage.prompt_tokens
                 for own in ({}, {"reasoning_effort": "!" * 9, "other": 1})]  # fmt: skip
        assert sizes == [len("2+2?" + level), len("2+2?") + 9]  # the request's own variable wins
    with smolrun.Model(blobs["levels"]) as model:
        assert model.chat([USER], reasoning_effort="low", max_tokens=1).prompt_tokens == len("2+2?low")
    for model, effort in (("qwen", "high"), ("qwen", "very")):
        body = {"model": model, "messages": [USER], "reasoning_effort": effort}
        status, answer = server.post("/v1/chat/completions", body)
        assert status == 400 and "reasoning_effort" in answer["error"]["message"], answer
    (line,) = answers(blobs["qwen"], [{"messages": [USER], "reasoning_effort": "none"}])
    assert line["text"] == choice.message.content
    with smolrun.Model(blobs["qwen"]) as model:
        assert model.chat([USER], reasoning_effort="none").ids == line["ids"]
        with pytest.raises(smolrun.UnsupportedError, match="reasoning_effort"):
            model.chat([USER], reasoning_effort="high")


# --- responses ------------------------------------------------------------------------------------


def flat(members):
    return {key: [{"type": "function"} | tool["function"] for tool in value] if key == "tools" else value for key, value in members.items()}


def shown(item):
    """An item without what differs from answer to answer, or comes from the package."""
    item = item.to_dict()
    for part in item.get("content", []):
        part.pop("parsed", None)
    return {key: value for key, value in item.items() if key not in ("id", "parsed_arguments")}


@pytest.mark.parametrize("name", CASES)
def test_responses_have_an_item_of_reasoning(server, name):
    reasoning, reply, calls, n_tokens, more = CASES[name]
    body = {"model": name, "input": [USER], "temperature": 0, "max_output_tokens": 50}
    body["extra_body"] = flat(more)
    whole = server.client.responses.create(**body)
    kinds = ["reasoning"] * bool(reasoning) + ["message"] * bool(reply) + ["function_call"] * len(calls)
    assert [item.type for item in whole.output] == kinds and whole.output_text == reply
    assert whole.usage.output_tokens_details.reasoning_tokens == n_tokens
    if reasoning:
        assert [(part.type, part.text) for part in whole.output[0].content] == [("reasoning_text", reasoning)]
        assert whole.output[0].summary == [] and whole.output[0].status == "completed"
    with server.client.responses.stream(**body) as stream:
        events = list(stream)
    final = events[-1].response
    assert [shown(item) for item in final.output] == [shown(item) for item in whole.output]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    items = [(event.type, event.output_index) for event in events if "output_item" in event.type]
    assert items == [(f"response.output_item.{what}", i) for i in range(len(kinds)) for what in ("added", "done")]
    for kind, text in (("reasoning_text", reasoning), ("output_text", reply)):
        place = kinds.index("reasoning" if kind == "reasoning_text" else "message") if text else None
        deltas = [event for event in events if event.type == f"response.{kind}.delta"]
        done = [event for event in events if event.type == f"response.{kind}.done"]
        assert "".join(event.delta for event in deltas) == text and [event.text for event in done] == [text] * bool(text)
        assert {event.output_index for event in deltas + done} <= {place}


def test_responses_have_an_effort_too(server):
    for summary in ("auto", "concise", "detailed"):
        whole = server.client.responses.create(model="qwen", input=[USER], temperature=0, reasoning={"effort": "none", "summary": summary})
        assert [item.type for item in whole.output] == ["message"]
    for wrong in ({"effort": "much"}, {"summary": "long"}, {"other": 1}, "none"):
        status, answer = server.post("/v1/responses", {"model": "qwen", "input": "a", "reasoning": wrong})
        assert status == 400 and answer["error"]["param"] == "reasoning", answer


def test_a_response_may_be_cut_within_its_reasoning(server):
    whole = server.client.responses.create(model="qwen", input=[USER], temperature=0, max_output_tokens=3)
    assert [(item.type, item.status) for item in whole.output] == [("reasoning", "incomplete")] and whole.status == "incomplete"


# --- earlier turns --------------------------------------------------------------------------------


def rendered(server, messages, model="caller"):
    status, tokens = server.post("/tokenize", {"model": model, "messages": messages})
    assert status == 200, tokens
    return server.post("/detokenize", {"model": model, "tokens": tokens["tokens"]})[1]["prompt"]


def test_a_developer_speaks_as_the_system_where_the_template_would_leave_the_message_out(server):
    for model, shown in (("caller", "<|im_start|>system\nBe brief.<|im_end|>"), ("cohere", "# Developer Preamble\nBe brief.")):
        said, same = ([{"role": role, "content": "Be brief."}, USER] for role in ("developer", "system"))
        assert shown in rendered(server, same, model) and rendered(server, said, model) == rendered(server, same, model)
        counts = [server.client.responses.create(model=model, input=messages, max_output_tokens=1).usage.input_tokens for messages in (said, same)]
        assert counts[0] == counts[1]


def test_reasoning_of_an_earlier_turn_reaches_the_template(server, blobs):
    turn = ask(server, "caller").choices[0].message.model_dump(exclude_none=True)
    result = {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": "noon"}
    said = "".join(SPOKEN["caller"][1][1:])
    assert said + "<|im_end|>" in rendered(server, [USER, turn, result])  # all of it, to the byte
    with smolrun.Model(blobs["caller"]) as model:
        assert model.chat([USER], tools=TOOLS, max_tokens=50).message == turn
    # the same as items of a response
    n, n_silent, n_hasty = (ask(server, "caller", messages=[USER, turn | less, result], max_tokens=1).usage.prompt_tokens
                            for less in ({}, {"content": ""}, {"reasoning_content": None}))  # fmt: skip
    assert len({n, n_silent, n_hasty}) == 3
    body = {"model": "caller", "tools": flat({"tools": TOOLS})["tools"], "temperature": 0}

    def count(*items):
        return server.client.responses.create(input=[USER, *items], max_output_tokens=1, **body).usage.input_tokens

    thought, message, call = server.client.responses.create(input=[USER], max_output_tokens=50, **body).output
    noon = {"type": "function_call_output", "call_id": call.call_id, "output": "noon"}
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I ask."}]}
    assert count(thought, message, call, noon) == count(summary, message, call, noon) == n
    assert count(thought, call, noon) == n_silent and count(message, call, noon) == n_hasty
    assert count(thought, USER) == count({"role": "assistant", "content": ""}, USER)  # the template drops it
    wrong = {"role": "assistant", "content": "a", "reasoning_content": {}}
    status, answer = server.post("/v1/chat/completions", {"model": "caller", "messages": [USER, wrong]})
    assert status == 400 and "`reasoning_content`" in answer["error"]["message"]
    for wrong in ({}, {"summary": 1}, {"content": {}, "summary": []}, {"content": [], "summary": 1}, {"content": [{"type": "text"}]}):
        status, answer = server.post("/v1/responses", {"model": "caller", "input": [USER, {"type": "reasoning"} | wrong]})
        assert status == 400 and answer["error"]["param"] == "input", answer

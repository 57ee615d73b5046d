"""Calls of tools. The reference is the rendering of calls by chat templates in jinja2: the constraint allows
what a template renders for calls of earlier turns, and the reader finds the same calls in it."""

import ctypes
import json
import os
import random
import re
import shutil
import time

import pytest
from chats import Refused, compile_template, reference, render
from checkpoints import byte_tokenizer, make
from engine import Model, SmolError, check
from internal import ROOT, Error, lib
from jsonschema.validators import validator_for
from programs import smolconv
from test_jsonl import answers
from smol_h import ON_TOOL_PART, ConstraintParams
from smol_reader import N_TOOL_STYLES
from tokenizers import AddedToken

pytestmark = pytest.mark.quick

DEMO = ROOT / "demo/model"
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather.", "parameters": {
            "type": "object", "required": ["city"],
            "properties": {"city": {"type": "string", "maxLength": 40}, "days": {"type": "integer", "minimum": 1, "maximum": 14}}}}},
    {"type": "function", "function": {"name": "now"}},
    {"name": "paint", "parameters": {"properties": {
        "color": {"enum": ["red", "green"]}, "at": {"type": "array", "maxItems": 2, "items": {"enum": [1, -2.5, 30]}}}}},
    {"name": "note", "parameters": {"properties": {
        "done": {"type": "boolean"}, "more": {"type": "object"}, "size": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}}, "text": {"type": "string", "pattern": "^[^x]*$"}}}},
]  # fmt: skip
CALLS = [
    ("get_weather", {"city": "Zürich \"old\" [x]}", "days": 3}),
    ("now", {}),
    ("paint", {"color": "red", "at": [1, -2.5]}),
    ("get_weather", {"city": "</tool_call>\n{\"a\"}"}),
    ("note", {"done": True, "more": {"a b": [None, {"c": "y\n"}, False, []], "b": -1.5e-07, "d": {}}, "size": 1e20,
              "tags": ["", "é, ]})", "None"], "text": ""}),
    ("get_weather", {"city": "5"}),
    ("note", {"text": "null"}),
    ("note", {"done": False, "text": "<|\n\n<esc \\u0041 \u2028"}),
]  # fmt: skip

# How each style's models render the calls of an earlier turn. `answer` is between the markers "@@".
HEAD = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}@@{% else %}{{ m.content }}"
TAIL = "@@{% endif %}{% endfor %}{% if tools %}{% endif %}"
GEMMA = (
    "{% macro value(v) %}{% if v is string %}{{ 'QUOTE' + v + 'QUOTE' }}{% elif v is boolean %}{{ 'true' if v else 'false' }}"
    "{% elif v is mapping %}{{ object(v) }}{% elif v is sequence %}{{ '[' }}{% for x in v %}{{ value(x) }}"
    "{{ ',' if not loop.last }}{% endfor %}{{ ']' }}{% else %}{{ v }}{% endif %}{% endmacro %}"
    "{% macro object(v) %}{{ '{' }}{% for k, x in v | dictsort %}{{ k }}:{{ value(x) }}{{ ',' if not loop.last }}"
    "{% endfor %}{{ '}' }}{% endmacro %}"
    "{% for c in m.tool_calls %}{{ 'MARKcall:' + c.function.name + object(c.function.arguments) + 'END' }}{% endfor %}"
)
RENDER = {
    "hermes": "{% for c in m.tool_calls %}{% if m.content or not loop.first %}{{ '\n' }}{% endif %}"
              "{{ '<tool_call>\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}"
              "{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}",
    "llama3": "{% set c = m.tool_calls[0].function %}{{ '{\"name\": \"' + c.name + '\", ' }}"
              "{{ '\"parameters\": ' }}{{ c.arguments | tojson }}{{ '}' }}{# ipython #}",
    "mistral": "{{ '[TOOL_CALLS][' }}{% for c in m.tool_calls %}{{ c.function | tojson }}"
               "{{ ', ' if not loop.last else ']' }}{% endfor %}",
    "mistral-args": "{% for c in m.tool_calls %}{% set arguments = c.function.arguments %}{% if arguments is not string %}"
                    "{% set arguments = arguments | tojson | safe %}{% elif arguments == '' %}{% set arguments = '{}' %}{% endif %}"
                    "{{ '[TOOL_CALLS]' + c.function.name + '[ARGS]' + arguments }}{% endfor %}",
    "granite": "{{ '<|tool_call|>[' }}{% for c in m.tool_calls %}{{ c.function | tojson }}"
               "{{ ', ' if not loop.last else ']' }}{% endfor %}",
    "function-gemma": GEMMA.replace("MARK", "<start_function_call>").replace("END", "<end_function_call>")
                      .replace("QUOTE", "<escape>"),
    "gemma": GEMMA.replace("MARK", "<|tool_call>").replace("END", "<tool_call|>").replace("QUOTE", '<|"|>'),
    "qwen-xml": "{% for c in m.tool_calls %}{% if m.content or not loop.first %}{{ '\n' }}{% endif %}"
                "{{ '<tool_call>\n<function=' + c.function.name + '>\n' }}{% for k, v in c.function.arguments | items %}"
                "{{ '<parameter=' + k + '>\n' }}{% set v = v | tojson | safe if v is mapping or (v is sequence and v is not string) "
                "else v | string %}{{ v }}{{ '\n</parameter>\n' }}{% endfor %}{{ '</function>\n</tool_call>' }}{% endfor %}",
    "python": "{% macro value(v) %}{% if v is string %}{{ v | tojson }}{% elif v is mapping %}{{ '{' }}{% for k, x in v | items %}"
              "{{ k | tojson }}: {{ value(x) }}{{ ', ' if not loop.last }}{% endfor %}{{ '}' }}{% elif v is sequence %}"
              "{{ '[' }}{% for x in v %}{{ value(x) }}{{ ', ' if not loop.last }}{% endfor %}{{ ']' }}{% else %}{{ v }}{% endif %}"
              "{% endmacro %}{{ '<|tool_call_start|>[' }}{% for c in m.tool_calls %}{{ c.function.name }}("
              "{% for k, v in c.function.arguments | items %}{{ k }}={{ value(v) }}{{ ', ' if not loop.last }}{% endfor %})"
              "{{ ', ' if not loop.last }}{% endfor %}{{ ']<|tool_call_end|>' }}",
    "python-lines": "{# <functions> #}{{ '<function_calls>' }}{% for c in m.tool_calls %}{% set ns = namespace(all=[]) %}"
                    "{% for k, v in c.function.arguments.items() %}{% set ns.all = ns.all + [k ~ '=' ~ (v | tojson)] %}{% endfor %}"
                    "{{ c.function.name + '(' + ns.all | join(', ') + ')' }}{% if not loop.last %}{{ '\n' }}{% endif %}"
                    "{% endfor %}{{ '</function_calls>' }}",
    "deepseek": "{% for c in m.tool_calls %}{{ '<｜tool▁calls▁begin｜>' if loop.first else '\n' }}"
                "{{ '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + c.function.name + '\n```json\n' }}{{ c.function.arguments | tojson }}"
                "{{ '\n```<｜tool▁call▁end｜>' }}{% endfor %}{{ '<｜tool▁calls▁end｜>' }}",
    "hunyuan": "{% for c in m.tool_calls %}{{ '<tool_calls>' if loop.first else '\n' }}{{ '<tool_call>' + c.function.name + '\n```json\n' }}"
               "{{ c.function.arguments | tojson }}{{ '\n```</tool_call>' }}{% endfor %}{{ '</tool_calls>' }}",
    "phi4": "{% for c in m.tool_calls %}{{ '<|tool_call|>' + (c.function | tojson) + '<|/tool_call|>' }}{% endfor %}",
    "function": "{% for c in m.tool_calls %}{{ '<function=' + c.function.name + '>' + (c.function.arguments | tojson) + '</function>' }}{% endfor %}",
    "nemotron": "{{ '<TOOLCALL>[' }}{% for c in m.tool_calls %}{{ '{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}"
                "{{ c.function.arguments | tojson }}{{ '}' + (', ' if not loop.last else '') }}{% endfor %}{{ ']</TOOLCALL>' }}",
    "mistral-id": "{% for c in m.tool_calls %}{{ '[TOOL_CALLS]' + c.function.name + '[CALL_ID]' + 'a1B2c3D4e' + '[ARGS]' + (c.function.arguments | tojson) }}"
                  "{% endfor %}",
    "xlam": "{# [{\"name\": \"tool_call_name\", \"arguments\": {}}] #}{{ '[' }}{% for c in m.tool_calls %}{{ c.function | tojson }}"
            "{{ ', ' if not loop.last }}{% endfor %}{{ ']' }}",
    "functools": "{# functools[{\"name\": ...}]{% for t in tools %} #}{% for c in m.tool_calls %}{{ 'functools[' if loop.first else ', ' }}"
                 "{{ c.function | tojson }}{% endfor %}{{ ']' }}",
    "python-block": "{{ '<|tool_call_start|>\n```python\n' }}{% for c in m.tool_calls %}{{ c.function.name + '(' }}"
                    "{% for k, v in c.function.arguments | items %}{{ k + '=' + (v | tojson) }}{{ ',' if not loop.last }}{% endfor %}"
                    "{{ ')\n' }}{% endfor %}{{ '```\n<|tool_call_end|>' }}",
    "hammer": "{# ```\n[\n    {\"name\": \"func_name1\", \"arguments\": {}} #}{{ '```\n[' }}{% for c in m.tool_calls %}{{ c.function | tojson }}"
              "{{ ', ' if not loop.last }}{% endfor %}{{ ']\n```' }}",
    "apriel": "{{ '\n<tool_calls>[' if m.content else '<tool_calls>[' }}{% for c in m.tool_calls %}{{ '{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}"
              "{{ c.function.arguments | tojson }}{{ '}' + (', ' if not loop.last else '') }}{% endfor %}{{ ']</tool_calls>' }}",
    "minicpm-xml": "{# <![CDATA[ #}{% for c in m.tool_calls %}{% if m.content or not loop.first %}{{ '\n' }}{% endif %}{{ '<function name=\"' ~ c.function.name ~ '\">' }}"
                   "{% for k, v in c.function.arguments.items() %}{{ '<param name=\"' ~ k ~ '\">' }}{% if v is string and ('<' in v or '&' in v or '\n' in v) %}"
                   "{{ '<![CDATA[' + v + ']]>' }}{% else %}{{ v if v is string else v | tojson | safe }}{% endif %}{{ '</param>' }}{% endfor %}"
                   "{{ '</function>' }}{% endfor %}",
    "cohere": "{{ '<|START_ACTION|>[\n' }}{% for c in m.tool_calls %}{{ '    {\"tool_call_id\": \"' ~ loop.index0 ~ '\", \"tool_name\": \"' ~ c.function.name }}"
              "{{ '\", \"parameters\": ' ~ (c.function.arguments | tojson) ~ '}' }}{{ ',' if not loop.last }}{{ '\n' }}{% endfor %}{{ ']<|END_ACTION|>' }}",
}  # fmt: skip
RENDER["pythonic"] = "{# [func_name1(a=b), func_name2(a)] #}" + RENDER["python"].replace("<|tool_call_start|>", "").replace("<|tool_call_end|>", "")
SPECIAL = {"hermes": [], "qwen-xml": [], "llama3": [], "mistral": ["[TOOL_CALLS]"], "mistral-args": ["[TOOL_CALLS]", "[ARGS]"],
           "granite": ["<|tool_call|>"], "function-gemma": ["<start_function_call>", "<end_function_call>", "<escape>"],
           "gemma": ["<|tool_call>", "<tool_call|>", '<|"|>'], "python": ["<|tool_call_start|>", "<|tool_call_end|>"],
           "python-lines": ["<function_calls>", "</function_calls>"],
           "deepseek": [], "hunyuan": [], "phi4": [], "function": [], "nemotron": [], "mistral-id": [], "xlam": [], "pythonic": [],
           "functools": [], "python-block": ["<|tool_call_start|>", "<|tool_call_end|>"], "hammer": [], "apriel": [],
           "cohere": ["<|START_ACTION|>", "<|END_ACTION|>"], "minicpm-xml": ["<function", "</function>", "<param", "</param>", "<![CDATA[", "]]>"]}  # fmt: skip
ONE_CALL = {"llama3"}
BARE = {"llama3", "xlam", "pythonic"}  # nothing marks a call
NO_TEXT = {*BARE, "hammer"}


def source(style):
    return HEAD + RENDER[style] + TAIL


def rendered(style, content, calls):
    """The assistant's turn as the reference renders it."""
    turn = {"role": "assistant", "content": content,
            "tool_calls": [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]}  # fmt: skip
    text = reference(source(style), {}, [{"role": "user", "content": "Go."}, turn], TOOLS)
    return text.split("@@")[1]


@pytest.fixture(scope="module", params=[(s, special) for s in RENDER for special in (False, True)
                                        if SPECIAL[s] or not special], ids=str)  # fmt: skip
def styled(request, tmp_path_factory):
    """A model of each style, whose markers are special tokens or text."""
    style, special = request.param
    folder = tmp_path_factory.mktemp("styled")
    make(folder / "model", vocab_size=280, eos_token_id=256, bos_token_id=None, num_hidden_layers=1)
    tokenizer = byte_tokenizer(256)
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    if special:
        tokenizer.add_special_tokens(SPECIAL[style])
    tokenizer.save(str(folder / "model/tokenizer.json"))
    (folder / "model/chat_template.jinja").write_text(source(style))
    smolconv(folder / "model", folder / "model.smol", "--quiet", check=True)
    shutil.rmtree(folder / "model")
    with Model(folder / "model.smol") as model:
        yield style, model


class Matcher:
    """A matcher of a constraint for tools."""

    def __init__(self, model, tools=None, choice=None, one_call=False, schema=None):
        error, text = Error(), json.dumps(TOOLS if tools is None else tools).encode()
        params = ConstraintParams(4, text, len(text), 0, 0, choice and choice.encode(), one_call, 0, schema and json.dumps(schema).encode())
        self.model, self.constraint, self.pointer = model, ctypes.c_void_p(), ctypes.c_void_p()
        check(lib.smol_constraint_create(model.handle, ctypes.byref(params), ctypes.byref(self.constraint),
                                         ctypes.byref(error)), error)  # fmt: skip
        check(lib.smol_matcher_create(self.constraint, ctypes.byref(self.pointer), ctypes.byref(error)), error)

    def __del__(self):
        lib.smol_matcher_free(self.pointer)
        lib.smol_constraint_free(self.constraint)

    def mask(self):
        words = (ctypes.c_uint64 * 5)()
        error = Error()
        check(lib.smol_matcher_mask(self.pointer, words, ctypes.byref(error)), error)
        return {i for i in range(280) if words[i // 64] >> i % 64 & 1}

    def allows(self, text):
        """Accepts the tokens of the text, each of which the mask must have. Returns whether it may end."""
        error = Error()
        for i in self.model.tokenize(text, parse_special=True):
            allowed = i in self.mask()
            status = lib.smol_matcher_accept(self.pointer, i, ctypes.byref(error))
            assert (status == 0) == allowed, error.message
            if status:
                return False
        return bool(lib.smol_matcher_complete(self.pointer))


def read(model, text, rng, tools=TOOLS, calls_first=False):
    """The text and the calls that the reader finds in a text that arrives in pieces."""
    data, pieces = text.encode(), []
    while data:
        n = rng.randint(1, 9)
        pieces.append(data[:n])
        data = data[n:]
    return read_pieces(model, pieces, tools, calls_first)


def read_pieces(model, pieces, tools=TOOLS, calls_first=False):
    parts = []
    note = ON_TOOL_PART(lambda _, part, at, size: parts.append((part, ctypes.string_at(at, size) if at else b"")) or 0)
    reader, error = ctypes.c_void_p(), Error()
    check(lib.smol_tool_reader_create(model.handle, json.dumps(tools).encode(), note, None, ctypes.byref(reader), ctypes.byref(error)), error)
    if calls_first:
        lib.smol_tool_reader_calls_first(reader)
    for piece in pieces:
        check(lib.smol_tool_reader_add(reader, piece, len(piece), ctypes.byref(error)), error)
    check(lib.smol_tool_reader_end(reader, ctypes.byref(error)), error)
    lib.smol_tool_reader_free(reader)
    words, calls, open_call = b"", [], False
    for part, piece in parts:
        if part == 0:
            assert not open_call
            words += piece
        elif part == 1:
            calls.append([piece.decode(), b""])
            open_call = True
        elif part == 2:
            assert open_call
            calls[-1][1] += piece
        else:
            open_call = False
    assert not open_call
    return words.decode(), [(name, arguments.decode()) for name, arguments in calls]


def cases(style):
    for content in ("",) if style in NO_TEXT else ("", "Let me see."):
        for first in range(0, len(CALLS), 1 if os.environ.get("SMOL_TEST_ALL") else 3):
            for n in (1,) if style in ONE_CALL else (1, 2, 4):
                yield content, [CALLS[(first + i) % len(CALLS)] for i in range(n)]


def test_the_style_is_found_in_the_template(styled):
    style, model = styled
    assert lib.smol_model_tool_style(model.handle).decode() == style


def test_calls_in_another_form_have_no_style():
    """Those of DeepSeek V3.1 are DeepSeek R1's without a fence; R1's and Phi-4-mini's published templates do not show the tools."""
    published = (ROOT / "tests/data/templates/phi4-mini.jinja").read_text()
    for template in (published, source("deepseek").replace("```json\n", ""), source("deepseek").removesuffix(TAIL) + "@@{% endif %}{% endfor %}"):
        section, reason = compile_template(template)
        assert reason is None and section[32:36] == bytes(4)


@pytest.mark.sample(2)
def test_what_templates_render_is_allowed_and_read_back(styled):
    style, model = styled
    rng = random.Random(1)
    for content, calls in cases(style):
        text = rendered(style, content, calls)
        words, found = read(model, text, rng)
        assert words == content
        assert [(name, json.loads(arguments)) for name, arguments in found] == calls, text
        assert Matcher(model).allows(text), text
        assert Matcher(model, choice="required").allows(text) == (content == "")
        assert not Matcher(model, choice="none").allows(text)
        assert Matcher(model, one_call=True).allows(text) == (len(calls) == 1)
        only = {name for name, _ in calls}
        assert Matcher(model, choice="now").allows(text) == (content == "" and only == {"now"})


def test_arguments_follow_the_schema(styled):
    style, model = styled
    wrong = [("get_weather", {}), ("get_weather", {"city": "a", "days": 0}), ("other", {}),
             ("get_weather", {"city": "a", "more": 1}), ("now", {"a": 1}), ("paint", {"color": "blue"}),
             ("note", {"text": "x"}), ("note", {"tags": [1]}), ("note", {"done": 1}), ("note", {"size": "a"}),
             ("note", {"more": []})]  # fmt: skip
    if not style.endswith("-xml"):  # there "1" is a city
        wrong.append(("get_weather", {"city": 1}))
    for call in wrong:
        assert not Matcher(model).allows(rendered(style, "", [call])), call


def test_text_is_free(styled):
    style, model = styled
    for text in ("", "Hello!", "a < b [TOOL", "<tool_cal>{\"x", "Größe\n\n", "<think>x", "{ \"name\": \"now\"}"):  # fmt: skip
        for choice in (None, "auto", "none"):
            assert Matcher(model, choice=choice).allows(text), text
        assert not Matcher(model, choice="required").allows(text)
        words, calls = read(model, text, random.Random(2))
        assert words == text and not calls
    assert Matcher(model, tools=[]).allows("Hello!")


def test_a_special_marker_is_no_text(styled):
    """A marker that is a special token does not begin a call when it is spelled out, and cannot be part of a text."""
    style, model = styled
    if not SPECIAL[style] or len(model.tokenize(SPECIAL[style][0], parse_special=True)) > 1:
        return
    text = rendered(style, "", CALLS[1:2])
    matcher, error = Matcher(model), Error()
    accepted = [lib.smol_matcher_accept(matcher.pointer, i, ctypes.byref(error)) == 0 for i in model.tokenize(text)]
    assert not all(accepted)


REPLY = {"type": "object", "properties": {"reply": {"type": "string"}, "more": {}}, "required": ["reply"]}


def test_an_answer_without_calls_may_have_a_schema(styled):
    """Calls begin such an answer or are none of its parts: a string may say what a call looks like."""
    style, model = styled
    if style in BARE:
        with pytest.raises(SmolError, match="no mark"):
            Matcher(model, schema=REPLY)
        return
    call = rendered(style, "", CALLS[1:2])
    for text in ('{"reply": "x"}', '{"reply": "", "more": [{"a": null}, 1.5]}'):
        assert Matcher(model, schema=REPLY).allows(text), text
        assert Matcher(model, schema=REPLY, choice="none").allows(text), text
        assert not Matcher(model, schema=REPLY, choice="required").allows(text), text
        assert read(model, text, random.Random(3), calls_first=True) == (text, [])
    for text in ("", "Hello!", '{"more": 1}', '{"reply": 1}', '{"reply": "x"}' + call, rendered(style, "Let me see.", CALLS[1:2])):
        assert not Matcher(model, schema=REPLY).allows(text), text
    assert Matcher(model, schema=REPLY).allows(call) and not Matcher(model, schema=REPLY, choice="none").allows(call)
    found = read(model, call, random.Random(4), calls_first=True)
    assert found == read(model, call, random.Random(4)) and len(found[1]) == 1
    quoted = json.dumps({"reply": call}, ensure_ascii=False)
    if not SPECIAL[style] or len(model.tokenize(SPECIAL[style][0], parse_special=True)) > 1:
        assert Matcher(model, schema=REPLY).allows(quoted), quoted
    assert read(model, quoted, random.Random(5), calls_first=True) == (quoted, [])


def test_bad_tools_are_refused(styled):
    _, model = styled
    bad = [
        ({}, "list"), ([1], "object"), ([{}], "name"), ([{"name": ""}], "name"), ([{"name": "a b"}], "name"),
        ([{"name": "a"}, {"name": "a"}], "same name"), ([{"name": "a", "parameters": []}], "a: parameters"),
        ([{"name": "a", "parameters": {"properties": {"x": {"type": "strin"}}}}], "a: schema"),
        ([{"type": "function", "function": {"name": "b" * 129}}], "name"),
    ]  # fmt: skip
    for tools, message in bad:
        with pytest.raises(SmolError, match=message):
            Matcher(model, tools=tools)
    with pytest.raises(SmolError, match='no tool "fly"'):
        Matcher(model, choice="fly")
    with pytest.raises(SmolError, match="no tool to call"):
        Matcher(model, tools=[], choice="required")


# Texts and names that a style cannot write, and what the message says.
UNWRITABLE = {
    "function-gemma": ({"enum": ["a", "<escape>"]}, "a:b"),
    "gemma": ({"enum": ["a", "b<|\"|>"]}, "a:b"),
    "python": (None, "a=b"),
    "python-lines": (None, "a=b"),
    "python-block": (None, "a=b"),
    "pythonic": (None, "a=b"),
    "qwen-xml": ({"enum": ["a", "5"]}, "a>b"),
    "minicpm-xml": ({"enum": ["a", "b]]>"]}, 'a"b'),
}


@pytest.mark.parametrize("styled", [(style, bool(SPECIAL[style])) for style in UNWRITABLE], indirect=True, ids=str)
def test_what_a_style_cannot_write_is_refused(styled):
    style, model = styled
    text, name = UNWRITABLE[style]
    if text:
        with pytest.raises(SmolError, match="f: schema: #/properties/x/enum/1: the text cannot be written"):
            Matcher(model, tools=[{"name": "f", "parameters": {"properties": {"x": text}}}])
    with pytest.raises(SmolError, match=f"f: schema: #/properties/{name}: the name cannot be written"):
        Matcher(model, tools=[{"name": "f", "parameters": {"properties": {name: {"type": "string"}}}}])


@pytest.mark.sample(4)
def test_arguments_are_an_object_whatever_the_schema_says(styled):
    style, model = styled
    inner = {"properties": {"x": {"const": 1}}, "required": ["x"]}
    same = [{"anyOf": [{"type": "string"}, inner]}, {"type": ["object", "array", "null"], **inner}, inner,
            {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": {"a": inner}},
            {"enum": [{"x": 1}, "x", None, []]}]  # fmt: skip
    for parameters in same:
        tools = [{"name": "f", "parameters": parameters}]
        assert Matcher(model, tools=tools, choice="f").allows(rendered(style, "", [("f", {"x": 1})])), parameters
        for seed in range(4):
            rng = random.Random(seed)
            ids, _ = random_answer(Matcher(model, tools=tools, choice="f", one_call=True), model, rng, 200)
            for _, arguments in read(model, text_of(model, ids).decode(errors="ignore"), rng, tools)[1]:
                assert arguments == "" or arguments[0] == "{", (parameters, arguments)
    both, listed = [("f", {"a": 1, "b": 2})], {"properties": {"a": {"const": 1}}, "required": ["a"]}
    then = {"properties": {"b": {"const": 2}}, "required": ["b"]}
    for more in ({"dependentSchemas": {"a": then}}, {"dependencies": {"a": then}}, {"dependentRequired": {"a": ["b"]}}, {"required": ["a", "b"]}):
        tools = [{"name": "f", "parameters": listed | more}]
        matcher = Matcher(model, tools=tools, choice="f")
        assert matcher.allows(rendered(style, "", both)) and not Matcher(model, tools=tools, choice="f").allows(rendered(style, "", [("f", {"a": 1})]))
    for parameters in ({"type": "array"}, {"enum": [[], "a"]}, {"not": {"type": "object"}}):
        with pytest.raises(SmolError, match="no value matches"):
            Matcher(model, tools=[{"name": "f", "parameters": parameters}])


@pytest.mark.parametrize("styled", [("gemma", False)], indirect=True, ids=str)
def test_sorted_names_have_one_order(styled):
    style, model = styled
    for names in ("aAb", "bAa", "Aba"):
        properties = {name: {"const": 1} for name in names}
        tools = [{"name": "f", "parameters": {"properties": properties | {"o": {"const": dict.fromkeys(names, 1)}}, "required": [*names, "o"]}}]
        for order in ("Aab", "aAb"):
            call = ("f", dict.fromkeys(order, 1) | {"o": dict.fromkeys(order, 1)})
            assert Matcher(model, tools=tools, choice="f").allows(rendered(style, "", [call])) == (order == "Aab"), names


@pytest.mark.parametrize("styled", [("minicpm-xml", True)], indirect=True, ids=str)
def test_strings_may_be_sections_of_cdata(styled):
    """The cases with a section that vLLM's and llama.cpp's tests of MiniCPM 5 have, and what a schema makes of them."""
    _, model = styled
    kinds = {"city": {"type": "string", "maxLength": 12}, "any": {}, "list": {"type": "array"}}
    tools = [{"name": "f", "parameters": {"properties": kinds}}]
    right = {"city": {"北京": "北京", "<![CDATA[北\n京]]>": "北\n京", "<![CDATA[]]>": "", "<![CDATA[</param> & <b]]>": "</param> & <b",
                      "<![CDATA[]] ]>]]>": "]] ]>", "": "", "5": "5"},
             "any": {"<![CDATA[a\nb]]>": "a\nb", "5": 5, "a": "a", "True": True},
             "list": {'[1, "</param>\\"]"]': [1, '</param>"]'], "[]": []}}  # fmt: skip
    for name, texts in right.items():
        for text, value in texts.items():
            call = f'<function name="f"><param name="{name}">{text}</param></function>'
            ((_, arguments),) = read(model, call, random.Random(4), tools)[1]
            assert json.loads(arguments) == {name: value}
            if "</param>" not in text:  # as special tokens these end the value
                assert Matcher(model, tools=tools).allows(call), call
    for wrong in ("a<b", "a&b", "a\nb", "<![CDATA[a", "x" * 13, f"<![CDATA[{'x' * 13}]]>", "<![CDATA[a]]> "):
        assert not Matcher(model, tools=tools).allows(f'<function name="f"><param name="city">{wrong}</param></function>'), wrong


@pytest.mark.parametrize("styled", [("qwen-xml", False)], indirect=True, ids=str)
def test_a_value_that_may_be_a_string_is_one_if_it_reads_as_nothing_else(styled):
    style, model = styled
    kinds = {"s": {"type": "string"}, "n": {"type": ["string", "null"]}, "i": {"type": ["string", "integer"]}, "any": {}}
    tools = [{"name": "f", "parameters": {"properties": kinds}}]
    texts = {"a": "a", "": "", "5": 5, "-1.5e3": -1500.0, "-1.5": -1.5, "01": "01", "1.": "1.", "-": "-", "None": None, "null": None,
             "true": True, "True": True, "TRUE": "TRUE", "{}": {}, "[1]": [1], '{"a": null}': {"a": None}, "a[": "a["}  # fmt: skip
    matches = {"s": lambda v: True, "n": lambda v: isinstance(v, str | None),
               "i": lambda v: isinstance(v, str) or type(v) is int, "any": lambda v: True}  # fmt: skip
    for kind in kinds:
        for text, value in texts.items():
            value = text if kind == "s" else value
            call = f"<tool_call>\n<function=f>\n<parameter={kind}>\n{text}\n</parameter>\n</function>\n</tool_call>"
            assert Matcher(model, tools=tools).allows(call) == matches[kind](value), call
            ((name, arguments),) = read(model, call, random.Random(3), tools)[1]
            assert name == "f" and json.loads(arguments) == {kind: value}


# Texts that begin like calls. Those of the second list end in what may be one that is cut off, which is left out after calls.
NO_CALLS = {
    "hermes": (['<tool_call>\n{"foo": 1}\n</tool_call> b', "text <tool_call>[1,2]", "a <tool_call>\n {} ",
                '<tool_call>{"name": 5, "arguments": {}}</tool_call>', '<tool_call>{"arguments": {"name": "now"}, "name": ""}.'],
               ["a <tool_call>", " <tool_call> x <tool", '<tool_call> {"x": 1 ! more', '<tool_call>\n{"name": "no', '\n<tool_call>{"name": "now\\']),
    "llama3": ([], ['{"answer": 42}', '{"name": 1, "parameters": {}} b', '{"na', '{"', ' {"a" !']),
    "mistral": (['[TOOL_CALLS] [{"x": 1}]', "[TOOL_CALLS] none", '[TOOL_CALLS][{"name": null}, {"name": "now"}] b'],
                ["a [TOOL_CALLS]", '[TOOL_CALLS][{"name": "now'] ),
    "mistral-args": (["a [TOOL_CALLS][ARGS]{}"], ["[TOOL_CALLS]now", "a\n[TOOL_CALLS]now[ARG"]),
    "granite": (['<|tool_call|>[{"x": 1}]', "<|tool_call|> now"], ["a <|tool_call|>"]),
    "function-gemma": (["<start_function_call>now{}", "a <start_function_call>call:{}<end_function_call> b"], ["<start_function_call>call:now"]),
    "gemma": (["<|tool_call>now{}", "a <|tool_call>call:{}<tool_call|> b"], ["<|tool_call>call:now"]),
    "qwen-xml": (['<tool_call>\n{"name": "now"}', "a <tool_call>\n<tool_call >", "<tool_call><function=>\n</function>"], ["<tool_call>\n<function=now"]),
    "python": (["<|tool_call_start|>[()]"], ["a <|tool_call_start|>", "<|tool_call_start|>[now"]),
    "python-lines": (["<function_calls>()</function_calls>", "a <function_calls>() b"], ["a <function_calls>", "<function_calls>now"]),
    "deepseek": (["<｜tool▁calls▁begin｜>none", "a <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>other<｜tool▁sep｜>now\n```json\n{}\n```"],
                 ["a <｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```"]),
    "hunyuan": (['<tool_calls>[{"name": "now"}]</tool_calls>', "a <tool_calls><tool_calls> b"], ["a <tool_calls>", "<tool_calls><tool_call>now\n```js\n"]),
    "phi4": (['<|tool_call|>{"x": 1}<|/tool_call|>', "<|tool_call|> now"], ["a <|tool_call|>", '<|tool_call|>{"name": "now']),
    "function": (["<function=>{} b"], ["a <function", "<function=now"]),
    "nemotron": (['<TOOLCALL>[{"x": 1}]', "<TOOLCALL> now"], ["a <TOOLCALL>", '<TOOLCALL>[{"name": "now']),
    "xlam": ([], ['[{"answer": 42}]', '[{"name": 1, "arguments": {}}] b', '[{"na', "[{", "[]", ' [{"a" !', "[1]"]),
    "pythonic": ([], ["[1]", "[]", "[", "[now", " [a, b] c", "[()]"]),
    "functools": (['functools[{"x": 1}]', "functools[]", "functools[now", "import functools\n@functools.lru_cache"], ["a functools[", 'functools[{"name": "now']),
    "python-block": (["<|tool_call_start|>\n```python\n()", "a <|tool_call_start|>[now()]"], ["a <|tool_call_start|>\n```py", "<|tool_call_start|>\n```python\nnow"]),
    "hammer": ([], ['```\n[{"answer": 42}]\n```', '```\n[{"name": "no', "```\n[]\n```", "```\n[1]\n```", '[{"name": "now", "arguments": {}}]', '``']),
    "apriel": (['<tool_calls>[{"x": 1}]</tool_calls>', "<tool_calls>[]</tool_calls>", "a <tool_calls>none"], ["a <tool_calls>[", '<tool_calls>[{"name": "now']),
    "minicpm-xml": (["<functionname", 'a <function name="">b', '<function name="">\n</function> b'], ['a <function name="', '<function name="now']),
    "cohere": (['<|START_ACTION|>[{"x": 1}]', "<|START_ACTION|> now", 'a <|START_ACTION|>[\n {"tool_call_id": "0", "parameters": {}}]<|END_ACTION|> b'],
               ["a <|START_ACTION|>", '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "now']),
    "mistral-id": (["a [TOOL_CALLS][CALL_ID]a1B2c3D4e[ARGS]{}"], ["[TOOL_CALLS]now[CALL_ID]a", "a\n[TOOL_CALLS]now[CALL_ID]a1B2c3D4e[ARG"]),
}  # fmt: skip


def test_what_is_no_call_is_text(styled):
    style, model = styled
    closed, cut = NO_CALLS[style]
    call = rendered(style, "", CALLS[1:2])
    for i, text in enumerate(closed + cut):
        for seed in range(3):
            rng = random.Random(seed)
            assert read(model, text, rng) == (text, [])
            if style in NO_TEXT:
                continue
            words, calls = read(model, call + text, rng)
            assert [name for name, _ in calls] == ["now"]
            assert words.strip() == text.strip() or (i >= len(closed) and text.lstrip().startswith(words.lstrip()))
            if i < len(closed):
                words, calls = read(model, text + call, rng)
                assert (words, [name for name, _ in calls]) == (text.rstrip(), ["now"])


@pytest.mark.parametrize("styled", [("mistral", False)], indirect=True, ids=str)
def test_what_follows_in_a_list_of_calls_may_be_none(styled):
    now = '{"name": "now", "arguments": {}}'
    for rest in (', {"x": 1}]', ",{}", ", x"):
        assert read(styled[1], f"[TOOL_CALLS][{now}{rest}", random.Random(0)) == (rest, [("now", "{}")])


@pytest.mark.parametrize("styled", [("hermes", False)], indirect=True, ids=str)
def test_line_feeds_within_the_markers_may_be_missing(styled):
    """As in the calls of EXAONE 4."""
    text = "\n".join(rendered("hermes", "", [call]).replace("<tool_call>\n", "<tool_call>").replace("\n</tool_call>", "</tool_call>") for call in CALLS[:3])
    assert [name for name, _ in read(styled[1], text, random.Random(0))[1]] == [name for name, _ in CALLS[:3]]
    assert Matcher(styled[1]).allows(text)


@pytest.mark.parametrize("styled", [("phi4", False)], indirect=True, ids=str)
def test_calls_may_be_a_list_where_both_are_known(styled):
    """Microsoft's examples of Phi-4-mini have a list between the markers, llama.cpp's template one call."""
    _, model = styled
    calls = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in CALLS[:2]]
    for n in (1, 2):
        text = f"Well.<|tool_call|>[{', '.join(calls[:n])}]<|/tool_call|>"
        assert Matcher(model).allows(text) and Matcher(model, one_call=True).allows(text) == (n == 1)
        words, found = read(model, text, random.Random(n))
        assert words == "Well." and [(name, json.loads(arguments)) for name, arguments in found] == CALLS[:n]
    assert not Matcher(model).allows(f"<|tool_call|>{', '.join(calls)}<|/tool_call|>")
    assert not Matcher(model).allows(f"<|tool_call|>[{calls[0]}<|/tool_call|>")


@pytest.mark.parametrize("styled", [("cohere", False)], indirect=True, ids=str)
def test_calls_of_cohere_may_lack_what_the_template_shows(styled):
    """As its models answer at times: without ids, lines or a list."""
    _, model = styled
    plain = ['{"tool_name": "%s", "parameters": %s}' % (name, json.dumps(arguments)) for name, arguments in CALLS[:2]]
    for text in (f"[{','.join(plain)}]", f"\n[\n\t{' , '.join(plain)} ]\n"):
        words, found = read(model, f"Well.<|START_ACTION|>{text}<|END_ACTION|>", random.Random(0))
        assert words == "Well." and [(name, json.loads(arguments)) for name, arguments in found] == CALLS[:2]
    assert [name for name, _ in read(model, f"<|START_ACTION|>{plain[1]}<|END_ACTION|>", random.Random(0))[1]] == ["now"]


@pytest.mark.parametrize("styled", [("xlam", False)], indirect=True, ids=str)
def test_a_list_that_is_no_call_may_be_an_answer(styled):
    """xLAM and similar models answer [] if no tool helps."""
    for text in ("[]", "[1]", "[ {"):
        assert Matcher(styled[1]).allows(text) and not Matcher(styled[1], choice="required").allows(text)
    assert not Matcher(styled[1]).allows('[{"a": 1}]')


@pytest.mark.parametrize("styled", [("deepseek", False)], indirect=True, ids=str)
def test_the_next_call_may_begin_like_the_end_of_the_group(styled):
    _, model = styled
    one, both = (rendered("deepseek", "", CALLS[:n]) for n in (1, 2))
    end = "<｜tool▁calls▁end｜>"
    assert [name for name, _ in read(model, both.replace("end｜>\n<", "end｜><"), random.Random(0))[1]] == ["get_weather", "now"]
    for i in range(len(end)):  # cut within the end
        assert len(read(model, one[: len(one) - i], random.Random(i))[1]) == 1
    for rest in ("<｜tool▁call▁begin｜>x", "<｜tool▁cal", "<｜tool▁calls", "x"):  # what follows is neither
        words, found = read(model, one.removesuffix(end) + rest + " b", random.Random(0))
        assert words == rest + " b" and len(found) == 1, rest


@pytest.mark.parametrize("styled", [("hermes", False)], indirect=True, ids=str)
def test_white_space_takes_linear_time(styled):
    """It may belong to a call that follows."""
    start = time.process_time()
    text = "a" + " " * 100_000 + "b"
    assert read(styled[1], text, random.Random(0)) == (text, [])
    assert time.process_time() - start < 5  # it took 15 seconds


def test_a_cut_answer_is_read_as_far_as_it_goes(styled):
    style, model = styled
    content, calls = "" if style in NO_TEXT else "Well.", CALLS[:1]
    text = rendered(style, content, calls)
    ((_, whole),) = read(model, text, random.Random(0))[1]
    for end in range(len(text)):
        words, found = read(model, text[:end], random.Random(end))
        assert len(found) <= 1 and content.startswith(words.rstrip("<[{|tolcaTOLCA_\"S\n")) or not found
        if found:
            assert found[0][0] == calls[0][0] and whole.startswith(found[0][1])


# --- hostile answers --------------------------------------------------------------------------------

lib.smol_tool_style_texts.restype = ctypes.POINTER(ctypes.c_char_p)
lib.smol_tool_style_name.restype = ctypes.c_char_p
MARKERS = {lib.smol_tool_style_name(i).decode(): lib.smol_tool_style_texts(i)[0].decode() for i in range(1, N_TOOL_STYLES)}


def hostile_text(rng, n):
    """Pieces of all markers, quotes, escapes, brackets and characters of several bytes."""
    words = [*MARKERS.values(), "</tool_call>", "]</TOOLCALL>", "\n</parameter", "<escape", '<|"|', "</function>", "</param>", "]]>", "<![CDATA["]
    texts = []
    for _ in range(rng.randint(0, n)):
        word = rng.choice(words)
        start = rng.randrange(len(word))
        texts.append(rng.choice([word[start : rng.randint(start, len(word))], *'"\\/{}[](),:=<>|`\n\t ', "é", "▁｜", "🙂", '\\"', "\\u0041", "None", "-1", "\u2028"]))
    return "".join(texts)


def hostile_call(rng, style):
    limits = {"qwen-xml": "\n</parameter>", "minicpm-xml": "]]>", "gemma": '<|"|>', "function-gemma": "<escape>"}

    def string():
        text = hostile_text(rng, 12)
        return text if limits.get(style, "\0") not in text else "x"

    value = rng.choice([{"city": string()}, {"city": string(), "days": rng.randint(-3, 1 << 40)}, {}])
    more = {"more": {"k": [string(), None, {"d": [True, -1.5e-07]}], "l": {}}, "tags": [string(), string()], "text": string()}
    return rng.choice([("get_weather", value), ("now", {}), ("note", more)])


@pytest.mark.sample(8)
@pytest.mark.parametrize("styled", [(style, False) for style in RENDER], indirect=True, ids=str)
def test_hostile_answers_are_read_exactly(styled):
    """However they are cut into pieces, and wherever they end. What they contain is known: they were put together here."""
    style, model = styled
    marker, rng = MARKERS[style], random.Random(style)
    for _ in range(6):
        before = "" if style in NO_TEXT else hostile_text(rng, 9).strip(" \n\t")
        calls = [hostile_call(rng, style) for _ in range(1 if style in ONE_CALL else rng.randint(1, 3))]
        after = rng.choice(["", "z", "\n z"])
        after += hostile_text(rng, 9) + "." if after else ""
        call = rendered(style, "", calls)
        gap = rng.choice(["", " ", "\n\n"])
        if (before + gap + call).find(marker) < len(before + gap) or (style not in NO_TEXT and marker in after):
            continue
        text = before + gap + call + after
        data = text.encode()
        words, found = read_pieces(model, [data])
        assert words == before + after.lstrip(), text
        assert [(name, json.loads(arguments)) for name, arguments in found] == calls, text
        assert read_pieces(model, [data[i : i + 1] for i in range(len(data))]) == (words, found), text
        for _ in range(20):
            i = rng.randrange(len(data))
            assert read_pieces(model, [data[:i], data[i:]]) == (words, found), text
        n_found = 0
        for end in sorted(rng.sample(range(len(text)), min(30, len(text)))):
            said, some = read_pieces(model, [text[:end].encode()])
            assert len(some) >= n_found and (some or said == text[:end]), text[:end]
            n_found = len(some)
            for i, (name, arguments) in enumerate(some):
                assert name == found[i][0] and (found[i][1] == arguments or (i == n_found - 1 and found[i][1].startswith(arguments)))
            if some:
                assert said.startswith(before) and (before + text[len(before + gap + call) : end].lstrip()).startswith(said), text[:end]


# --- random answers ---------------------------------------------------------------------------------

NESTED = {"type": "object", "additionalProperties": False, "required": ["list"], "properties": {
    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": ["integer", "null"]}}, "flag": {"type": "boolean"}}}  # fmt: skip
SAMPLED = [
    {"type": "function", "function": {
        "name": "add-event.v2_X", "description": "</tool_call>\n[TOOL_CALLS] {\"name\": \"\u0000 {{ x }} {% raw %}", "parameters": {
            "$defs": {"who": {"type": "string", "pattern": "^[a-cé]{1,3}$"}}, "type": "object", "required": ["who", "more"], "properties": {
                "who": {"$ref": "#/$defs/who"}, "kind": {"enum": ["call", "5", None, 7, -2.5, True]}, "more": NESTED,
                "count": {"type": "integer", "minimum": -3, "maximum": 12, "multipleOf": 3}, "note": {"type": "string", "maxLength": 3}}}}},
    {"name": "f", "parameters": {"properties": {"f": {"const": {"f": [["f"], 1.5]}}, "name": {"enum": ["f", "name"]}}, "required": ["name"]}},
    {"name": "ff", "parameters": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"const": 1}, "b": {"const": "b"}},
                                  "type": "object", "additionalProperties": False}},
    {"name": "free", "description": "x" * 5000, "parameters": {"additionalProperties": {"type": "array", "maxItems": 1, "items": {"enum": ["", "é"]}},
                                                              "maxProperties": 2, "type": "object"}},
]  # fmt: skip


def writable(style):
    """Returns these tools without a text that the style cannot write."""
    text = json.dumps(SAMPLED)
    return json.loads(text.replace('"5", ', "") if style.endswith("-xml") else text)


def random_answer(matcher, model, rng, limit):
    """Writes tokens that are allowed, at random; ends as soon as it may. Returns the ids and whether they end."""
    error, ids = Error(), []
    while len(ids) < limit:
        allowed = matcher.mask()
        assert allowed
        if allowed & {256}:
            return ids, True
        texts = sorted(allowed - {256})
        closing = [i for i in texts if chr(i) in '"]})\n/<|'] if len(ids) > limit // 3 else []
        ids.append(rng.choice(closing or texts))
        check(lib.smol_matcher_accept(matcher.pointer, ids[-1], ctypes.byref(error)), error)
    return ids, False


def text_of(model, ids):
    at, size, error, parts = ctypes.c_char_p(), ctypes.c_size_t(), Error(), []
    for i in ids:
        check(lib.smol_token_text(model.handle, i, ctypes.byref(at), ctypes.byref(size), None, ctypes.byref(error)), error)
        parts.append(ctypes.string_at(at, size.value))
    return b"".join(parts)


@pytest.mark.sample(4)
def test_any_answer_has_calls_that_are_valid(styled):
    """Answers are random, as of a sampler at an infinite temperature. A truncated answer is read up to its end."""
    style, model = styled
    tools = writable(style)
    schemas = {tool.get("function", tool)["name"]: tool.get("function", tool)["parameters"] for tool in tools}
    whole, called = 0, set()
    for seed in range(24):
        rng = random.Random(seed)
        choice = rng.choice(["required", *schemas])
        matcher = Matcher(model, tools=tools, choice=choice, one_call=True)
        ids, end = random_answer(matcher, model, rng, 400)
        text = text_of(model, ids).decode(errors="ignore")
        words, calls = read(model, text, rng, tools)
        assert len(calls) <= 1 and (words == "" or words == text), text  # a call without its name is text
        if end:
            ((name, arguments),) = calls
            assert choice in ("required", name) and validator_for({})(schemas[name]).is_valid(json.loads(arguments)), text
        whole += end
        called |= {name for name, _ in calls}
    assert whole > 10 and called == set(schemas), (whole, called)


@pytest.mark.sample(4)
def test_any_answer_has_calls_or_follows_the_schema(styled):
    style, model = styled
    if style in BARE:
        return
    tools, n_calls, n_texts = writable(style), 0, 0
    schema = {"type": "object", "properties": {"reply": {"enum": ["yes", MARKERS[style] + "{"]}, "more": {"type": "array", "items": {}}}, "additionalProperties": False, "required": ["reply"]}
    for seed in range(24):
        rng = random.Random(seed)
        matcher = Matcher(model, tools=tools, one_call=True, schema=schema)
        ids, end = random_answer(matcher, model, rng, 400)
        text = text_of(model, ids).decode(errors="ignore")
        words, calls = read(model, text, rng, tools, calls_first=True)
        if end:
            assert bool(calls) != bool(words), text
            assert calls or (words == text and validator_for({})(schema).is_valid(json.loads(text))), text
            n_calls, n_texts = n_calls + bool(calls), n_texts + bool(words)
    assert n_calls > 2 and n_texts > 2, (n_calls, n_texts)


# --- requests -------------------------------------------------------------------------------------

USER = {"role": "user", "content": "Paint it."}
FEW = TOOLS[:3]  # the bundled model has a small context


@pytest.fixture(scope="module")
def painter(tmp_path_factory):
    """The bundled model with a template that calls tools."""
    folder = tmp_path_factory.mktemp("painter")
    names = "{% for tool in tools or [] %}{{ (tool.function or tool).name }} {% endfor %}"
    template = names + source("hermes")
    (folder / "chat.jinja").write_text(template)
    smolconv(DEMO, folder / "painter.smol", "--chat-template", folder / "chat.jinja", "--quiet", check=True)
    return folder / "painter.smol"


def request(seed=0, **more):
    return {"messages": [USER], "tools": FEW, "seed": seed, "temperature": 1, "max_tokens": 300} | more


def check_calls(answer, one=False):
    schemas = {tool.get("function", tool)["name"]: tool.get("function", tool).get("parameters", {}) for tool in FEW}
    calls = answer["tool_calls"]
    assert len({call["id"] for call in calls}) == len(calls) and (len(calls) == 1 or not one)
    for call in calls:
        assert call["type"] == "function" and re.fullmatch("[a-z0-9]{9}", call["id"])
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        assert set(arguments) <= set(schemas[name].get("properties", {}))
        assert set(arguments) >= set(schemas[name].get("required", []))


def test_a_required_call_is_made(painter):
    requests = [request(seed, tool_choice="required", parallel_tool_calls=seed % 3 == 0) for seed in range(12)]
    some = answers(painter, requests, "--sequences", 5)
    whole = [answer for answer in some if answer["finish_reason"] == "tool_calls"]
    assert len(whole) > 5 and all(answer["text"] == "" for answer in some)
    for answer in whole:
        check_calls(answer, one=not requests[answer["index"]]["parallel_tool_calls"])
    assert some == answers(painter, requests, "--sequences", 1, "--threads", 1)


@pytest.mark.parametrize("choice", [
    "paint", {"type": "function", "function": {"name": "paint"}}, {"type": "function", "name": "paint"}], ids=str)  # fmt: skip
def test_a_named_call_is_made(painter, choice):
    for answer in answers(painter, [request(seed, tool_choice=choice) for seed in range(4)]):
        assert {call["function"]["name"] for call in answer["tool_calls"]} == {"paint"}


def schema_of(schema):
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


def test_tools_and_a_schema_go_together(painter):
    """The answer follows the schema or calls; a choice leaves only one of them."""
    schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "<tool_call>"]}, "rain": {"type": "boolean"}}, "required": ["city", "rain"], "additionalProperties": False}
    seen = set()
    for choice in ("auto", "required", "none", "paint"):
        requests = [request(seed, tool_choice=choice, response_format=schema_of(schema), parallel_tool_calls=False) for seed in range(12)]
        some = answers(painter, requests, "--sequences", 5)
        assert some == answers(painter, requests, "--sequences", 1, "--threads", 1)
        for answer in some:
            if answer["finish_reason"] == "tool_calls":
                assert choice != "none" and answer["text"] == ""
                check_calls(answer, one=True)
            elif answer["finish_reason"] == "stop":
                assert choice in ("auto", "none") and "tool_calls" not in answer
                assert validator_for({})(schema).is_valid(json.loads(answer["text"]))
            seen.add((choice, answer["finish_reason"]))
    assert seen >= {("auto", "stop"), ("auto", "tool_calls"), ("required", "tool_calls"), ("none", "stop"), ("paint", "tool_calls")}


def test_a_call_that_a_stop_string_cuts_is_not_a_call_to_make(painter):
    requests = [request(seed, tool_choice="paint", parallel_tool_calls=False, stop=stop) for seed in range(4) for stop in ([], ['"}'], ["}"])]
    for whole, *cut in zip(*[iter(answers(painter, requests))] * 3, strict=True):
        assert whole["finish_reason"] in ("tool_calls", "length")
        assert all(answer["finish_reason"] in ("stop", "length") for answer in cut[1:])  # each call has a brace
        for answer in [whole, *cut]:
            if answer["finish_reason"] == "tool_calls":
                check_calls(answer)


def test_arguments_in_xml_are_read_by_the_schemas_of_the_request(tmp_path, monkeypatch):
    """The reader gets the list of tools, to its end: fresh memory is not zero."""
    monkeypatch.setenv("MALLOC_PERTURB_", "165")
    (tmp_path / "chat.jinja").write_text(source("qwen-xml"))
    smolconv(DEMO, tmp_path / "demo.smol", "--chat-template", tmp_path / "chat.jinja", "--quiet", check=True)
    for answer in answers(tmp_path / "demo.smol", [request(seed, tool_choice="now", parallel_tool_calls=False) for seed in range(2)]):
        check_calls(answer, one=True)


def test_no_call_is_made_without_leave(painter):
    (answer,) = answers(painter, [request(tool_choice="none")])
    assert "tool_calls" not in answer and "<tool_call>" not in answer["text"]


def test_earlier_calls_may_come_as_texts(painter):
    """OpenAI's clients send arguments as a text, templates expect an object. Those that were cut off are in one."""
    def turn(arguments):
        calls = [{"id": "a", "type": "function", "function": {"name": "paint", "arguments": arguments}}]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    given = {"color": "red", "at": [1, 2]}
    same = {"max_tokens": 4, "temperature": 0}
    ways = [{"messages": [USER, turn(a), USER]} | same for a in (given, json.dumps(given), "", "[1")]
    as_object, as_text, empty, broken = answers(painter, ways)
    assert as_text == as_object | {"index": 1} and empty["usage"] != as_object["usage"]
    assert "error" not in broken and broken["usage"] != empty["usage"]
    for style in ("hermes", "qwen-xml", "python", "gemma"):
        section, _ = compile_template(source(style))
        found, expected = render(section, [USER, turn("[1")], parse_arguments=True)[0], reference(source(style), {}, [USER, turn({"INVALID_JSON": "[1"})])
        assert found == expected


def test_arguments_stay_texts_for_a_template_that_adds_them_to_texts():
    """As those of DeepSeek and functionary do; what the client sent is shown as it is."""
    added = "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name + '\n' + c.function.arguments }}{% endfor %}{% endfor %}"
    section, _ = compile_template(added)

    def turn(arguments):
        return [USER, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}]

    given = '{"x":  [1]}'
    assert render(section, turn(given), parse_arguments=True)[0] == reference(added, {}, turn(given)) == "f\n" + given
    assert render(section, turn("{"), parse_arguments=True)[0] == "f\n{"
    with pytest.raises(Refused, match="cannot add"):  # as before
        render(section, turn({"x": [1]}), parse_arguments=True)
    refusing, _ = compile_template("{% for m in messages %}{% if m.tool_calls %}{{ raise_exception('no calls') }}{% endif %}{% endfor %}")
    with pytest.raises(Refused, match="no calls"):
        render(refusing, turn(given), parse_arguments=True)


def test_bad_tool_requests_are_answered_with_errors(painter, blob):
    bad = [
        (request(tool_choice="fly"), "fly"), (request(tools=[]) | {"tool_choice": "required"}, "no tools"),
        (request(tool_choice=1), "tool_choice"), (request(tool_choice={"type": "function"}), "name"),
        (request(response_format={"type": "regex", "pattern": "x"}), "response_format"),
        (request(response_format=schema_of({"type": "array", "uniqueItems": True})), "uniqueItems"),
        (request(tools=[{"name": "x", "parameters": {"properties": {"a": {"type": "array", "uniqueItems": True}}}}]), "uniqueItems"),
        *((request(tools=[{"name": name}], tool_choice={"type": "function", "function": {"name": name}}), "cannot be chosen")
          for name in ("auto", "none", "required")),
        (request(parallel_tool_calls=1), "parallel_tool_calls"),
    ]  # fmt: skip
    for answer, (_, part) in zip(answers(painter, [request for request, _ in bad]), bad, strict=True):
        assert part in answer["error"]["message"], answer
    (answer,) = answers(blob, [request()])
    assert answer["error"]["code"] == "unsupported" and "tools" in answer["error"]["message"]

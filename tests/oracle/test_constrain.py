"""Structured output from outside: smolrun under constraints, on the bundled model."""

import json
import re

import pytest
from internal import FILE, OK, UNSUPPORTED, USAGE
from programs import assert_fails, smolrun
from test_jsonl import answers, error_of

pytestmark = pytest.mark.quick

PROMPT = "Once upon a time"
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["friend", "family", "work"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


def output(*words, **options):
    done = smolrun(*words, **options)
    assert done.returncode == OK and done.stderr == b"", done.stderr
    return done.stdout.decode()[:-1]


@pytest.fixture(scope="module")
def form(tmp_path_factory):
    path = tmp_path_factory.mktemp("schemas") / "form.json"
    path.write_text(json.dumps(FORM))
    return path


def is_form(value):
    return (
        list(value) == ["name", "age", "tags"]
        and 1 <= len(value["name"]) <= 12
        and isinstance(value["age"], int) and 0 <= value["age"] <= 120
        and len(value["tags"]) <= 3 and set(value["tags"]) <= {"friend", "family", "work"}
    )  # fmt: skip


@pytest.mark.parametrize("temperature", [0, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_json_follows_the_schema_whatever_is_sampled(blob, form, temperature, seed):
    text = output(blob, PROMPT, "--json-schema", form, "--temp", temperature, "--seed", seed, "-n", 400)
    value = json.loads(text)
    assert is_form(value)
    assert text == json.dumps(value, separators=(",", ":"), ensure_ascii=False) or "\\" in text


@pytest.mark.parametrize("style, layout", [
    ("compact", {"separators": (",", ":")}), ("spaced", {}), ("indented", {"indent": 2})])  # fmt: skip
def test_white_space_is_as_wanted(blob, form, style, layout):
    text = output(blob, PROMPT, "--json-schema", form, "--json-space", style, "-n", 400)
    value = json.loads(text)
    assert is_form(value)
    assert text == json.dumps(value, **layout)


def test_expressions_choices_and_grammars(blob, tmp_path):
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}", output(blob, PROMPT, "--regex", "[0-9]{4}-[0-9]{2}"))
    assert output(blob, PROMPT, "--choices", "red,green,dark blue") in ("red", "green", "dark blue")
    grammar = tmp_path / "grammar"
    grammar.write_text('root ::= "(" root? ")" | [a-c]{2}\n')
    for seed in range(5):
        text = output(blob, PROMPT, "--grammar", grammar, "--temp", 1, "--seed", seed, "-n", 300)
        depth = text.count("(")
        assert re.fullmatch(r"\(*([a-c]{2})?\)*", text) and text.count(")") == depth, text


def test_an_answer_that_is_cut_is_the_beginning_of_the_whole_one(blob, form):
    whole = output(blob, PROMPT, "--json-schema", form, "--temp", 1, "-n", 400)
    for n in (1, 2, 5, 9):
        assert whole.startswith(output(blob, PROMPT, "--json-schema", form, "--temp", 1, "-n", n))


def test_what_cannot_be_enforced_is_named(blob, tmp_path):
    schema = tmp_path / "schema"
    cases = [
        ('{"type": "array", "uniqueItems": true}', UNSUPPORTED, "uniqueItems"),
        ('{"properties": {"a": {"format": "idn-email"}}}', UNSUPPORTED, "#/properties/a/format"),
        ('{"type": "integer", "minimum": 3, "maximum": 2}', UNSUPPORTED, ""),
        ('{"type": "nothing"}', USAGE, "type"),
        ("{", USAGE, "not JSON"),
        ("", USAGE, "not JSON"),
    ]
    for text, status, word in cases:
        schema.write_text(text)
        assert_fails(smolrun(blob, PROMPT, "--json-schema", schema), status, word)
    assert_fails(smolrun(blob, PROMPT, "--json-schema", tmp_path / "none"), FILE, "none")
    assert_fails(smolrun(blob, PROMPT, "--regex", "(a"), UNSUPPORTED, "the regular expression: ")
    assert_fails(smolrun(blob, PROMPT, "--regex", "a", "--choices", "b"), USAGE, "give one of them")


# --- requests --------------------------------------------------------------------------------------


def wanted(kind, **members):
    return {"prompt": PROMPT, "max_tokens": 300, "temperature": 1, "response_format": {"type": kind, **members}}


REQUESTS = [
    wanted("json_schema", json_schema={"name": "form", "strict": True, "schema": FORM}),
    wanted("json_object"),
    wanted("regex", pattern="[a-z]{3,9}!"),
    wanted("choices", choices=["yes", "no"]),
    wanted("grammar", grammar='root ::= "x" [0-9]+ "y"'),
    {"prompt": PROMPT, "max_tokens": 20},
]


def test_each_request_has_a_format_of_its_own_as_if_it_were_alone(blob):
    together = answers(blob, REQUESTS * 3, "--sequences", 4)
    alone = [answers(blob, [request])[0] for request in REQUESTS]
    for i, answer in enumerate(together):
        assert answer["ids"] == alone[i % len(REQUESTS)]["ids"]
    texts = [answer["text"] for answer in alone]
    assert is_form(json.loads(texts[0]))
    assert texts[1].startswith("{")
    assert re.fullmatch(r"[a-z]{3,9}!", texts[2])
    assert texts[3] in ("yes", "no")
    assert texts[4].startswith("x")


def test_the_command_line_is_the_default_and_text_lifts_it(blob):
    free = {"prompt": PROMPT, "max_tokens": 12}
    bound, text = answers(blob, [free, {**free, "response_format": {"type": "text"}}], "--choices", "a,b")
    assert bound["text"] in ("a", "b")
    assert text["ids"] == answers(blob, [free])[0]["ids"]


def test_forced_tokens_are_certain(blob):
    answer, = answers(blob, [{**wanted("regex", pattern="The only possible text: [0-9]"), "logprobs": 2}])
    forced = [token for token in answer["logprobs"] if not token["top"]]
    assert len(forced) > 2 and all(token["logprob"] == 0 for token in forced)
    assert all(len(token["top"]) == 2 for token in answer["logprobs"] if token not in forced)


@pytest.mark.parametrize("format, words", [
    ([], "expected an object"),
    ({}, "type must be"),
    ({"type": "xml"}, "type must be"),
    ({"type": "json_schema"}, "missing"),
    ({"type": "json_schema", "json_schema": []}, "must be an object"),
    ({"type": "json_schema", "json_schema": {"schema": {"uniqueItems": True}}}, "uniqueItems"),
    ({"type": "regex", "pattern": 3}, "string"),
    ({"type": "regex", "pattern": "("}, "the regular expression"),
    ({"type": "choices", "choices": []}, "no text"),
    ({"type": "grammar", "grammar": "root = x"}, "grammar"),
])  # fmt: skip
def test_wrong_formats_are_errors(blob, format, words):
    assert words in error_of(blob, {"prompt": PROMPT, "response_format": format})["message"]

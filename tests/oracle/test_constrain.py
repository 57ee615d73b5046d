"""Structured output from outside: smolrun under constraints, on the bundled model."""

import json
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest
import session_reader
from blobs import xxh3
from checkpoints import edit_config, make
from internal import BUILD, FILE, OK, ROOT, UNSUPPORTED, USAGE
from programs import assert_fails, smolconv, smolrun
from test_jsonl import answers, error_of, peak_of
from test_session import HEAD_DIM, HEADS, LAYERS
from test_tokenizer_families import FAMILIES, written

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
    assert text == json.dumps(value, ensure_ascii=False) or "\\" in text


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


def test_a_model_without_stop_tokens_stops_where_nothing_can_follow(tmp_path):
    source, made = tmp_path / "source", tmp_path / "made.smol"
    source.mkdir()
    for file in (ROOT / "demo/model").iterdir():
        if file.name != "generation_config.json":
            (source / file.name).write_bytes(file.read_bytes())
    edit_config(source, lambda config: config.pop("eos_token_id"))
    assert smolconv("--quiet", source, made).returncode == OK
    for words in (["--choices", "red,green"], ["--regex", "[a-z]{2}: yes"]):
        free = json.loads(output(made, PROMPT, "--json", "-n", 40))
        bound = json.loads(output(made, PROMPT, "--json", "-n", 40, *words))
        assert free["finish_reason"] == "length" and bound["finish_reason"] == "stop"
        assert re.fullmatch("red|green|[a-z]{2}: yes", bound["text"])


@pytest.mark.parametrize("family", ["llama2", "gemma", "llama3"])
def test_the_text_is_what_the_constraint_allows_whatever_the_decoder_omits(family, training, tmp_path):
    """Llama 2's omits a first blank."""
    content = FAMILIES[family](training)
    n = max(*content["model"]["vocab"].values(), *(t["id"] for t in content["added_tokens"])) + 1
    source, made = make(tmp_path / "source", vocab_size=n, eos_token_id=None), tmp_path / "made.smol"
    written(source, content)
    assert smolconv("--quiet", source, made).returncode == OK
    for seed in range(4 if os.environ.get("SMOL_TEST_ALL") else 1):
        for i, expression in enumerate((r" [a-z]{3}\.", "  +x", "(é|日本| )+z", '"[^"]{4,9}"')):
            words = [made, "Once", "--regex", expression, "--temp", 2, "--seed", seed, "--json"]
            whole = json.loads(output(*words, "-n", 200))
            assert whole["finish_reason"] == "length" or re.fullmatch(expression, whole["text"]), whole
            session = ["--session", tmp_path / f"{seed}{i}"]
            first = json.loads(output(*words, "-n", 1, *session))
            rest = json.loads(output(made, "", *words[2:4], "--json", "-n", 199, *session))
            assert first["ids"] + rest["ids"] == whole["ids"]


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
    assert_fails(smolrun(blob, PROMPT, "--regex", "a", "--choices", "b"), USAGE, "give only one of them")


@pytest.mark.parametrize("words", [["--any-order"], ["--json-space", "compact"], ["--any-order", "--regex", "a"]])
def test_options_of_schemas_need_one(blob, words):
    for command in ([blob, PROMPT], ["chat", blob]):
        assert_fails(smolrun(*command, *words), USAGE, f"{words[0]} needs --json-schema")


def test_options_of_schemas_are_for_those_of_requests_too(blob):
    request = {"prompt": PROMPT, "response_format": {"type": "json_schema", "json_schema": {"schema": {"const": {"a": [True, False]}}}}}
    answer = output(blob, "--jsonl", "--json-space", "spaced", "--any-order", input=json.dumps(request).encode())
    assert json.loads(answer)["text"] == '{"a": [true, false]}'


# --- sessions -------------------------------------------------------------------------------------

@pytest.fixture(scope="module", params=["schema", "indented", "regex", "choices", "grammar"])
def bound(request, form, tmp_path_factory):
    """The options of a constraint."""
    grammar = tmp_path_factory.mktemp("grammars") / "grammar"
    grammar.write_text('root ::= "(" root? ") and so on, as ever" | [a-zé]{2,4}\n')
    return {
        "schema": ["--json-schema", form],
        "indented": ["--json-schema", form, "--json-space", "indented"],
        "regex": ["--regex", r"Name: [a-zéü日 ]{1,12}, and always the same words: [1-9]\."],
        "choices": ["--choices", "a long choice,a longer choice,another choice"],
        "grammar": ["--grammar", grammar],
    }[request.param]


SAMPLED = ["--temp", 1.5, "--seed", 5]


@pytest.mark.sample(8)
@pytest.mark.parametrize("sizes", [[1] * 12, [2, 0, 7, 3], [5, 5, 5]])
def test_a_session_goes_on_inside_its_constraint(blob, bound, sizes, tmp_path):
    whole = json.loads(output(blob, PROMPT, *bound, *SAMPLED, "-n", 400, "--json"))
    parts, prompt, words = [], PROMPT, SAMPLED
    for size in [*sizes, 400]:
        again = [blob, prompt, *bound, *words, "-n", size, "--json", "--session", tmp_path / "session"]
        parts.append(json.loads(output(*again)))
        prompt, words = "", []
        if parts[-1]["finish_reason"] == "stop":
            break
    assert [i for part in parts for i in part["ids"]] == whole["ids"]
    if not any("\ufffd" in part["text"] for part in parts):  # cut within a character
        assert "".join(part["text"] for part in parts) == whole["text"]


def test_a_cut_answer_goes_on_with_its_constraint_only(blob, form, tmp_path):
    session = ["--session", tmp_path / "session"]
    output(blob, PROMPT, "--json-schema", form, *session, "-n", 3)
    saved = (tmp_path / "session").read_bytes()
    for words, part in (
        (["--regex", "a"], "not this one"),
        (["--json-schema", form, "--json-space", "indented"], "not this one"),
        (["--json-schema", form, "--any-order"], "not this one"),
        ([], "missing"),
    ):
        assert_fails(smolrun(blob, "", *session, *words), USAGE, "cut off inside a constraint", part)
        assert (tmp_path / "session").read_bytes() == saved
    assert output(blob, " and", *session, "--choices", "a,b") in ("a", "b")  # a new answer
    assert output(blob, "", *session, "-n", 2)  # a complete one binds nothing


def test_a_session_says_where_its_answer_is(blob, bound, tmp_path):
    path = tmp_path / "session"
    done = json.loads(output(blob, PROMPT, *bound, *SAMPLED, "-n", 2, "--session", path, "--json"))
    options = dict(zip(bound[::2], map(str, bound[1::2]), strict=True))
    kind = ["--json-schema", "--regex", "--choices", "--grammar"].index(bound[0])
    text = options[bound[0]].encode()
    if bound[0] in ("--json-schema", "--grammar"):
        text = Path(bound[1]).read_bytes()
    elif bound[0] == "--choices":
        text = json.dumps(bound[1].split(",")).encode()
    digest = xxh3(struct.pack("<6Q", kind, "--json-space" in options and 2, 0, 0, xxh3(b""), xxh3(text)))
    data = session_reader.read(path.read_bytes(), LAYERS, HEADS, HEAD_DIM).data
    assert data == struct.pack("<4sIQ2I", b"held", 2, digest, *done["ids"])


def test_a_chat_goes_on_inside_its_constraint(blob, bound, tmp_path):
    """Also where a part ends within a character, so that its text has U+FFFD."""
    def chat(*lines, words=()):
        lines = "".join(f"{line}\n" for line in lines).encode()
        return output("chat", blob, *bound, *words, input=lines)

    whole = chat("Hello", words=[*SAMPLED, "-n", 400])
    for n in (1, 2, 3, 6):
        saved = ["--session", tmp_path / f"saved{n}"]
        parts = [chat("Hello", words=[*SAMPLED, *saved, "-n", n])]
        parts.append(chat("/save", words=[*saved, "-n", n]))  # not continued, and saved again
        parts.append(chat("/continue", words=[*saved, "-n", n]))
        parts.append(chat("/set n 400", "/continue", words=saved))
        together = "".join(parts[i] for i in (0, 2, 3)).replace("the last answer is complete: /regen answers again", "")
        if "\ufffd" not in together:
            assert together.replace("\n", "") == whole.replace("\n", "")
    words = ["--session", tmp_path / "saved1", "-n", 1]
    chat("Hello", words=words)
    other = smolrun("chat", blob, *words, "--regex", "other", input=b"/continue\n")
    assert_fails(other, USAGE, "not this one")


def test_constraints_of_past_requests_take_little_memory(blob):
    """Each of these takes some MB."""
    command = [BUILD / "smolrun", str(blob), "--jsonl", "--threads", "1", "--sequences", "2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for i in range(100):
            request = wanted("choices", choices=[f"{i} {k} {k * k}" for k in range(12000)])
            process.stdin.write(json.dumps(request | {"max_tokens": 2}).encode() + b"\n")
            process.stdin.flush()
            assert "ids" in json.loads(process.stdout.readline())
        found = peak_of(process)
        process.stdin.close()
        assert process.wait() == OK
    print(f"peak memory: {found} bytes")
    assert found < 128 << 20


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

"""`smolrun explain` against the softmax of transformers, and what it shows of tokens that could do harm
on a terminal."""

import ctypes
import json
import locale
import re
import unicodedata

import numpy as np
import pytest
from internal import CONTEXT_FULL, USAGE, lib
from programs import assert_fails, on_terminal, smolrun
from test_cli_run import PROMPT, STOP_ID, output
from test_perplexity import log_softmax
from unicode_tables import assert_generated, need_this_unicode

pytestmark = pytest.mark.quick

SAMPLED = "--temp", 1.5, "--seed", 3


@pytest.fixture(scope="module")
def reference(demo_logits):
    """probabilities(ids): float64 (tokens, vocabulary), after each of them."""
    return lambda ids: np.exp(log_softmax(demo_logits(ids)))


def explain(blob, *options):
    return json.loads(output("explain", blob, *options, "--json"))


# --- probabilities ------------------------------------------------------------------------------


def assert_is(found, expected):
    """`expected`: the probabilities of every token where this one stands."""
    assert found["probability"] == pytest.approx(expected[found["id"]], rel=2e-4)
    assert found["logprob"] == pytest.approx(np.log(expected[found["id"]]), abs=2e-4)
    better = expected > expected[found["id"]] * (1 + 1e-3)
    worse = expected < expected[found["id"]] * (1 - 1e-3)
    assert better.sum() + 1 <= found["rank"] <= len(expected) - worse.sum()
    top = [token["probability"] for token in found["top"]]
    assert top == sorted(top, reverse=True)
    assert top == pytest.approx(np.sort(expected)[: -len(top) - 1 : -1], rel=2e-4)
    assert top == pytest.approx([expected[token["id"]] for token in found["top"]], rel=2e-4)
    if found["rank"] <= len(top):
        assert found["top"][found["rank"] - 1]["id"] == found["id"]


@pytest.mark.parametrize("options", [(), SAMPLED])
def test_f32_probabilities_are_those_of_transformers(demo_blob, demo_tokenizer, reference, options):
    text = "Anna the baker and Otto went to the market. " * 4  # more than one batch of rows
    prompt = demo_tokenizer.encode(text).ids
    found = explain(demo_blob("f32"), text, "-n", 20, "--given", *options)
    assert [token["id"] for token in found["prompt"]] == prompt[1:] and len(prompt) > 40
    tokens = found["prompt"] + found["tokens"]
    expected = reference(prompt + [token["id"] for token in found["tokens"]])
    for token, probabilities in zip(tokens, expected):
        assert_is(token, probabilities)
    assert found["nll"] == pytest.approx(-np.mean([token["logprob"] for token in tokens]))
    assert found["finish_reason"] == "length" and len(found["tokens"]) == 20


def test_the_tokens_are_those_that_are_generated(demo_blob, demo_tokenizer):
    blob = demo_blob("int8")
    for options in ((), SAMPLED, (*SAMPLED, "--repeat-penalty", "1.3", "--top-k", 20)):
        found = explain(blob, PROMPT, "-n", 30, *options)
        ids = [token["id"] for token in found["tokens"]]
        assert ids == list(map(int, output(blob, PROMPT, "-n", 30, "--ids", *options).split()))
        assert "".join(token["text"] for token in found["tokens"]) == demo_tokenizer.decode(ids)
    assert "prompt" not in found


def test_the_stop_token_is_explained_too(demo_blob):
    found = explain(demo_blob("int8"), PROMPT, "-n", -1)
    assert found["finish_reason"] == "stop" and found["tokens"][-1]["id"] == STOP_ID
    assert STOP_ID not in [token["id"] for token in found["tokens"][:-1]]


def test_nothing_need_be_generated(demo_blob):
    blob = demo_blob("int8")
    assert explain(blob, PROMPT, "-n", 0)["nll"] is None
    found = explain(blob, PROMPT, "-n", 0, "--given")
    assert found["tokens"] == [] and len(found["prompt"]) == 3
    whole = json.loads(output("perplexity", blob, "-", "--json", input=PROMPT.encode()))
    assert found["nll"] == whole["nll"]


def test_what_makes_no_sense_is_refused(demo_blob):
    blob = demo_blob("int8")
    assert_fails(smolrun("explain", blob), USAGE, "prompt")
    assert_fails(smolrun("explain", blob, "Hi", "--system", "x"), USAGE, "--chat")
    assert_fails(smolrun("explain", blob, "Once upon a time", "--ctx", 2), CONTEXT_FULL, "4 tokens")
    result = smolrun("explain", blob, PROMPT, "--ctx", 8, "--json")
    assert_fails(result, CONTEXT_FULL, "8 tokens")
    assert json.loads(result.stdout)["finish_reason"] == "context_full"


# --- text -----------------------------------------------------------------------------------------

ROW = re.compile(r'("(?:[^"\\]|\\.)*") +([<\d.]+) % +(\d+)((?:  "(?:[^"\\]|\\.)*" +[<\d.]+ %)+)$')


def percent(text):
    """Returns a percentage; "less than" a figure counts as half of it."""
    return float(text[1:]) / 2 if text[0] == "<" else float(text)


def test_the_table_has_the_same_figures(demo_blob):
    arguments = "explain", demo_blob("int8"), PROMPT, "-n", 12, *SAMPLED
    figures = json.loads(output(*arguments, "--json"))
    text, blank, *lines = output(*arguments).splitlines()
    assert json.loads(text) == "".join(token["text"] for token in figures["tokens"]) and not blank
    assert lines[0].split() == ["token", "prob", "rank", "instead"] and len(lines) == 1 + 12 + 2
    for line, token in zip(lines[1:13], figures["tokens"]):
        text, probability, rank, others = ROW.match(line).groups()
        assert json.loads(text) == token["text"] and int(rank) == token["rank"]
        assert percent(probability) == pytest.approx(100 * token["probability"], abs=0.006)
        expected = [other for other in token["top"] if other["id"] != token["id"]]
        assert [percent(p) for p in re.findall(r" ([<\d.]+) %", others)] == pytest.approx(
            [100 * other["probability"] for other in expected], abs=0.06
        )
    assert lines[-1].startswith("12 tokens: mean NLL ") and f"{figures['nll']:.4f}" in lines[-1]


def test_given_tokens_are_all_there_and_counted_apart(demo_blob):
    arguments = "explain", demo_blob("int8"), PROMPT, "-n", 5, "--given"
    figures = json.loads(output(*arguments, "--json"))
    text, blank, *lines = output(*arguments).splitlines()
    assert json.loads(text) == PROMPT + "".join(token["text"] for token in figures["tokens"]) and not blank
    first = re.match(r'("[^"]*") +- +- +\(', lines[1])
    given = [json.loads(ROW.match(line)[1]) for line in lines[2 : lines.index("")]]
    assert given == [token["text"] for token in figures["prompt"]]
    assert json.loads(first[1]) + "".join(given) == PROMPT
    for line, kind, part in zip(lines[-2:], ("given", "generated"), ("prompt", "tokens")):
        mean = -np.mean([token["logprob"] for token in figures[part]])
        n, nll = re.match(rf"(\d+) {kind} tokens: mean NLL ([\d.]+) nats", line).groups()
        assert int(n) == len(figures[part]) and float(nll) == pytest.approx(mean, abs=1e-4)


def test_what_is_rare_is_not_shown_as_impossible(demo_blob):
    text = "Once upon the the under under Anna Anna xyz Otto market q"
    arguments = "explain", demo_blob("int8"), text, "-n", 20, "--given"
    figures = json.loads(output(*arguments, "--json"))
    shown = [ROW.match(line)[2] for line in output(*arguments).splitlines() if ROW.match(line)]
    tokens = figures["prompt"] + figures["tokens"]
    rare = [token["probability"] < 0.5e-4 for token in tokens]
    assert any(rare) and [text == "<0.01" for text in shown] == rare
    assert not re.search(r" 0\.0+ %", output(*arguments))


def test_control_characters_are_shown_escaped(demo_blob):
    evil = "a \x1b]0;title\x07 \x9b1m \u202e \u200b \x7f \t \\ \" \r\n ein"
    text = output("explain", demo_blob("int8"), evil, "-n", 2, "--given")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b]", text)
    assert r'"\x1b"' in text and r'"\r"' in text and r'" \""' in text
    tokens = json.loads(output("explain", demo_blob("int8"), evil, "-n", 0, "--given", "--json"))
    assert any(token["text"] == "\x07" for token in tokens["prompt"])


def test_json_cannot_steer_the_terminal(demo_blob):
    words = "explain", demo_blob(), "a\x7f\x9b\x1b", "--given", "-n", 0, "--json"
    shown = on_terminal(words)
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in shown.strip()), ascii(shown)
    assert "\\u007f" in shown and "\\u001b" in shown


def test_colours_are_for_terminals_and_never_with_no_color(demo_blob):
    arguments = "explain", demo_blob("int8"), PROMPT, "-n", 12, *SAMPLED
    plain = output(*arguments)
    figures = json.loads(output(*arguments, "--json"))
    coloured = on_terminal(arguments)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain and not coloured.startswith("\x1b")
    expected = [
        32 if token["probability"] >= 0.75 else 33 if token["probability"] >= 0.25 else 31
        for token in figures["tokens"]
    ]
    assert [int(c) for c in re.findall(r"^\x1b\[(\d+)m", coloured, re.M)] == expected
    assert len(set(expected)) == 3
    assert on_terminal(arguments, NO_COLOR="1") == plain
    assert on_terminal(arguments, TERM="dumb") == plain
    assert on_terminal(arguments, NO_COLOR="") == coloured
    assert json.loads(on_terminal((*arguments, "--json"))) == figures


@pytest.mark.parametrize("columns", [20, 54, 79, 80, 100, 126, 127, 149, 150, 400])
def test_rows_are_as_wide_as_the_terminal(demo_blob, columns):
    arguments = "explain", demo_blob("int8"), PROMPT, "-n", 12, "--given", *SAMPLED
    wide, rows = output(*arguments).splitlines(), on_terminal(arguments, NO_COLOR="1", columns=columns).splitlines()
    assert len(rows) == len(wide) and rows[0] == wide[0]
    table = [(row, whole) for row, whole in zip(rows, wide) if ROW.match(whole)]
    assert len(table) == 3 + 12 and (columns < 150 or rows == wide)
    for row, whole in table:
        others = re.findall(r" ([<\d.]+) %", ROW.match(row)[4])
        whole_others = re.findall(r" ([<\d.]+) %", ROW.match(whole)[4])
        assert len(row) <= max(columns, 54) and row[:35] == whole[:35]
        assert others == whole_others[: len(others)]
        fewest = 1 if columns < 73 else 2 if columns < 92 else 3 if columns < 111 else 4
        assert len(others) == min(fewest if columns < 150 else 5, len(whole_others))


WIDTHS = "cli/character_width.h"


def test_columns_are_those_of_the_c_library():
    """Some hundred characters are disputed: parts of Hangul syllables, hexagrams, formats."""
    need_this_unicode(WIDTHS)
    libc, out, different = ctypes.CDLL(None), ctypes.create_string_buffer(100), []
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    for c in range(0x20, 0x110000):
        if unicodedata.category(chr(c)) in ("Cc", "Cn", "Co", "Cs"):
            continue
        text = chr(c).encode()
        columns = lib.smol_quote(text, ctypes.c_size_t(len(text)), ctypes.c_size_t(16), out)
        if columns != sum(libc.wcwidth(ord(shown)) for shown in out.value.decode()):
            different.append(c)
    locale.setlocale(locale.LC_CTYPE, before)
    assert len(different) < 500
    agreed = [(0x20, 0x10FF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFF00, 0xFF9F), (0x1F600, 0x1F64F)]
    assert not [hex(c) for c in different for first, last in agreed if first <= c <= last]


def test_widths_are_generated_from_pythons_unicode():
    assert_generated(WIDTHS, "width")

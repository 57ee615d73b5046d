"""JSON Schema as terms (runtime/constrain/schema.h), against the official JSON Schema Test Suite: every test is
decided rightly, or its schema is refused by a message with a place."""

import json
import os
import re
import time
from pathlib import Path

import pytest
import terms
from terms import COMPACT, INDENTED, SPACED, Refused, schema

SUITE = Path(os.environ.get("SMOL_SCHEMA_SUITE", "/usr/share/json-schema-test-suite/tests"))
DRAFTS = {f"draft{n}": f"http://json-schema.org/draft-0{n}/schema#" for n in (4, 6, 7)}
NARROWER = {  # valid texts that are not written
    "same object with different property order is valid",
    "a valid date-time with a leap second, with minus offset",
    "a valid punycoded IDN hostname",
}


def dump(value, white_space=COMPACT):
    indent = 2 if white_space == INDENTED else None
    colon = ":" if white_space == COMPACT else ": "
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=(("," if white_space != SPACED else ", "), colon))


def after_value(term, value, at):
    """Returns what may follow a value at `at`, for each order of its members."""
    if isinstance(value, dict):
        states = after_members(term, value, term.after(b"{", at))
        return {term.after(b"}", state) for state in states} - {0}
    if isinstance(value, list):
        states = {term.after(b"[", at)} - {0}
        for i, element in enumerate(value):
            states = {term.after(b"," if i else b"", state) for state in states} - {0}
            states = {after for state in states for after in after_value(term, element, state)}
        return {term.after(b"]", state) for state in states} - {0}
    return {term.after(dump(value).encode(), at)} - {0}


def after_members(term, value, at):
    reached = {frozenset(): {at} - {0}}  # by the names so far
    for _ in value:
        grown = {}
        for names, states in reached.items():
            for name in value.keys() - names:
                begin = f"{',' if names else ''}{dump(name)}:".encode()
                starts = {term.after(begin, state) for state in states} - {0}
                after = {after for start in starts for after in after_value(term, value[name], start)}
                grown.setdefault(names | {name}, set()).update(after)
        reached = grown
    return reached[frozenset(value)]


def allows(term, value) -> bool:
    return any(terms.lib.smol_term_may_end(term.table, at) for at in after_value(term, value, term.root))


def cases():
    for draft, address in DRAFTS.items():
        for file in sorted(SUITE.glob(f"{draft}/*.json")) + sorted(SUITE.glob(f"{draft}/optional/format/*.json")):
            for case in json.loads(file.read_text()):
                if isinstance(case["schema"], dict):
                    case["schema"] = {"$schema": address, **case["schema"]}
                yield draft, file.stem, case


@pytest.mark.skipif(not SUITE.exists(), reason="needs Debian's json-schema-test-suite")
@pytest.mark.quick
def test_suite_is_decided_rightly_or_refused_by_place():
    right, refused = 0, 0
    for draft, name, case in cases():
        where = f"{draft} {name}: {case['description']}"
        try:
            term = schema(case["schema"])
        except Refused as fault:
            if "no value matches" in str(fault) or "no text" in str(fault):
                assert not any(test["valid"] for test in case["tests"]), where
            else:
                assert re.match("schema: #", str(fault)), (where, fault)
                refused += len(case["tests"])
            continue
        for test in case["tests"]:
            if test["description"] not in NARROWER:
                assert allows(term, test["data"]) == test["valid"], (where, test)
                right += 1
    assert right > 900 and refused < 130, (right, refused)


@pytest.mark.parametrize(
    "value, valid, invalid",
    [
        ({"type": "integer", "minimum": -5, "maximum": 123}, range(-5, 124), [-6, 124, 1.5, 1000]),
        ({"minimum": -5.25, "exclusiveMaximum": 12.5}, [-5.25, -5.2, 0, 0.1, 12.49, "x"], [-5.26, 12.5, 13]),
        ({"type": "number", "multipleOf": 0.01}, [0, 1, 0.01, 12.34, -0.5], [0.001, 1.234]),
        ({"type": "integer", "multipleOf": 7}, range(-700, 700, 7), [1, 8, 701]),
        ({"type": "number", "multipleOf": 2.5, "maximum": 100}, [0, 2.5, 97.5, 100], [1, 2, 102.5]),
        ({"type": "string", "pattern": "^a+b?$", "maxLength": 3}, ["a", "aab"], ["aaab", "b", 1]),
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1, "maxProperties": 2},
            [{"a": 1}, {"a": 1, "b": 2}, {"b": 1, "z": 2}],
            [{}, {"a": 1, "b": 2, "c": 3}],
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
            [{"a": 1}, {"b": 1, "c": 2}],
            [{}, {"a": 1, "b": 2}],
        ),
        (
            {"type": "object", "properties": {"a": {}}, "not": {"additionalProperties": {"type": "integer"}}},
            [{"b": "x"}, {"a": 1, "c": None}, {"a": "x"}],
            [{}, {"a": 1}, {"a": 1, "b": 1}],
        ),
        (
            {"if": {"properties": {"k": {"const": "a"}}, "required": ["k"]}, "then": {"required": ["x"]}},
            [{"k": "a", "x": 1}, {"k": "b"}, 3],
            [{"k": "a"}],
        ),
        (
            {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}, "type": "object"}}},
            [{}, {"next": {"next": {}}}],
            [{"next": 1}],
        ),
        ({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, 3]}}, [[], [3, 1]], [[1, 1], [1, 2, 1]]),
        ({"contains": {"type": "integer"}, "maxContains": 1, "type": "array"}, [[1], ["a", 1]], [[], [1, 2]]),
        (
            {"allOf": [{"properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"maximum": 2}}}], "type": "object"},
            [{"a": 1}, {"a": 2}, {}],
            [{"a": 0}, {"a": 3}],
        ),
        ({"unevaluatedProperties": False, "anyOf": [{"properties": {"a": {}}}]}, [{"a": 1}, {}], [{"b": 1}]),
        *(({"$schema": DRAFTS["draft7"], "type": "array"} | words, valid, invalid) for words, valid, invalid in [
            ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, [[1], []], [["a"], ["a", 1]]),
            ({"contains": {"type": "integer"}, "minContains": 0}, [[1]], [[], ["a"]]),
            ({"contains": {"type": "integer"}, "minContains": 2, "maxContains": 2}, [[1], [1, 2, 3]], [[], ["a"]]),
            ({"enum": [[], [1], ["a"]], "contains": {"type": "integer"}, "minContains": 0}, [[1]], [[], ["a"]]),
        ]),
    ],
)
def test_values_are_told_apart(value, valid, invalid):
    term = schema(value)
    for instance in valid:
        assert allows(term, instance), instance
    for instance in invalid:
        assert not allows(term, instance), instance


@pytest.mark.parametrize("white_space", [COMPACT, SPACED, INDENTED])
def test_white_space_is_as_chosen(white_space):
    value = {"a": [1, {"b": {}}], "c": [], "d": {"e": "x"}}
    text = dump(value, white_space)
    for any_value in ({}, {"const": value}, {"properties": {"a": {"type": "array"}}}):
        term = schema(any_value, white_space)
        assert term.allows(text)
        assert not term.allows(text.replace("[", "[ ", 1))


def test_properties_may_come_in_any_order():
    term = schema({"properties": {"a": {}, "b": {}}, "required": ["b"], "type": "object"}, any_order=True)
    for text in ('{"b":1,"a":2}', '{"a":2,"b":1}', '{"x":0,"b":1,"y":2,"a":3}', '{"b":1}'):
        assert term.allows(text)
    for text in ('{"a":1}', '{"a":1,"a":2,"b":3}', "{}"):
        assert not term.allows(text)


@pytest.mark.parametrize(
    "value, message",
    [
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no value matches"),
        ({"not": {"additionalItems": False}}, "no value matches"),
        ({"not": {"items": {"type": "string"}, "additionalItems": False}, "items": {"const": "a"}}, "no value matches"),
        ({"not": {"items": [{}], "additionalItems": False}}, "#/not/additionalItems: additionalItems cannot be negated"),
        ({"properties": {"a": {"$ref": "#/x"}}}, "#/properties/a/$ref: the reference leads to nothing"),
        ({"items": {"uniqueItems": True, "type": "array"}}, "#/items/uniqueItems: "),
        ({"type": "object", "minProperties": 3}, "#/minProperties: "),
        ({"type": 3}, "#/type: must be the name of a type"),
        ({"pattern": "(a)\\1"}, "#/pattern: "),
        ({"properties": 5}, "#/properties: must be an object"),
        ({"exclusiveMinimum": "x"}, "#/exclusiveMinimum: must be a number"),
        ({"format": 5}, "#/format: must be a string"),
        ({"const": 5, "minimum": "x"}, "#/minimum: must be a number"),
        ({"const": 5, "exclusiveMaximum": None}, "#/exclusiveMaximum: must be a number"),
        ({"const": 5, "multipleOf": 0}, "#/multipleOf: must be a number above 0"),
        ({"const": "5", "pattern": 5}, "#/pattern: must be a string"),
        ({"enum": ["a"], "format": []}, "#/format: must be a string"),
        ({"enum": [{"a": 1}], "properties": {"a": {"type": "strng"}}}, "#/properties/a/type: must be the name of a type"),
        ({"const": {"a": 1}, "properties": {"a": {"anyOf": {"x": {"type": "integer"}}}}}, "#/properties/a/anyOf: must be a list"),
        ({"const": {"a": 1}, "properties": {"a": {"enum": 1}}}, "#/properties/a/enum: must be a list"),
        ({"const": {"a": {}}, "properties": {"a": {"required": [7]}}}, "#/properties/a/required/0: must be a string"),
        ({"const": {"a": {}}, "properties": {"a": {"properties": []}}}, "#/properties/a/properties: must be an object"),
        ({"const": {"a": 1}, "properties": {"a": 1}}, "#/properties/a: must be a schema"),
        ({"oneOf": [{"uniqueItems": True}, {"minItems": 3}]}, "#/oneOf: the branches cannot be told apart"),
        (b'{"type":', "not JSON"),
        (b'{"a":1,"a":2}', "appears twice"),
        ({"allOf": [{"anyOf": [{"required": [f"{i}{k}"]} for k in range(9)]} for i in range(9)]}, "too many"),
    ],
)
def test_faults_are_named(value, message):
    with pytest.raises(Refused, match=re.escape(message)):
        schema(value)


# --- schemas of an attacker ---------------------------------------------------------------------


def numbered(n, name="d", **others):
    """Returns definitions, each made of the one before."""
    return {f"{name}{i}": {key: make(f"#/$defs/{name}{i - 1}") for key, make in others.items()} for i in range(1, n)}


def pair(place):
    return [{"$ref": place}, {"$ref": place}]


HOSTILE = {
    "a long enum": {"enum": list(range(200_000))},
    "an enum of lists": {"enum": [[i] * 20 for i in range(20_000)]},
    "enums that meet": {"enum": list(range(100_000)), "allOf": [{"enum": list(range(99_999, -1, -1))}]},
    "long texts that are nearly equal": {"enum": ["a" * 3000 + str(i) for i in range(1000)], "not": {"enum": ["a" * 3000 + str(-i) for i in range(1000)]}},
    "a long list whose elements differ": {"const": list(range(100_000)), "uniqueItems": True},
    "choices of choices": {"$ref": "#/$defs/d29", "$defs": numbered(30, anyOf=pair) | {"d0": {"type": "string"}}},
    "objects of objects": {"$ref": "#/$defs/d29", "$defs": numbered(30, properties=lambda place: dict(zip("ab", pair(place), strict=True))) | {"d0": {}}},
    "choices that multiply": {"allOf": [{"anyOf": [{"properties": {f"a{i}": {"minimum": k}}} for k in range(3)]} for i in range(9)]},
    "conditions in a row": {"allOf": [{"if": {"properties": {"k": {"const": i}}}, "then": {"required": [f"r{i}"]}} for i in range(200)]},
    "patterns that overlap": {"patternProperties": {f"[a-z]{{{i}}}$": {"minimum": i} for i in range(20)}},
    "patterns that meet": {"type": "string", "allOf": [{"pattern": f"{chr(97 + i)}.{{{i}}}z"} for i in range(15)]},
    "a pattern with many states": {"type": "string", "pattern": "^(.*a.{28}){2}$", "maxLength": 100},
    "counts of counts": {"type": "string", "pattern": "^" + "(" * 20 + "a" + "{1,9}){1,9}" * 20 + "$"},
    "many properties": {"properties": {f"p{i}": {} for i in range(20_000)}},
    "large counts": {"type": "array", "minItems": 10**18, "prefixItems": [{"type": "string", "minLength": 10**30}] * 100},
    "a long bound": b'{"type":"number","minimum":0.' + b"9" * 100_000 + b"}",
    "a large bound": b'{"type":"number","maximum":1E99999}',
    "a chain of references": {"$ref": "#/$defs/d199", "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i - 1}"} for i in range(200)}},
    "a long reference": {"$ref": "#" + "/a" * 100_000},
    "many required names beside choices": {"type": "object", "required": [f"n{i}" for i in range(2000)], "anyOf": [{"minProperties": i % 7} for i in range(50)]},
    "many required names": {"type": "object", "required": [f"n{i}" for i in range(15_000)]},
    "many names that are refused": {"type": "object", "required": [f"n{i}" for i in range(4000)], "not": {"anyOf": [{"required": [f"m{i}"]} for i in range(4000)]}},
    "many references to an anchor": {"prefixItems": [{"$ref": "#a"}] * 4000, "x": [{}] * 80_000, "$defs": {"z": {"$anchor": "a", "type": "null"}}},
    "many dynamic references": {"prefixItems": [{"$dynamicRef": "#a"}] * 4000, "x": [{}] * 80_000, "$defs": {"z": {"$dynamicAnchor": "a", "type": "null"}}},
    "many references into a list": {"properties": {f"p{i}": {"$ref": f"#/x/{79_999 - i}"} for i in range(8000)}, "x": [{}] * 80_000},
    "branches that only a search tells apart": {"oneOf": [{"type": "string", "pattern": f"^[ab]*{'ab'[i % 2]}[ab]{{12}}$", "title": str(i)} for i in range(24)]},
    "branches whose patterns are refused": {"oneOf": [{"type": "string", "pattern": f"^[ab]*{'ab'[i % 2]}[ab]{{18}}$", "title": str(i)} for i in range(24)]},
}  # fmt: skip


COMPILED = "many required names", "many references to an anchor", "many dynamic references"  # not refused for their number


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_compiled_or_refused_soon(name):
    value = HOSTILE[name]
    value = value if isinstance(value, bytes) else json.dumps(value).encode()
    begin = time.process_time()
    try:
        schema(value)
    except Refused as fault:
        assert name not in COMPILED
        assert re.match("schema: #|the constraint: it |the constraint: its |the constraint allows no text", str(fault)), fault
    assert time.process_time() - begin < 10  # with sanitizers too


def test_numbers_are_compared_as_fast_as_texts_and_by_value():
    def seconds(elements):
        begin = time.process_time()
        with pytest.raises(Refused, match="too much work"):
            schema({"const": elements, "uniqueItems": True})
        return time.process_time() - begin

    assert seconds(list(range(100_000))) < 3 * seconds([str(i) for i in range(100_000)])
    for twice in (b"[1, 10e-1]", b"[0, -0.0]", b"[1.50, 0.15E1]", b"[100, 1e2]", b"[-7, -70e-1]"):
        with pytest.raises(Refused, match="no value"):
            schema(b'{"uniqueItems": true, "const": ' + twice + b"}")
    for differ in (b"[1, -1]", b"[1, 10]", b"[0.1, 0.01]"):
        assert schema(b'{"uniqueItems": true, "const": ' + differ + b"}").allows(differ.replace(b" ", b""))


def test_an_enum_may_be_long():
    """Texts take no memory but that of their bytes, also within an object."""
    texts = [f"item {i * 7919 % 50_021}, of many" for i in range(50_000)]
    term = schema({"type": "object", "required": ["a"], "properties": {"a": {"enum": texts}}})
    for text in texts[::97]:
        assert allows(term, {"a": text}) and not allows(term, {"a": text + "x"}) and not allows(term, {"a": text[1:]})


def test_a_value_may_be_long():
    value = {"list": list(range(3000)), "object": {f"name {i}": [i] for i in range(3000)}}
    for white_space in (COMPACT, SPACED, INDENTED):
        term = schema({"const": value}, white_space)
        assert term.allows(dump(value, white_space)) and not term.allows(dump(value | {"list": [1]}, white_space))


@pytest.mark.parametrize(
    "text, valid, invalid",
    [
        (b'{"type":"number","minimum":-0,"maximum":-0.0}', ["0", "0.0"], ["1", "-1", "0.1"]),
        (b'{"const":-0.0}', ["-0.0", "-0"], ["1", "0.1"]),
        (b'{"enum":[1e400,1e-400,5],"maximum":1e401,"exclusiveMinimum":1e-400}', ["1e400", "5"], ["1e-400", "6"]),
        (b'{"type":"integer","minimum":-1e308,"maximum":1e308}', ["1" + "0" * 308, "-" + "9" * 308, "0"], ["1" + "0" * 307 + "1"]),
        (b'{"type":"number","multipleOf":1e-300}', ["0." + "0" * 299 + "1", "7"], ["0." + "0" * 300 + "1"]),
    ],
)  # fmt: skip
def test_numbers_have_no_size_of_a_machine(text, valid, invalid):
    term = schema(text)
    assert all(map(term.allows, valid)) and not any(map(term.allows, invalid))


DRAFT_4 = {"$schema": DRAFTS["draft4"]}
SMALL = {"type": "integer", "minimum": 0, "maximum": 100}


@pytest.mark.parametrize(
    "value, valid, invalid",
    [
        ({"type": "integer", "minimum": 13, "maximum": 22, "not": {"const": 14}, "multipleOf": 7}, ["21"], ["14", "14.0", "15"]),
        (SMALL | {"allOf": [{"multipleOf": 2}, {"multipleOf": 7}]}, ["14", "0", "98"], ["7", "4", "21"]),
        (SMALL | {"allOf": [{"multipleOf": 7}, {"multipleOf": 3}]}, ["21", "84"], ["7", "3", "21.0"]),
        ({"minimum": 0, "maximum": 10, "type": "number", "not": {"type": "integer"}, "multipleOf": 0.7}, ["0.7", "9.8"], ["7", "7.0", "0"]),
        (DRAFT_4 | {"type": "integer", "multipleOf": 7}, ["7", "-14"], ["7.0", "8"]),
        (DRAFT_4 | SMALL | {"multipleOf": 7}, ["7", "14"], ["7.0", "8"]),
        ({"not": {"const": "a"}, "type": "integer", "multipleOf": 7}, ["7", "-14"], ["8", "7.5"]),
    ],
)  # fmt: skip
def test_multiples_keep_what_other_keywords_say(value, valid, invalid):
    term = schema(value)
    assert all(map(term.allows, valid)) and not any(map(term.allows, invalid))


@pytest.mark.parametrize(
    "value",
    [
        {"type": "integer", "not": {"const": 14}, "multipleOf": 7},
        {"type": "integer", "multipleOf": 7, "not": {"const": 14}},
        {"type": "number", "not": {"type": "integer"}, "multipleOf": 0.7},
        {"type": "integer", "allOf": [{"multipleOf": 2}, {"multipleOf": 7}]},
    ],
)
def test_a_multiple_without_bounds_is_refused_beside_others(value):
    with pytest.raises(Refused, match="#/.*: (not supported|multipleOf is not supported) beside"):
        schema(value)


@pytest.mark.parametrize(
    "value, valid, invalid",
    [
        ({"type": "number", "not": {"const": 1.5}}, ["1.25", "-1.5", "1.05"], ["1.5", "1.50", "1.500"]),
        ({"type": "integer", "not": {"const": 0}}, ["1", "-1"], ["0", "-0"]),
        ({"type": "number", "not": {"enum": [0, 100]}}, ["10", "0.5"], ["0", "-0", "0.00", "-0.0", "100", "100.00"]),
        ({"type": "integer", "if": {"const": 0}, "then": False}, ["5"], ["0", "-0"]),
        ({"type": "number", "not": {"multipleOf": 0.5}}, ["1.25", "0.1"], ["1.5", "1.50", "2", "2.0", "2.00", "-0.00"]),
        ({"type": "number", "not": {"multipleOf": 0.1}}, ["1.25"], ["1.5", "1.50", "1.00"]),
        ({"oneOf": [{"const": 1.5}, {"type": "number"}]}, ["2", "-1.5"], ["1.5", "1.50"]),
    ],
)  # fmt: skip
def test_numbers_are_excluded_in_every_spelling(value, valid, invalid):
    term = schema(value)
    assert all(map(term.allows, valid)) and not any(map(term.allows, invalid))

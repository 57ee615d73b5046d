"""Random JSON Schemas: the terms of runtime/constrain accept exactly the values that `jsonschema` accepts, and what
models write under a constraint is valid.

Every other schema is written as draft 7 does. hypothesis-jsonschema draws values of it; others differ from
these in one place, or are drawn without the schema. SMOL_TEST_ALL=1 draws more than 20,000 pairs."""

import decimal
import json
import os
import random
import re

import pytest
import schemas
import structured_output
import terms
from engine import Model, blob_of
from internal import ROOT
from jsonschema import FormatChecker
from jsonschema.validators import validator_for
from test_constrain_schema import allows

ALL = bool(os.environ.get("SMOL_TEST_ALL"))
N_SCHEMAS = 4000 if ALL else 80
N_PARTS = 4  # so that several processes share the work
N_WRITTEN, LIMIT = (40 if ALL else 3), 40  # schemas that models write for, and tokens of a text
decimal.getcontext().prec = 400
EMPTY = "no value matches", "no text"


def number(text):
    exact = decimal.Decimal(text)
    return int(exact) if exact.adjusted() < 400 and exact == exact.to_integral_value() else exact


def parse(text):
    """Returns the value that a text of JSON stands for, with exact numbers."""
    return json.loads(text, parse_float=number)


def plain(value):
    """Returns the value with numbers in their usual spelling, 1 for 1.0, and without an exponent."""
    if isinstance(value, float):
        value = round(value, 4)
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return {name: plain(inner) for name, inner in value.items()} if isinstance(value, dict) else value


def in_python(schema):
    """Returns the schema with patterns that mean to Python what they mean to JavaScript."""

    def pattern(text):
        return "(?a:" + text.replace("$", r"\Z").replace(".", "[^\n\r\u2028\u2029]") + ")"

    if isinstance(schema, list):
        return [in_python(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    made = {word: in_python(inner) for word, inner in schema.items()}
    if "pattern" in made:
        made["pattern"] = pattern(made["pattern"])
    if "patternProperties" in made:
        made["patternProperties"] = {pattern(text): inner for text, inner in made["patternProperties"].items()}
    return made


def validator(schema):
    kind = validator_for(schema)
    kind.check_schema(schema)
    return kind(parse(json.dumps(in_python(schema))), format_checker=FormatChecker(("date", "uuid", "ipv4")))


def drawn_values(draw, schema):
    values = schemas.matching(schema, 3, draw.random())
    values += [schemas.neighbour(draw, value) for value in values] + [schemas.value(draw) for _ in range(2)]
    return [plain(value) for value in values]


def words_of(schema):
    """Yields the keywords and names in a schema."""
    for word in schema if isinstance(schema, dict) else ():
        yield word
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from words_of(inner)


def compiled(schema, counts):
    """Returns its terms, None if it is refused, or False if nothing matches."""
    try:
        return terms.schema(schema)
    except terms.Refused as fault:
        if any(words in str(fault) for words in EMPTY):
            return False
        place = re.match(r"schema: (#\S*): ", str(fault))
        assert place and set(place[1].split("/")) & set(words_of(schema)), (schema, fault)
        counts["refused"] += 1
        return None


def compare(schema, values, counts):
    term, reference = compiled(schema, counts), validator(schema)
    for value in values if term is not None else ():
        valid = reference.is_valid(parse(json.dumps(value)))
        assert bool(term and allows(term, value)) == valid, (json.dumps(schema), json.dumps(value), valid)
        counts["valid" if valid else "invalid"] += 1


@pytest.mark.quick
@pytest.mark.parametrize("part", range(N_PARTS))
def test_what_jsonschema_accepts_is_accepted_and_nothing_else(part):
    draw, counts = random.Random(part), dict.fromkeys(("refused", "valid", "invalid"), 0)
    for i in range(N_SCHEMAS // N_PARTS):
        schema = schemas.document(draw)
        old = schemas.older(schema)
        values = drawn_values(draw, old)
        schema = old if i % 2 else schema
        compare(schema, values, counts)
    pairs = counts["valid"] + counts["invalid"]
    assert counts["valid"] > pairs // 4 and counts["invalid"] > pairs // 4 and counts["refused"] < N_SCHEMAS // N_PARTS // 4, counts


def test_keywords_of_a_newer_draft_mean_nothing_in_an_older_one():
    draw, counts = random.Random(5), dict.fromkeys(("refused", "valid", "invalid"), 0)
    for _ in range(N_SCHEMAS):
        words = draw.sample(["items", "prefixItems", "contains", "minContains", "maxContains", "uniqueItems"], 3)
        schema = {"$schema": f"http://json-schema.org/draft-0{draw.choice([6, 7])}/schema#", "type": "array"}
        schema |= {word: schemas.content(draw, word, 1) for word in words}
        compare(schema, [[plain(schemas.value(draw)) for _ in range(schemas.size(draw))] for _ in range(20)], counts)
    assert min(counts["valid"], counts["invalid"]) > N_SCHEMAS and counts["refused"] < N_SCHEMAS, counts


# The spelling that is written of each number, and others, which may be left out but not be allowed where the number is not.
USUAL = "0 1 -1 2 3 5 7 10 14 21 -7 -12 100 0.5 -0.5 0.25 -0.25 0.7 1.4 1.5 -1.5 2.25 2.75 12.5 0.75".split()
OTHER = "-0 0.0 -0.0 -0.00 1.0 1.00 2.00 7.0 14.0 14.00 0.50 1.50 -1.500 12.50 1e1 10E-1 5e-1".split()
N_NUMERIC = 12000 if ALL else 200


def test_numbers_are_decided_as_jsonschema_decides():
    draw, counts, told = random.Random(23), dict(refused=0), dict.fromkeys((True, False), 0)
    for _ in range(N_NUMERIC):
        schema = schemas.numeric(draw)
        term, reference = compiled(schema, counts), validator(schema)
        for text in USUAL + OTHER if term is not None else ():
            valid, allowed = reference.is_valid(parse(text)), bool(term and term.allows(text))
            assert allowed <= valid and (allowed or not valid or text in OTHER), (json.dumps(schema), text, valid)
            told[valid] += 1
    assert min(told.values()) > sum(told.values()) // 10 and counts["refused"] < N_NUMERIC // 4, (told, counts)


# --- texts that models write --------------------------------------------------------------------


@pytest.fixture(scope="module", params=["bundled", pytest.param("real", marks=pytest.mark.slow)])
def model(request):
    folder = ROOT / "demo/model" if request.param == "bundled" else request.getfixturevalue("real_model_dir")
    with Model(blob_of(folder, "int8")) as model:
        yield model


def drawn_constraints(model):
    """Yields (schema, constraint) of schemas that compile."""
    draw, counts, n = random.Random(19), dict(refused=0), 0
    while n < N_WRITTEN:
        schema = schemas.document(draw)
        if compiled(schema, counts):
            n += 1
            yield schema, structured_output.Constraint(model, schema)


def test_what_a_model_writes_is_valid_or_can_be_completed(model):
    ended = cut = 0
    with model.context(threads=2) as context:
        prompt = model.tokenize("An example in JSON: ")
        first = context.eval(prompt, 1)
        for schema, constraint in drawn_constraints(model):
            reference, term = validator(schema), terms.schema(schema, terms.SPACED)
            for temperature, seed in [(t, s) for t in (1, 2) for s in range(3)]:
                matcher, sampler = structured_output.Matcher(constraint), structured_output.Sampler(temperature=temperature, seed=seed)
                ids, end = structured_output.write(context, first, matcher, sampler, LIMIT)
                context.truncate(len(prompt))
                text = structured_output.text_of(model, ids)
                if end:
                    assert reference.is_valid(parse(text)), (schema, text)
                else:
                    assert matcher.mask().any() and term.after(text), (schema, text)
                ended, cut = ended + end, cut + (not end)
    assert ended > cut / 4 and cut > 0, (ended, cut)

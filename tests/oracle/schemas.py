"""Random JSON Schemas of draft 2020-12, the same as draft 7 writes them, and values that match or nearly do.

Names, numbers and texts come from small pools, so that keywords meet: bounds with multiples, patterns with
lengths, required names with names that are refused. `draw` is a random.Random."""

import types

import hypothesis_jsonschema
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.internal.conjecture import utils
from hypothesis_jsonschema._resolve import HypothesisRefResolutionError
from jsonschema import SchemaError

NAMES = ["a", "b", "ab", "x1", "é"]
TEXTS = ["", "a", "b", "ab", "aab", "a-b", "x1", "12", "é😀", 'q"\\\n/', "2024-02-29", "a@b.de", "127.0.0.1"]
PATTERNS = ["a", "^a", "b$", "^[ab]*$", "^.{2}$", "[0-9]+", "^(a|ab)-?b?$", r"^\w+$", "^(?!a)", "é|1", r"\d{2}"]
FORMATS = ["date", "uuid", "ipv4", "not-a-format"]
NUMBERS = [0, 1, -1, 2, 3, 5, 7, 10, -12, 100, 0.5, -0.25, 2.75, 12.5]
STEPS = [1, 2, 3, 5, 0.5, 0.25, 0.1, 2.5]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
DEFINED = ["p", "q"]


def some(draw, options, least=0, most=3):
    return draw.sample(options, min(draw.randint(least, most), len(options)))


def size(draw):
    return draw.randint(0, 3)


def scalar(draw):
    return draw.choice([None, True, False, draw.choice(NUMBERS), draw.randint(-20, 120), *draw.sample(TEXTS, 3)])


def value(draw, depth=2):
    kind = draw.randrange(6 if depth else 4)
    if kind == 4:
        return [value(draw, depth - 1) for _ in range(size(draw))]
    if kind == 5:
        return {name: value(draw, depth - 1) for name in some(draw, NAMES)}
    return scalar(draw)


# --- schemas ------------------------------------------------------------------------------------


def content(draw, word, depth):
    """Returns what a keyword may be followed by."""
    within = depth - 1
    if word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        return draw.choice(NUMBERS)
    if word[:3] in ("min", "max"):
        return size(draw)
    if word in ("properties", "dependentSchemas"):
        return {name: schema(draw, within, word == "properties") for name in some(draw, NAMES, 1)}
    if word == "patternProperties":
        return {pattern: schema(draw, within, True) for pattern in some(draw, PATTERNS, 1, 2)}
    if word == "prefixItems":
        return [schema(draw, within, True) for _ in range(draw.randint(1, 2))]
    if word in ("allOf", "anyOf", "oneOf"):
        return [schema(draw, within) for _ in range(draw.randint(1, 3))]
    if word == "dependentRequired":
        return {name: some(draw, NAMES) for name in some(draw, NAMES)}
    if word == "enum":
        return list({repr(v): v for v in (value(draw) for _ in range(draw.randint(1, 4)))}.values())
    choices = {"multipleOf": STEPS, "pattern": PATTERNS, "format": FORMATS, "uniqueItems": [True, False]}
    if word in choices:
        return draw.choice(choices[word])
    if word == "required":
        return some(draw, NAMES)
    if word == "const":
        return value(draw)
    return schema(draw, within, word not in ("not", "if", "then", "else"))


WORDS = {
    "number": ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
    "string": ["minLength", "maxLength", "pattern", "format"],
    "array": """items prefixItems contains minItems maxItems uniqueItems unevaluatedItems minContains
        maxContains""".split(),
    "object": """properties properties required additionalProperties patternProperties propertyNames
        minProperties maxProperties dependentRequired dependentSchemas unevaluatedProperties""".split(),
}  # fmt: skip
ANYWHERE = ["enum", "const", "not", "allOf", "anyOf", "oneOf"]


def schema(draw, depth=3, refers=False):
    """Returns a schema in which schemas are at most `depth` deep. `refers`: it may be a reference."""
    kind = draw.choice(["typed"] * 8 + ["any"] * 3 + ["both"] * 3 + ["if", "refers", "trivial"])
    if kind == "refers" and refers:
        return {"$ref": f"#/$defs/{draw.choice(DEFINED)}"}
    if depth == 0 or kind == "trivial":
        return draw.choice([True, {}, {"const": scalar(draw)}, False] + [{"type": name} for name in TYPES])
    made = typed(draw, depth) if kind in ("typed", "both") else {}
    words = some(draw, ANYWHERE, 1, 2) if kind in ("any", "both") else []
    words += ["if", *some(draw, ["then", "else"], 1, 2)] if kind == "if" else []
    return made | {word: content(draw, word, depth) for word in words}


def typed(draw, depth):
    """Returns types and keywords about them."""
    named = draw.choice([some(draw, TYPES, 1, 2), [draw.choice(TYPES[2:])]])
    made = {"type": named[0] if len(named) == 1 else named}
    for kind in named:
        words = some(draw, WORDS.get("number" if kind == "integer" else kind, []), 0, 4)
        made |= {word: content(draw, word, depth) for word in words}
    return made


def document(draw):
    """Returns a whole schema, with definitions."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    whole = schema(draw)
    definitions = {name: schema(draw, 2) for name in DEFINED}  # none is a reference itself
    return head | (whole if isinstance(whole, dict) else {"allOf": [whole]}) | {"$defs": definitions}


NEWER = ("unevaluatedProperties", "unevaluatedItems", "minContains", "maxContains")
BY_NAME = ("properties", "patternProperties", "$defs", "dependentSchemas")
IN_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
PLAIN = ("enum", "const", "required", "type", "dependentRequired")


def older(schema):
    """Returns the schema as draft 7 writes it, without keywords that draft 7 lacks."""
    if not isinstance(schema, dict):
        return schema
    made = {}
    for word, inner in schema.items():
        if word in BY_NAME:
            inner = {name: older(one) for name, one in inner.items()}
        elif word in IN_LISTS:
            inner = [older(one) for one in inner]
        elif word == "$schema":
            inner = "http://json-schema.org/draft-07/schema#"
        elif word == "$ref":
            inner = inner.replace("$defs", "definitions")
        elif word not in PLAIN:
            inner = older(inner)
        if word in ("dependentRequired", "dependentSchemas"):
            word, inner = "dependencies", made.get("dependencies", {}) | inner
        elif word == "items" and "prefixItems" in schema:
            word = "additionalItems"
        if word not in NEWER:
            made[{"$defs": "definitions", "prefixItems": "items"}.get(word, word)] = inner
    return made


def numeric(draw, depth=2):
    """Returns a schema of numbers: their keywords, in any order, among those that combine schemas."""
    made = {"type": draw.choice(["integer", "number"])} if draw.random() < 0.5 else {}
    for word in draw.sample([*WORDS["number"], *ANYWHERE, "if"], draw.randint(1, 3)):
        if word == "multipleOf":
            made[word] = draw.choice([*STEPS, 7, 0.7])
        elif word in WORDS["number"] or word == "const":
            made[word] = draw.choice(NUMBERS)
        elif word == "enum":
            made[word] = draw.sample(NUMBERS, 3)
        elif depth and word in ("not", "if"):
            made |= {one: numeric(draw, depth - 1) for one in ([word] if word == "not" else ["if", "then"])}
        elif depth:
            made[word] = [numeric(draw, depth - 1) for _ in range(2)]
    return made


# --- values that match, and that nearly do ------------------------------------------------------


class Many(utils.many):
    """As hypothesis-jsonschema 0.23 calls it: newer versions of Hypothesis iterate instead."""

    def more(self):
        if not self._iterated:
            self.__enter__()
            self.turns = iter(self)
        if any(True for _ in self.turns):
            return True
        self.__exit__(None)
        return False


hypothesis_jsonschema._from_schema.cu = types.SimpleNamespace(many=Many)


def without_formats(schema):
    """Returns the schema without a keyword that makes drawing slow, and whose texts are among TEXTS."""
    if isinstance(schema, list):
        return [without_formats(inner) for inner in schema]
    if isinstance(schema, dict):
        return {word: without_formats(inner) for word, inner in schema.items() if word != "format"}
    return schema


def is_small(value):
    """Returns whether no object has so many members that trying all orders takes long."""
    if isinstance(value, (dict, list)):
        return len(value) <= 5 and all(map(is_small, value.values() if isinstance(value, dict) else value))
    return True


class Enough(Exception):
    """Ends the drawing of values."""


def matching(schema, n, seed):
    """Returns at most n values of a schema of draft 7, as hypothesis-jsonschema draws them."""
    found, tries = [], []

    def keep(data):
        tries.append(1)
        if len(found) == n or len(tries) > 2 * n:
            raise Enough
        value = data.draw(values)
        if is_small(value):
            found.append(value)

    try:
        values = hypothesis_jsonschema.from_schema(without_formats(schema), allow_x00=False)
        once = settings(database=None, deadline=None, phases=[Phase.generate], suppress_health_check=HealthCheck)
        seeded(seed)(once(given(st.data())(keep)))()
    except (Enough, HypothesisException, HypothesisRefResolutionError, SchemaError, AssertionError):
        pass  # it found all, or finds no more
    return found


def neighbour(draw, value):
    """Returns a value that differs in one place."""
    new = scalar(draw)
    inside = list(range(len(value)) if isinstance(value, list) else value) if value and isinstance(value, (list, dict)) else []
    if inside and draw.random() < 0.5:
        at = draw.choice(inside)
        copy = value.copy()
        copy[at] = neighbour(draw, value[at])
        return copy
    if isinstance(value, list):
        at = draw.randint(0, len(value))
        return draw.choice([value[:at] + value[at + 1 :], value[:at] + [new] + value[at:], value + value[:1]])
    if isinstance(value, dict):
        left = {name: value[name] for name in value if name != draw.choice(list(value))}
        return draw.choice([left, value | {draw.choice(NAMES): new}])
    if isinstance(value, str):
        at, end = sorted(draw.randint(0, len(value)) for _ in range(2))
        return draw.choice([value[:at] + draw.choice(TEXTS) + value[end:], value + draw.choice("ab1-é"), new])
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return draw.choice([value + 1, value - 1, value + 0.5, new])
    return new

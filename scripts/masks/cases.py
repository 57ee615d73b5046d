"""Schemas of the data set, and their instances as the texts that all engines read.

A text is compact JSON. Its properties are in the order of the schema: those declared in `properties` in the
order in which reading the schema meets them, then names that it requires or that others depend on, then the
rest as they were. As in smol and llguidance, `properties`, `patternProperties` and `additionalProperties` are read
where the first of them is."""

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

from benchmark.paths import Unmeasured
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

OF_OBJECT = ("properties", "patternProperties", "additionalProperties")
IN_TURN = ("allOf",)
CHOICES = ("anyOf", "oneOf")
DEPENDENCIES = ("dependencies", "dependentSchemas")


class Orders:
    """The order of properties that a schema asks for."""

    def __init__(self, schema):
        self.schema = schema
        kind = validator_for(schema, default=Draft202012Validator)
        resource = specification_with(kind.META_SCHEMA["$schema"]).create_resource(schema)
        self.resolver = REGISTRY.resolver_with_root(resource)
        self.validator = kind(schema, registry=REGISTRY)

    def matches(self, schema, value):
        try:
            return self.validator.evolve(schema=schema).is_valid(value)
        except (Unresolvable, re.error, RecursionError, TypeError):
            return False

    def target(self, reference):
        try:
            return self.resolver.lookup(reference).contents
        except Unresolvable:
            return True

    def chosen(self, branches, value):
        """Returns the branches that match the value, or all if none does."""
        return [branch for branch in branches if self.matches(branch, value)] or branches

    def applied(self, schema, keyword, value):
        """Returns the schemas that a keyword applies to the same value."""
        content = schema[keyword]
        if keyword == "$ref" and isinstance(content, str):
            return [self.target(content)]
        if keyword in IN_TURN:
            return content
        if keyword in CHOICES:
            return self.chosen(content, value)
        if keyword == "if":
            branch = "then" if self.matches(content, value) else "else"
            return [content, schema.get(branch, True)]
        if keyword in DEPENDENCIES and isinstance(value, dict):
            return [schema for name, schema in content.items() if name in value]
        return []

    def flat(self, schemas, value, met):
        """Yields (schema, keyword) for all keywords that apply to a value, as reading meets them. `met` has
        the identities of schemas that were read already."""
        for schema in schemas:
            if not isinstance(schema, dict) or id(schema) in met:
                continue
            met.add(id(schema))
            for keyword in reading_order(schema):
                yield schema, keyword
                yield from self.flat(self.applied(schema, keyword, value), value, met)

    def ordered(self, value, schemas=None):
        """Returns a value with the properties of its objects in order."""
        schemas = [self.schema] if schemas is None else schemas
        if isinstance(value, dict):
            return self.ordered_object(value, schemas)
        if isinstance(value, list):
            pairs = list(self.flat(schemas, value, set()))
            return [self.ordered(item, element_schemas(pairs, i)) for i, item in enumerate(value)]
        return value

    def ordered_object(self, value, schemas):
        pairs = list(self.flat(schemas, value, set()))
        declared, required, inner = {}, {}, {name: [] for name in value}
        for schema, keyword in pairs:
            content = schema[keyword]
            if keyword == "properties":
                declared |= dict.fromkeys(content)
            if keyword in ("required", *DEPENDENCIES) and isinstance(content, (list, dict)):
                required |= dict.fromkeys(content)
            for name in value:
                inner[name] += property_schemas(schema, keyword, name)
        names = dict.fromkeys(name for name in (declared | required | value) if name in value)
        return {name: self.ordered(value[name], inner[name]) for name in names}


def reading_order(schema):
    """Returns the keywords of a schema, with those of OF_OBJECT together."""
    together = [keyword for keyword in OF_OBJECT if keyword in schema]
    keywords = []
    for keyword in schema:
        keywords += (together if keyword in together else [keyword]) if keyword not in keywords else []
    return keywords


def property_schemas(schema, keyword, name):
    """Returns the schemas that a keyword applies to the property `name`."""
    content = schema[keyword]
    if keyword == "properties":
        return [content[name]] if name in content else []
    if keyword == "patternProperties":
        return [inner for pattern, inner in content.items() if finds(pattern, name)]
    if keyword == "additionalProperties":
        known = name in schema.get("properties", {})
        return [] if known or any(finds(p, name) for p in schema.get("patternProperties", {})) else [content]
    return []


def element_schemas(pairs, i):
    """Returns the schemas of a list's element number i."""
    found = []
    for schema, keyword in pairs:
        content = schema[keyword]
        if keyword in ("prefixItems", "items") and isinstance(content, list):
            found += content[i : i + 1]
        elif keyword == "items" and i >= len(schema.get("prefixItems", [])):
            found.append(content)
        elif keyword == "additionalItems" and i >= len(as_list(schema.get("items"))):
            found.append(content)
    return found


def as_list(content):
    return content if isinstance(content, list) else []


def finds(pattern, name):
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


# --- the data set -------------------------------------------------------------------------------


@dataclass
class Case:
    """A schema as compact JSON, and [(text, whether it is valid)]."""

    name: str
    schema: str
    tests: list


def compact(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        text = json.dumps(value, separators=(",", ":"))
    return text


def read(path):
    content = json.loads(path.read_text())
    orders = Orders(content["schema"])
    tests = [(compact(orders.ordered(test["data"])), test["valid"]) for test in content["tests"]]
    return Case(path.stem, compact(content["schema"]), tests)


def choose(folder, only, n):
    """Returns the paths of matching schemas, or of n of them drawn with a fixed seed, by name."""
    paths = sorted(path for path in Path(folder).glob("*.json") if re.search(only, path.stem))
    if not paths:
        raise Unmeasured(f"{folder}: no schemas match (NAME.json with schema and tests): give MaskBench's data folder")
    return sorted(random.Random(0).sample(paths, n)) if n and n < len(paths) else paths

"""docs/limits.md says what the code says."""

import re
from pathlib import Path

import pytest
from internal import ROOT

pytestmark = pytest.mark.quick

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
ROW = re.compile(r"^\| (?!\*\*|what|---)(.+?) \| (.+?) \| (.+?) \|$", re.M)


def source(name):
    path = ROOT / name
    return (path if path.exists() else Path("/usr/include") / name).read_text()


def definition(name, text):
    """The expression that a constant, or the upper end of a hyper-parameter's range, is."""
    for pattern in (
        rf"#define {name}\s+(.+)",
        rf"\b{name}\s*=\s*([^,;}}]+)",
        rf'{{"{name}", m->{name}, \d+, (.+?)}}',
    ):
        if match := re.search(pattern, text):
            return match[1].strip()
    raise AssertionError(f"{name} is not there")


def value(expression):
    assert re.fullmatch(r"[0-9a-fx<\s*+()-]+", expression), expression
    return eval(expression)  # digits and operators alone, as was just seen


def stated(limit):
    """The number of a row: "64 MiB", "2^24 tokens", "100,000,000 bytes", "64 times"."""
    number, _, unit = limit.partition(" ")
    if "^" in number:
        base, exponent = number.split("^")
        return int(base) ** int(exponent)
    return int(number.replace(",", "")) * UNITS.get(unit.split(",")[0], 1)


# Constants that nobody can run into, and why.
EXCUSED = {
    "FAMILY_MAX_FUSED": "of our own table of families",
    "FAMILY_MAX_PARTS": "of our own table of families",
    "MAX_ARGUMENTS": "of our own filters",
    "MAX_CHECKPOINT_NAME": "room for a name of our own table",
    "MAX_BUFFER": "memory at a time; the rest comes later",
    "MAX_DIGITS": "room for a number",
    "MAX_FRAME_HEADER": "zstd's own",
    "MAX_INSTRUCTIONS": "of our own filter of system calls",
    "MAX_LETTERS": "of our own tables of Unicode",
    "MAX_MODULE": "room for a name of our own table",
    "MAX_NAME": "room for a name that we make",
    "MAX_NAME_SIZE": "room for a name in a message",
    "MAX_PLACE": "room for a place in a message",
    "MAX_PRINTED": "room for numbers and words of ours",
    "MAX_REAL": "room for a number",
    "MAX_ROWS": "rows at a time; the rest comes later",
    "MAX_RULES": "of our own tables of options",
    "MAX_SECTIONS": "as many as there are kinds",
    "MAX_SHAPE": "room for a shape in a message",
    "MAX_SHOWN": "how many a message lists",
    "MAX_TRIES": "names tried for a temporary",
    "PACKED_MAX_FRAME": "what PACKED_PIECE comes to, compressed",
    "RULE_MAX_TOKENS": "the option -n",
    "UTF8_MAX": "bytes of a character in UTF-8",
}

ROWS = ROW.findall((ROOT / "docs/limits.md").read_text())


def test_the_table_is_read():
    assert len(ROWS) >= 30


@pytest.mark.parametrize("what, limit, place", ROWS, ids=[row[0] for row in ROWS])
def test_each_limit_is_that_of_the_code(what, limit, place):
    names = re.findall(r"`(.+?)`", place)
    if len(names) == 1:  # a function, where there is no number
        assert limit == "the model's context" and names[0] in source("smol.h")
        return
    name, file = names
    if name == "UINT16_MAX":
        assert name in source(file) and stated(limit) == 65535
        return
    less = 1 if "less one" in place else 0
    assert stated(limit) == value(definition(name, source(file))) - less


def constants():
    """(name, file) of all constants that say MAX."""
    for module in ("common", "format", "convert", "runtime", "cli", "smolrun"):
        for path in sorted((ROOT / module).rglob("*.[ch]")):
            for name in re.findall(r"\b([A-Z0-9_]*MAX(?:_[A-Z0-9_]+)?)(?: = | +\\$)", path.read_text(), re.M):
                yield name, str(path.relative_to(ROOT))


def test_each_limit_of_the_code_is_in_the_table_or_excused():
    found = set(constants())
    assert len(found) >= 80
    table = {tuple(re.findall(r"`(.+?)`", place)) for _, _, place in ROWS}
    missing = {(name, file) for name, file in found - table if name not in EXCUSED}
    assert missing == set()
    assert set(EXCUSED) <= {name for name, _ in found}

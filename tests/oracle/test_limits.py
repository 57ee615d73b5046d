"""docs/limits.md says what the code says."""

import re
from pathlib import Path

import pytest
from internal import ROOT

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


ROWS = ROW.findall((ROOT / "docs/limits.md").read_text())


def test_the_table_is_read():
    assert len(ROWS) >= 30


@pytest.mark.parametrize("what, limit, place", ROWS, ids=[row[0] for row in ROWS])
def test_each_limit_is_that_of_the_code(what, limit, place):
    names = re.findall(r"`(.+?)`", place)
    if len(names) == 1:  # a function, where there is no number
        assert limit == "the model's context" and names[0] in source("runtime/smol.h")
        return
    name, file = names
    if name == "UINT16_MAX":
        assert name in source(file) and stated(limit) == 65535
        return
    less = 1 if "less one" in place else 0
    assert stated(limit) == value(definition(name, source(file))) - less

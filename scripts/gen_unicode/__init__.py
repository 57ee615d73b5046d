"""The tables that scripts/gen-unicode writes, one module each: TARGET is the file, header() returns its text."""
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def runs(characters):
    """Groups ascending characters into ranges [first, last]."""
    out = []
    for c in characters:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def braced(fields):
    return "{" + ", ".join(braced(f) if isinstance(f, list) else str(f) for f in fields) + "}"


def row(*fields):
    """Returns an entry of a table; a list among the fields is a struct or an array."""
    return braced(fields) + ","


def rows(items):
    """Puts as many entries on a line as fit."""
    lines = []
    for item in items:
        if lines and len(lines[-1]) + 1 + len(item) <= 100:
            lines[-1] += " " + item
        else:
            lines.append("    " + item)
    return lines


def table(declaration, items):
    return [f"static const {declaration} = {{", *rows(items), "};"]


def code_ranges(name, ranges):
    """Returns a table of common/code_range.h."""
    return table(f"struct code_range {name}[]", (row(hex(a), hex(b)) for a, b in ranges))


def number(value):
    """Returns the bytes of a number as common/code_range.h reads it."""
    return [*([value & 127 | 128, *number(value >> 7)] if value > 127 else [value])]


def steps(values):
    """Returns the numbers that lead from 0 to the first value, and from each value to the next."""
    return [after - before for before, after in zip([0, *values], values)]


def octets(name, values):
    return table(f"uint8_t {name}[]", (f"{value}," for value in values))


def packed(numbers):
    return sum(map(number, numbers), [])


def packed_ranges(name, ranges):
    """Returns a table of ranges, ascending, for packed_ranges_have in common/code_range.h."""
    return octets(name, packed(steps(sum(ranges, []))))


def packed_runs(name, runs):
    """Returns a table of runs [first, last, value], ascending, for packed_run_next in common/code_range.h."""
    ends = steps(sum((run[:2] for run in runs), []))
    return octets(name, packed(sum(([*ends[2 * i : 2 * i + 2], run[2]] for i, run in enumerate(runs)), [])))


def c_header(target, about, *lines):
    """Returns the whole file: the include guard for its path, and the lines between."""
    parts = target.relative_to(ROOT).with_suffix("").parts
    folder = "CONVERT" if parts[0] == "convert" else parts[0].upper()
    guard = f"SMOL_{folder}_{parts[-1].upper()}_H"
    head = [f"/* {about[0]}", *(f" * {line}" for line in about[1:])]
    head[-1] += " */"
    return "\n".join([*head, f"#ifndef {guard}", f"#define {guard}", "", *lines, "", "#endif", ""])

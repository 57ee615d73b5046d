"""The character classes and the automaton that find grapheme clusters.

A class is what the pinned `tokenizers` package makes of a character beside others: its normalizer Precompiled looks up
clusters of fewer than 6 bytes as a whole, so that a map which makes every character a mark shows where clusters end.
The automaton follows the rules of Unicode Standard Annex 29. Two rules need no class, because no cluster that they
form has fewer than 6 bytes: those of regional indicators."""
import itertools
import random
import struct

import tokenizers
from tokenizers import normalizers

from . import ROOT, SCALARS, c_header, octets, packed_runs, runs

TARGET = ROOT / "convert/tokenizer/unicode_clusters.h"
CLASSES = [
    "other", "cr", "lf", "control", "extend", "conjunct_extend", "linker", "joiner", "spacing", "prepend", "l", "v", "t",
    "lv", "lvt", "pictograph", "consonant",
]  # fmt: skip
EXTEND = {"extend", "conjunct_extend", "linker"}


def marker():
    """Returns a function that puts a mark in the place of each cluster of fewer than 6 bytes, and in that of each
    character of the others."""
    units = [0] * 768  # the root; its children, from 256 on; the value of each
    units[0] = 256 << 10
    for byte in range(1, 256):
        child = 256 + byte
        units[child] = (child ^ 512) << 10 | 1 << 8 | byte
    trie = struct.pack("<768I", *units)
    return normalizers.Precompiled(struct.pack("<I", len(trie)) + trie + b"!\0").normalize_str


mark = marker()


def marks(*characters):
    return len(mark("".join(characters)))


GRAVE, JOINER, SIGN, KA, VIRAMA, L, V, T = "\u0300", "\u200d", "©", "\u0915", "\u094d", "\u1100", "\u1161", "\u11a8"


def hangul(c):
    joins = [marks(x, c, GRAVE) == 3 and marks("x", c, GRAVE) == 2 for x in (L, V, T)]
    joined = [marks(c, x, GRAVE) == 3 for x in (V, T)]
    return {
        (True, False, False, True, False): "l", (True, True, False, True, True): "v",
        (False, True, True, False, True): "t", (True, False, False, True, True): "lv",
        (True, False, False, False, True): "lvt", (False, False, False, True, True): "v",  # of 4 bytes
    }.get((*joins, *joined), "other")  # fmt: skip


def class_of(c):
    if c in "\r\n":
        return "cr" if c == "\r" else "lf"
    size = len(c.encode())
    if marks(c, GRAVE, GRAVE) == 2 and size > 1 or marks(c, GRAVE) == 2 and size < 4:
        return "control"
    if marks("a", c) == 1:
        if marks(SIGN, c, SIGN, GRAVE) == 4:
            return "joiner"
        if marks(KA, c, KA, GRAVE) == 4:
            return "linker"
        if marks(KA, c, VIRAMA, KA, GRAVE) == 5:
            return "conjunct_extend"
        return "extend" if marks(SIGN, c, JOINER, SIGN, GRAVE) == 5 else "spacing"
    if marks(c, "a") == 1:
        return "prepend"
    if marks(c, VIRAMA, KA, GRAVE) == 4:
        return "consonant"
    if marks(c, JOINER, SIGN, GRAVE) == 4:
        return "pictograph"
    return hangul(c) if size > 2 else "other"


def step(state, kind):
    """Returns whether a cluster starts before a character of this class, and the state after it. A state is the class
    of the character before, how much there is of a pictograph and a joiner, and of a consonant and a linker."""
    before, pictograph, consonant = state
    joins = (before, kind) == ("cr", "lf")
    if not joins and before not in {"cr", "lf", "control"} and kind not in {"cr", "lf", "control"}:
        joins = (
            kind in EXTEND | {"joiner", "spacing"}
            or before == "prepend"
            or (before == "l" and kind in {"l", "v", "lv", "lvt"})
            or (before in {"lv", "v"} and kind in {"v", "t"})
            or (before in {"lvt", "t"} and kind == "t")
            or (pictograph == 2 and kind == "pictograph")
            or (consonant == 2 and kind == "consonant")
        )
    if not joins:
        pictograph = consonant = 0
    pictograph = 1 if kind == "pictograph" or (pictograph == 1 and kind in EXTEND) else \
        2 if pictograph == 1 and kind == "joiner" else 0
    consonant = 1 if kind == "consonant" else 2 if consonant and kind == "linker" else \
        consonant if kind in {"conjunct_extend", "joiner"} else 0
    return not joins, (kind, pictograph, consonant)


def automaton():
    """Returns rows of 2 * state + break by class. State 0 is the start of the text."""
    states = [("control", 0, 0)]
    for state in states:
        for kind in CLASSES:
            after = step(state, kind)[1]
            if after not in states:
                states.append(after)
    full = [[(states.index(after), starts) for starts, after in (step(s, kind) for kind in CLASSES)] for s in states]
    groups, n = [0] * len(states), 0
    while n < len(set(groups)):
        n = len(set(groups))
        keys = [(groups[i], *((groups[to], starts) for to, starts in full[i])) for i in range(len(states))]
        groups = [list(dict.fromkeys(keys)).index(key) for key in keys]
    firsts = [groups.index(group) for group in range(n)]
    return [[2 * groups[to] + starts for to, starts in full[first]] for first in firsts]


def check(found, rows):
    """Compares the automaton with the reference on all texts of 3 classes, of which it has one character of each size,
    and on longer ones."""
    samples = {}
    for c, kind in found.items():
        samples.setdefault((kind, len(c.encode())), c)
    r, drawn = random.Random(1), list(samples.values())
    longer = (r.choices(drawn, k=r.randint(4, 12)) for _ in range(100_000))
    for text in itertools.chain(itertools.product(drawn, repeat=3), longer):
        text = (*text, GRAVE)
        clusters, state = [], 0
        for c in text:
            entry = rows[state][CLASSES.index(found[c])]
            clusters.append("")
            if not entry & 1:
                clusters[-2:] = [clusters[-2]]
            clusters[-1] += c
            state = entry >> 1
        expected = sum(1 if len(x.encode()) < 6 else len(x) for x in clusters)
        assert marks(*text) == expected, (text, clusters)


def header():
    found = {chr(c): class_of(chr(c)) for c in SCALARS if c}
    found["\0"] = "control"  # which no map changes
    rows = automaton()
    check(found, rows)
    ranges = [
        [first, last, i]
        for i, kind in enumerate(CLASSES[1:], 1)
        for first, last in runs(sorted(ord(c) for c, k in found.items() if k == kind))
    ]
    return c_header(
        TARGET,
        ["Where grapheme clusters end. Generated by scripts/gen-unicode from the Python package",
         f"tokenizers {tokenizers.__version__}; do not edit."],
        '#include "common/code_range.h"',
        "",
        "/* clang-format off */",
        f"enum {{ N_CLUSTER_CLASSES = {len(CLASSES)}, N_CLUSTER_STATES = {len(rows)} }};",
        "",
        "/* The classes of characters, for packed_run_next; that of all others is 0. */",
        *packed_runs("cluster_classes", sorted(ranges)),
        "",
        "/* 2 * the state after a character of a class, + 1 if a cluster starts before it. */",
        *octets("cluster_transitions", [entry for states in rows for entry in states]),
        "/* clang-format on */",
    )  # fmt: skip

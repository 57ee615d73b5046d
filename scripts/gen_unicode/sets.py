"""The sets of characters that patterns name, and case folding.

They are those of the pinned `tokenizers` package, whose parts use different versions of Unicode. Each name
is matched against a text of all characters."""
import unicodedata

import tokenizers
from tokenizers import Regex, pre_tokenizers

from . import ROOT, c_header, number, octets, row, rows, steps, table

TARGET = ROOT / "common/pattern/unicode_sets.h"
# All characters, except that planes that are empty or for private use are sampled: some of each 256 represent
# those after them.
SCALARS = [
    c
    for c in range(0x110000)
    if not 0xD800 <= c < 0xE000
    and (c < 0x40000 or 0xE0000 <= c < 0xE1000 or c % 256 in (0, 0xFD, 0xFE, 0xFF))
]
NEXT = dict(zip(SCALARS, [*SCALARS[1:], 0x110000]))
TEXT = "".join(map(chr, SCALARS))

CATEGORIES = """Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co
Cn""".split()
# names of groups of categories, and long names of each
GROUPS = {
    "L": "Lu Ll Lt Lm Lo", "LC": "Lu Ll Lt", "M": "Mn Mc Me", "N": "Nd Nl No",
    "P": "Pc Pd Ps Pe Pi Pf Po", "S": "Sm Sc Sk So", "Z": "Zs Zl Zp", "C": "Cc Cf Co Cn",
}  # fmt: skip
LONG = {
    "Letter": "L", "Cased_Letter": "LC", "Mark": "M", "Number": "N", "Punctuation": "P", "Symbol": "S",
    "Separator": "Z", "Other": "C", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Decimal_Number": "Nd", "Letter_Number": "Nl",
    "Other_Number": "No", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd",
    "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf", "Other_Punctuation": "Po", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Space_Separator": "Zs", "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp", "Control": "Cc", "Format": "Cf", "Private_Use": "Co",
    "Unassigned": "Cn",
}  # fmt: skip
POSIX = "Alnum Alpha Blank Cntrl Digit Graph Lower Print Punct Space Upper XDigit Word ASCII".split()
BINARY = """Alphabetic Lowercase Uppercase White_Space Ideographic Emoji Extended_Pictographic
ID_Start ID_Continue""".split()
SCRIPTS = """Arabic Armenian Bengali Bopomofo Common Cyrillic Devanagari Ethiopic Georgian Greek Gujarati
Han Hangul Hebrew Hiragana Inherited Katakana Khmer Lao Latin Myanmar Tamil Telugu Thai
Tibetan""".split()
LARGEST_GROUP = 8
SHORTHANDS = ["\\d", "\\w", "\\s", "\\h"]


def ranges(numbers):
    """Groups ascending numbers into ranges [first, last]."""
    out = []
    for c in numbers:
        if out and out[-1][1] == c - 1:
            out[-1][1] = NEXT[c] - 1
        else:
            out.append([c, NEXT[c] - 1])
    return out


def cut_out(pre_tokenizer, text=TEXT):
    """Returns the characters of the text that the pre-tokenizer keeps, as a set."""
    return {ord(c) for piece, _ in pre_tokenizer.pre_tokenize_str(text) for c in piece}


def matched(pattern, text=TEXT):
    """Returns the characters of the text that the pattern matches; the pattern matches one character."""
    return cut_out(pre_tokenizers.Split(Regex(f"(?:{pattern})+"), "removed", invert=True), text)


def is_known(pattern):
    try:
        Regex(pattern)
        pre_tokenizers.Split(Regex(pattern), "removed")
    except Exception:  # the engine does not support the name
        return False
    return True


def reference_sets(by_category):
    """Returns name -> characters, for each name that the engine supports."""
    sets = {s: matched(s) for s in SHORTHANDS}
    sets |= dict(zip(map(str.lower, CATEGORIES), by_category))
    for name, parts in GROUPS.items():
        sets[name.lower()] = set().union(*(sets[part.lower()] for part in parts.split()))
    short = "".join(chr(min(category)) for category in by_category)
    for name, same in [*LONG.items(), *((g, g) for g in GROUPS)]:
        if is_known(rf"\p{{{name}}}"):
            assert matched(rf"\p{{{name}}}", short) == {c for c in sets[same.lower()] if chr(c) in short}
            sets[name.replace("_", "").lower()] = sets[same.lower()]
    for name in [*POSIX, *BINARY, *SCRIPTS]:
        if is_known(rf"\p{{{name}}}"):
            sets[name.replace("_", "").lower()] = matched(rf"\p{{{name}}}")
    for name in POSIX:
        if is_known(f"[[:{name.lower()}:]]"):
            sets["[" + name.lower()] = matched(f"[[:{name.lower()}:]]")
    return sets


def other_sets():
    """Returns the sets that other parts of the reference use."""
    everything = set(SCALARS)
    digits = pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str(TEXT)
    sets = {
        ":numeric": {ord(c) for piece, _ in digits[1::2] for c in piece},  # does not include U+0000
        ":punctuation": everything - cut_out(pre_tokenizers.Punctuation("removed")),
        ":space": everything - cut_out(pre_tokenizers.WhitespaceSplit()),
        ":word": set(),
        ":gap": set(),
    }
    words = pre_tokenizers.Whitespace()
    for piece, _ in words.pre_tokenize_str(TEXT):
        beside_a_letter = words.pre_tokenize_str("a" + piece[0])
        sets[":word" if len(beside_a_letter) == 1 else ":gap"] |= set(map(ord, piece))
    return sets


def categories():
    """Returns the category of each character, as an index into CATEGORIES."""
    found = {}
    for i, name in enumerate(CATEGORIES):
        for c in matched(rf"\p{{{name}}}"):
            assert c not in found, (hex(c), name, CATEGORIES[found[c]])
            found[c] = i
    assert len(found) == len(SCALARS)
    return found


def describe(name, members, by_category):
    """Returns a mask of categories, and the ranges of characters for which the mask is wrong."""
    mask, wrong = 0, set()
    for i, category in enumerate(by_category):
        inside = members & category
        if 2 * len(inside) > len(category):
            mask |= 1 << i
            wrong |= category - inside
        else:
            wrong |= inside
    return mask, ranges(sorted(wrong))


def folds():
    """Returns groups of characters that differ only in case, and all characters without case."""
    cased = sorted(
        matched(r"[\p{Lu}\p{Ll}\p{Lt}\p{Lower}\p{Upper}]")
        | {c for c in SCALARS if len({chr(c), chr(c).lower(), chr(c).upper(), chr(c).casefold()}) > 1}
        | {0x345}
    )
    text = "\x01".join(map(chr, cased))  # separated: two adjacent characters may equal one
    groups = {}
    for c in cased:
        equal = matched(rf"(?i:\x{{{c:x}}})", text) - {1}
        assert c in equal, hex(c)
        if len(equal) > 1:
            groups[c] = tuple(sorted(equal))
    for c, group in groups.items():
        for other in group:
            assert groups[other] == group, (hex(c), group, groups.get(other))
    rest = [c for c in SCALARS if c not in set(cased)]
    return sorted(set(groups.values())), rest


def many(groups):
    """Returns the characters that equal a sequence of several when case is ignored, and these sequences."""
    candidates = {}
    for c in SCALARS:
        for text in (chr(c).casefold(), chr(c).lower(), chr(c).upper()):
            if len(text) > 1:
                candidates.setdefault(c, set()).add(text.casefold())
    first = {c: group[0] for group in groups for c in group}
    found = {}
    for c, texts in sorted(candidates.items()):
        for text in sorted(texts):
            whole = pre_tokenizers.Split(Regex(rf"(?i:\x{{{c:x}}})"), "removed")
            if not whole.pre_tokenize_str(text):
                found.setdefault(c, []).append(tuple(first.get(ord(x), ord(x)) for x in text))
    return found


def named(sets, by_category):
    """Returns the names, the entries of their table, and the bytes of all ranges that they refer to."""
    entries, pool, places = [], [], {}
    for name in sorted(sets):
        mask, wrong = describe(name, sets[name], by_category)
        ends = tuple(sum(wrong, []))
        if ends not in places:
            places[ends] = len(pool)
            pool += sum(map(number, steps(ends)), [])
        entries.append(row(hex(mask), places[ends], len(wrong)))
    return [f'"{name.replace(chr(92), chr(92) * 2)}\\0"' for name in sorted(sets)], entries, pool


def packed(groups):
    """Returns the bytes of groups of ascending characters."""
    firsts = steps([group[0] for group in groups])
    return sum((number(x) for first, g in zip(firsts, groups) for x in [first, *steps(g)[1:], 0]), [])


def header():
    found = categories()
    by_category = [set() for _ in CATEGORIES]
    for c, i in found.items():
        by_category[i].add(c)
    starts = [c for before, c in zip([None, *SCALARS], SCALARS) if found[c] != found.get(before)]
    names, entries, pool = named({**reference_sets(by_category), **other_sets()}, by_category)
    runs = sum((number(step << 5 | found[c]) for step, c in zip(steps(starts), starts)), [])
    groups, rest = folds()
    assert max(map(len, groups)) <= LARGEST_GROUP
    assert matched("(?i:[" + "".join(rf"\x{{{c:x}}}" for g in groups for c in g) + "])").isdisjoint(rest)
    folded = many(groups)
    texts = sorted({text for found in folded.values() for text in found})
    return c_header(
        TARGET,
        ["Sets of characters and case folding. Generated by scripts/gen-unicode from the Python package",
         f"tokenizers {tokenizers.__version__}; do not edit."],
        '#include "common/pattern/code_set.h"',
        "",
        "/* clang-format off */",
        "/* Most tables are numbers as packed_number reads them. */",
        "",
        "/* Runs of characters of a general category: characters since the start of the run before << 5 |",
        " * category, ascending. A category is the number of its bit in named_set.categories: " + ", ".join(CATEGORIES[:3]) + ",",
        " * " + ", ".join(CATEGORIES[3:25]) + ",",
        " * " + ", ".join(CATEGORIES[25:]) + ". */",
        *octets("category_runs", runs),
        "",
        "/* The names of sets in lower case, in the order of named_sets. */",
        "static const char set_names[] =",
        *rows(names)[:-1],
        rows(names)[-1] + ";",
        "",
        "/* The characters of some categories. Each exception is in the set if and only if its category is",
        " * not. */",
        "struct named_set {",
        "    uint32_t categories;",
        "    uint16_t at, n; /* place in set_exceptions, and number of ranges */",
        "};",
        *table("struct named_set named_sets[]", entries),
        "",
        "/* Ranges: the first and the last character of each, as the step from the number before. */",
        *octets("set_exceptions", pool),
        "",
        "/* Groups of characters that differ only in case, ascending: the step from the first character of",
        " * the group before, the steps to the other characters, and 0. */",
        f"enum {{ LARGEST_GROUP = {LARGEST_GROUP} }};",
        *octets("fold_groups", packed(groups)),
        "",
        "/* Characters that equal several characters if case is ignored, ascending. */",
        *table("uint32_t folds_to_many[]", (f"0x{c:x}," for c in folded)),
        "",
        "/* The texts that they equal, each character as the first of its group, padded with zeros. */",
        *table("uint32_t many_folds[][3]", (row(*map(hex, t)) for t in texts)),
        "/* clang-format on */",
    )  # fmt: skip

"""Regular expressions as terms (runtime/constrain/front_ends.h), against Python's package `regex`: the same texts
match. A drawn pattern is written in both syntaxes."""

import os
import random

import pytest
import regex
import terms
from terms import SEARCH, WHOLE, Refused

N_PATTERNS = int(os.environ.get("SMOL_PATTERNS", "400"))  # for each syntax
ALPHABET = "abcAK_01- .\n\r\té߀😀\u2028\u0660"


def escaped(character):
    """A character in a pattern, in both syntaxes."""
    if character.isalnum() or character == "_":
        return character
    return f"\\u{{{ord(character):x}}}" if ord(character) > 0x7F else f"\\x{ord(character):02x}"


def of_python(character):
    return regex.escape(character) if character != "\n" else "\\n"


class Drawn:
    """Draws patterns: (ours, Python's)."""

    def __init__(self, seed, ecma):
        self.random, self.ecma = random.Random(seed), ecma
        shared = [("[^a]", "[^a]"), ("[a-c]", "[a-c]"), ("[^\\n]", "[^\\n]")]
        if ecma:
            space = "\\t-\\r \\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
            self.sets = shared + [
                (".", "[^\\n\\r\\u2028\\u2029]"), ("\\d", "[0-9]"), ("\\D", "[^0-9]"), ("\\w", "[0-9A-Za-z_]"),
                ("\\W", "[^0-9A-Za-z_]"), ("\\s", f"[{space}]"), ("\\S", f"[^{space}]"), ("[^]", "[\\s\\S]"),
                ("[\\w-]", "[0-9A-Za-z_-]"), ("[\\d-a]", "[0-9\\-a]"), ("[a[]", "[a\\[]"), ("\\cJ", "\\n"),
                ("\\u0061", "a"), ("\\ud83d\\ude00", "😀"), ("[a\\ud83d\\ude00]", "[a😀]"), ("\\-", "-"),
                ("\\/", "/"), ("}", "\\}"), ("]", "\\]"), ("\\u{e9}", "é"), ("[+--]", "[+-\\-]"), ("a{", "a\\{"),
            ]  # fmt: skip
            self.edges = [("^", "\\A"), ("$", "\\Z"), ("\\b", "(?a:\\b)"), ("\\B", "(?a:\\B)")]
        else:
            self.sets = shared + [
                (".", "[^\\n]"), ("\\d", "\\d"), ("\\s", "\\s"), ("\\S", "\\S"), ("[\\d&&[0a]]", "0"),
                ("[[:digit:]]", "\\d"), ("\\u0061", "a"), ("\\x{1F600}", "😀"), ("(?m:.)", "(?s:.)"), ("\\p{L}", "\\p{L}"),
                ("(?i:k)", "[kK\\u212a]"),
            ]  # fmt: skip
            self.edges = [("^", "(?:\\A|(?<=\\n)(?!\\Z))"), ("$", "(?=\\n|\\Z)"), ("\\A", "\\A"), ("\\z", "\\Z")]

    def pick(self, *items):
        return self.random.choice(items)

    def character(self):
        c = self.random.choice(ALPHABET)
        if self.ecma or ord(c) < 0x80:
            return escaped(c), of_python(c)
        return c, of_python(c)

    def atom(self, depth):
        kind = self.random.random()
        if depth > 0 and kind < 0.3:
            ours, theirs = self.choice(depth - 1)
            return self.pick("(", "(?:", "(?<name>")+ ours + ")", f"(?:{theirs})"
        if kind < 0.6:
            return self.random.choice(self.sets)
        return self.character()

    def item(self, depth):
        kind = self.random.random()
        if kind < 0.08:
            return self.random.choice(self.edges)
        if kind < 0.12 and depth > 0:
            sign = self.pick("=", "!")
            ours, theirs = self.choice(0)
            return f"(?{sign}{ours})", f"(?{sign}{theirs})"
        if kind < 0.15:
            sign = self.pick("<=", "<!")
            ours, theirs = self.atom(0)
            return f"(?{sign}{ours})", f"(?{sign}{theirs})"
        ours, theirs = self.atom(depth)
        if self.random.random() < 0.35 and ours != "a{":
            low = self.random.randrange(3)
            counts = [f"{{{low}}}", f"{{{low},}}", f"{{{low},{low + self.random.randrange(3)}}}"]
            count = self.pick("*", "+", "?", *counts)
            return ours + count + self.pick("", "", "?" if self.ecma or count != counts[0] else ""), theirs + count
        return ours, theirs

    def sequence(self, depth):
        items = [self.item(depth) for _ in range(self.random.randrange(0, 4))]
        return "".join(ours for ours, _ in items), "".join(theirs for _, theirs in items)

    def choice(self, depth):
        options = [self.sequence(depth) for _ in range(self.pick(1, 1, 2, 3))]
        return "|".join(ours for ours, _ in options), "|".join(theirs for _, theirs in options)

    def text(self):
        return "".join(self.random.choice(ALPHABET) for _ in range(self.random.randrange(0, 7)))


def grown(compiled, drawn):
    """A text that is allowed, as far as a random walk finds one."""
    text, at = "", compiled.root
    for _ in range(12):
        if terms.lib.smol_term_may_end(compiled.table, at) and drawn.random.random() < 0.4:
            break
        ways = [(c, after) for c in ALPHABET if (after := compiled.after(c.encode(), at))]
        if not ways:
            break
        character, at = drawn.random.choice(ways)
        text += character
    return text


@pytest.mark.parametrize("ecma", [False, True], ids=["ruby", "ecma"])
def test_drawn_patterns_allow_the_texts_that_match(ecma):
    drawn = Drawn(19, ecma)
    n_refused = n_allowed = n_compared = 0
    for _ in range(N_PATTERNS):
        ours, theirs = drawn.choice(2)
        expected = regex.compile(theirs, regex.V0)
        matches = expected.search if ecma else expected.fullmatch
        texts = [drawn.text() for _ in range(20)]
        try:
            compiled = terms.regex(ours, SEARCH if ecma else WHOLE)
        except Refused as refused:
            n_refused += 1
            if "no text" in str(refused):
                assert not any(map(matches, texts)), (ours, texts)
            continue
        for text in texts + [grown(compiled, drawn) for _ in range(6)]:
            allowed = compiled.allows(text)
            assert allowed == bool(matches(text)), (ours, theirs, text)
            n_allowed += allowed
            n_compared += 1
    assert n_refused < N_PATTERNS / 5 and n_compared / 20 < n_allowed < n_compared * 19 / 20


def allowed(pattern, anchoring, texts):
    compiled = terms.regex(pattern, anchoring)
    return [text for text in texts if compiled.allows(text)]


def test_anchors_of_json_schema_are_those_of_the_text_wherever_they_are():
    texts = ["", "a", "b", "ab", "ba", "xa", "bx", "a\n", "\na"]
    assert allowed("^a|b$", SEARCH, texts) == ["a", "b", "ab", "a\n"]
    assert allowed("^$|^(a|b)$", SEARCH, texts) == ["", "a", "b"]
    assert allowed("^((^|x)a)+$", SEARCH, [*texts, "axaxa", "axa", "aa"]) == ["a", "xa", "axaxa", "axa"]
    assert allowed("^(?:[ab](x|$))+$", SEARCH, [*texts, "axbxa", "axbx", "axbxx"]) == ["a", "b", "bx", "axbxa", "axbx"]


def test_anchors_of_a_whole_expression_are_optional():
    for pattern in ("ab+", "^ab+$", r"\Aab+\z", "(?:^ab)b*$"):
        assert allowed(pattern, WHOLE, ["ab", "abb", "a", "ab\n", "xab"]) == ["ab", "abb"]


def test_looking_ahead_and_behind_at_several_characters():
    names = ["foo", "foobar", "barfoo", "bar", "x1", "a-", "a--b", "a-b"]
    assert allowed("^(?!.*foo)", SEARCH, names) == ["bar", "x1", "a-", "a--b", "a-b"]
    assert allowed("^(?=.*\\d)(?=.*x).{2,}$", SEARCH, names) == ["x1"]
    counted = ["a", "aa", "aaa", "aaab", "aab", "ab"]
    assert allowed("^(?=a{3})a*b?$", SEARCH, counted) == ["aaa", "aaab"]
    assert allowed("^(?!a{3})a*b?$", SEARCH, counted) == ["a", "aa", "aab", "ab"]
    assert allowed("^a*(?<=a{2})b?$", SEARCH, counted) == ["aa", "aaa", "aaab", "aab"]
    assert allowed("^(?=a+)a*b?$", SEARCH, counted) == counted
    assert allowed("^((?!foo).)*$", SEARCH, names) == ["bar", "x1", "a-", "a--b", "a-b"]
    assert allowed("^.*(?<!foo)$", SEARCH, names) == ["foobar", "bar", "x1", "a-", "a--b", "a-b"]
    assert allowed("^(?!bar).+(?<=oo)$", SEARCH, names) == ["foo"]
    assert allowed("^.*(?<!foo)(?<=[ro1])$", SEARCH, names) == ["foobar", "bar", "x1"]
    assert allowed("^a?(?<!ab)(b|$)(?<!bb)$", SEARCH, ["", "a", "b", "ab", "bb"]) == ["", "a", "b", "ab"]
    assert allowed("(?<!foo)bar", SEARCH, names) == ["barfoo", "bar"]
    assert allowed("^[a-z](?:(?!.*--)[a-z-]*[a-z])?$", SEARCH, names) == ["foo", "foobar", "barfoo", "bar", "a-b"]


def test_what_a_lookahead_excludes_is_excluded_without_a_search():
    host = r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$"
    assert allowed(host, SEARCH, ["example.com", "http://example.com", "1.2"]) == ["example.com"]


def test_case_is_ignored_one_character_at_a_time():
    assert allowed("(?i)straße", WHOLE, ["STRASSE", "Straße", "STRAẞE", "strase"]) == ["Straße", "STRAẞE"]
    assert allowed("(?i:Yes)|no", SEARCH, ["yEs", "NO", "no"]) == ["yEs", "no"]


def test_counts_may_be_large():
    compiled = terms.regex("^.{2,10000}$", SEARCH)
    assert [compiled.allows("é" * n) for n in (1, 2, 10000, 10001)] == [False, True, True, False]


REFUSED = {
    WHOLE: [("a++", "possessive", 3), ("(?>a|b)c", "atomic", 6), ("a{16777217}", "too large", 11), ("a{", "begin a count", 2)],
    SEARCH: [
        (r"(a)\1", "back-reference", 5), (r"\k<a>", "back-reference", 2), ("a**", "repeating repetitions", 3),
        ("a++", "repeating repetitions", 3), ("a{,2}", "without a minimum", 5), ("((?!a)..)*", "within a repetition", 10),
        (r"(a\b)*", "within a repetition", 6), ("(a(?<=bc)d|x)", "within a group", 8), (r"\Aa", "escape", 2),
        (r"\ud83d", "not a character", 6), (r"\08", "octal", 2), ("(?m:a)", "kind of group", 3), ("{2}", "bracket", 1),
        ("[z-a]", "ends before", 4), ("[a", "without its ]", 2), ("(a", "without its )", 2), ("a)", "on its own", 1),
        ("(" * 80, "too deep", 65), ("((?<=a)|(?<!b)|(?<=[bc])|(?<=[cd])|(?<=[d-f])|(?<=[f-h])|(?<=h))x", "too many different", 55),
        ("((((((a\\b){8}){8}){8}){8}){8}){8}", "too large", None), ("(a\\b){65}", "within a long repetition", 9), ("a" * 16385, "too long", 0), (b"a\xff", "not UTF-8", 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("anchoring, pattern, reason, at", [(a, *case) for a in REFUSED for case in REFUSED[a]])
def test_what_cannot_be_expressed_is_refused_by_name_and_place(anchoring, pattern, reason, at):
    with pytest.raises(Refused, match=regex.escape(reason) + (rf".* \(byte {at}\)$" if at is not None else "")):
        terms.regex(pattern, anchoring)

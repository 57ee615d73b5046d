"""Grammars and choices as terms (runtime/constrain/front_ends.h), against recognisers in Python: the same texts."""

import itertools
import json
import random
import re
import string
import time

import pytest
import terms
from terms import Refused

JSON = r"""
root   ::= value
value  ::= (object | array | string | number | "true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}"
array  ::= "[" ws ( value ("," ws value)* )? "]"
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}) )* "\"" ws   # with its space
number ::= ("-"? ([0-9] | [1-9] [0-9]+)) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws     ::= | " " ws | [\n\t]{1,3} ws
"""


def is_json(text):
    try:
        json.loads(text.lstrip(" \n\t") and text)
    except ValueError:
        return False
    return text[:1] not in " \n\t"


def drawn_json(draw, depth):
    kind = draw.randrange(7 if depth else 5)
    if kind == 5:
        return [drawn_json(draw, depth - 1) for _ in range(draw.randrange(3))]
    if kind == 6:
        return {f"k{draw.randrange(9)}é": drawn_json(draw, depth - 1) for _ in range(draw.randrange(3))}
    return draw.choice([True, None, draw.randrange(-5, 999), draw.uniform(-9, 9) * 1e-8, 'a"\\\n\u20ac😀/'])


def damaged(draw, text):
    """Removes, repeats or replaces a character."""
    at = draw.randrange(len(text))
    return text[:at] + draw.choice(["", text[at] * 2, draw.choice('{}[]",:x0.e- \\')]) + text[at + 1 :]


def test_json_as_a_grammar_is_what_the_json_module_reads():
    compiled, draw = terms.grammar(JSON), random.Random(19)
    n_valid = 0
    for _ in range(2000):
        value = drawn_json(draw, 3)
        text = json.dumps(value, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, 1]))
        assert compiled.allows(text), text
        text = damaged(draw, text)
        assert compiled.allows(text) == is_json(text), text
        n_valid += is_json(text)
    assert 100 < n_valid < 1400


ARITHMETIC = """
root = sum ;
sum : product (('+' | '-') product)* ;
product := factor
    | factor [*/] product   # recursion on the right
    ;
factor ::= /[0-9]+/ | '(' sum ')' | '-' factor
"""


def is_sum(text):
    """Returns whether the text is a sum, by reducing it to one operand."""
    if re.search(r"[^-+*/()0-9]|\d\(|\)\d|\)\(|\(\)", text):
        return False
    text = re.sub(r"\d+", "n", text)
    while True:
        shorter = re.sub(r"(?<![n)])-n", "n", text)  # a sign
        shorter = re.sub(r"\(n([-+*/]n)*\)", "n", shorter)
        if shorter == text:
            return bool(re.fullmatch(r"n([-+*/]n)*", text))
        text = shorter


def test_a_recursive_grammar_of_arithmetic():
    compiled, draw = terms.grammar(ARITHMETIC), random.Random(7)
    n_valid = n = 0
    for _ in range(4000):
        text = "".join(draw.choice("(()12+-*") for _ in range(draw.randrange(1, 8)))
        assert compiled.allows(text) == is_sum(text), text
        n_valid += is_sum(text)
        n += 1
    assert n_valid > n / 20
    deep = "(" * 200 + "1" + ")" * 200
    assert compiled.allows(deep) and not compiled.allows(deep + ")") and compiled.after(deep[:-1].encode())


def allowed(grammar, texts):
    compiled = terms.grammar(grammar)
    return [text for text in texts if compiled.allows(text)]


@pytest.mark.parametrize("body, yes, no", [
    ('"a" "b"', ["ab"], ["a", "b", "abb"]),
    ('"ab"+', ["ab", "abab"], ["", "abb"]),
    ('"ab"* "c"?', ["", "ab", "c", "ababc"], ["a", "cc"]),
    ('"a"{2}', ["aa"], ["a", "aaa"]),
    ('"a"{2,}', ["aa", "aaaa"], ["a"]),
    ('"a" { 1 , 3 }', ["a", "aaa"], ["", "aaaa"]),
    ('"a"{0,1}', ["", "a"], ["aa"]),
    ('("a" | "b" "c")+ | "d"', ["abc", "d", "bca"], ["ad", "ac", ""]),
    ('(\n"a" # one\n\n"b")\n', ["ab"], ["a"]),
    ('"a" |\n"b"', ["a", "b"], ["ab"]),
    ('[a-c]', ["a", "c"], ["d", "-", ""]),
    ('[^a-c]', ["d", "é", "😀", "\n"], ["a", "dd"]),
    ('[a-]', ["a", "-"], ["b"]),
    ('[-a]', ["a", "-"], ["b"]),
    ('[あ-ん\\u20ac]', ["あ", "ん", "€"], ["ア", "a"]),
    ('[\\]\\[\\\\]', ["]", "[", "\\"], ["a"]),
    ('[.*"\']', [".", "*", '"', "'"], ["a"]),
    (".", ["a", "\n", "é", "😀"], ["", "ab"]),
    ('"\\x41\\u00e9\\U0001F600\\t\\n\\r\\\\\\""', ['Aé😀\t\n\r\\"'], ["A"]),
    ("'it\\'s' | \"'\"", ["it's", "'"], ["it"]),
    ('""', [""], ["a"]),
    ('| "a"', ["", "a"], ["b"]),
    ("/\\d{2}\\/x|y?/", ["12/x", "y", ""], ["12", "x"]),
    ("other-rule under_score\nother-rule ::= \"o\"\nunder_score ::= \"u\"", ["ou"], ["o"]),
    ("b; b = 'x' ; c : 'y'", ["x"], ["y"]),
    ('root{0} "a" (root "b"){0,0}{2}', ["a"], ["", "aa", "ab"]),
    ('b ("c" | d){0} root?\nb ::= d{2}{0} "a"\nd ::= b', ["a", "aa"], ["", "ac"]),
    ('"a"* b\nb ::= "x" root | "y"', ["y", "aay", "axay", "xxxy"], ["a", "x"]),
])  # fmt: skip
def test_what_gbnf_and_its_additions_mean(body, yes, no):
    assert allowed(f"root ::= {body}", yes + no) == yes


REFUSED = [
    ("root := \nfoo", 'line 2, column 1: there is no rule "foo"'),
    ('é ::= "a"', 'line 1, column 1: expected the name of a rule, found "é"'),
    ('root ::= "é" bar', 'line 1, column 14: there is no rule "bar"'), ('root ::= "a" bar{0}', 'there is no rule "bar"'),
    ('root "a"', 'line 1, column 6: expected "::=", found """'),
    ('root ::= "a" b ::= "c"', 'line 1, column 14: expected a new line or ";", found "b"'),
    ('a ::= "a"', 'there is no rule "root"'),
    ('root ::= "a"\n root ::= "b"', 'line 2, column 2: a second rule "root"'),
    ('root ::= "a', "without its end"), ("root ::= [a", "without its end"), ('root ::= ("a"', "line 1, column 10: a group without"),
    ('root ::= ("a";', 'expected ")", found ";"'), ('root ::= "a")', 'expected the name of a rule, found ")"'),
    ("root ::= *", "column 10: nothing to repeat"), ('root ::= "a"{,2}', 'expected a number, found ","'),
    ('root ::= "a"{2', 'expected "}", found "the end"'), ('root ::= "a"{3,2}', "ends below"),
    ('root ::= "a"{16777217}', "count that is too large"),
    ("root ::= <[12]>", "tokens such as"), ("root ::= !</think>*", "tokens such as"),
    ("root ::= []", "an empty class"), ("root ::= [b-a]", "a range that ends before"),
    ('root ::= "\\q"', 'column 12: expected an escape, found "q"'), ('root ::= "\\ud800"', "not a character"),
    ('root ::= "\\x4"', 'expected a hexadecimal digit, found """'),
    ('root ::= /a(/', "line 1, column 11: a group without its ) (byte 2)"), ("root ::= /a", "without its /"),
    ('root ::= root "a" | "b"', 'line 1, column 10: a rule can begin with itself: "root"'),
    ('root ::= a\na ::= "q" b | ""\nb ::= a b "x" | "y"', "a rule can begin with itself"),
    ('root ::= "x"? b\nb ::= "c"* root | "d"', "can begin with itself"),
    ('root ::= "(" ' * 1 + "(" * 300, "nested too deeply"),
    ("root ::= " + "".join(f'r{i}\nr{i} ::= "a" ' for i in range(300)), "nested too deeply"),
    (b'root ::= "\xff"', "line 1, column 11: not UTF-8"), ("", 'there is no rule "root"'), ("root ::= \0", "expected the name"),
    ('root ::= "a" root', "allows no text"), ("#" * (1 << 20) + "\n", "longer than 1 MiB"),
]  # fmt: skip


@pytest.mark.parametrize("text, reason", REFUSED, ids=range(len(REFUSED)))
def test_errors_name_the_place(text, reason):
    with pytest.raises(Refused, match=re.escape(reason)):
        terms.grammar(text)


# --- random grammars ----------------------------------------------------------------------------

NAMES = ["root", "x", "y-1", "z_"]
CLASSES = {"[ab]": "ab", "[^a]": "bcé", ".": "abcé", "[a-c]": "abc"}
COUNTS = {"*": (0, 9), "+": (1, 9), "?": (0, 1), "{0}": (0, 0), "{2}": (2, 2), "{1,2}": (1, 2), "{2,}": (2, 9)}  # 9 is as good as any number


def drawn_item(draw, depth):
    """Returns (kind, contents): a body of a rule, or a part of one."""
    kind = draw.choice(["literal", "class", "rule"] + ["sequence", "choice", "repeated"] * 2 * (depth > 0))
    if kind in ("sequence", "choice"):
        return kind, [drawn_item(draw, depth - 1) for _ in range(draw.randint(1, 3))]
    if kind == "repeated":
        return kind, (drawn_item(draw, depth - 1), draw.choice([*COUNTS]))
    return kind, draw.choice({"literal": ["a", "b", "ab", "", "é"], "class": [*CLASSES], "rule": NAMES}[kind])


def written(item):
    kind, inner = item
    if kind in ("sequence", "choice"):
        return "(" + {"sequence": " ", "choice": " | "}[kind].join(map(written, inner)) + ")"
    return f'"{inner}"' if kind == "literal" else written(inner[0]) + inner[1] if kind == "repeated" else inner


def ends(rules, item, text, start, known):
    """Returns where what `item` means may end in a text. `known` is what rules mean; no rule begins with itself."""
    kind, inner = item
    if kind == "literal":
        return {start + len(inner)} if text.startswith(inner, start) else set()
    if kind == "class":
        return {start + 1} if text[start : start + 1] and text[start] in CLASSES[inner] else set()
    if kind == "rule":
        if (inner, start) not in known:
            known[inner, start] = ends(rules, rules[inner], text, start, known)
        return known[inner, start]
    if kind == "choice":
        return set().union(*(ends(rules, one, text, start, known) for one in inner))
    least, most = COUNTS[inner[1]] if kind == "repeated" else (len(inner), len(inner))
    found, here = set(), {start}
    for n in range(most + 1):
        found |= here if n >= least else set()
        one = inner[0] if kind == "repeated" else inner[n] if n < most else None
        here = set().union(*(ends(rules, one, text, at, known) for at in here)) if n < most else set()
    return found


def test_random_grammars_allow_what_their_rules_mean():
    draw, told, refused = random.Random(1), dict.fromkeys((True, False), 0), 0
    for _ in range(2000):
        rules = {name: drawn_item(draw, draw.randint(1, 3)) for name in NAMES}
        text = "\n".join(f"{name} ::= {written(body)}" for name, body in rules.items())
        try:
            compiled = terms.grammar(text)
        except terms.Refused as fault:
            refused += 1
            assert re.search("begin with itself|no text", str(fault)), (text, fault)
            continue
        for _ in range(20):
            one = "".join(draw.choice("abcé") for _ in range(draw.randint(0, 5)))
            told[meant := len(one) in ends(rules, ("rule", "root"), one, 0, {})] += 1
            assert compiled.allows(one) == meant, (text, one)
    assert told[True] > sum(told.values()) // 20 and refused < 1200, (told, refused)


# --- grammars of an attacker --------------------------------------------------------------------

HOSTILE = {
    "choices of choices": 'root ::= r0 root | "z"\nr99 ::= "q"\n' + "".join(f'r{i} ::= r{i + 1} "a" | r{i + 1} "b"\n' for i in range(99)),
    "sequences of what may be empty": 'root ::= r0 root | "z"\nr99 ::= "q"\n' + "".join(f'r{i} ::= "a"? r{i + 1} r{i + 1}?\n' for i in range(99)),
    "many classes": "root ::= " + " | ".join(f"[{''.join(four)}]" for four in itertools.islice(itertools.combinations(string.ascii_letters, 4), 110_000)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_grammars_are_compiled_or_refused_soon(name):
    begin = time.process_time()
    try:
        terms.grammar(HOSTILE[name])
    except terms.Refused as fault:
        assert "the constraint: it" in str(fault)
    assert time.process_time() - begin < 30


def test_choices_are_exactly_these_texts():
    compiled = terms.choices("yes", "no", "not sure", "été", "no")
    texts = ["yes", "no", "not sure", "été", "", "y", "not", "not sure ", "yesno"]
    assert [text for text in texts if compiled.allows(text)] == texts[:4]
    many = [f"item {i}" for i in range(3000)]
    compiled = terms.choices(*many)
    assert compiled.allows("item 2999") and not compiled.allows("item 3000") and not compiled.allows("item ")
    with pytest.raises(Refused, match="no text"):
        terms.choices()

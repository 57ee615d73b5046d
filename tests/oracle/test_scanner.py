"""Pre-tokenizers compiled to scanners, against the package `tokenizers`: the same pieces.

SMOL_TOKENIZERS=20000 (`make tokenizers`) sets how many texts there are for each kind."""

import ctypes
import json
import os
import random
import shutil
import subprocess

import pytest
import smol_tokenizer
import test_tokenizer
from blobs import xxh3
from internal import BUILD, OK, UNSUPPORTED, Error, lib
from smol_reader import Blob
from tokenizers import Regex, Tokenizer, pre_tokenizers, trainers
from unicode_tables import assert_written

N_STRINGS = int(os.environ.get("SMOL_TOKENIZERS", "300"))  # for each published pattern
N_PATTERNS = 3000 if N_STRINGS >= 20_000 else 150  # drawn ones


lib.smol_json_parse.argtypes = [
    ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p
]  # fmt: skip
lib.smol_scanner_start.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t
]  # fmt: skip
lib.smol_scanner_next.argtypes = [ctypes.c_void_p] * 4
PRETOKENIZE_SCANNER = 4


class Refused(Exception):
    pass


class Smol:
    """The scanner of a row of pre-tokenizers, as JSON has them."""

    def __init__(self, *parts):
        whole = {"type": "Sequence", "pretokenizers": [*parts, byte_level(use_regex=False)]}
        text = json.dumps({"pre_tokenizer": whole}).encode()
        root, pretokenizer, error = ctypes.c_void_p(), smol_tokenizer.Pretokenizer(), Error()
        assert OK == lib.smol_json_parse(
            b"t.json", text, len(text), ctypes.byref(root), ctypes.byref(error)
        )
        status = lib.smol_pretokenizer_read(
            root, b"t.json", ctypes.byref(pretokenizer), ctypes.byref(error)
        )
        if status != OK:
            assert status == UNSUPPORTED and error.status == status, error
            raise Refused(str(error))
        assert pretokenizer.bits == PRETOKENIZE_SCANNER
        self.data = ctypes.string_at(pretokenizer.scanner.data, pretokenizer.scanner.size)
        lib.smol_pretokenizer_free(ctypes.byref(pretokenizer))
        self.buffer, place = smol_tokenizer.aligned(self.data)
        self.tables = ctypes.create_string_buffer(256)
        status = lib.smol_scanner_tables_open(
            place, len(self.data), self.tables, ctypes.byref(error)
        )
        assert status == OK, error
        self.n_stages = int.from_bytes(self.data[:4], "little")

    def cut(self, data, stage=0):
        """The pieces of some bytes: [(start, end)]."""
        if stage == self.n_stages:
            return [(0, len(data))]
        scan, error = ctypes.create_string_buffer(256), Error()
        start, end = ctypes.c_size_t(), ctypes.c_size_t()
        lib.smol_scanner_start(scan, self.tables, stage, data, len(data))
        out = []
        while True:
            status = lib.smol_scanner_next(
                scan, ctypes.byref(start), ctypes.byref(end), ctypes.byref(error)
            )
            assert status == OK, error
            if start.value == len(data):
                lib.smol_scanner_end(scan)
                return out
            assert start.value < end.value
            piece = data[start.value : end.value]
            out += [(start.value + a, start.value + b) for a, b in self.cut(piece, stage + 1)]

    def pieces(self, text):
        data = text.encode()
        return [data[a:b].decode() for a, b in self.cut(data)]


def byte_level(use_regex=True, add_prefix_space=False):
    return {
        "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True,
        "use_regex": use_regex,
    }  # fmt: skip


NAMES = {
    "removed": "Removed", "isolated": "Isolated", "merged_with_previous": "MergedWithPrevious",
    "merged_with_next": "MergedWithNext", "contiguous": "Contiguous",
}  # fmt: skip


def split(pattern, behaviour="isolated", invert=False, kind="Regex"):
    return {
        "type": "Split", "pattern": {kind: pattern}, "behavior": NAMES[behaviour], "invert": invert
    }  # fmt: skip


def reference(pattern, behaviour="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behaviour, invert)


def reference_pieces(pre_tokenizer, text):
    """Cut out of the text by their offsets."""
    return [text[a:b] for _, (a, b) in pre_tokenizer.pre_tokenize_str(text)]


# --- texts ------------------------------------------------------------------------------------

ALPHABET = [
    *"abcdefSTKRsstreveLLlldm", *"AZÀéß", *"0123456789", *"  \n\r\t", *"'.,!?-_/()[]{}|$", " ", " ", "'",
    "\u017f", "\u212a", "\u00a0", "\u3000", "\u2028", "\x85", "漢", "字", "ひ", "カ", "한", "ж", "ع", "۔", "،",
    "…", "٣", "²", "Ⅷ", "\u0301", "\u200d", "\U0001f600", "\U0001f44d", "\u01c5", "\u02b0", "\ufb01", "\ufb06", "İ",
    "\u0000", "\ue000", "\U0010fffd", "\u0378",
]  # fmt: skip
WORDS = ["don't", "I'LL", "we\u2019ve", "  ", "\n\n", "\r\n", " \n ", "1234567", "hello", " World", "x = y+1;", "'S"]


def strings(n, seed):
    draw = random.Random(seed)
    yield from ["", " ", "  ", "\n", "a", " a ", "  a  b  ", "\u017f", "'\u017f"]
    for _ in range(n):
        yield "".join(
            draw.choice(WORDS) if draw.random() < 0.2 else draw.choice(ALPHABET)
            for _ in range(draw.randrange(1, 30))
        )


# --- published patterns -----------------------------------------------------------------------

PUBLISHED = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
    r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
    r""" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "deepseek words": r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+",
    "line ends": r"\s+$",
    "bloom": " ?[^(\\s|[.,!?…。，、।۔،])]+",
    "han": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}|\s+",
    "kana": r"[一-龥぀-ゟ゠-ヿ]+",
    "digits": r"[0-9][0-9][0-9]",
    "superbpe": r"(?=(\d{3})+(?!\d))",
    "tiny aya": r"\d{1,3}(?=(?:\d{3})*\b)",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_patterns_cut_alike(name):
    pattern = PUBLISHED[name]
    ours, theirs = Smol(split(pattern)), reference(pattern)
    for text in strings(N_STRINGS, name):
        assert ours.pieces(text) == reference_pieces(theirs, text), repr(text)


def numbers(n, seed):
    """Runs of digits of any length, of several scripts, between what may end or continue them."""
    draw = random.Random(seed)
    for _ in range(n):
        yield "".join(
            "".join(draw.choice("0123456789٣") for _ in range(draw.randrange(1, 12))) + draw.choice(ALPHABET)
            for _ in range(draw.randrange(1, 6))
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, pattern in PUBLISHED.items() if "(?=" in pattern or "(?!" in pattern])
def test_look_ahead_cuts_20000_strings_alike(name):
    ours, theirs = Smol(split(PUBLISHED[name])), reference(PUBLISHED[name])
    for text in [*strings(10_000, name + " long"), *numbers(10_000, name)]:
        assert ours.pieces(text) == reference_pieces(theirs, text), repr(text)


@pytest.mark.slow
def test_every_code_point_is_cut_alike():
    """Between letters, digits and spaces, where a character's own classes decide."""
    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    text = "".join(c + "a 1\n"[i % 4] for i, c in enumerate(characters) if ord(c) < 0x32000)
    text += "".join(characters[0xDF000:0xE1000])
    for name in ["llama3", "o200k", "deepseek"]:
        ours, theirs = Smol(split(PUBLISHED[name])), reference(PUBLISHED[name])
        assert ours.pieces(text) == reference_pieces(theirs, text), name


@pytest.mark.skipif(N_STRINGS < 20_000, reason="takes a minute: make tokenizers")
def test_sets_are_generated_from_this_version():
    assert_written("sets")


# --- drawn patterns ---------------------------------------------------------------------------

ATOMS = [
    *"abst1 '-", r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\h", ".", r"\p{L}", r"\p{Lu}", r"\p{N}", r"\P{N}",
    r"\p{^L}", r"\p{P}", r"\p{M}", r"\p{Han}", r"\p{Alnum}", r"\p{Letter}", "[abc]", "[^abc]", "[a-fs-t]",
    r"[^\s\p{L}\p{N}]", r"[^\r\n\p{L}\p{N}]", r"[\p{Ll}\p{M}]", r"[\w&&[^a]]", r"[a-z&&[^b-y]&&\p{L}]", "[[:alpha:]]",
    "[[:^digit:]x]", r"[\d.-]", "[-+]", r"\r", r"\n", r"\t", r"\x61", r"\x{e9}", r"\u00e9", "é", "漢", r"\.", r"\-", r"\[",
    "[(|)]", r"[\[\]]", r"[^[ab]1]", r"[^\S\n]", "(?i:k)", "(?i:'s)", "(?i:[k-t])", "(?i:[^k])", r"(?i:\p{Lu})", "(?i:re)",
    "(?m:.)",
]  # fmt: skip
QUANTIFIERS = ["?", "*", "+", "??", "*?", "+?", "?+", "*+", "++", "{2}", "{1,3}", "{2,}", "{,2}", "{1,2}?", "{2,}?"]
ASSERTIONS = [
    r"(?!\S)", r"(?=a)", r"(?!a)", r"(?=\s|$)", r"(?!\d|[a-c])", "$", r"\z", "^", r"\A", r"\b", r"\B", r"(?<=\s)",
    r"(?<!a)", r"(?<![a-z]|\d)", r"(?=\S+)", "(?=ab)", r"(?!\d{2})", r"(?=(\d{3})+(?!\d))", r"(?!\w*\b1)", "(?=a.?(?=b)|s)",
    r"(?!\s(?!\S\S))", "(?=a{2})", r"(?=(?:\d{3})*\b)",
]  # fmt: skip


def draw_pattern(draw, depth=0):
    """A pattern of the language that scanners know, if it is not one that may be empty."""

    def item():
        if depth < 2 and draw.random() < 0.15:
            inner = draw_pattern(draw, depth + 1)
            out = draw.choice(["(?:{})", "({})", "(?i:{})", "(?>{})"]).format(inner)
        else:
            out = draw.choice(ATOMS)
        return out + (draw.choice(QUANTIFIERS) if draw.random() < 0.4 else "")

    def branch():
        items = [item() for _ in range(draw.randrange(1, 4))]
        if draw.random() < 0.2:
            items.insert(draw.randrange(len(items) + 1), draw.choice(ASSERTIONS))
        return "".join(items)

    return "|".join(branch() for _ in range(draw.randrange(1, 5)))


def test_drawn_patterns_cut_alike():
    draw = random.Random(os.environ.get("SMOL_SEED", "1"))
    compiled = refused = 0
    while compiled < N_PATTERNS:
        pattern = draw_pattern(draw)
        behaviour, invert = draw.choice(list(NAMES)), draw.random() < 0.3
        try:
            theirs = reference(pattern, behaviour, invert)
        except Exception:  # the reference cannot read it either
            continue
        try:
            ours = Smol(split(pattern, behaviour, invert))
        except Refused as error:
            refused += 1
            assert "pre_tokenizer is not supported: " in str(error)
            continue
        compiled += 1
        for text in strings(12, compiled):
            try:
                expected = reference_pieces(theirs, text)
            except BaseException as error:  # its engine's patience has an end
                assert "retry-limit" in str(error)
                continue
            assert ours.pieces(text) == expected, (pattern, behaviour, invert, text)
    assert refused < 3 * compiled  # most are refused because they may be empty


# --- other pre-tokenizers ---------------------------------------------------------------------

SIMPLE = {
    "digits alone": ({"type": "Digits", "individual_digits": True}, pre_tokenizers.Digits(True)),
    "digits": ({"type": "Digits", "individual_digits": False}, pre_tokenizers.Digits(False)),
    "whitespace": ({"type": "Whitespace"}, pre_tokenizers.Whitespace()),
    "whitespace split": ({"type": "WhitespaceSplit"}, pre_tokenizers.WhitespaceSplit()),
    "text": (split("'s", "merged_with_next", kind="String"), pre_tokenizers.Split("'s", "merged_with_next")),
} | {
    f"punctuation {b}": ({"type": "Punctuation", "behavior": NAMES[b]}, pre_tokenizers.Punctuation(b))
    for b in NAMES
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", SIMPLE)
def test_other_pre_tokenizers_cut_alike(name):
    part, theirs = SIMPLE[name]
    ours = Smol(part)
    for text in strings(200, name):
        assert ours.pieces(text) == reference_pieces(theirs, text), repr(text)
    every = "".join(chr(c) for c in range(0x32000) if not 0xD800 <= c < 0xE000)
    assert ours.pieces(every) == reference_pieces(theirs, every)


@pytest.mark.parametrize("behaviour", NAMES)
@pytest.mark.parametrize("invert", [False, True])
def test_behaviours_treat_matches_alike(behaviour, invert):
    for pattern in [r"\s", r"[ab]", r"ab|a", r"\d+", r"(?<=a)b"]:
        ours = Smol(split(pattern, behaviour, invert))
        theirs = reference(pattern, behaviour, invert)
        for text in ["", "a", "aa", " a  b ", "abab", "xaabx", "a1b22c", "  ", "1a", "bbxbb"]:
            assert ours.pieces(text) == reference_pieces(theirs, text), (pattern, text)


REFUSED = [
    (r"(a)\1", "escape"), (r"\p{Klingon}", "property"),
    ("(?<=ab)c", "more than one"), ("(?=.{9}a)b", "in too many ways"), ("(?:ab|a)++c", "possessive"),
    ("(?=ab)a(?=bc)b(?=cd)c(?=de)d", "in too many places"), ("(?=" * 20 + "ab" + "c)" * 20, "in too many places"),
    ("(?>ab|a)c", "possessive"), ("(?i:ss)a", "equal one character"), ("(?i:ß)", "several"), ("(?i:[ß])", "several"),
    ("(?x:a)", "group"), ("(?<n>a)", "group"), ("a(?i)b", "group"), (r"\Ka", "escape"), ("[a--b]", "-"),
    ("a{1001}", "count"), ("(?:a{900}){900}", "has too many repetitions"), ("(?:a?)+b", "may be empty"), ("(" * 70 + ")" * 70, "deep"),
    (r"(?:\w{40}|\d){40}", "states"), ("a" * 20000, "too long"), ("[" + "".join(map(chr, range(256, 600))) + "]a", None),
    ("|".join(map(chr, range(256, 600))), "classes"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_compiled_is_refused_quoting_the_pattern(pattern, reason):
    if reason is None:
        Smol(split(pattern))
        return
    with pytest.raises(Refused) as refusal:
        Smol(split(pattern))
    assert reason in str(refusal.value)
    if pattern:
        assert json.dumps(pattern)[1:20].rstrip('"').lower() in str(refusal.value).lower()


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["a*b", "a*b|a", "(?:aa)*b|a", r"\w+@|\w", "a{1,50}c|a+b"])
def test_no_text_takes_long(pattern):
    """Each pattern looks to the end of the text from every place, and finds nothing there."""
    Smol(split(pattern)).cut(b"a" * 1_000_000)  # a step for each pair of places would take half an hour


# --- whole tokenizers -------------------------------------------------------------------------

BARE = byte_level(use_regex=False)
FAMILIES = {
    "llama3": [split(PUBLISHED["llama3"]), BARE],
    "qwen2": [split(PUBLISHED["qwen2"]), BARE],
    "o200k": [split(PUBLISHED["o200k"]), BARE],
    "deepseek": [
        split(r"\p{N}{1,3}"), split(PUBLISHED["kana"]), split(PUBLISHED["deepseek"]), BARE
    ],
    "deepseek coder": [
        split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(PUBLISHED["kana"]),
        {"type": "Digits", "individual_digits": True}, BARE,
    ],
    "falcon": [
        {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(),
        {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"),
    ],
    "bloom": [split(PUBLISHED["bloom"]), BARE],
    "prefix space": [byte_level(add_prefix_space=True)],
    "digits and prefix space": [{"type": "Digits", "individual_digits": True}, byte_level(True, True)],
    "one word": [BARE],
}  # fmt: skip


# what comes with the pre-tokenizer
EXTRAS = {
    "llama3": {"ignore_merges": True},
    "qwen2": {"normalizer": {"type": "NFC"}},
}


def trained(family, texts):
    """A tokenizer.json of the family's pre-tokenizer, as text."""
    whole = {"type": "Sequence", "pretokenizers": FAMILIES[family]}
    empty = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": whole,
        "post_processor": None, "decoder": BARE, "truncation": None, "padding": None,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }  # fmt: skip
    tokenizer = Tokenizer.from_str(json.dumps(empty))
    trainer = trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=test_tokenizer.FULL, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    content = json.loads(tokenizer.to_str())
    extras = dict(EXTRAS.get(family, {}))
    content["model"]["ignore_merges"] = extras.pop("ignore_merges", False)
    return json.dumps(content | extras)


@pytest.mark.sample(6)
@pytest.mark.parametrize("family", FAMILIES)
def test_trained_tokenizers_give_the_same_ids(family, training, tmp_path):
    short = [line for text in training[:8] for line in text.split("\n")]
    file = tmp_path / "tokenizer.json"
    file.write_text(trained(family, short), encoding="utf-8")
    theirs, ours = Tokenizer.from_file(str(file)), smol_tokenizer.Smol(file)
    made = test_tokenizer.make_texts(theirs, family, N_STRINGS)
    test_tokenizer.check_encoding(ours, theirs, [*made, *strings(N_STRINGS, family)])


def test_a_blob_with_a_scanner_says_how_to_cut(repo_root, tmp_path):
    """FORMAT.md's own way of cutting gives the reference's words, and smolrun its ids."""
    folder = tmp_path / "model"
    shutil.copytree(repo_root / "demo/model", folder)
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    parts = [
        split(r"\d+", "merged_with_previous"), split(r"(?<=\s)[a-c]|\n", "contiguous", True),
        *FAMILIES["llama3"][:1], byte_level(add_prefix_space=True), split("[0-9]", "merged_with_next"),
    ]  # fmt: skip
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}
    file.write_text(json.dumps(content), encoding="utf-8")
    blob = tmp_path / "m.smol"
    subprocess.run([BUILD / "smolconv", "--quiet", folder, blob], check=True)
    subprocess.run([BUILD / "smolconv", "verify", blob], check=True, stdout=subprocess.PIPE)
    shown = subprocess.run(
        [BUILD / "smolconv", "inspect", blob], check=True, stdout=subprocess.PIPE, text=True
    )
    assert "split by 5 patterns" in shown.stdout
    scanner = Blob(blob.read_bytes(), xxh3).scanner
    theirs = Tokenizer.from_file(str(file))
    for text in strings(40, 0):
        words = [w for w, _ in theirs.pre_tokenizer.pre_tokenize_str(text)]
        assert ["".join(LETTERS[b] for b in word) for word in scanner.cut(text.encode())] == words, text
    for text in strings(3, 1):
        if "\0" in text or not text:
            continue
        run = subprocess.run(
            [BUILD / "smolrun", "tokenize", blob, "--", text], check=True, stdout=subprocess.PIPE
        )
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert list(map(int, run.stdout.split())) == expected, text


# the byte-level alphabet, by byte
LETTERS = [
    chr(b) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xFF and b != 0xAD else None for b in range(256)
]
for n, b in enumerate(b for b in range(256) if LETTERS[b] is None):
    LETTERS[b] = chr(256 + n)

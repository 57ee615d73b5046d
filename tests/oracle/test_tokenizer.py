"""The tokenizer, from tokenizer.json to ids and back, against the package `tokenizers`."""

import functools
import itertools
import json
import os
import random
import unicodedata
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internal import DAMAGED, UNSUPPORTED
from smol_tokenizer import Smol, import_json
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from unicode_tables import assert_written

ALL = bool(os.environ.get("SMOL_TEST_ALL"))
N_STRINGS = 20_000 if ALL else 1_500  # per tokenizer
EXAMPLES = 400 if ALL else 100


# --- the tokenizers ---------------------------------------------------------------------------


def train(folder, texts, digits, alphabet, added=(), edit=None):
    """Trains a small byte-level BPE, lets `edit` change its JSON, and returns the file."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digit_splitter = pre_tokenizers.Digits(individual_digits=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([digit_splitter, byte_level]) if digits else byte_level
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(list(added))
    content = json.loads(tokenizer.to_str())
    if edit:
        edit(content)
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return file


def merges_as_strings(content):
    content["model"]["merges"] = ["#version: 0.2"] + [" ".join(m) for m in content["model"]["merges"]]


def options_that_mean_nothing(content):
    content["model"] |= {"unk_token": "", "continuing_subword_prefix": "", "end_of_word_suffix": ""}
    content["model"] |= {"dropout": 0.0, "byte_fallback": True}
    del content["model"]["type"]
    content["normalizer"] = {"type": "Sequence", "normalizers": []}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    content["post_processor"] = byte_level
    content["decoder"] = {"type": "Sequence", "decoders": [byte_level]}


def unused_ids_and_repeated_merges(content):
    vocab = content["model"]["vocab"]
    last = max(vocab, key=vocab.get)
    vocab[last] += 7
    content["model"]["merges"] += content["model"]["merges"][:40]
    vocab["日本"] = vocab[last] + 1  # cannot be reached by merging, decodes to itself


ADDED = [
    AddedToken("<s>", special=True, normalized=False),
    AddedToken("<s>x", special=False, normalized=False),
    AddedToken("s>x", special=False, normalized=True),
    AddedToken("<", special=False, normalized=True),
    AddedToken("<sep", special=True, normalized=True),
    AddedToken("  ", special=False, normalized=True),
    AddedToken("é", special=False, normalized=False),  # a byte-level character: decodes to a byte
    AddedToken("日本語", special=True, normalized=False),
    AddedToken("return", special=False, normalized=True),
    AddedToken("1", special=False, normalized=True),
    AddedToken("\n\n\t", special=False, normalized=False),
]
FULL = pre_tokenizers.ByteLevel.alphabet()
SMALL = {
    "plain": {"digits": False, "alphabet": FULL, "edit": merges_as_strings},
    "options": {"digits": True, "alphabet": FULL, "edit": options_that_mean_nothing},
    "bytes missing": {"digits": True, "alphabet": [], "edit": unused_ids_and_repeated_merges},
    "added tokens": {"digits": False, "alphabet": FULL, "added": ADDED},
}


@pytest.fixture(scope="module", params=["demo", "real", *SMALL])
def file(request, repo_root, training, tmp_path_factory):
    if request.param == "demo":
        return repo_root / "demo/model/tokenizer.json"
    if request.param == "real":
        return request.getfixturevalue("real_model_dir") / "tokenizer.json"
    folder = tmp_path_factory.mktemp("tokenizer")
    return train(folder, training, **SMALL[request.param])


@pytest.fixture(scope="module")
def smol(file):
    return Smol(file)


@pytest.fixture(scope="module")
def reference(file):
    return Tokenizer.from_file(str(file))


def reference_ids(reference, texts):
    return [e.ids for e in reference.encode_batch_fast(texts, add_special_tokens=False)]


def check_encoding(smol, reference, texts):
    for text, expected in zip(texts, reference_ids(reference, texts), strict=True):
        assert smol.encode(text) == expected, repr(text)


# --- texts ------------------------------------------------------------------------------------

FRAGMENTS = [
    "the", "Hello", " world", "ing", "XMLHttpRequest", " a", "I", "naïve", "e\u0301", "\u0301\u0327",
    "int main(void)\n{\n    return 0;\n}\n", "def f(x):\n\treturn x**2", "</div>", "a_b-c", "!=", "...",
    "0", "42", " 2024", "3.14159", "0x7fff", "1,000,000", "½²③", "٣", "१२", "Ⅷ", "一二",
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'", "''s", "I'll", "they've", "'S", "'r", "'l", "’s",
    " ", "  ", "   \n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\u200b", "\x0b\x0c", " \u00a0 ",
    "你好世界", "東京", "こんにちは", "한국어", "Привет", "مرحبا", "שלום", "ไทย", "हिन्दी",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f",
    "\U0001f44d\U0001f3fd", "\x00", "\x04", "\x16", "\x7f", "\ufffd", "\ufeff", "\U0010ffff", "\U000e0001",
]  # fmt: skip
SCALARS = [*range(0xD800), *range(0xE000, 0x110000)]


@functools.cache
def by_category():
    categories = {}
    for c in SCALARS:
        categories.setdefault(unicodedata.category(chr(c)), []).append(c)
    return list(categories.values())


def partly(r, text):
    start = r.randrange(len(text))
    return text[start : r.randint(start + 1, len(text))]


def make_texts(reference, seed, n=N_STRINGS):
    """n texts of up to a dozen fragments, each of one of a few kinds."""
    r = random.Random(seed)
    categories = by_category()
    added = [t.content for t in reference.get_added_tokens_decoder().values()] or ["<none>"]
    vocab = sorted(reference.get_vocab())
    kinds = [
        lambda: r.choice(FRAGMENTS),
        lambda: r.choice(FRAGMENTS) * r.randint(1, 5),
        lambda: chr(r.choice(r.choice(categories))),
        lambda: chr(r.choice(SCALARS)),
        lambda: chr(r.randrange(128)) * r.choice([1, 1, 2, 40]),
        lambda: r.choice(added),
        lambda: partly(r, r.choice(added)),
        lambda: r.choice(vocab).replace("Ġ", " ").replace("▁", " "),
    ]
    return ["".join(r.choice(kinds)() for _ in range(r.randint(0, 12))) for _ in range(n)]


@pytest.fixture(scope="module")
def texts(reference):
    return make_texts(reference, seed=20240229)


# --- encoding and decoding --------------------------------------------------------------------


@pytest.mark.sample(3)
def test_ids_are_those_of_the_reference(smol, reference, texts):
    check_encoding(smol, reference, texts)


@pytest.mark.sample(2)
def test_decoding_is_that_of_the_reference(smol, reference, texts):
    ids = [smol.encode(text) for text in (texts if ALL else texts[::3])]
    r = random.Random(1)
    ids += [r.choices(range(smol.n_tokens + 3), k=r.randint(1, 20)) for _ in range(2000)]
    for skip in (False, True):
        expected = reference.decode_batch(ids, skip_special_tokens=skip)
        for i, text in zip(ids, expected, strict=True):
            assert smol.decode(i, skip) == text


@pytest.mark.sample(3)
def test_every_token_decodes_as_in_the_reference(smol, reference):
    for skip in (False, True):
        for i in range(smol.n_tokens):
            assert smol.decode([i], skip) == reference.decode([i], skip_special_tokens=skip)


@pytest.mark.sample(2)
@settings(max_examples=EXAMPLES, deadline=None)
@given(text=st.text())
def test_ids_of_any_text(smol, reference, text):
    check_encoding(smol, reference, [text])


@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.binary(max_size=60))
def test_ill_formed_text_is_replaced_as_python_does(smol, reference, data):
    assert smol.encode(data) == reference_ids(reference, [data.decode("utf-8", "replace")])[0]


def test_random_bytes_are_replaced_as_python_does(smol):
    r = random.Random(2)
    pieces = [b"a", b" ", b"\xc3", b"\xa9", b"\xe2\x82", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80", b"\xed\xa0"]
    pieces += [b"\xff", b"\xc0\x80", b"\xf4\x90", b"<s>", b"<|im_end|>", b"<|im\xff_end|>"]
    for _ in range(5000):
        data = b"".join(r.choices(pieces, k=r.randint(1, 8)))
        assert smol.encode(data) == smol.encode(data.decode("utf-8", "replace")), data


def test_special_tokens_are_text_on_request(smol, file):
    content = json.loads(file.read_text(encoding="utf-8"))
    added = [t["content"] for t in content["added_tokens"]] or ["none"]
    plain = Tokenizer.from_file(str(file))
    plain.encode_special_tokens = True
    for text in [*added, "a".join(added), "".join(added)]:
        assert smol.encode(text, flags=0) == reference_ids(plain, [text])[0]


def code_points():
    """Every code point of the planes in use, and some of each other."""
    in_use = [c for c in SCALARS if c < 0x40000 or 0xE0000 <= c < 0xE1000]
    return in_use + SCALARS[0x40000::97]


@pytest.mark.slow
@pytest.mark.parametrize("file", ["demo", "plain"], indirect=True)
def test_every_code_point_is_split_as_in_the_reference(smol, reference):
    def contexts(c):
        return f"a{c}b {c} {c}{c}\n1{c}1{c}'s"

    chars = [chr(c) for c in code_points()]
    batches = [chars[i : i + 64] for i in range(0, len(chars), 64)]
    check_encoding(smol, reference, ["".join(map(contexts, batch)) for batch in batches])


@pytest.mark.slow
def test_classes_are_generated_from_this_version():
    assert_written("classes")


def test_published_ids(real_model_dir, repo_root):
    published = json.loads((repo_root / "tests/data/smollm2-135m-instruct.json").read_text())
    smol = Smol(real_model_dir / "tokenizer.json")
    for case in published["cases"]:
        assert smol.encode(case["text"]) == case["ids"]
    lone_bytes = {text[0] for text in smol.texts if len(text) == 1}
    assert sorted(set(range(256)) - lone_bytes) == published["missing_bytes"]["bytes"]


def test_same_file_gives_same_bytes(file, smol):
    assert import_json(file, 1 << 20) == (smol.data, smol.text_data, smol.scanner_data)


# --- complexity -------------------------------------------------------------------------------


HARD_TEXTS = {
    "random": lambda n: random.Random(3).randbytes(n),
    "one letter": lambda n: b"a" * n,
    "one word": lambda n: bytes(random.Random(4).choices(b"etaoinshrdlu", k=n)),
    "white space": lambda n: b" " * (n - 1) + b"x",
    "line ends": lambda n: b"\n" * n,
    "digits": lambda n: b"7" * n,
    "apostrophes": lambda n: b"'" * n,
    "added tokens": lambda n: b"<|im_end|>" * (n // 10),
    "starts of added tokens": lambda n: b"<|im_en" * (n // 7),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", HARD_TEXTS)
def test_work_is_nearly_linear(real_tokenizer, kind):
    """A step for each pair of places would take hours."""
    assert real_tokenizer.encode(HARD_TEXTS[kind](1 << (21 if ALL else 20)))


@pytest.fixture(scope="module")
def real_tokenizer(real_model_dir):
    return Smol(real_model_dir / "tokenizer.json")


def test_hostile_added_tokens_cost_no_more_than_others(minimal, tmp_path):
    """Looking for each of them at each place would take hours."""
    for n in range(2, 1024):  # "ab" is in the vocabulary
        add(minimal, "a" * n + "b")
    smol = Smol(write(tmp_path, minimal))
    assert len(smol.encode(b"a" * (1 << 22))) == len(smol.encode(b"a")) << 22


def random_text(r, n):
    return "".join(r.choices("aaab c", k=n))


def random_flags(r):
    return {key: r.random() < 0.3
            for key in ("single_word", "lstrip", "rstrip", "normalized", "special")}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(8))
def test_added_tokens_within_each_other_are_found_as_in_the_reference(minimal, tmp_path, seed):
    """Tokens that are prefixes, suffixes and parts of each other, with all flags."""
    r = random.Random(seed)
    minimal["model"]["vocab"] |= {"Ġ": 5}
    for _ in range(20):
        minimal["added_tokens"] = []
        for text in sorted({random_text(r, r.randint(1, 7)) for _ in range(r.randint(1, 25))}):
            if text not in minimal["model"]["vocab"] and text.strip():
                add(minimal, text, **random_flags(r))
        reference, smol = Tokenizer.from_str(json.dumps(minimal)), Smol(write(tmp_path, minimal))
        for size in [*range(1, 40), 600, 1500]:
            text = random_text(r, size)
            assert smol.encode(text) == reference.encode(text).ids, (minimal["added_tokens"], text)


# --- refusals ---------------------------------------------------------------------------------


@pytest.fixture
def minimal():
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    vocab = {c: i for i, c in enumerate("abc")} | {"ab": 3, "abc": 4}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level | {"use_regex": True},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False, "vocab": vocab, "merges": [["a", "b"], ["ab", "c"]],
        },
    }  # fmt: skip


def write(folder, content):
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def add(content, text, **changes):
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized", "special"], False)
    next_id = len(content["model"]["vocab"]) + len(content["added_tokens"])
    content["added_tokens"].append({"id": next_id, "content": text} | flags | changes)


def put(path, value, content):
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


def set_type(part, kind, **more):
    return partial(put, [part], {"type": kind} | more)


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}
SPLIT = {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}"}, "behavior": "Isolated", "invert": False}


def split_by(*parts):
    return partial(put, ["pre_tokenizer"], {"type": "Sequence", "pretokenizers": list(parts)})


GROWING = {"type": "Replace", "pattern": {"String": "a"}, "content": "abcdefgh"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def twins_when_normalized(content):
    put(["normalizer"], {"type": "NFC"}, content)
    add(content, "\u00e9", normalized=True)
    add(content, "e\u0301", normalized=True)


UNSUPPORTED_FEATURES = [
    ("truncation", partial(put, ["truncation"], {"max_length": 512})),
    ("padding", partial(put, ["padding"], {"strategy": "BatchLongest"})),
    ("Nmt", set_type("normalizer", "Nmt")),
    ("Precompiled", set_type("normalizer", "Sequence", normalizers=[{"type": "Precompiled"}])),
    ("Regex", set_type("normalizer", "Replace", pattern={"Regex": " +"}, content="x")),
    ("Replace", set_type("normalizer", "Replace", pattern={"String": ""}, content="x")),
    ("times as long", set_type("normalizer", "Sequence", normalizers=[GROWING] * 3)),
    ("many steps", set_type("normalizer", "Sequence", normalizers=[{"type": "NFC"}] * 9)),
    ("pre_tokenizer", partial(put, ["pre_tokenizer"], None)),
    ("Whitespace", set_type("pre_tokenizer", "Whitespace")),
    ("Metaspace", set_type("pre_tokenizer", "Metaspace", replacement="▁")),
    ("Split", partial(put, ["pre_tokenizer"], SPLIT)),
    ("(b+)++c", split_by(SPLIT | {"pattern": {"Regex": "a|(b+)++c"}}, BYTE_LEVEL)),
    ("escape", split_by(SPLIT | {"pattern": {"Regex": "(a)\\1"}}, BYTE_LEVEL)),
    ("pattern", split_by(SPLIT | {"pattern": "a"}, BYTE_LEVEL)),
    ("Everything", split_by(SPLIT | {"behavior": "Everything"}, BYTE_LEVEL)),
    ("UnicodeScripts", split_by({"type": "UnicodeScripts"}, BYTE_LEVEL)),
    ("Digits", split_by(DIGITS)),
    ("ByteLevel", split_by(BYTE_LEVEL, BYTE_LEVEL)),
    ("Split", split_by(*[SPLIT] * 17, BYTE_LEVEL)),
    ("Sequence", split_by()),
    ("TemplateProcessing", set_type("post_processor", "TemplateProcessing", single=[])),
    ("RobertaProcessing", set_type("post_processor", "RobertaProcessing")),
    ("decoder", partial(put, ["decoder"], None)),
    ("WordPiece", set_type("decoder", "WordPiece")),
    ("Fuse", set_type("decoder", "Sequence", decoders=[{"type": "Fuse"}, {"type": "Fuse"}])),
    ("Strip", set_type("decoder", "Sequence", decoders=[STRIP])),
    ("Strip", set_type("decoder", "Sequence", decoders=[{"type": "Fuse"}, STRIP | {"stop": 1}])),
    ("Replace", set_type("decoder", "Sequence", decoders=[{"type": "ByteFallback"}, GROWING])),
    ("pre_tokenizer", set_type("decoder", "Fuse")),
    ("WordLevel", partial(put, ["model", "type"], "WordLevel")),
    ("dropout", partial(put, ["model", "dropout"], 0.1)),
    ("byte_fallback", partial(put, ["model", "byte_fallback"], True)),
    ("continuing_subword_prefix", partial(put, ["model", "continuing_subword_prefix"], "##")),
    ("end_of_word_suffix", partial(put, ["model", "end_of_word_suffix"], "</w>")),
    ("too long", partial(add, text="x" * 1025)),
    ("too long", partial(put, ["model", "vocab", "x" * 65536], 5)),
    ("same text", twins_when_normalized),
]


@pytest.mark.parametrize(("name", "edit"), UNSUPPORTED_FEATURES)
def test_unsupported_features_are_refused_by_name(minimal, tmp_path, name, edit):
    edit(minimal)
    with pytest.raises(ValueError) as refusal:
        import_json(write(tmp_path, minimal), 10)
    status, message = refusal.value.args
    assert status == UNSUPPORTED and name in message and "tokenizer.json" in message


@pytest.mark.parametrize("n", [100, 300])
def test_a_decoder_that_makes_much_of_all_tokens_is_refused(minimal, tmp_path, n):
    """A token of 1,000 bytes becomes 60,000, seven times; of 5 MB it took 41 s, and 0.6 GB of memory."""
    steps = [("a", "b" * 60), *[("b", "c"), ("c", "b")] * 3, ("b", "c")]
    replacements = [{"type": "Replace", "pattern": {"String": old}, "content": new} for old, new in steps]
    minimal |= {"pre_tokenizer": None, "decoder": {"type": "Sequence", "decoders": [*replacements, {"type": "Fuse"}]}}
    minimal["model"] |= {"merges": [], "vocab": {"a" * (700 + i): i for i in range(n)}}
    if n == 100:
        import_json(write(tmp_path, minimal), n)
        return
    with pytest.raises(ValueError) as refusal:
        import_json(write(tmp_path, minimal), n)
    status, message = refusal.value.args
    assert status == UNSUPPORTED and "the decoder writes more than 67108864 bytes" in message


BOS = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
MISTAKES = [
    ("same id", partial(put, ["model", "vocab", "twin"], 2)),
    ("twin", partial(put, ["model", "vocab", "twin"], 10)),
    ("twin", partial(put, ["model", "vocab", "twin"], -1)),
    ("twin", partial(put, ["model", "vocab", "twin"], 1 << 40)),
    ("twin", partial(put, ["model", "vocab", "twin"], "5")),
    ("twin", partial(put, ["model", "vocab", "twin"], 5.0)),
    ("model.vocab", partial(put, ["model", "vocab"], [])),
    ("model.merges", partial(put, ["model", "merges"], None)),
    ("model", partial(put, ["model"], None)),
    ("entry 1", partial(put, ["model", "merges", 1], ["ab", "d"])),
    ("token d ", partial(put, ["model", "merges", 1], ["d", "a"])),
    ("token ba ", partial(put, ["model", "merges", 1], ["b", "a"])),
    ("entry 0", partial(put, ["model", "merges", 0], "a b c")),
    ("entry 0", partial(put, ["model", "merges", 0], "ab")),
    ("entry 0", partial(put, ["model", "merges", 0], ["a"])),
    ("entry 0", partial(put, ["model", "merges", 0], ["a", 1])),
    ("entry 0", partial(put, ["model", "merges", 0], 7)),
    ("added_tokens", partial(put, ["added_tokens"], {})),
    ("no text", partial(put, ["added_tokens"], [7])),
    ("no text", partial(add, text="")),
    ("<s>", partial(add, text="<s>", id=6)),
    ("abc", partial(add, text="abc", id=5)),
    ("special", partial(add, text="<s>", special=None)),
    ("unk_token d ", partial(put, ["model", "unk_token"], "d")),
    ("without ids (<s>", set_type("post_processor", "TemplateProcessing", single=BOS, special_tokens={})),
    ("no valid id for a token (<s>", set_type(
        "post_processor", "TemplateProcessing", single=BOS, special_tokens={"<s>": {"ids": ["0"]}}
    )),
    ("token 5", set_type(
        "post_processor", "TemplateProcessing", single=BOS, special_tokens={"<s>": {"ids": [5]}}
    )),
]


@pytest.mark.parametrize(("name", "edit"), MISTAKES)
def test_mistakes_are_refused_by_place(minimal, tmp_path, name, edit):
    edit(minimal)
    with pytest.raises(ValueError) as refusal:
        import_json(write(tmp_path, minimal), 10)
    status, message = refusal.value.args
    assert status == DAMAGED and name in message and "tokenizer.json" in message


def test_added_token_twice_is_refused(minimal, tmp_path):
    add(minimal, "<s>")
    add(minimal, "<s>", normalized=True)
    with pytest.raises(ValueError, match="appears twice"):
        import_json(write(tmp_path, minimal), 10)


def test_minimal_file_is_accepted(minimal, tmp_path):
    smol = Smol(write(tmp_path, minimal), vocab_size=5)
    assert smol.encode("abcab ab") == [4, 3, 3]


def test_longest_added_token_is_accepted(minimal, tmp_path):
    add(minimal, "x" * 1024)
    smol = Smol(write(tmp_path, minimal))
    assert smol.encode("a" + "x" * 1024 + "ab") == [0, 5, 3]


def test_colliding_merges_are_kept_apart_or_refused(minimal, tmp_path):
    """Pairs chosen to share a home slot make the table grow; too many are refused."""

    def home(left, right):
        return (((left << 32 | right) * 0x9E3779B97F4A7C15) & (1 << 64) - 1) >> 32

    n = 600  # single characters, and all pairs of them as candidates
    chars = [chr(0x4E00 + i) for i in range(n)]
    pairs = itertools.product(range(n), range(n))
    same = [p for p in pairs if home(*p) % 1024 == 5][:300]
    vocab = {c: i for i, c in enumerate(chars)}
    for left, right in same:
        vocab[chars[left] + chars[right]] = len(vocab)
    minimal["model"] |= {"vocab": vocab, "merges": [[chars[a], chars[b]] for a, b in same]}
    data = Smol(write(tmp_path, minimal)).data
    n_slots, max_probe = (int.from_bytes(data[i : i + 4], "little") for i in (8, 12))
    assert n_slots > 1024 and max_probe <= 255

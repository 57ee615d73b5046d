"""SentencePiece's maps of characters, and the layouts of tokenizer.json that have one, against the package `tokenizers`.

SMOL_TOKENIZERS=20000 (`make tokenizers`) sets how many texts there are for each layout, and adds the maps of the package
`sentencepiece`, in what transformers' converters write."""

import json
import os
import random
import struct

import charsmaps
import programs
import pytest
from blobs import read_blob, xxh3
from charsmaps import charsmap, packed, precompiled
from checkpoints import make
from smol_reader import CLUSTERS, Text
from smol_tokenizer import Smol
from test_tokenizer import code_points, make_texts
from test_tokenizer_families import (
    N_TEXTS, added, check, check_decoding, metaspace, of_bytes, replace, sequence, template, unigram, written,
)  # fmt: skip
from tokenizers import normalizers
from unicode_tables import assert_written

ALL = N_TEXTS >= 20_000
COLLAPSE = {"type": "Replace", "pattern": {"Regex": " {2,}"}}
TRIM = {"type": "Strip", "strip_left": False, "strip_right": True}

# --- layouts --------------------------------------------------------------------------------------


def exact(texts, data):
    """The ids say which bytes the map has left."""
    return of_bytes(texts, []) | {"normalizer": precompiled(data), "post_processor": None}


def t5(texts, data):
    steps = sequence("normalizers", precompiled(data), TRIM, COLLAPSE | {"content": "▁"})
    return unigram(texts) | {"normalizer": steps}


def xlmr(texts, data):
    content = unigram(texts)
    return content | {
        "normalizer": precompiled(data),
        "pre_tokenizer": sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace()),
        "post_processor": template(content, "<pad>", None, "</s>"),
    }


def albert(texts, data):
    content = unigram(texts)
    n = len(content["model"]["vocab"])
    content["added_tokens"] += [added(n, "[MASK]", lstrip=True), added(n + 1, "ÅÉ", special=False, normalized=True)]
    marks = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    quotes = [replace("``", '"'), replace("''", '"')]
    steps = sequence("normalizers", *quotes, *marks, precompiled(data), COLLAPSE | {"content": " "})
    return content | {"normalizer": steps}


def of_package(rule, family, kind="unigram", **options):
    def layout(_):
        content = json.loads(charsmaps.converted(charsmaps.model(rule, kind), family, **options))
        assert any("precompiled_charsmap" in part for part in content["normalizer"]["normalizers"])
        return content

    return layout


def exact_of_package(rule):
    return lambda texts: exact(texts, charsmaps.read_model(charsmaps.model(rule)).normalizer_spec.precompiled_charsmap)


RULES = ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"]
ALBERT_OPTIONS = {"keep_accents": False, "do_lower_case": True}
LAYOUTS = {
    "exact": lambda texts: exact(texts, charsmaps.nfkc(False)),
    "exact folded": lambda texts: exact(texts, charsmaps.nfkc(True)),
    "t5": lambda texts: t5(texts, charsmaps.nfkc(False)),
    "xlmr": lambda texts: xlmr(texts, charsmaps.nfkc(False)),
    "albert": lambda texts: albert(texts, charsmaps.nfkc(True)),
}
OF_PACKAGE = {
    **{f"exact {rule}": exact_of_package(rule) for rule in RULES},
    **{f"T5 {rule}": of_package(rule, "T5", _extra_ids=100) for rule in RULES},
    **{
        f"{family} nmt_nfkc": of_package("nmt_nfkc", family, **options)
        for family, options in {
            "XLMRoberta": {}, "Camembert": {}, "Barthez": {}, "XGLM": {}, "Pegasus": {
                "mask_token_sent": "<mask_1>", "mask_token": "<mask_2>", "mask_token_id": 2, "offset": 103, "pad_token": "<pad>",
                "eos_token": "</s>", "eos_token_id": 1, "unk_token": "<unk>",
            },
            "Albert": ALBERT_OPTIONS, "XLNet": ALBERT_OPTIONS, "RemBert": ALBERT_OPTIONS,
            "DebertaV2": {"do_lower_case": True, "split_by_punct": False}, "BigBird": {},
        }.items()
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=[*LAYOUTS, *(OF_PACKAGE if ALL else ())])
def pair(request, training, tmp_path_factory):
    make_layout = (LAYOUTS | OF_PACKAGE)[request.param]
    return written(tmp_path_factory.mktemp("tokenizer"), make_layout(training))


def test_ids_are_those_of_the_reference(pair):
    smol, reference = pair
    texts = make_texts(reference, seed=6, n=N_TEXTS) + charsmaps.texts_of_pieces(7, N_TEXTS)
    check(smol, reference, ["", *texts])
    check_decoding(smol, reference, [smol.encode(text) for text in texts[:N_TEXTS]])


def test_every_code_point_is_treated_as_in_the_reference(pair):
    smol, reference = pair
    step = 1 if ALL else 61
    chars = [chr(c) for c in code_points()]
    batches = [chars[i : i + 64] for i in range(0, len(chars), 64 * step)]
    contexts = ["".join(f"a{c} {c}b\n{c}{c}" for c in batch) for batch in batches]
    contexts += ["".join(f"{c}\u0301\u0600{c}e{c}\u0300\u0300©\u200d{c}A" for c in batch) for batch in batches]
    check(smol, reference, contexts)


def test_a_text_is_one_long_cluster(pair):
    """It takes linear time, and the result is the reference's."""
    smol, reference = pair
    check(smol, reference, ["e" + "\u0301" * 20_000, "\u0600" * 20_000 + "a", "\u1100" * 20_000, "é" * 20_000])


# --- other maps -----------------------------------------------------------------------------------


def test_drawn_maps(training, tmp_path):
    r = random.Random(10)
    for i in range(max(40, N_TEXTS // 20)):
        smol, reference = written(tmp_path, exact(training, charsmaps.drawn(r)))
        check(smol, reference, charsmaps.texts_of_pieces(i, 60))


def with_size(data, size):
    return struct.pack("<I", size) + data[4:]


def with_unit(data, at, change):
    (unit,) = struct.unpack_from("<I", data, 4 + 4 * at)
    return data[: 4 + 4 * at] + struct.pack("<I", change(unit) & 0xFFFFFFFF) + data[8 + 4 * at :]


def meeting(depth, width):
    """A trie whose branches meet again and again, with a key for each way through it."""
    units = [0] * (256 * (depth + 2))
    base = 256
    units[0] = base << 10
    for level in range(depth):
        for byte in range(1, width):
            at = base ^ byte
            units[at] = byte | (at ^ (base + 256)) << 10 | (level == depth - 1) << 8
        base += 256
    units[base] = 1 << 31
    return struct.pack(f"<{len(units) + 1}I", 4 * len(units), *units) + b"x\0"


GOOD = charsmap({"a": "b", "éa": "x"})
HOSTILE = {
    "empty": (b"", "it is too short"),
    "shorter than a size": (b"\0\0\0", "it is too short"),
    "no trie": (b"\0\0\0\0", "size of its trie"),
    "odd size": (with_size(GOOD, 1022), "size of its trie"),
    "a trie past the end": (with_size(GOOD, 1 << 31), "size of its trie"),
    "texts that are no UTF-8": (GOOD[:-2] + b"\xff\0", "not UTF-8"),
    "no texts": (GOOD[: -len("b\0x\0")], "a key without a text"),
    "a text in the middle of a character": (packed({b"a": 1}, "é\0".encode()), "a key without a text"),
    "a text past the end": (packed({b"a": 3}, b"x\0"), "a key without a text"),
    "children outside": (with_unit(GOOD, 0, lambda unit: 1 << 30), "points outside it"),
    "all keys": (meeting(5, 256), "not supported"),
    "many keys": (meeting(4, 100), "too many keys"),
    "half a character": (charsmap({b"\xc3": "x"}), "a key that is not UTF-8"),
    "a long text": (charsmap({"a": "x" * 65}), "a long text"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_maps_are_refused(name, training, tmp_path):
    data, message = HOSTILE[name]
    with pytest.raises(ValueError, match=message):
        Smol(save(tmp_path, exact(training, data)))


def save(folder, content):
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return file


@pytest.mark.parametrize("text", ["QUJ", "QUJDRA", "QU=DRA==", "QUJDR===", "QUJDRB==", "Q\u00e9==", "QUJ DRA="])
def test_what_is_not_base64_is_refused(text, training, tmp_path):
    content = exact(training, GOOD)
    content["normalizer"]["precompiled_charsmap"] = text
    with pytest.raises(ValueError, match="it is not base64"):
        Smol(save(tmp_path, content))


def test_every_truncation_and_any_flipped_bit_is_harmless(training, tmp_path):
    data, r = charsmap({"a": "b", "éa": "x", "日": ""}), random.Random(3)
    n_refused = n_cut = 0
    for i in range(0, 200, 1 if os.environ.get("SMOL_TEST_ALL") else 4):
        spoilt = bytearray(data[: i * len(data) // 100] if i < 100 else data)
        n_cut += i < 100
        if i >= 100:
            spoilt[r.randrange(len(spoilt))] ^= 1 << r.randrange(8)
        try:
            Smol(save(tmp_path, exact(training, bytes(spoilt)))).encode("aéa日" + chr(0x1F600))
        except ValueError as refusal:
            n_refused += 1
            assert "precompiled_charsmap" in str(refusal)
    assert n_refused >= n_cut * 0.9


def test_a_second_map_is_refused(training, tmp_path):
    steps = sequence("normalizers", precompiled(GOOD), precompiled(GOOD))
    with pytest.raises(ValueError, match="a second one"):
        Smol(save(tmp_path, of_bytes(training, []) | {"normalizer": steps}))


def test_texts_that_grow_too_much_are_refused(training, tmp_path):
    steps = sequence("normalizers", replace("b", "b" * 64), replace("b", "b" * 64), precompiled(charsmap({"a": "x" * 64})))
    with pytest.raises(ValueError, match="texts more than 32768 times as long"):
        Smol(save(tmp_path, of_bytes(training, []) | {"normalizer": steps}))


# --- the format -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_clusters_are_generated_from_this_version():
    assert_written("clusters")


def test_clusters_are_those_of_the_format(training, tmp_path):
    """The clusters follow from FORMAT.md alone."""
    r = random.Random(12)
    for data in (charsmaps.nfkc(True), *(charsmaps.drawn(r) for _ in range(10))):
        smol = Smol(save(tmp_path, exact(training, data)))
        reference = normalizers.Precompiled(data)
        text = Text(smol.text_data, xxh3)
        assert text.clusters and text.f["n_steps"] == 1
        for piece in charsmaps.texts_of_pieces(r.random(), 300):
            assert text.clusters.apply(piece, 0) == reference.normalize_str(piece), repr(piece)


def run(program, *arguments):
    return programs.run(program, arguments, check=True).stdout.decode()


@pytest.mark.parametrize("layout", [t5, xlmr, albert])
def test_a_blob_has_the_map(layout, training, tmp_path):
    content = layout(training, charsmaps.nfkc(False))
    n = max(len(content["model"]["vocab"]), *(t["id"] + 1 for t in content["added_tokens"]))
    source, blob = make(tmp_path / "checkpoint", vocab_size=n, eos_token_id=None), tmp_path / "a.smol"
    _, reference = written(source, content)
    run("smolconv", "--quiet", "--dtype", "f32", source, blob)
    run("smolconv", "verify", "--source", source, blob)
    read = read_blob(blob)
    assert read.minor == 6 and read.features & CLUSTERS
    assert "clusters" in run("smolconv", "inspect", blob)
    for text in ["Hello  ﬁne ①", "e\u0301 é", "x \u3000 y"]:
        assert run("smolrun", "tokenize", blob, text).split() == list(map(str, reference.encode(text).ids))
    other = tmp_path / "b.smol"
    written(source, layout(training, GOOD))
    run("smolconv", "--quiet", "--dtype", "f32", source, other)
    assert programs.smolconv("diff", blob, other).returncode == 1

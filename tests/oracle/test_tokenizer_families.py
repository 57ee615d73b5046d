"""Tokenizers as the families publish them, against the package `tokenizers`: normalizers, words of
characters, byte fallback, whole words, flags of added tokens, tokens around a text, decoders.

SMOL_TOKENIZERS=20000 (`make tokenizers`) sets how many texts there are for each kind, and adds the real
vocabularies of real_tokenizers.py."""

import functools
import json
import os
import random

import package  # noqa: F401 (smolrun is imported from it)
import programs
import pytest
import real_tokenizers
import smolrun
from blobs import read_blob, xxh3
from checkpoints import make
from serving import serving
from smol_reader import NO_TOKEN, Text
from smol_tokenizer import PARSE_SPECIAL, WHOLE_TEXT, Smol
from test_tokenizer import FRAGMENTS, FULL, code_points, make_texts
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from unicode_tables import assert_written

N_TEXTS = int(os.environ.get("SMOL_TOKENIZERS", 200 if os.environ.get("SMOL_TEST_ALL") else 100))
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# --- the parts of tokenizer.json ------------------------------------------------------------------


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def metaspace(scheme="always", split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def template(content, *pieces):
    """Tokens around a text, which is None."""
    ids = {t["content"]: t["id"] for t in content["added_tokens"]}
    single = [
        {"SpecialToken": {"id": p, "type_id": 0}} if p else {"Sequence": {"id": "A", "type_id": 0}}
        for p in pieces
    ]
    special = {p: {"id": p, "ids": [ids[p]], "tokens": [p]} for p in pieces if p}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {
        "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special
    }  # fmt: skip


def added(token_id, text, **flags):
    default = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": text} | default | {"special": True} | flags


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
QWEN2 = CONTRACTIONS + (
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
BYTE_FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
SPACES = replace("▁", " ")

# --- the families ---------------------------------------------------------------------------------


@functools.cache
def trained(texts, of_bytes):
    """Returns what BpeTrainer learns from words in SentencePiece's or in GPT-2's manner."""
    words = pre_tokenizers.Metaspace(prepend_scheme="always")
    if of_bytes:
        words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = words
    trainer = trainers.BpeTrainer(
        vocab_size=1100, initial_alphabet=FULL if of_bytes else ["▁"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.to_str()


def of_characters(texts, special, byte_tokens=BYTES):
    """BPE of characters in SentencePiece's manner, to be finished by the family."""
    content = json.loads(trained(texts, False))
    tokens = [*special, *byte_tokens, *content["model"]["vocab"]]
    content["model"] |= {"vocab": {token: i for i, token in enumerate(tokens)}}
    content["model"] |= {"byte_fallback": True, "fuse_unk": True}
    content["model"] |= {"unk_token": special[0] if special else None}
    content["added_tokens"] = [added(i, text) for i, text in enumerate(special)]
    return content


def split_by(pattern):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return sequence("pretokenizers", split, BYTE_LEVEL | {"use_regex": False})


def of_bytes(texts, special):
    content = json.loads(trained(texts, True))
    n = len(content["model"]["vocab"])
    content["added_tokens"] = [added(n + i, text) for i, text in enumerate(special)]
    return content | {"pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL}


LLAMA = ["<unk>", "<s>", "</s>"]


def llama2(texts, **flags):
    content = of_characters(texts, LLAMA)
    for token in content["added_tokens"]:
        token |= flags
    return content | {
        "normalizer": sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")),
        "pre_tokenizer": None,
        "post_processor": template(content, "<s>", None),
        "decoder": sequence("decoders", SPACES, BYTE_FALLBACK, FUSE, STRIP),
    }


def llama2_first_release(texts):
    return llama2(texts, normalized=True)


def tinyllama(texts):
    content = llama2(texts)
    pad = len(content["model"]["vocab"])
    content["added_tokens"] += [added(pad, "<|user|>", special=False, lstrip=True, rstrip=True)]
    return content


def mistral3(texts):
    content = of_characters(texts, [*LLAMA, "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]"])
    return content | {
        "normalizer": None,
        "pre_tokenizer": metaspace("first", split=False),
        "post_processor": template(content, "<s>", None),
        "decoder": sequence("decoders", SPACES, BYTE_FALLBACK, FUSE, STRIP),
    }


def gemma(texts):
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    content = of_characters(texts, special)
    plain = ["\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁▁", "<table>", "</table>", "<h1>", "\t\t"]
    n = len(content["model"]["vocab"])
    for text in plain:
        known = content["model"]["vocab"].get(text)
        content["added_tokens"].append(added(n if known is None else known, text, special=False))
        n += known is None
    content["model"]["unk_token"] = "<unk>"
    return content | {
        "normalizer": replace(" ", "▁"),
        "pre_tokenizer": {
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": template(content, "<bos>", None),
        "decoder": sequence("decoders", SPACES, BYTE_FALLBACK, FUSE),
    }  # fmt: skip


def words_of_characters(texts):
    """Metaspace that cuts, without bytes to fall back to; unknown characters one by one."""
    content = of_characters(texts, LLAMA, byte_tokens=[])
    content["model"] |= {"byte_fallback": False, "fuse_unk": False}
    return content | {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": metaspace(),
        "post_processor": template(content, "<s>", None, "</s>"),
        "decoder": metaspace(),
    }


def some_bytes(texts):
    """Not all bytes have tokens, so that characters can be unknown all the same."""
    content = of_characters(texts, LLAMA, byte_tokens=BYTES[0x60:0xE3])
    never = metaspace("never")
    return content | {
        "normalizer": sequence("normalizers", replace("ing", ""), replace("x", "<y>"), replace(" ", "  ")),
        "pre_tokenizer": sequence("pretokenizers", never),
        "post_processor": None,
        "decoder": sequence("decoders", never, BYTE_FALLBACK),
    }  # fmt: skip


def whole_words_of_characters(texts):
    content = of_characters(texts, LLAMA)
    content["model"] |= {"ignore_merges": True, "unk_token": None}
    content["model"]["merges"] = content["model"]["merges"][::2]
    return content | {
        "normalizer": None,
        "pre_tokenizer": metaspace("first"),
        "post_processor": template(content, None, "</s>"),
        "decoder": sequence("decoders", replace("▁", "__"), replace("__", " "), FUSE, STRIP | {"start": 3}),
    }  # fmt: skip


def qwen2(texts):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    content = of_bytes(texts, special)
    content["added_tokens"].append(
        added(len(content["model"]["vocab"]) + 3, "<tool_call>", special=False)
    )
    return content | {
        "normalizer": {"type": "NFC"}, "pre_tokenizer": split_by(QWEN2), "post_processor": BYTE_LEVEL
    }  # fmt: skip


def llama3(texts):
    content = of_bytes(texts, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    content["model"] |= {"ignore_merges": True}
    content["model"]["merges"] = content["model"]["merges"][::2]
    around = template(content, "<|begin_of_text|>", None)
    return content | {
        "pre_tokenizer": split_by(LLAMA3), "post_processor": sequence("processors", BYTE_LEVEL, around)
    }  # fmt: skip


def bytes_missing(texts):
    """Bytes without a token, of which each run becomes one that says so."""
    content = of_bytes(texts, [])
    vocab = content["model"]["vocab"]
    used = {part for merge in content["model"]["merges"] for part in (*merge, "".join(merge))}
    for letter in [t for t in vocab if len(t) == 1 and t not in used]:
        del vocab[letter]
    content["model"] |= {"vocab": {t: i for i, t in enumerate([*vocab, "<unk>"])}}
    content["model"] |= {"unk_token": "<unk>", "fuse_unk": True}
    return content


# --- models that look words up by name ------------------------------------------------------------

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT_NORMALIZER = {
    "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
    "lowercase": True,
}  # fmt: skip


@functools.cache
def trained_names(texts, kind):
    """Returns what the trainer of WordPiece or Unigram learns from a normalizer's words."""
    if kind == "WordPiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=1100, special_tokens=BERT, show_progress=False)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        texts = texts[-3:]  # this trainer is slow
        trainer = trainers.UnigramTrainer(
            vocab_size=900, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
        )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.to_str()


def bert(texts, **changes):
    content = json.loads(trained_names(texts, "WordPiece"))
    return content | {
        "normalizer": BERT_NORMALIZER | changes,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(content, "[CLS]", None, "[SEP]"),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        # which states how batches are made, and is not about a text
        "padding": {
            "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "[PAD]",
        },
        "truncation": {"max_length": 128, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
    }  # fmt: skip


def bert_cased(texts):
    """Letters as they are, other stages, short words only, and BERT's own post-processor."""
    content = bert(texts, lowercase=False, handle_chinese_chars=False)
    content["model"] |= {"max_input_chars_per_word": 6}
    digits = {"type": "Digits", "individual_digits": True}
    return content | {
        "pre_tokenizer": sequence("pretokenizers", {"type": "Whitespace"}, digits),
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
    }


def bert_accents(texts):
    """Steps by themselves, and tokens that are found in what they leave."""
    content = bert(texts)
    n = len(content["model"]["vocab"])
    content["added_tokens"] += [added(n, "ÅÉ", special=False, normalized=True), added(n + 1, "日x", normalized=True)]
    steps = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    return content | {"normalizer": sequence("normalizers", *steps), "pre_tokenizer": {"type": "WhitespaceSplit"}}


def bert_composed(texts):
    """The accents stay, and are composed."""
    steps = [BERT_NORMALIZER | {"strip_accents": False}, {"type": "NFKC"}]
    return bert(texts) | {"normalizer": sequence("normalizers", *steps)}


def unigram(texts, **model):
    """Returns a tokenizer in T5's manner."""
    content = json.loads(trained_names(texts, "Unigram"))
    content["model"] |= model
    return content | {
        "normalizer": None,
        "pre_tokenizer": metaspace(),
        "post_processor": template(content, None, "</s>"),
        "decoder": metaspace(),
    }


def unigram_of_pieces(texts):
    """In XLM-R's manner: white space goes before the pieces are made."""
    trim = {"type": "Strip", "strip_left": False, "strip_right": True}
    collapse = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    return unigram(texts) | {
        "normalizer": sequence("normalizers", {"type": "NFKC"}, trim, collapse),
        "pre_tokenizer": sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace()),
        "post_processor": {
            "type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<pad>", 0], "trim_offsets": True,
            "add_prefix_space": True,
        },
    }  # fmt: skip


def unigram_bytes(texts):
    """Unknown characters become bytes, and the text is one word."""
    content = unigram(texts, byte_fallback=True)
    content["model"]["vocab"] += [[name, -20.0 - i / 7] for i, name in enumerate(BYTES[: 0xE5])]
    return content | {
        "pre_tokenizer": metaspace("first", split=False),
        "decoder": sequence("decoders", SPACES, BYTE_FALLBACK, FUSE, STRIP),
    }


# --- real vocabularies ----------------------------------------------------------------------------

O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def of_real_bytes(content, pattern, special):
    """Returns a tokenizer whose tokens are bytes, with special tokens after the vocabulary."""
    n = len(content["model"]["vocab"])
    added_tokens = [added(n + i, text) for i, text in enumerate(special)]
    around = {"pre_tokenizer": split_by(pattern), "post_processor": BYTE_LEVEL, "decoder": BYTE_LEVEL}
    return content | around | {"added_tokens": added_tokens}


def real_llama3(_):
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    content = of_real_bytes(real_tokenizers.llama3(), LLAMA3, special)
    around = template(content, "<|begin_of_text|>", None)
    return content | {"post_processor": sequence("processors", BYTE_LEVEL, around)}


def real_llama4(_):
    return of_real_bytes(real_tokenizers.llama4(), O200K, ["<|begin_of_text|>", "<|eot|>"])


def real_qwen(_):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    content = of_real_bytes(real_tokenizers.qwen(), QWEN2, special)
    content["model"]["ignore_merges"] = False
    return content | {"normalizer": {"type": "NFC"}}


def real_tekken(_):
    """Special tokens come first."""
    content, pattern, n = real_tokenizers.tekken()
    special = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", *(f"<SPECIAL_{i}>" for i in range(5, n))]
    vocab = {text: i + n for text, i in content["model"]["vocab"].items()}
    content["model"]["vocab"] = {text: i for i, text in enumerate(special)} | vocab
    content = of_real_bytes(content, pattern, [])
    content["added_tokens"] = [added(i, text) for i, text in enumerate(special)]
    return content | {"post_processor": template(content, "<s>", None)}


def real_mistral(version):
    content, control = real_tokenizers.mistral(version)
    vocab = content["model"]["vocab"]
    content["added_tokens"] = [added(vocab[text], text) for text in ["<unk>", *control]]
    return content | {
        "post_processor": template(content, "<s>", None),
        "decoder": sequence("decoders", SPACES, BYTE_FALLBACK, FUSE, STRIP),
    }


def real_mistral1(_):
    steps = sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁"))
    return real_mistral(1) | {"normalizer": steps, "pre_tokenizer": None}


def real_mistral3(_):
    return real_mistral(3) | {"normalizer": None, "pre_tokenizer": metaspace("first", split=False)}


def real_minilm(_):
    return real_tokenizers.minilm()


REAL = (real_llama3, real_llama4, real_qwen, real_tekken, real_mistral1, real_mistral3, real_minilm)
FAMILIES = {
    f.__name__: f
    for f in (
        llama2, llama2_first_release, tinyllama, mistral3, gemma, words_of_characters, some_bytes,
        whole_words_of_characters, qwen2, llama3, bytes_missing, bert, bert_cased, bert_accents,
        bert_composed, unigram, unigram_of_pieces, unigram_bytes, *(REAL if N_TEXTS >= 20_000 else ()),
    )
}  # fmt: skip


def written(folder, content):
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    reference = Tokenizer.from_file(str(file))
    reference.no_truncation()
    reference.no_padding()
    return Smol(file), reference


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request, training, tmp_path_factory):
    return written(tmp_path_factory.mktemp("tokenizer"), FAMILIES[request.param](training))


# --- what is compared -----------------------------------------------------------------------------


def check(smol, reference, texts):
    for whole in (False, True):
        encodings = reference.encode_batch_fast(texts, add_special_tokens=whole)
        flags = PARSE_SPECIAL | (WHOLE_TEXT if whole else 0)
        for text, expected in zip(texts, encodings, strict=True):
            assert smol.encode(text, flags) == expected.ids, repr(text)
    reference.encode_special_tokens = True
    encodings = reference.encode_batch_fast(texts, add_special_tokens=False)
    reference.encode_special_tokens = False
    for text, expected in zip(texts, encodings, strict=True):
        assert smol.encode(text, flags=0) == expected.ids, repr(text)


def check_decoding(smol, reference, lists):
    for skip in (False, True):
        for ids, text in zip(lists, reference.decode_batch(lists, skip_special_tokens=skip), strict=True):
            assert smol.decode(ids, skip) == text, ids


@pytest.mark.sample(6)
def test_ids_are_those_of_the_reference(pair):
    smol, reference = pair
    check(smol, reference, ["", *make_texts(reference, seed=6, n=N_TEXTS)])


@pytest.mark.sample(6)
def test_text_is_that_of_the_reference(pair):
    smol, reference = pair
    r = random.Random(7)
    lists = [smol.encode(text) for text in make_texts(reference, seed=8, n=N_TEXTS)]
    known = range(smol.n_tokens + 3)
    lists += [r.choices(known, k=r.randint(0, 20)) for _ in range(N_TEXTS)]
    byte_tokens = [i for i, text in enumerate(smol.texts) if len(text) == 1]
    some = [*r.choices(known, k=20), *byte_tokens]
    lists += [r.choices(some, k=r.randint(1, 9)) for _ in range(2 * N_TEXTS)]
    check_decoding(smol, reference, lists)
    check_decoding(smol, reference, [[i] for i in range(smol.n_tokens)])


@pytest.mark.sample(6)
def test_every_code_point_is_treated_as_in_the_reference(pair):
    smol, reference = pair
    step = 1 if N_TEXTS >= 20_000 else 61
    chars = [chr(c) for c in code_points()]
    batches = [chars[i : i + 64] for i in range(0, len(chars), 64 * step)]
    contexts = ["".join(f"a{c} {c}b\n{c}{c}" for c in batch) for batch in batches]
    check(smol, reference, contexts)


@pytest.mark.sample(6)
def test_a_text_is_one_long_word(pair):
    """n log n, and equal to the reference, also where nothing cuts."""
    smol, reference = pair
    r = random.Random(9)
    texts = ["a" * 5000, " " * 3000, "the quick brown fox " * 400, "\U0001f600" * 700]
    texts += ["".join(r.choices(FRAGMENTS, k=1000))]
    check(smol, reference, texts)


# --- added tokens ---------------------------------------------------------------------------------

TEXTS_OF_TOKENS = [
    "<s>", "<s>x", "s", "x", " ", "  ", "\u00a0", "\n", "é", "e\u0301", "É", "\u0301", "a b", "ab", "b", "_",
    "<a>", "▁", "▁a", "٣", "²", "\u2028", "the", "日本", "ﬁ", "\u212b", "Å", "가", "\u1100\u1161", "ᄀ",
]  # fmt: skip
NORMALIZERS = [
    None, {"type": "NFC"}, replace(" ", "▁"), replace("b", ""), {"type": "Prepend", "prepend": "▁"},
    sequence("normalizers", {"type": "Prepend", "prepend": "a"}, {"type": "NFC"}, replace("a", " b")),
]  # fmt: skip


def drawn(r, content):
    """Added tokens and their flags, a normalizer: whatever there is."""
    vocab = content["model"]["vocab"]
    n, tokens = len(vocab), []
    for text in r.sample(TEXTS_OF_TOKENS, r.randint(1, 9)):
        names = ["single_word", "lstrip", "rstrip", "normalized", "special"]
        flags = {name: r.random() < 0.4 for name in names}
        if text.isspace():  # where the one before took all of it, the reference panics otherwise
            flags["lstrip"] &= flags["rstrip"]
        tokens.append(added(vocab.get(text, n), text, **flags))
        n += text not in vocab
    return content | {"added_tokens": tokens, "normalizer": r.choice(NORMALIZERS)}


def test_drawn_flags_of_added_tokens(training, tmp_path):
    r = random.Random(10)
    bases = [
        of_bytes(training, []) | {"post_processor": None},
        of_characters(training, [])
        | {"pre_tokenizer": metaspace(), "decoder": metaspace(), "post_processor": None},
        of_characters(training, []) | {
            "pre_tokenizer": None, "decoder": sequence("decoders", SPACES, BYTE_FALLBACK, FUSE, STRIP),
            "post_processor": None,
        },
    ]  # fmt: skip
    n, n_same = max(24, N_TEXTS // 40), 0
    for _ in range(n):
        content = drawn(r, r.choice(bases))
        try:
            smol, reference = written(tmp_path, content)
        except ValueError as refusal:  # twins, a token that is normalized to nothing or to both spaces
            assert "normalized" in str(refusal) or "two ways" in str(refusal)
            n_same += 1
            continue
        pieces = [*(t["content"] for t in content["added_tokens"]), " ", "  ", "a", "_", "b", "\u0301"]
        texts = ["".join(r.choices(pieces, k=r.randint(1, 9))) for _ in range(60)]
        check(smol, reference, texts)
        ids = [smol.encode(text) for text in texts]
        check_decoding(smol, reference, ids)
    assert n_same < n / 2


# --- the start of a text --------------------------------------------------------------------------

KEEPING = [None, {"type": "NFC"}, {"type": "NFKD"}, {"type": "Lowercase"}, replace("b", "x"), {"type": "Prepend", "prepend": "a"}]
DROPPING = [
    {"type": "StripAccents"}, {"type": "Strip", "strip_left": True, "strip_right": False}, replace("b", ""), BERT_NORMALIZER,
    sequence("normalizers", {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": ""}),
]  # fmt: skip


@pytest.mark.parametrize("family", [unigram, words_of_characters])
def test_only_the_start_of_a_text_gets_a_space(family, training, tmp_path):
    """If the normalizer removes the first character, the reference does not see the start."""
    base = family(training) | {"pre_tokenizer": metaspace("first"), "decoder": metaspace("first")}
    base["added_tokens"] = [token | {"normalized": False} for token in base["added_tokens"]]
    special = base["added_tokens"][-1]["content"]
    texts = [start + text for start in ("", "\u0301", "b", " ", "  ", "É", "\0", special) for text in ("the cat", "bb", " a")]
    for normalizer in KEEPING:
        check(*written(tmp_path, base | {"normalizer": normalizer}), texts)
    for normalizer in DROPPING:
        with pytest.raises(ValueError, match="prepend_scheme first after a normalizer that drops"):
            written(tmp_path, base | {"normalizer": normalizer})


# --- normalization --------------------------------------------------------------------------------


def test_marks_in_any_order_are_composed_as_in_the_reference(training, tmp_path):
    smol, reference = written(tmp_path, qwen2(training))
    r = random.Random(11)
    marks = [chr(c) for c in code_points() if reference.normalizer.normalize_str("a\u0334" + chr(c)) != "a\u0334" + chr(c)]
    marks += [chr(c) for c in [*range(0x300, 0x370), 0x1161, 0x1175, 0x11A7, 0x11A8, 0x11C2, 0x9BE, 0x3099]]
    bases = [*"aeoAEOsSyY", *"\u1100\u1112\uac00\uac01\ud7a3\u09c7\u0b47\u304b\u30db\u1e9b\u01d5\u212b\u2126"]
    texts = []
    for _ in range(4 * N_TEXTS):
        parts = [r.choice(bases) + "".join(r.choices(marks, k=r.randint(0, 5))) for _ in range(r.randint(1, 6))]
        texts.append("".join(parts))
    texts += ["".join(r.choices(marks, k=5000)), "a" + "\u0301\u0327" * 5000]
    check(smol, reference, texts)


def test_normalization_is_generated_from_this_version():
    assert_written("nfc")


@pytest.mark.slow
def test_characters_of_maps_are_generated_from_this_version():
    assert_written("maps")


# --- a second reader ------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "bert_cased", "unigram", "unigram_bytes"])
def test_words_are_those_of_the_format(family, training, tmp_path):
    """The ids of words of every kind follow from FORMAT.md alone."""
    content = FAMILIES[family](training)
    smol, _ = written(tmp_path, content | {"normalizer": None, "pre_tokenizer": None, "added_tokens": []})
    text = Text(smol.text_data, xxh3)
    names = text.vocabulary.names()
    assert len(names) == len(content["model"]["vocab"])
    byte_tokens = [names.get(name.encode(), NO_TOKEN) for name in BYTES]
    r, n_unknown = random.Random(12), 0
    known = [name.decode() for name in names]
    for _ in range(N_TEXTS):
        word = "".join(r.choices([*known, *FRAGMENTS], k=r.randint(1, 4)))
        ids = text.vocabulary.word(word.encode(), names, byte_tokens)
        assert smol.encode(word) == ids, repr(word)
        n_unknown += text.f["unknown_id"] in ids
    assert 0 < n_unknown < N_TEXTS


# --- a checkpoint, its blob, and the programs -----------------------------------------------------


def run(program, *arguments, **options):
    return programs.run(program, arguments, check=True, **options).stdout.decode()


def rest_of_text(reference, ids):
    """What ids add to a text that has begun."""
    before = reference.encode("x").ids
    return reference.decode(before + ids)[len(reference.decode(before)) :]


@pytest.mark.parametrize("family", ["llama2", "gemma", "llama3", "bert", "unigram"])
def test_the_programs_do_as_the_tokenizer_says(family, training, tmp_path):
    content = FAMILIES[family](training)
    vocab = content["model"]["vocab"]
    ids = vocab.values() if isinstance(vocab, dict) else range(len(vocab))
    n = max(*ids, *(t["id"] for t in content["added_tokens"])) + 1
    source, blob = make(tmp_path / "checkpoint", vocab_size=n, eos_token_id=None), tmp_path / "a.smol"
    _, reference = written(source, content)
    run("smolconv", "--quiet", "--dtype", "f32", source, blob)
    run("smolconv", "verify", "--source", source, blob)
    assert run("smolconv", "diff", source, blob)
    fields = read_blob(blob).text.f
    assert fields["n_before"] + fields["n_after"] == len(reference.encode("").ids)
    whole = PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"))
    shown = [run("smolconv", "inspect", path) for path in (source, blob)]
    # not the table of parts, whose lines end with shares
    lines = {line for line in shown[1].split("\n")
             if line.startswith(("tokenizer ", "text ")) and not line.endswith("%")}  # fmt: skip
    assert len(lines) == 2 and all(line in shown[0] for line in lines)
    special = content["added_tokens"][1]["content"]
    for text in ["", "Hello  world", f"a{special}é \U0001f600", " x\n\ny "]:
        ids = reference.encode(text).ids
        assert ids == whole(text).input_ids
        assert run("smolrun", "tokenize", blob, text).split() == list(map(str, ids))
        shown = reference.decode(ids, skip_special_tokens=False)
        assert run("smolrun", "tokenize", blob, "--decode", " ".join(map(str, ids))) == shown + "\n"
        out = json.loads(run("smolrun", blob, text, "-n", 40, "--temp", 5, "--json"))
        assert out["prompt_tokens"] == len(ids)
        assert out["text"] == (rest_of_text(reference, out["ids"]) if reference.decode(ids) else reference.decode(out["ids"]))


def test_only_the_start_of_a_text_loses_its_blank(training, tmp_path):
    """Llama 2's decoder omits it: from an answer in a conversation, but not from what continues a prompt, a session or an
    answer that was cut off."""
    content = llama2(training)
    vocab, source, blob = content["model"]["vocab"], tmp_path / "checkpoint", tmp_path / "a.smol"
    likely = [token_id for token, token_id in vocab.items() if token.startswith("▁") and len(token) > 2][:2]

    def edit(weights):  # one of them is chosen, whatever the hidden state is
        weights["lm_head.weight"].zero_()
        weights["lm_head.weight"][likely, 0] = weights["lm_head.weight"].new_tensor([9, -9])

    make(source, edit=edit, vocab_size=max(vocab.values()) + 1, eos_token_id=None, tie_word_embeddings=False)
    _, reference = written(source, content)
    template = "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
    (source / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    run("smolconv", "--quiet", source, blob)
    model, messages, session = smolrun.Model(blob), [{"role": "user", "content": "Hello"}], tmp_path / "session"
    text = model.generate("Hello", max_tokens=6)
    assert set(text.ids) <= set(likely) and text.text == rest_of_text(reference, text.ids) and text.text[0] == " "
    parts = [run("smolrun", blob, part, "-n", 3, "--session", session) for part in ("Hello", "")]
    assert parts[0][:-1] + parts[1] == text.text + "\n"

    said = model.chat(messages, max_tokens=6)
    assert set(said.ids) <= set(likely) and said.text == reference.decode(said.ids) and said.text[0] != " "
    first, both = (run("smolrun", "chat", blob, "-n", 3, input=line) for line in (b"Hello", b"Hello\n/continue"))
    assert first[:-1] + both[len(first) :] == said.text + "\n"
    session = model.session()
    assert session.chat(messages, max_tokens=3).text + session.generate(max_tokens=3).text == said.text

    asked = {"prompt": "Hello", "echo": True, "max_tokens": 6, "temperature": 0}
    with serving(blob) as server:
        assert server.post("/v1/completions", asked)[1]["choices"][0]["text"] == "Hello" + text.text
        assert server.chat("Hello", max_tokens=6, temperature=0)["choices"][0]["message"]["content"] == said.text


def test_blobs_with_other_text_rules_differ(training, tmp_path):
    content = llama2(training)
    n = max(content["model"]["vocab"].values()) + 1
    source = make(tmp_path / "checkpoint", vocab_size=n)
    for name, normalizer in ("a", content["normalizer"]), ("b", replace(" ", "▁")):
        written(source, content | {"normalizer": normalizer})
        run("smolconv", "--quiet", source, tmp_path / f"{name}.smol")
    result = programs.smolconv("diff", tmp_path / "a.smol", tmp_path / "b.smol")
    assert result.returncode == 1 and "text, steps" in result.stdout

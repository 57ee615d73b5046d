"""SentencePiece's maps of characters (the normalizer `Precompiled`): drawn and hostile ones, and those of the package
`sentencepiece`, with what transformers' converters make of its models."""

import base64
import functools
import random
import struct
import subprocess
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import real_tokenizers
from internal import ROOT
from transformers import convert_slow_tokenizer as converters

# --- a map of our own -----------------------------------------------------------------------------


class Trie:
    """A double array: the children of a node are at its base, exclusive-or their byte, and its value at the base."""

    def __init__(self, keys):
        self.units, self.free, self.bases = {}, 1, 0
        root = {}
        for key, value in keys.items():
            node = root
            for byte in key:
                node = node.setdefault(byte, {})
            node[0] = value
        self.put(root, 0, 0)
        n = max(self.bases + 256, max(self.units) + 1)
        self.data = [self.units.get(i, 0) for i in range(-(-n // 256) * 256)]

    def put(self, node, at, label):
        if node.keys() == {0}:  # anywhere
            while self.free in self.units:
                self.free += 1
            base = self.free
        else:
            while any((self.bases ^ byte) in self.units for byte in node):
                self.bases += 1
            base = self.bases
            self.bases += 1
        self.units[at] = label | (at ^ base) << 10 | (0 in node) << 8
        for byte in node:
            self.units[base ^ byte] = 0
        for byte, child in node.items():
            if byte:
                self.put(child, base ^ byte, byte)
            else:
                self.units[base] = child | 1 << 31


def charsmap(changes):
    """The bytes of a map: key (str or bytes) -> text."""
    texts, starts = b"", {}
    for text in changes.values():
        if text not in starts:
            starts[text] = len(texts)
            texts += text.encode() + b"\0"
    keys = {key.encode() if isinstance(key, str) else key: starts[text] for key, text in changes.items()}
    return packed(keys, texts)


def packed(keys, texts):
    """The bytes of a map: key -> where its text starts."""
    trie = Trie(keys).data
    return struct.pack(f"<{len(trie) + 1}I", 4 * len(trie), *trie) + texts


def precompiled(data):
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()}


@functools.cache
def nfkc(fold):
    """Returns Python's NFKC, with case folding or not, in the manner of SentencePiece's nmt_nfkc."""
    changes = {}
    for c in map(chr, [*range(1, 0xD800), *range(0xE000, 0x30000)]):
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", c).casefold() if fold else c)
        if text != c:
            changes[c] = text
        parts = unicodedata.normalize("NFD", c)
        if 1 < len(parts) and len(parts.encode()) < 7 and unicodedata.normalize("NFC", parts) == c:
            changes[parts] = text
    changes |= {c: " " for c in "\t\n\r\u200b\u2028\u3000"} | {c: "" for c in "\x01\x7f\u00ad\ufeff"}
    return charsmap(changes)


PIECES = [
    *"aA1é©®¨\t\r\n\x01", "\u0300", "\u0301", "\u0345", "\u200d", "\u200c", "\u0600", "\u0915", "\u094d", "\u0903",
    "\u1100", "\u1161", "\u11a8", "\uac00", "\uac01", "\u203c", "\U0001f600", "\U0001f3fd", "\U000110bd", "\U0001f1e9",
]  # fmt: skip


def drawn(r):
    """A map of some pieces and of what they make together."""
    keys = {"".join(r.choices(PIECES, k=r.choice([1, 2, 2, 3]))) for _ in range(r.randint(1, 40))}
    texts = ["", " ", "a", "bc", "é", "\u0301", "日本", "x" * 60]
    return charsmap({key: r.choice([*texts, key]) for key in sorted(keys)})


def texts_of_pieces(seed, n):
    r = random.Random(seed)
    return ["".join(r.choices(PIECES, k=r.randint(1, 9))) for _ in range(n)]


# --- models of the package ------------------------------------------------------------------------

TRAINER = """
import sys, sentencepiece
corpus, prefix, rule, kind = sys.argv[1:]
sentencepiece.SentencePieceTrainer.train(
    input=corpus, model_prefix=prefix, normalization_rule_name=rule, model_type=kind, vocab_size=1000,
    hard_vocab_limit=False, minloglevel=2, num_threads=1,
)
"""


@functools.cache
def model(rule, kind="unigram"):
    """The model that the package makes of our documents with a rule of normalization, such as nmt_nfkc."""
    folder = real_tokenizers.FOLDER
    target = folder / f"sentencepiece-{kind}-{rule}.model"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        venv = [ROOT / "scripts/venv", "--alone", ROOT / "tests/sentencepiece-requirements.txt"]
        python = subprocess.run(venv, capture_output=True, text=True, check=True).stdout.strip()
        corpus = folder / "sentencepiece-corpus.txt"
        corpus.write_text("\n".join(path.read_text() for path in sorted(Path(ROOT / "docs").glob("*.md"))))
        prefix = target.with_name("made-" + target.stem)
        subprocess.run([python, "-c", TRAINER, corpus, prefix, rule, kind], check=True)
        prefix.with_name(prefix.name + ".model").rename(target)
    return target.read_bytes()


def read_model(data):
    """The model as the converters read it."""
    pieces, kept = [], {}
    for key, value in real_tokenizers.fields(data):
        if key == 1:
            piece = dict(real_tokenizers.fields(value))
            kind = piece.get(3, 1)
            pieces.append(SimpleNamespace(piece=piece[1].decode(), score=piece[2], type=kind))
        else:
            kept[key] = dict(real_tokenizers.fields(value))
    trainer = SimpleNamespace(model_type=kept[2].get(3, 1), unk_id=kept[2].get(40, 0), unk_piece="<unk>")
    normalizer = SimpleNamespace(precompiled_charsmap=kept[3].get(2, b""))
    return SimpleNamespace(pieces=pieces, trainer_spec=trainer, normalizer_spec=normalizer)


def converted(data, family, **options):
    """The tokenizer.json that transformers' converter makes of a model, as text. `options` are attributes of the slow
    tokenizer that it was written for."""
    proto = read_model(data)
    if family == "Pegasus":  # whose models begin with <pad>, </s> and <unk>; ours with <unk>, <s> and </s>
        unknown, begin, end, *rest = proto.pieces
        proto.pieces = [begin, end, unknown, *rest]
        proto.trainer_spec.unk_id = 2
    ids = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    slow = SimpleNamespace(convert_tokens_to_ids=lambda token: ids.get(token, 0), **options)
    base = getattr(converters, family + "Converter")

    class Converter(base):
        def __init__(self):
            self.original_tokenizer, self.proto = slow, proto

    return Converter().converted().to_str()

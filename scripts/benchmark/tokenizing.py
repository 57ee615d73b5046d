"""Tokenizing text, compared with Hugging Face's tokenizers on one thread."""

import functools
import os
import sysconfig
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read when the first batch is encoded

import numpy as np  # noqa: E402
from pydoc_data.topics import topics  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from . import smol  # noqa: E402
from .measure import Case, in_turn, seconds  # noqa: E402
from .paths import MODEL, Unmeasured  # noqa: E402
from .speed import smol_model  # noqa: E402

BYTES = 10_000_000
DOCUMENT = 4096  # characters


@functools.cache
def documents():
    """Returns 10 MB of text included in every Python, identical for each version: the language reference,
    then the library's sources."""
    texts = [topics[name] for name in sorted(topics)]
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if "site-packages" not in path.parts and "test" not in path.parts:
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
    text = "\n\n".join(texts).encode()[:BYTES]
    if len(text) < BYTES:
        raise Unmeasured(f"this Python's library has only {len(text)} bytes of text")
    text = text.decode(errors="ignore")
    return [text[i : i + DOCUMENT] for i in range(0, len(text), DOCUMENT)]


@functools.cache
def encoded_documents():
    return [document.encode() for document in documents()]


@functools.cache
def tokenizer():
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


def smol_ids():
    model = smol_model("int8")
    return [model.tokenize(document) for document in encoded_documents()]


def peer_ids():
    """Tokenizes by its fastest method, without offsets."""
    return tokenizer().encode_batch_fast(documents(), add_special_tokens=False)


@functools.cache
def check_ids():
    """Checks that both return the same ids; otherwise the comparison is meaningless."""
    for (ids, n), encoding in zip(smol_ids(), peer_ids(), strict=True):
        if not np.array_equal(np.ctypeslib.as_array(ids, (n,)), encoding.ids):
            raise Unmeasured("smol's token ids differ from those of tokenizers")
        smol.free(ids)


def smol_speed():
    check_ids()
    results = []
    taken = seconds(lambda: results.extend(smol_ids()))
    for ids, _ in results:
        smol.free(ids)
    return BYTES / taken


def peer_speed():
    return BYTES / seconds(peer_ids)


def cases():
    return [Case("tokenizing 10 MB", in_turn(smol=smol_speed, tokenizers=peer_speed))]

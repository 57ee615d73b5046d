"""Tokenizers of the comparison, and blobs that smol reads them from.

The weights of these blobs are random and few: masks depend on the tokenizer alone."""

import shutil
import subprocess
import sys

from benchmark.paths import BUILD, MODEL, ROOT, Unmeasured
from tokenizers import Tokenizer

sys.path.append(str(ROOT / "tests/oracle"))

NAMES = ("smollm2", "llama3")
STOP = {"smollm2": "<|im_end|>", "llama3": "<|eot_id|>"}
LLAMA3_SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def bytes_of_characters():
    """Returns GPT-2's {character: byte}."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


class Vocabulary:
    """A byte-level tokenizer; `tokens` are its tokens by id, as written in tokenizer.json."""

    def __init__(self, name):
        self.name, self.folder, self.blob = name, BUILD / f"masks-{name}", BUILD / f"masks-{name}.smol"
        self.tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = True
        ids = self.tokenizer.get_vocab(with_added_tokens=True)
        self.tokens = [text for text, _ in sorted(ids.items(), key=lambda item: item[1])]
        self.special = set(self.tokenizer.get_added_tokens_decoder())
        self.stop = ids[STOP[name]]

    def __len__(self):
        return len(self.tokens)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def bytes_of_tokens(self):
        """Returns the bytes of each token that is not special, by id."""
        table = bytes_of_characters()
        texts = enumerate(self.tokens)
        return {i: bytes(table[c] for c in text) for i, text in texts if i not in self.special}


# --- making them --------------------------------------------------------------------------------


def llama3_tokenizer():
    import real_tokenizers

    tokenizer = real_tokenizers.Ranks(real_tokenizers.llama3_ranks()).converted()
    tokenizer.add_special_tokens(LLAMA3_SPECIAL)
    return tokenizer


def make_checkpoint(name, folder):
    import checkpoints
    from transformers import LlamaConfig

    source = MODEL / "tokenizer.json"
    if name == "smollm2" and not source.exists():
        raise Unmeasured(f"{source} is missing: run scripts/build-test-model")
    tokenizer = Tokenizer.from_file(str(source)) if name == "smollm2" else llama3_tokenizer()
    sizes = dict(vocab_size=tokenizer.get_vocab_size(), eos_token_id=tokenizer.token_to_id(STOP[name]))
    checkpoints.make_of(LlamaConfig(**(checkpoints.SMALL | sizes)), folder)
    tokenizer.save(str(folder / "tokenizer.json"))


def make(name):
    """Makes the blob of a tokenizer and the folder that it is made of, unless they exist."""
    folder, blob = BUILD / f"masks-{name}", BUILD / f"masks-{name}.smol"
    if blob.exists() and (folder / "tokenizer.json").exists():
        return
    print(f"measure-masks: making {blob}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    blob.unlink(missing_ok=True)
    make_checkpoint(name, folder)
    command = [BUILD / "smolconv", "--quiet", "--dtype", "int8", folder, blob]
    if subprocess.run(list(map(str, command))).returncode:
        raise Unmeasured(f"smolconv cannot convert {folder}: run make first")

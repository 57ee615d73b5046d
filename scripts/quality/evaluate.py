"""How far predictions are from saved ones: perplexity and divergence of llama.cpp's logits.

The logits to compare with come from `smolrun perplexity --save-logits`, and the figures have the names that
`smolrun perplexity --json` uses."""

import ctypes
import json
import subprocess

import llama_cpp as llama
import numpy as np
from benchmark import peer
from benchmark.paths import BUILD, Unmeasured

SMOLRUN = BUILD / "smolrun"
HEADER = 56  # bytes, see smolrun/saved_logits.h
BATCH = 512


def perplexity(*words):
    """Returns the figures of `smolrun perplexity`."""
    command = [SMOLRUN, "perplexity", *map(str, words), "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def tokenize(blob, path):
    with open(path, "rb") as file:
        words = [SMOLRUN, "tokenize", blob, "-"]
        ids = subprocess.run(words, stdin=file, check=True, stdout=subprocess.PIPE).stdout
    return np.array(ids.split(), np.uint32)


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def reference_rows(path, ids, vocab_size):
    """Returns the saved logits (rows, vocab_size), mapped."""
    row = np.dtype([("logits", np.float32, vocab_size), ("digest", np.uint64)])
    return np.memmap(path, row, "r", offset=HEADER + 4 * len(ids))["logits"]


class Peer:
    """llama.cpp's logits after every token."""

    def __init__(self, path, n_ctx, n_threads, on_tensor=None):
        self.model = peer.Model(path)
        self.context = peer.Context(self.model, n_threads, n_ctx, on_tensor=on_tensor)
        self.batch = llama.llama_batch_init(BATCH, 0, 1)

    def logits(self, ids):
        """Yields the logits of one window, (up to BATCH, vocabulary) at a time."""
        self.context.truncate(0)
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            self.batch.n_tokens = len(part)
            for i, token in enumerate(part):
                self.batch.token[i], self.batch.pos[i] = int(token), start + i
                self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, 0
                self.batch.logits[i] = True
            if llama.llama_decode(self.context.handle, self.batch):
                raise Unmeasured("llama_decode failed")
            pointer = llama.llama_get_logits(self.context.handle)
            pointer = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
            yield np.ctypeslib.as_array(pointer, (len(part), self.model.n_vocab))

    def close(self):
        llama.llama_batch_free(self.batch)
        self.context.close()
        self.model.close()


def mean_and_error(values):
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def measure_peer(path, ids, reference, n_ctx, n_threads):
    """Returns the figures of a GGUF file on windows of n_ctx ids."""
    theirs = Peer(path, n_ctx, n_threads)
    nll, kl, same, row = [], [], [], 0
    for begin in range(0, len(ids), n_ctx):
        window = ids[begin : begin + n_ctx]
        done = 0
        for logits in theirs.logits(window[:-1]):
            n = len(logits)
            p, q = log_softmax(reference[row : row + n]), log_softmax(logits)
            nll.extend(-q[np.arange(n), window[done + 1 : done + 1 + n]])
            kl.extend((np.exp(p) * (p - q)).sum(axis=1))
            same.extend(p.argmax(axis=1) == q.argmax(axis=1))
            row, done = row + n, done + n
    theirs.close()
    (nll, nll_error), (kl, kl_error) = mean_and_error(nll), mean_and_error(kl)
    return {
        "perplexity": float(np.exp(nll)),
        "perplexity_error": float(np.exp(nll)) * nll_error,
        "kl": kl,
        "kl_error": kl_error,
        "same_top": float(np.mean(same)),
    }

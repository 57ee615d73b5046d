"""Sequences that are evaluated, cut, saved and restored, for tests of what a context keeps of them."""

import ctypes

import numpy as np
import torch
from engine import as_ids, check
from internal import Error, lib
from smol_h import GenerateParams, GenerateResult
from structured_output import Sampler, call
from test_determinism import eval_in_parts, random_sizes, same_bits
from test_logits import check as check_logits
from transformers import AutoModelForCausalLM

VOCAB_SIZE = 101


def random_ids(rng, n):
    return rng.integers(3, VOCAB_SIZE, n)


class Text:
    """A context, and the tokens that it should have."""

    def __init__(self, model, kv="default", **options):
        self.context, self.model, self.kv, self.ids = model.context(2, kv, **options), model, kv, []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.context.close()

    def add(self, new, n_logits=1):
        """Evaluates; returns the logits of the last."""
        self.ids += list(new)
        return self.context.eval(new, n_logits)[-1:]

    def generate(self, prompt, n):
        """Appends the prompt and n tokens; returns how many of the prompt were in a cache of prefixes."""
        n_ids, result, sampler = ctypes.c_size_t(), GenerateResult(), Sampler()
        params, prompt = GenerateParams(max_tokens=n), as_ids(prompt)
        call(lib.smol_generate, self.context.handle, sampler.handle, prompt.ctypes, ctypes.c_size_t(len(prompt)),
             ctypes.byref(params), ctypes.byref(result))
        ids = lib.smol_context_ids(self.context.handle, ctypes.byref(n_ids))[: n_ids.value]
        assert ids[: n_ids.value - n + 1] == [*self.ids, *prompt]
        self.ids = ids
        return result.n_reused

    def cut(self, n):
        self.ids = self.ids[:n]
        self.context.truncate(n)
        assert len(self.context) == n

    def expected(self):
        """The logits of the last token, from a new context."""
        with self.model.context(1, self.kv) as new:
            return new.eval(self.ids, 1)

    def save(self):
        data, size, error = ctypes.c_void_p(), ctypes.c_size_t(), Error()
        save = lib.smol_context_save_memory
        check(save(self.context.handle, None, ctypes.byref(data), ctypes.byref(size), ctypes.byref(error)), error)
        saved = ctypes.string_at(data, size.value)
        lib.smol_free(data)
        return saved

    def restore(self, saved, ids):
        error = Error()
        check(lib.smol_context_restore_memory(self.context.handle, None, saved, len(saved), ctypes.byref(error)), error)
        self.ids = list(ids)
        return self

    def slide(self, n_keep, n_room):
        error = Error()
        n = len(self.ids)
        check(lib.smol_context_slide(self.context.handle, ctypes.c_size_t(n_keep), ctypes.c_size_t(n_room),
                                     ctypes.byref(error)), error)
        n_left = len(self.context) - n_keep
        self.ids = self.ids[:n_keep] + self.ids[n - n_left :]


def reference_of(checkpoint, ids):
    """The logits of transformers."""
    with torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
        return model(torch.tensor([list(ids)])).logits[0].numpy()


def check_long_text(model, checkpoint, n, cuts):
    """Compares a text that is evaluated in parts with transformers."""
    ids = random_ids(np.random.default_rng(0), n)
    with model.context(2, "f32") as context:
        ours = np.concatenate([context.eval(part) for part in np.split(ids, cuts)])
    check_logits(ours, reference_of(checkpoint, ids))


def check_splits(model, n, isa, monkeypatch, kvs=("default",), rounds=4):
    """Compares random parts and threads with one pass: the same bits with the kernels of `isa`."""
    ids = list(random_ids(np.random.default_rng(1), n))
    for kv in kvs:
        monkeypatch.delenv("SMOL_ISA", raising=False)
        expected = model.logits(ids, threads=1, kv=kv)
        monkeypatch.setenv("SMOL_ISA", isa)
        for seed in range(rounds):
            with model.context(seed + 1, kv) as context:
                assert same_bits(eval_in_parts(context, ids, random_sizes(seed, n)), expected)

"""Constraints, matchers and samplers of smol.h, and texts that a model writes under them, token by token."""

import ctypes
import json

import numpy as np
from engine import check
from internal import Error, lib
from smol_h import ConstraintParams, SamplerParams

MOST_FORCED = 64  # tokens that are evaluated together


def call(function, *arguments):
    error = Error()
    check(function(*arguments, ctypes.byref(error)), error)


class Constraint:
    """A JSON Schema, compiled for a model."""

    def __init__(self, model, schema, json_space=0):
        self.model, self.handle = model, ctypes.c_void_p()
        text = json.dumps(schema, ensure_ascii=False).encode()
        params = ConstraintParams(text=text, size=len(text), json_space=json_space)
        call(lib.smol_constraint_create, model.handle, ctypes.byref(params), ctypes.byref(self.handle))

    def __del__(self):
        lib.smol_constraint_free(self.handle)


class Matcher:
    """Follows one text."""

    def __init__(self, constraint):
        self.constraint, self.handle = constraint, ctypes.c_void_p()
        call(lib.smol_matcher_create, constraint.handle, ctypes.byref(self.handle))
        self.words = np.zeros((constraint.model.vocab_size + 63) // 64, np.uint64)
        self.ids = np.zeros(MOST_FORCED, np.uint32)

    def __del__(self):
        lib.smol_matcher_free(self.handle)

    def mask(self):
        """Returns the words of the mask, which the next call overwrites."""
        call(lib.smol_matcher_mask, self.handle, self.words.ctypes.data)
        return self.words

    def accept(self, token):
        call(lib.smol_matcher_accept, self.handle, token)

    def forced(self):
        n = ctypes.c_size_t()
        call(lib.smol_matcher_forced, self.handle, self.ids.ctypes.data, MOST_FORCED, ctypes.byref(n))
        return self.ids[: n.value].tolist()

    def is_complete(self):
        return bool(lib.smol_matcher_complete(self.handle))


class Sampler:
    def __init__(self, **params):
        self.handle = ctypes.c_void_p()
        call(lib.smol_sampler_create, ctypes.byref(SamplerParams(**params)), ctypes.byref(self.handle))

    def __del__(self):
        lib.smol_sampler_free(self.handle)

    def sample(self, logits, mask):
        token = ctypes.c_uint32()
        arguments = logits.ctypes.data, logits.size, mask.ctypes.data, None, 0, ctypes.byref(token)
        call(lib.smol_sample_masked, self.handle, *arguments)
        return token.value


def text_of(model, ids):
    """Returns the bytes of tokens."""
    at, size, parts = ctypes.c_char_p(), ctypes.c_size_t(), []
    for token in ids:
        call(lib.smol_token_text, model.handle, token, ctypes.byref(at), ctypes.byref(size), None)
        parts.append(ctypes.string_at(at, size.value))
    return b"".join(parts)


def write(context, logits, matcher, sampler, limit):
    """Writes up to `limit` tokens after those of the context, whose last logits are given. Returns their ids
    and whether the text has ended."""
    stops, ids = set(context.model.stop_ids()), []
    while len(ids) < limit:
        token = sampler.sample(logits, matcher.mask())
        matcher.accept(token)
        if token in stops:
            return ids, True
        ids.append(token)
        logits = context.eval([token])
    return ids, False

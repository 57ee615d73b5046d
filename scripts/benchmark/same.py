"""Checks that both sides compute the same model; otherwise a comparison is meaningless."""

import numpy as np

from . import peer, smol
from .paths import Unmeasured, blob, gguf_file

PROMPT = b"The capital of France is"
TOKENS = 32


def greedy(context, ids):
    """Generates TOKENS ids, each the most likely one."""
    chosen = [int(context.eval(ids).argmax())]
    while len(chosen) < TOKENS:
        chosen.append(int(context.eval(np.array(chosen[-1:], np.uint32)).argmax()))
    return chosen


def smol_tokens():
    model = smol.Model(blob("f32"))
    context = smol.Context(model, 2)
    pointer, n = model.tokenize(PROMPT)
    ids = np.ctypeslib.as_array(pointer, (n,)).copy()
    smol.free(pointer)
    chosen = greedy(context, ids)
    context.close()
    model.close()
    return ids.tolist(), chosen


def peer_tokens():
    """Generates with a KV cache in float32, as smol_tokens does."""
    model = peer.Model(gguf_file("F32"))
    context = peer.Context(model, 2, 256, "on", "f32")
    ids = model.tokenize(PROMPT)
    chosen = greedy(context, ids)
    context.close()
    model.close()
    return ids.tolist(), chosen


def check():
    """Compares the token ids of a prompt, and the tokens that follow it in float32."""
    ours, theirs = smol_tokens(), peer_tokens()
    if ours != theirs:
        raise Unmeasured(
            f"the comparison is void: smol and llama.cpp differ in float32: {ours}, {theirs}"
        )

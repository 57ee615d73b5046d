"""The time from the start of loading to the first token, and the time that the first-use checks add."""

import os
import subprocess

import numpy as np

from . import peer, smol
from .measure import Case, in_turn, median, seconds
from .paths import BUILD, OUR_INT8, THREADS, Unmeasured, blob, gguf_file, llama_cpp

WORD = b"Hello"
REPEATS = 5  # within a round
CHECK_REPEATS = 20


def smol_first_token(verify="first", dtype="int8"):
    """Returns the seconds and the token: open, context, tokenize, evaluate, choose. Closing is not counted."""
    opened = []

    def start():
        model = smol.Model(blob(dtype), verify)
        context = smol.Context(model, THREADS[-1])
        ids, n = model.tokenize(WORD)
        logits = context.eval(np.ctypeslib.as_array(ids, (n,)))
        opened.extend((model, context, ids, int(logits.argmax())))

    taken = seconds(start)
    model, context, ids, token = opened
    smol.free(ids)
    context.close()
    model.close()
    return taken, token


def peer_first_token():
    """Does the same with llama.cpp, whose context has the smallest sufficient size."""
    opened = []

    def start():
        model = peer.Model(gguf_file("Q8_0"))
        context = peer.Context(model, THREADS[-1], 512, "on")
        logits = context.eval(model.tokenize(WORD))
        opened.extend((model, context, int(logits.argmax())))

    taken = seconds(start)
    model, context, token = opened
    context.close()
    model.close()
    return taken, token


def repeated(first_token):
    return median([first_token()[0] for _ in range(REPEATS)])


def start_of_process():
    """Returns the seconds from exec to exit of smolrun, which prints one token."""
    command = [str(BUILD / "smolrun"), str(blob("int8")), WORD.decode(), "-n", "1"]
    command += ["--threads", str(THREADS[-1])]
    to_null = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]

    def spawn():
        process = os.posix_spawn(command[0], command, os.environ, file_actions=to_null)
        if os.waitpid(process, 0)[1]:
            raise Unmeasured("smolrun failed: " + subprocess.list2cmdline(command))

    return median([seconds(spawn) for _ in range(REPEATS)])


def added_by_checks(round_):
    """Returns the seconds that checking each chunk on first use adds to the first token."""
    taken = {"first": [], "off": []}
    for i in range(CHECK_REPEATS):
        for verify in ("first", "off") if i % 2 else ("off", "first"):
            taken[verify].append(smol_first_token(verify)[0])
    with_checks, without = median(taken["first"]), median(taken["off"])
    return {"smol": with_checks - without, "with checks": with_checks, "without": without}


def cases():
    def ours():
        return repeated(smol_first_token)

    def int4():
        return repeated(lambda: smol_first_token(dtype="int4"))

    theirs = {llama_cpp("Q8_0"): lambda: repeated(peer_first_token)}
    return [
        Case("start to first token", in_turn(smol=ours, **theirs)),
        Case("start to first token, int4", in_turn(smol=int4, **{OUR_INT8: ours})),
        Case("exec to exit, one token", in_turn(smol=start_of_process)),
        Case("first-use checks", added_by_checks),
    ]

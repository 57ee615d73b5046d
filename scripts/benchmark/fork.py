"""ik_llama.cpp, the faster fork, if a build of its llama-bench exists (IK_BENCH=path).

That benchmark is a separate process and alternates with ours; IK_FLAGS replaces its flags."""

import json
import os
import shlex
import subprocess

from .measure import Case
from .paths import THREADS, Unmeasured, gguf_file
from .speed import DECODE, PREFILL, decode, name, prefill, smol_context

FLAGS = "-fa 1 -rtr 1"  # flash attention, weights repacked when loading: its fastest settings


def program():
    return os.environ.get("IK_BENCH")


def flags():
    return shlex.split(os.environ.get("IK_FLAGS", FLAGS))


def fork_speeds(n_threads):
    """Returns {"prefill": tokens per second, "decode": ...}. The program warms up by itself."""
    command = [program(), "-m", gguf_file("int8"), "-p", PREFILL, "-n", DECODE, "-t", n_threads]
    command += ["-r", 1, "-o", "json", *flags()]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if run.returncode:
        raise Unmeasured(f"{program()} failed: {run.stderr.strip()[-200:]}")
    tests = json.loads(run.stdout)
    return {"decode" if test["n_gen"] else "prefill": test["avg_ts"] for test in tests}


def cases_of(n_threads):
    theirs = {}

    def measure_prefill(round_):
        theirs.update(fork_speeds(n_threads))
        ours = prefill(smol_context("int8", n_threads), PREFILL)
        return {"smol": ours, "peer": theirs["prefill"]}

    def measure_decode(round_):  # the run of measure_prefill measured both
        if "decode" not in theirs:
            theirs.update(fork_speeds(n_threads))
        return {"smol": decode(smol_context("int8", n_threads)), "peer": theirs["decode"]}

    return [
        Case(name("prefill, ik_llama.cpp", "int8", n_threads), measure_prefill),
        Case(name("decode, ik_llama.cpp", "int8", n_threads), measure_decode),
    ]


def cases():
    return [case for n in THREADS for case in cases_of(n)] if program() else []

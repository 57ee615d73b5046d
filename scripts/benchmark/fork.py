"""ik_llama.cpp, the faster fork, if a build of its llama-bench exists (IK_BENCH=path).

That benchmark is a separate process and alternates with ours; IK_FLAGS replaces its flags."""

import json
import os
import shlex
import subprocess

from .paths import Unmeasured, gguf_file

FLAGS = "-fa 1 -rtr 1"  # flash attention, weights repacked when loading: its fastest settings
DTYPES = ("int4", "int8")  # that it is compared with


def program():
    return os.environ.get("IK_BENCH")


def flags():
    return os.environ.get("IK_FLAGS", FLAGS)


def state():
    """Returns in words how it is measured, or how it would be."""
    return f"llama-bench {flags()}" if program() else "not available (IK_BENCH=path/to/llama-bench)"


def _tokens_per_second(kind, n_threads, *test):
    """Runs one test. The program warms up by itself."""
    command = [program(), "-m", gguf_file(kind), "-t", n_threads, "-r", 1, "-o", "json", *test]
    run = subprocess.run([*map(str, command), *shlex.split(flags())], capture_output=True, text=True)
    if run.returncode:
        raise Unmeasured(f"{program()} failed: {run.stderr.strip()[-200:]}")
    (result,) = json.loads(run.stdout)
    return result["avg_ts"]


def decode(kind, n_threads, n):
    return _tokens_per_second(kind, n_threads, "-p", 0, "-n", n)


def prefill(kind, n_threads, n):
    return _tokens_per_second(kind, n_threads, "-p", n, "-n", 0)

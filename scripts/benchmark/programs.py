"""Measures the two programs: private memory, time to convert, bytes on disk."""

import re
import subprocess
import sys
import time

import numpy as np

from . import smol
from .measure import Case
from .paths import BUILD, MODEL, ROOT, THREADS, Unmeasured, blob
from .speed import smol_model

POLL = 0.002  # seconds
KV_BLOCK = 64  # positions; the cache grows by whole blocks
CONVERTED = "bench-conversion.smol"


# --- memory -------------------------------------------------------------------------------------


def anonymous_bytes(pid):
    """Returns the private memory of a process: pages without a file, so not the blob, the program or its
    libraries, which are mapped. 0 when the process has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return int(re.search(r"^Anonymous: +(\d+) kB", file.read(), re.M)[1]) * 1024
    except (OSError, TypeError):
        return 0


def peak_anonymous_bytes(command):
    """Returns the peak, sampled every two milliseconds, and the output of the command."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        peak = max(peak, anonymous_bytes(process.pid))
        time.sleep(POLL)
    output = process.stdout.read()
    if process.returncode:
        words = subprocess.list2cmdline(process.args)
        raise Unmeasured(f"{words}: exit status {process.returncode}")
    return peak, output


def count_tokens(text):
    ids, n = smol_model("int8").tokenize(text.encode())
    smol.free(ids)
    return n


def reported_kv_bytes(n_tokens):
    context = smol.Context(smol_model("int8"), THREADS[-1])
    context.eval(np.full(n_tokens, 33, np.uint32))
    size = context.info().kv_bytes
    context.close()
    return size


def private_bytes(prompt, n_generated):
    """Returns the private memory of a whole run of smolrun, without the KV cache. The last token is not
    evaluated; the others fill whole blocks of the cache, so that its size can be subtracted."""
    n_evaluated = count_tokens(prompt) + n_generated - 1
    if n_evaluated % KV_BLOCK:
        raise Unmeasured(f"{n_evaluated} tokens do not fill blocks of the KV cache")
    command = [BUILD / "smolrun", blob("int8"), prompt, "-n", n_generated, "--ids"]
    peak, output = peak_anonymous_bytes([*command, "--threads", THREADS[-1]])
    if len(output.split()) != n_generated:
        raise Unmeasured(f"smolrun stopped after {len(output.split())} of {n_generated} tokens")
    kv_bytes = reported_kv_bytes(n_evaluated)
    return {"smol": peak - kv_bytes, "KV cache": kv_bytes}


def decode_memory(round_):
    return private_bytes("Hello", KV_BLOCK)


def prefill_memory(round_):
    return private_bytes("1" * 512, 1)  # each digit is a token


# --- conversion ---------------------------------------------------------------------------------


def conversion_command():
    options = ["--force", "--dtype", "int8", "--threads", THREADS[-1]]
    return list(map(str, [BUILD / "smolconv", MODEL, BUILD / CONVERTED, *options]))


def read_source():
    """Reads the file so that its pages are in memory; returns its size."""
    with open(MODEL / "model.safetensors", "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
        return file.tell()


def conversion(round_):
    """Returns the time from exec to exit without the final sync, whose time smolconv reports: it depends on
    the disk."""
    source_bytes = read_source()
    start = time.perf_counter()
    run = subprocess.run(conversion_command(), check=True, capture_output=True, text=True)
    taken = time.perf_counter() - start
    reported = re.search(r"synced in ([0-9.]+) s", run.stdout + run.stderr)
    if not reported:
        raise Unmeasured("smolconv does not say how long the final sync took")
    sync = float(reported[1])
    return {"smol": source_bytes / (taken - sync), "sync": sync}


def conversion_memory(round_):
    return {"smol": peak_anonymous_bytes([*conversion_command(), "--quiet"])[0]}


# --- size ---------------------------------------------------------------------------------------


def static_size(round_):
    """Returns the size of the smallest program that contains the library, stripped and statically linked with
    musl."""
    command = ["make", "-s", "-C", str(ROOT), f"BUILD={BUILD}", "static"]
    if subprocess.run(command, stdout=sys.stderr).returncode:
        raise Unmeasured("make static failed")
    return {"smol": (BUILD / "static/tests/minimal").stat().st_size}


def cases():
    return [
        Case("private memory, decode", decode_memory),
        Case("private memory, prefill of 512", prefill_memory),
        Case("conversion", conversion),
        Case("conversion memory", conversion_memory, once=True),
        Case("static size of the least program", static_size, once=True),
    ]

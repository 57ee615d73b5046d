"""Paths, sizes and blobs that the parts of the benchmark share."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("SMOL_BUILD", ROOT / "build"))
MODEL = ROOT / "models/SmolLM2-135M-Instruct"
GGUF = ROOT / "models/SmolLM2-135M-Instruct-gguf"

# llama.cpp's types that a dtype is compared with
GGUF_TYPES = {
    "int4": ("Q4_0", "IQ4_NL", "Q4_K_M"),
    "int8": ("Q8_0",),
    "bf16": ("BF16",),
    "f32": ("F32",),
}
DTYPES = tuple(GGUF_TYPES)
PLOTTED = ("int8", "bf16", "f32")
THREADS = (1, 2)
OUR_INT8 = "smol int8"  # a side of int4's cases


class Unmeasured(Exception):
    """A measurement is impossible; the message says why."""


def blob(dtype):
    return BUILD / f"bench-{dtype}.smol"


def make_blob(dtype):
    """Converts the real model and returns the blob."""
    command = [BUILD / "smolconv", "--force", "--quiet", "--dtype", dtype, MODEL, blob(dtype)]
    if subprocess.run(list(map(str, command))).returncode:
        raise Unmeasured("no blob: run make and scripts/build-test-model first")
    return blob(dtype)


def gguf_file(kind):
    return GGUF / f"{kind}.gguf"


def model_config():
    return json.loads((MODEL / "config.json").read_text())


def llama_cpp(kind):
    """Returns the name of llama.cpp with a file of this type, as a side of a case."""
    return f"llama.cpp {kind}"


def ik_llama_cpp(kind):
    return f"ik_{llama_cpp(kind)}"

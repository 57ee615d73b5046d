"""Paths, and the sizes that every part of the benchmark shares."""

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("SMOL_BUILD", ROOT / "build"))
MODEL = ROOT / "models/SmolLM2-135M-Instruct"
GGUF = ROOT / "models/SmolLM2-135M-Instruct-gguf"

DTYPES = ("int8", "bf16", "f32")
GGUF_TYPES = {"int8": "Q8_0", "bf16": "BF16", "f32": "F32"}
THREADS = (1, 2)


class Unmeasured(Exception):
    """A measurement is impossible; the message says why."""


def blob(dtype):
    return BUILD / f"bench-{dtype}.smol"


def gguf_file(dtype):
    return GGUF / f"{GGUF_TYPES[dtype]}.gguf"


def model_config():
    return json.loads((MODEL / "config.json").read_text())

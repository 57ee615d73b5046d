"""Measures the limits of this machine, in the units of the figures that are compared with them.

Reading: tests/bench/limits.c reads a mapped blob with several threads. A decode step must read every
weight once. Multiplying: it multiplies and adds in registers. A prompt must multiply each of its tokens
with every matrix of the layers, and its last token with the output matrix."""

import ctypes
import functools
import mmap
import os

import numpy as np

from .paths import BUILD, Unmeasured, blob, model_config

READ_BYTES = 4e9  # bytes of one measurement: some tenths of a second


@functools.cache
def _library():
    library = ctypes.CDLL(str(BUILD / "bench/liblimits.so"))
    library.smol_limit_read.argtypes = [
        ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint,
    ]  # fmt: skip
    for function in (library.smol_limit_f32, library.smol_limit_int8):
        function.argtypes = [ctypes.c_char_p, ctypes.c_uint]
    for function in (library.smol_limit_read, library.smol_limit_f32, library.smol_limit_int8):
        function.restype = ctypes.c_double
    library.smol_limit_instructions.restype = ctypes.c_char_p
    return library


def _measured(value):
    if value <= 0:
        raise Unmeasured("the threads of tests/bench/limits.c could not be started")
    return value


@functools.cache
def _mapped(path):
    with open(path, "rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)


def blob_bytes(dtype):
    return os.stat(blob(dtype)).st_size


def bytes_per_second(isa, path, n_threads):
    """Returns the rate of a plain read of a blob. The kernel may have unmapped it since the last read, so
    the first pass is not counted."""
    data, read = _mapped(path), _library().smol_limit_read
    passes = max(1, round(READ_BYTES / data.size))
    read(isa.encode(), data.ctypes.data, data.size, n_threads, 1)
    seconds = read(isa.encode(), data.ctypes.data, data.size, n_threads, passes)
    return data.size / _measured(seconds)


def multiply_adds_per_second(isa, dtype, n_threads):
    """Returns the rate of int8 products for int8 and int4, and of f32 products for all other types and for
    attention."""
    library = _library()
    call = library.smol_limit_int8 if dtype in ("int8", "int4") else library.smol_limit_f32
    return _measured(call(isa.encode(), n_threads))


def instructions(isa):
    return _library().smol_limit_instructions(isa.encode()).decode()


# --- work per token ------------------------------------------------------------------------------


@functools.cache
def shape():
    config = model_config()
    config["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
    return config


def prompt_multiply_adds(n_tokens):
    """Returns the number of multiply-adds in the matrices, for a prompt whose last token gets logits."""
    c = shape()
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    kv = c["num_key_value_heads"] * c["head_dim"]
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * inner
    return n_tokens * c["num_hidden_layers"] * layer + hidden * c["vocab_size"]


def attention_multiply_adds(n_tokens, depth):
    """Returns the number of multiply-adds that `depth` earlier positions add to a prompt: q times k, and
    weights times v."""
    c = shape()
    per_pair = 2 * c["num_hidden_layers"] * c["num_attention_heads"] * c["head_dim"]
    return n_tokens * depth * per_pair


def kv_bytes(kv, depth):
    """Returns the size of smol's cache at a depth, in f16, or in int4 with a scale for each vector."""
    c = shape()
    vectors = 2 * c["num_hidden_layers"] * c["num_key_value_heads"]
    return depth * vectors * (c["head_dim"] * 2 if kv == "f16" else c["head_dim"] // 2 + 4)

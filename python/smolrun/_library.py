"""The shared library of the package: libsmol with the functions of python/collector.h.

It is loaded twice: `lib` releases the interpreter's lock during each call, for calls that compute or wait; `quick` keeps
the lock, for calls that return at once, because taking it again may take long while other threads run Python."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from . import _smol_h
from ._smol_h import ID, INT, POINTER, SIZE

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native")
LIBRARY = os.path.join(FOLDER, "libsmol.so")


class Buffer(ctypes.Structure):
    """struct buffer of common/buffer.h."""

    text: Any
    size: int
    _fields_ = [
        ("text", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("failed", ctypes.c_bool),
    ]

    def take(self) -> bytes:
        """Returns the contents, and empties the buffer."""
        data: bytes = ctypes.string_at(self.text, self.size) if self.size else b""
        self.size = 0
        return data

    def free(self) -> None:
        quick.smol_free(self.text)
        self.text, self.size, self.capacity = None, 0, 0


class Collector(ctypes.Structure):
    """struct collector of python/collector.h."""

    _fields_ = [
        ("text", Buffer),
        ("ids", Buffer),
        ("logprobs", Buffer),
        ("wants_logprobs", ctypes.c_int32),
        ("n_logprobs", ctypes.c_uint32),
        ("reader", ctypes.c_void_p),
        ("reasoning", Buffer),
        ("n_reasoning_tokens", ctypes.c_size_t),
    ]


class PartCollector(ctypes.Structure):
    """struct part_collector of python/collector.h."""

    _fields_ = [("text", Buffer), ("parts", Buffer)]


class CollectedPart(ctypes.Structure):
    """struct collected_part of python/collector.h."""

    _fields_ = [("part", ctypes.c_uint32), ("size", ctypes.c_uint32)]


class Progress(ctypes.Structure):
    """struct progress of python/collector.h."""

    _fields_ = [("done", ctypes.c_uint64), ("total", ctypes.c_uint64), ("cancel", ctypes.c_int32)]


class Ranked(ctypes.Structure):
    """struct ranked of cli/request/likelihood.h."""

    _fields_ = [("id", ctypes.c_uint32), ("log_probability", ctypes.c_double)]


class Choice(ctypes.Structure):
    """struct choice of cli/request/likelihood.h."""

    _fields_ = [
        ("token", Ranked),
        ("rank", ctypes.c_size_t),
        ("top", Ranked * 5),
        ("n_top", ctypes.c_size_t),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "struct buffer": Buffer,
    "struct collector": Collector,
    "struct part_collector": PartCollector,
    "struct collected_part": CollectedPart,
    "struct progress": Progress,
    "struct ranked": Ranked,
    "struct choice": Choice,
}

FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "smol_collect_run": (None, [POINTER, POINTER, SIZE, ctypes.c_uint64, INT]),
    "smol_collect_end": (None, [POINTER]),
    "smol_collect_choices": (None, [POINTER, SIZE, SIZE, POINTER, POINTER, POINTER]),
    "smol_collect_exp": (ctypes.c_double, [ctypes.c_double]),
    "smol_collect_digest": (ctypes.c_uint64, [POINTER, SIZE]),
    # functions that are passed to the library, not called
    "smol_collect_text": (INT, [POINTER, POINTER, SIZE, ID]),
    "smol_collect_token": (None, [POINTER, ID, POINTER, SIZE]),
    "smol_collect_part": (INT, [POINTER, INT, POINTER, SIZE]),
    "smol_collect_progress": (INT, [POINTER, ctypes.c_uint64, ctypes.c_uint64]),
}


def _refuse_sub_interpreters() -> None:
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    try:
        interpreters = __import__(name)
        current, main = interpreters.get_current(), interpreters.get_main()
    except (ImportError, AttributeError):
        return
    if current != main:
        raise ImportError("smolrun: sub-interpreters are not supported, because NumPy is not: use threads or processes")


def _load(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    try:
        library = kind(LIBRARY)
    except OSError as error:
        raise ImportError(f"smolrun: the package's library does not load ({error}): install the wheel for this system") from error
    _smol_h.declare(library, _smol_h.FUNCTIONS)
    _smol_h.declare(library, FUNCTIONS)
    return library


_refuse_sub_interpreters()
lib = _load(ctypes.CDLL)
quick = _load(ctypes.PyDLL)


def address(name: str) -> int | None:
    """Returns the address of a function, to be passed to the library."""
    return ctypes.cast(getattr(quick, name), ctypes.c_void_p).value

"""The shared library with every internal symbol (`make tests`), for oracles to call."""

import ctypes
import os
from pathlib import Path

import smol_h
from smol_h import Error  # noqa: F401: for those who import this

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("SMOL_BUILD", ROOT / "build"))

lib = smol_h.load(BUILD / "tests" / "libsmol_internal.so")

# smol_status of common/error.h
OK, NO, USAGE, FILE, DAMAGED, UNSUPPORTED, MEMORY, NUMERIC, CONTEXT_FULL = range(9)


class Settings(ctypes.Structure):
    """struct json_settings of convert/base/settings.h."""

    _fields_ = [
        ("object", ctypes.c_void_p),
        ("path", ctypes.c_char_p),
        ("within", ctypes.c_char_p),
        ("nullable", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("mark", ctypes.c_uint64 * 2),
    ]

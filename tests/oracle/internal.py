"""The shared library with every internal symbol (`make tests`), for oracles to call."""

import ctypes
import os
from pathlib import Path

import smol_h
from smol_h import Error  # noqa: F401: for those who import this
from structs import c_struct

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("SMOL_BUILD", ROOT / "build"))

lib = smol_h.load(BUILD / "tests" / "libsmol_internal.so")

# smol_status of common/error.h
OK, NO, USAGE, FILE, DAMAGED, UNSUPPORTED, MEMORY, NUMERIC, CONTEXT_FULL = range(9)


Settings = c_struct("convert/base/settings.h", "json_settings")
Output = c_struct("cli/output.h", "output")


def open_writer(path, contents, writer, error):
    """Starts the blob `path`, over another one."""
    output = Output()
    status = lib.smol_output_open(str(path).encode(), True, ctypes.byref(output), ctypes.byref(error))
    return status or lib.smol_writer_open(ctypes.byref(output), ctypes.byref(contents), ctypes.byref(writer), ctypes.byref(error))

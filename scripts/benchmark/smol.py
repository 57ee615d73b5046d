"""libsmol through ctypes, as declared in smol.h: the calls that the benchmark needs."""

import ctypes
import sys

import numpy as np

from .paths import BUILD, ROOT, Unmeasured

sys.path.append(str(ROOT / "tests/oracle"))
import smol_h  # noqa: E402
from smol_h import ContextParams, Error, ModelParams  # noqa: E402

VERIFY = {"first": 0, "open": 1, "off": 2}
KV = {"default": 0, "f32": 1, "f16": 2, "int8": 3, "int4": 4}


lib = smol_h.load(BUILD / "libsmol.so")


def _call(function, *arguments):
    error = Error()
    if function(*arguments, ctypes.byref(error)):
        raise Unmeasured(str(error))


def version():
    return lib.smol_version().decode()


class Model:
    def __init__(self, path, verify="first"):
        self.handle = ctypes.c_void_p()
        params = ModelParams(VERIFY[verify], 0)
        _call(lib.smol_model_open, str(path).encode(), ctypes.byref(params),
              ctypes.byref(self.handle))  # fmt: skip

    def close(self):
        lib.smol_model_close(self.handle)

    def tokenize(self, text):
        """Returns the ids of `text` (bytes) in the library's memory; release them with free()."""
        ids, n = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_size_t()
        _call(lib.smol_tokenize, self.handle, text, len(text), None, ctypes.byref(ids),
              ctypes.byref(n))  # fmt: skip
        return ids, n.value


def free(ids):
    lib.smol_free(ids)


class Context:
    """One sequence. Prompts are arrays of ids; evaluation returns the logits of the last one."""

    def __init__(self, model, n_threads, n_ctx=0, kv="default", vocab_size=49152):
        self.handle = ctypes.c_void_p()
        params = ContextParams(n_ctx, n_threads, KV[kv])
        _call(lib.smol_context_create, model.handle, ctypes.byref(params),
              ctypes.byref(self.handle))  # fmt: skip
        self.logits = np.empty(vocab_size, np.float32)
        self.error = Error()

    def close(self):
        lib.smol_context_free(self.handle)

    def eval(self, ids):
        """Evaluates `ids` (uint32, contiguous)."""
        if lib.smol_eval(self.handle, ids.ctypes.data, len(ids), 1, self.logits.ctypes.data,
                         ctypes.byref(self.error)):  # fmt: skip
            raise Unmeasured(str(self.error))
        return self.logits

    def truncate(self, n):
        lib.smol_context_truncate(self.handle, n)

    def info(self):
        return lib.smol_context_get_info(self.handle)

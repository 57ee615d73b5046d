"""libsmol through ctypes, as runtime/smol.h declares it: what the benchmark needs of it."""

import ctypes

import numpy as np

from .paths import BUILD, Unmeasured

VERIFY = {"first": 0, "open": 1, "off": 2}


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


class _ModelParams(ctypes.Structure):
    _fields_ = [
        ("verify", ctypes.c_int),
        ("no_mmap", ctypes.c_int),
        ("require_digest", ctypes.c_char_p),
        ("on_progress", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
    ]


class _ContextParams(ctypes.Structure):
    _fields_ = [
        ("n_ctx", ctypes.c_uint32),
        ("n_threads", ctypes.c_uint32),
        ("kv", ctypes.c_int),
        ("share", ctypes.c_void_p),
        ("on_progress", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
    ]


class _ContextInfo(ctypes.Structure):
    _fields_ = [
        ("n_threads", ctypes.c_uint32),
        ("kv", ctypes.c_char_p),
        ("isa", ctypes.c_char_p),
        ("kv_bytes", ctypes.c_size_t),
        ("state_bytes", ctypes.c_size_t),
    ]


def _load():
    lib = ctypes.CDLL(str(BUILD / "libsmol.so"))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    signatures = {
        "smol_version": (ctypes.c_char_p, []),
        "smol_model_open": (ctypes.c_int, [ctypes.c_char_p, pointer, pointer, pointer]),
        "smol_model_close": (None, [pointer]),
        "smol_tokenize": (
            ctypes.c_int,
            [pointer, ctypes.c_char_p, size, ctypes.c_int, pointer, pointer, pointer],
        ),
        "smol_free": (None, [pointer]),
        "smol_context_create": (ctypes.c_int, [pointer] * 4),
        "smol_context_free": (None, [pointer]),
        "smol_eval": (ctypes.c_int, [pointer, pointer, size, size, pointer, pointer]),
        "smol_context_truncate": (None, [pointer, size]),
        "smol_context_get_info": (_ContextInfo, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


lib = _load()


def _call(function, *arguments):
    error = _Error()
    if function(*arguments, ctypes.byref(error)):
        raise Unmeasured(error.message.decode())


def version():
    return lib.smol_version().decode()


class Model:
    def __init__(self, path, verify="first"):
        self.handle = ctypes.c_void_p()
        params = _ModelParams(VERIFY[verify], 0)
        _call(lib.smol_model_open, str(path).encode(), ctypes.byref(params),
              ctypes.byref(self.handle))  # fmt: skip

    def close(self):
        lib.smol_model_close(self.handle)

    def tokenize(self, text):
        """The ids of `text` (bytes), which stay in the library's memory: call free() on them."""
        ids, n = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_size_t()
        _call(lib.smol_tokenize, self.handle, text, len(text), 0, ctypes.byref(ids),
              ctypes.byref(n))  # fmt: skip
        return ids, n.value


def free(ids):
    lib.smol_free(ids)


class Context:
    """One sequence. Prompts are arrays of ids; evaluating returns the logits of the last one."""

    def __init__(self, model, n_threads, n_ctx=0, vocab_size=49152):
        self.handle = ctypes.c_void_p()
        params = _ContextParams(n_ctx, n_threads, 0)
        _call(lib.smol_context_create, model.handle, ctypes.byref(params),
              ctypes.byref(self.handle))  # fmt: skip
        self.logits = np.empty(vocab_size, np.float32)
        self.error = _Error()

    def close(self):
        lib.smol_context_free(self.handle)

    def eval(self, ids):
        """`ids` (uint32, contiguous)."""
        if lib.smol_eval(self.handle, ids.ctypes.data, len(ids), 1, self.logits.ctypes.data,
                         ctypes.byref(self.error)):  # fmt: skip
            raise Unmeasured(self.error.message.decode())
        return self.logits

    def truncate(self, n):
        lib.smol_context_truncate(self.handle, n)

    def info(self):
        return lib.smol_context_get_info(self.handle)

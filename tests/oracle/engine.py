"""smol as the oracle tests use it: convert a checkpoint, open the blob, evaluate tokens.

The functions are those of smol.h and convert/convert.h, called through ctypes; a status
that is not OK becomes a SmolError."""

import atexit
import ctypes
import functools
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from internal import BUILD, OK, ROOT, Error, lib
from smol_h import ContextParams, EvalPart, ModelParams, PrefixCacheParams, TokenizeParams
from structs import c_struct

DTYPES = {"f32": 1, "bf16": 2, "int8": 3, "int6": 4, "int5": 5, "int4": 6}  # enum blob_dtype of format/format.h
KV_TYPES = {"default": 0, "f32": 1, "f16": 2, "int8": 3, "int4": 4}  # smol_kv
POOLINGS = {"none": 0, "mean": 1, "last": 2, "first": 3, "max": 4, "model": 5}  # smol_pooling


class SmolError(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def check(status, error):
    if status != OK:
        raise SmolError(status, str(error))





SourceOptions = c_struct("convert/convert.h", "source_options")
Goal = c_struct("convert/convert.h", "goal")
ConvertOptions = c_struct("convert/convert.h", "convert_options")


def as_ids(ids):
    return np.ascontiguousarray(ids, np.uint32)


# --- converting -------------------------------------------------------------------------------


def convert(source, out, dtype="int8", threads=2, force=False, context=0):
    """Converts a checkpoint's folder (or the model.safetensors in it); returns `out`."""
    options, error = ConvertOptions(SourceOptions(context=context), DTYPES[dtype], Goal(), threads, force, True), Error()
    check(
        lib.smol_convert(
            str(source).encode(), str(out).encode(), ctypes.byref(options), ctypes.byref(error)
        ),
        error,
    )
    return out


@functools.cache
def scratch_folder():
    """A folder for blobs on the disk of the build, gone when the tests are."""
    (BUILD / "tests").mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="blobs-", dir=BUILD / "tests"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def blob_of(folder, dtype):
    """The blob of a checkpoint that does not change; converted once for all tests."""
    name = f"{Path(folder).name}-{dtype}.smol"
    return convert(folder, Path(tempfile.mkdtemp(dir=scratch_folder())) / name, dtype)


# --- running ----------------------------------------------------------------------------------


class Model:
    """An open blob; closes when left."""

    def __init__(self, path, **params):
        handle, error = ctypes.c_void_p(), Error()
        params = ctypes.byref(ModelParams(**params)) if params else None
        check(
            lib.smol_model_open(
                str(path).encode(), params, ctypes.byref(handle), ctypes.byref(error)
            ),
            error,
        )
        self.handle = handle
        self.info = lib.smol_model_get_info(handle)
        self.vocab_size = self.info.vocab_size

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        lib.smol_model_close(self.handle)
        self.handle = None

    def stop_ids(self):
        n = ctypes.c_size_t()
        ids = lib.smol_model_stop_ids(self.handle, ctypes.byref(n))
        return ids[: n.value]

    def tokenize(self, text, parse_special=False):
        data = text if isinstance(text, bytes) else text.encode()
        ids, n, error = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_size_t(), Error()
        status = lib.smol_tokenize(
            self.handle, data, len(data), ctypes.byref(TokenizeParams(parse_special)),
            ctypes.byref(ids), ctypes.byref(n), ctypes.byref(error),
        )  # fmt: skip
        check(status, error)
        result = ids[: n.value]
        lib.smol_free(ids)
        return result

    def context(self, threads=1, kv="default", n_ctx=0, share=None, prefixes=None, group=0):
        return Context(self, threads, kv, n_ctx, share, prefixes, group)

    def logits(self, ids, n_logits=None, **context):
        """The logits after each of the last n_logits (default: all) of `ids` in a new context."""
        with self.context(**context) as new:
            return new.eval(ids, n_logits)


class Context:
    """A sequence of tokens; freed when left."""

    def __init__(self, model, threads, kv, n_ctx, share, prefixes, group):
        self.model, self.handle = model, ctypes.c_void_p()
        threads, share = (threads, None) if share is None else (0, share.handle)
        params, error = ContextParams(n_ctx, threads, KV_TYPES[kv], share), Error()
        params.prefix_cache, params.prefix_group = prefixes and prefixes.handle, group
        check(
            lib.smol_context_create(
                model.handle, ctypes.byref(params), ctypes.byref(self.handle), ctypes.byref(error)
            ),
            error,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        lib.smol_context_free(self.handle)
        self.handle = None

    def __len__(self):
        return lib.smol_context_length(self.handle)

    def info(self):
        return lib.smol_context_get_info(self.handle)

    def truncate(self, n):
        lib.smol_context_truncate(self.handle, n)

    def eval(self, ids, n_logits=None):
        """Appends `ids`; returns float32 (n_logits, vocab_size), n_logits None: all of them."""
        ids, error = as_ids(ids), Error()
        n_logits = len(ids) if n_logits is None else n_logits
        logits = np.full((n_logits, self.model.vocab_size), np.nan, np.float32)
        status = lib.smol_eval(
            self.handle, ids.ctypes.data, len(ids), n_logits, logits.ctypes.data,
            ctypes.byref(error),
        )  # fmt: skip
        check(status, error)
        return logits


    def embed(self, ids, pooling="none"):
        """Appends `ids`; returns float32 (n, hidden_size), or (hidden_size)."""
        ids, error = as_ids(ids), Error()
        n_rows = () if pooling != "none" else (len(ids),)
        states = np.full((*n_rows, self.model.info.hidden_size), np.nan, np.float32)
        status = lib.smol_embed(
            self.handle, ids.ctypes.data, len(ids), POOLINGS[pooling], states.ctypes.data,
            ctypes.byref(error),
        )  # fmt: skip
        check(status, error)
        return states


class Prefixes:
    """A cache of prefixes of so many blocks; freed when left."""

    def __init__(self, model, n_blocks, kv="default"):
        self.handle = None
        self._create(model, PrefixCacheParams(2**62, KV_TYPES[kv]))
        block_bytes = self.info().block_bytes
        self.close()
        self._create(model, PrefixCacheParams(n_blocks * block_bytes, KV_TYPES[kv]))

    def _create(self, model, params):
        handle, error = ctypes.c_void_p(), Error()
        create = lib.smol_prefix_cache_create
        check(create(model.handle, ctypes.byref(params), ctypes.byref(handle), ctypes.byref(error)), error)
        self.handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        lib.smol_prefix_cache_free(self.handle)
        self.handle = None

    def info(self):
        return lib.smol_prefix_cache_get_info(self.handle)

    def count(self, ids, group=0):
        """Returns how many of the ids are known."""
        ids = as_ids(ids)
        return lib.smol_prefix_cache_count(self.handle, group, ids.ctypes.data, len(ids))


def eval_many(parts, pooling=None):
    """Appends ids to contexts that share, parts [(context, ids, n_logits)], in one call: returns for
    each its logits, or the SmolError that it failed with. With a pooling, embeddings (hidden_size)."""
    calls = (EvalPart * len(parts))()
    kept, results = [], []
    for call, (context, ids, n_logits) in zip(calls, parts, strict=True):
        ids = as_ids(ids)
        shape = context.model.info.hidden_size if pooling else (n_logits, context.model.vocab_size)
        logits = np.full(shape, np.nan, np.float32)
        call.context, call.ids, call.n = context.handle, ids.ctypes.data, len(ids)
        call.n_logits, call.logits = n_logits, logits.ctypes.data
        kept.append((ids, logits))
    error = Error()
    if pooling:
        status = lib.smol_embed_many(calls, len(parts), POOLINGS[pooling], ctypes.byref(error))
    else:
        status = lib.smol_eval_many(calls, len(parts), ctypes.byref(error))
    for call, (_, logits) in zip(calls, kept, strict=True):
        failed = call.error.status
        results.append(SmolError(failed, str(call.error)) if failed else logits)
    statuses = [call.error.status for call in calls if call.error.status]
    assert (status, error.status) == (statuses[0] if statuses else OK,) * 2
    return results


# --- kernels ----------------------------------------------------------------------------------

lib.smol_kernels_at.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
lib.smol_kernels_at.restype = ctypes.c_void_p
N_KV_TYPES = 4


def kernel_sets():
    """[(name, address of its struct kernels, whether this machine runs it)], weakest first."""
    sets, runs = [], ctypes.c_bool()
    while address := lib.smol_kernels_at(len(sets), ctypes.byref(runs)):
        name = ctypes.c_char_p.from_address(address).value.decode()  # the struct's first member
        sets.append((name, address, runs.value))
    return sets


def isa_params(sets):
    """The names of kernel sets as parameters; those that this machine cannot run are skipped before anything is set up."""
    why = "this machine cannot run the {} kernels"
    return [pytest.param(name, marks=() if runs else pytest.mark.skip(why.format(name))) for name, _, runs in sets]


@functools.cache
def kernel_slots():
    """{function: its place among the pointers of struct kernels}, read from kernels.h."""
    header = (ROOT / "runtime/kernels/kernels.h").read_text()
    body = re.search(r"^struct kernels \{\n(.*?)^\};", header, re.S | re.M)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    slots, place = {}, 1  # after the name
    for name, array in re.findall(r"\*(matmul_\w+|(?<=\(\*)\w+)(\[KV_TYPES\])?(?:\)\(|[,;])", body):
        slots[name] = place
        place += N_KV_TYPES if array else 1
    return slots


def kernel(address, name, result, *arguments, index=0):
    """One function of the struct kernels at `address`."""
    place = kernel_slots()[name] + index
    pointer = ctypes.c_void_p.from_address(address + place * ctypes.sizeof(ctypes.c_void_p))
    return ctypes.CFUNCTYPE(result, *arguments)(pointer.value)

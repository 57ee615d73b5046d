"""llama.cpp through llama_cpp's low-level calls, with the same interface as smol.py.

All settings are llama.cpp's defaults (n_ubatch 512, KV cache in f16, weights mapped), except the number of
threads, the size of the context, and flash attention, which the caller chooses."""

import ctypes
import re

import llama_cpp as llama
import numpy as np

from .paths import Unmeasured

FLASH = {"auto": -1, "off": 0, "on": 1}
N_BATCH = 2048
GGML_TYPES = {"f32": 0, "f16": 1, "q4_0": 2}


@llama.llama_log_callback
def _quiet(level, text, user):
    pass


llama.llama_log_set(_quiet, None)
llama.llama_backend_init()


def version():
    return llama.__version__


def features():
    """Returns the instruction sets for which it was compiled, as it reports them."""
    info = llama.llama_print_system_info().decode()
    return re.findall(r"(\w+) = 1", info)


def quantize(source, target, kind, pure=False, importance=None, n_threads=0):
    """Writes the GGUF file `source` as one of type `kind`, with llama.cpp's choice of each tensor's type unless
    `pure`. `importance` is its array of the matrix's entries; 0 threads: one for each processor."""
    params = llama.llama_model_quantize_default_params()
    params.ftype = getattr(llama, f"LLAMA_FTYPE_MOSTLY_{kind}")
    params.pure, params.nthread = pure, n_threads
    if importance is not None:
        params.imatrix = ctypes.cast(importance, type(params.imatrix))
    if llama.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)):
        raise Unmeasured(f"llama.cpp cannot quantize {source} as {kind}")


class Model:
    def __init__(self, path):
        self.handle = llama.llama_model_load_from_file(
            str(path).encode(), llama.llama_model_default_params()
        )
        if not self.handle:
            raise Unmeasured(f"llama.cpp cannot load {path}")
        self.vocab = llama.llama_model_get_vocab(self.handle)
        self.n_vocab = llama.llama_vocab_n_tokens(self.vocab)

    def close(self):
        llama.llama_model_free(self.handle)

    def tokenize(self, text):
        ids = (llama.llama_token * (len(text) + 8))()
        n = llama.llama_tokenize(self.vocab, text, len(text), ids, len(ids), False, False)
        return np.array(ids[:n], np.uint32)


class Context:
    def __init__(self, model, n_threads, n_ctx, flash="auto", kv="f16", on_tensor=None):
        params = llama.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = min(N_BATCH, n_ctx)
        params.n_threads = params.n_threads_batch = n_threads
        params.flash_attn_type = FLASH[flash]
        params.type_k = params.type_v = GGML_TYPES[kv]
        if on_tensor:
            params.cb_eval = on_tensor
        self.n_batch, self.n_vocab = params.n_batch, model.n_vocab
        self.handle = llama.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise Unmeasured("llama.cpp cannot make a context")

    def close(self):
        llama.llama_free(self.handle)

    def eval(self, ids):
        """Evaluates `ids` (uint32, contiguous); returns the logits of the last one."""
        tokens = ids.ctypes.data_as(ctypes.POINTER(llama.llama_token))
        for begin in range(0, len(ids), self.n_batch):
            n = min(self.n_batch, len(ids) - begin)
            here = ctypes.cast(ctypes.addressof(tokens.contents) + 4 * begin, type(tokens))
            if llama.llama_decode(self.handle, llama.llama_batch_get_one(here, n)):
                raise Unmeasured("llama_decode failed")
        logits = llama.llama_get_logits_ith(self.handle, -1)
        return np.ctypeslib.as_array(logits, (self.n_vocab,))

    def truncate(self, n):
        llama.llama_memory_seq_rm(llama.llama_get_memory(self.handle), 0, n, -1)

"""smol.h as ctypes sees it, for the oracle tests and the benchmark: structs, and the types of
functions. No library is loaded here."""

import ctypes


class Error(ctypes.Structure):
    """smol_error."""

    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]

    def __str__(self):
        return self.message.decode(errors="replace")


class ModelParams(ctypes.Structure):
    """smol_model_params."""

    _fields_ = [
        ("verify", ctypes.c_int),
        ("no_mmap", ctypes.c_int),
        ("require_digest", ctypes.c_char_p),
        ("on_progress", ctypes.c_void_p),
        ("on_log", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("reserved", ctypes.c_uint64 * 8),
    ]


class TokenizeParams(ctypes.Structure):
    """smol_tokenize_params."""

    _fields_ = [
        ("parse_special", ctypes.c_int),
        ("whole_text", ctypes.c_int),
        ("on_progress", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class ModelInfo(ctypes.Structure):
    """smol_model_info."""

    _fields_ = [("dtype", ctypes.c_char_p)] + [
        (name, ctypes.c_uint32)
        for name in """n_layers hidden_size intermediate_size n_heads n_kv_heads head_dim
            vocab_size context_length bos_id has_chat_template""".split()
    ] + [("blob_bytes", ctypes.c_uint64), ("reserved", ctypes.c_uint64 * 8)]  # fmt: skip


class ContextParams(ctypes.Structure):
    """smol_context_params."""

    _fields_ = [
        ("n_ctx", ctypes.c_uint32),
        ("n_threads", ctypes.c_uint32),
        ("kv", ctypes.c_int),
        ("share", ctypes.c_void_p),
        ("on_progress", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("prefix_cache", ctypes.c_void_p),
        ("prefix_group", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 6),
    ]


class PrefixCacheParams(ctypes.Structure):
    """smol_prefix_cache_params."""

    _fields_ = [
        ("max_bytes", ctypes.c_size_t),
        ("kv", ctypes.c_int),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class PrefixCacheInfo(ctypes.Structure):
    """smol_prefix_cache_info."""

    _fields_ = [
        (name, ctypes.c_size_t) for name in "bytes max_bytes block_bytes n_blocks n_used".split()
    ] + [(name, ctypes.c_uint64) for name in "n_reused n_evicted".split()] + [("reserved", ctypes.c_uint64 * 4)]  # fmt: skip


class EvalPart(ctypes.Structure):
    """smol_eval_part."""

    _fields_ = [
        ("context", ctypes.c_void_p),
        ("ids", ctypes.c_void_p),
        ("n", ctypes.c_size_t),
        ("n_logits", ctypes.c_size_t),
        ("logits", ctypes.c_void_p),
        ("error", Error),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class SamplerParams(ctypes.Structure):
    """smol_sampler_params."""

    _fields_ = [
        ("temperature", ctypes.c_float),
        ("top_k", ctypes.c_uint32),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("repetition_penalty", ctypes.c_float),
        ("seed", ctypes.c_uint64),
        ("frequency_penalty", ctypes.c_float),
        ("presence_penalty", ctypes.c_float),
        ("logit_bias", ctypes.c_void_p),
        ("n_logit_bias", ctypes.c_size_t),
        ("reserved", ctypes.c_uint64 * 1),
    ]


class ContextInfo(ctypes.Structure):
    """smol_context_info."""

    _fields_ = [
        ("n_threads", ctypes.c_uint32),
        ("kv", ctypes.c_char_p),
        ("isa", ctypes.c_char_p),
        ("kv_bytes", ctypes.c_size_t),
        ("state_bytes", ctypes.c_size_t),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class ConstraintParams(ctypes.Structure):
    """smol_constraint_params."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("text", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
        ("json_space", ctypes.c_int),
        ("any_order", ctypes.c_int),
        ("tool_choice", ctypes.c_char_p),
        ("one_call", ctypes.c_int),
        ("reserved", ctypes.c_uint64 * 2),
    ]


# smol_on_tool_part
ON_TOOL_PART = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
)


POINTER, SIZE, TEXT, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int

FUNCTIONS = {
    "smol_version": (TEXT, []),
    "smol_free": (None, [POINTER]),
    "smol_model_open": (INT, [TEXT, POINTER, POINTER, POINTER]),
    "smol_model_open_fd": (INT, [INT, TEXT, POINTER, POINTER, POINTER]),
    "smol_model_open_memory": (INT, [POINTER, SIZE, TEXT, POINTER, POINTER, POINTER]),
    "smol_model_close": (None, [POINTER]),
    "smol_model_get_info": (ModelInfo, [POINTER]),
    "smol_model_default_sampler": (SamplerParams, [POINTER]),
    "smol_model_stop_ids": (ctypes.POINTER(ctypes.c_uint32), [POINTER, POINTER]),
    "smol_token_text": (INT, [POINTER, ctypes.c_uint32, POINTER, POINTER, POINTER, POINTER]),
    "smol_tokenize": (INT, [POINTER, TEXT, SIZE, POINTER, POINTER, POINTER, POINTER]),
    "smol_context_create": (INT, [POINTER] * 4),
    "smol_context_free": (None, [POINTER]),
    "smol_context_get_info": (ContextInfo, [POINTER]),
    "smol_context_length": (SIZE, [POINTER]),
    "smol_context_ids": (ctypes.POINTER(ctypes.c_uint32), [POINTER, POINTER]),
    "smol_context_truncate": (None, [POINTER, SIZE]),
    "smol_prefix_cache_create": (INT, [POINTER] * 4),
    "smol_prefix_cache_free": (None, [POINTER]),
    "smol_prefix_cache_get_info": (PrefixCacheInfo, [POINTER]),
    "smol_eval": (INT, [POINTER, POINTER, SIZE, SIZE, POINTER, POINTER]),
    "smol_eval_many": (INT, [POINTER, SIZE, POINTER]),
    "smol_embed": (INT, [POINTER, POINTER, SIZE, INT, POINTER, POINTER]),
    "smol_sampler_create": (INT, [POINTER] * 3),
    "smol_sampler_free": (None, [POINTER]),
    "smol_sample_masked": (INT, [POINTER, POINTER, SIZE, POINTER, POINTER, SIZE, POINTER, POINTER]),
    "smol_constraint_create": (INT, [POINTER] * 4),
    "smol_constraint_free": (None, [POINTER]),
    "smol_matcher_create": (INT, [POINTER] * 3),
    "smol_matcher_free": (None, [POINTER]),
    "smol_matcher_mask": (INT, [POINTER] * 3),
    "smol_matcher_accept": (INT, [POINTER, ctypes.c_uint32, POINTER]),
    "smol_matcher_forced": (INT, [POINTER, POINTER, SIZE, POINTER, POINTER]),
    "smol_matcher_complete": (INT, [POINTER]),
    "smol_model_tool_style": (TEXT, [POINTER]),
    "smol_tool_reader_create": (INT, [POINTER, TEXT, ON_TOOL_PART, POINTER, POINTER, POINTER]),
    "smol_tool_reader_add": (INT, [POINTER, TEXT, SIZE, POINTER]),
    "smol_tool_reader_end": (INT, [POINTER, POINTER]),
    "smol_tool_reader_free": (None, [POINTER]),
}


def load(path):
    """The library at `path`, which has these functions."""
    lib = ctypes.CDLL(str(path))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib

"""smol.h as ctypes sees it: structs, enumerations, and the types of functions. tests/oracle/test_python_header.py
compares it with the header. The oracle tests and the benchmark use it too. No library is loaded here."""

from __future__ import annotations

import ctypes
from os import PathLike
from typing import Any


class Error(ctypes.Structure):
    """smol_error."""

    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]

    def __str__(self) -> str:
        return bytes(self.message).decode(errors="replace")


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
        ("truncate", ctypes.c_int),
        ("reserved", ctypes.c_uint64 * 3),
    ]


class ModelInfo(ctypes.Structure):
    """smol_model_info."""

    _fields_ = [
        ("dtype", ctypes.c_char_p),
        ("n_layers", ctypes.c_uint32),
        ("hidden_size", ctypes.c_uint32),
        ("intermediate_size", ctypes.c_uint32),
        ("n_heads", ctypes.c_uint32),
        ("n_kv_heads", ctypes.c_uint32),
        ("head_dim", ctypes.c_uint32),
        ("vocab_size", ctypes.c_uint32),
        ("context_length", ctypes.c_uint32),
        ("bos_id", ctypes.c_uint32),
        ("has_chat_template", ctypes.c_uint32),
        ("blob_bytes", ctypes.c_uint64),
        ("is_encoder", ctypes.c_uint32),
        ("max_text", ctypes.c_uint32),
        ("embedding_size", ctypes.c_uint32),
        ("is_reranker", ctypes.c_uint32),
        ("reserved", ctypes.c_uint64 * 6),
    ]


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
        ("bytes", ctypes.c_size_t),
        ("max_bytes", ctypes.c_size_t),
        ("block_bytes", ctypes.c_size_t),
        ("n_blocks", ctypes.c_size_t),
        ("n_used", ctypes.c_size_t),
        ("n_reused", ctypes.c_uint64),
        ("n_evicted", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 4),
    ]


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
        ("reasoning", ctypes.c_uint64),
        ("answer_schema", ctypes.c_char_p),
        ("reserved", ctypes.c_uint64 * 1),
    ]


class LogitBias(ctypes.Structure):
    """smol_logit_bias."""

    _fields_ = [("id", ctypes.c_uint32), ("bias", ctypes.c_float)]


class ChatParams(ctypes.Structure):
    """smol_chat_params."""

    _fields_ = [
        ("messages", ctypes.c_void_p),
        ("n_messages", ctypes.c_size_t),
        ("messages_json", ctypes.c_char_p),
        ("tools_json", ctypes.c_char_p),
        ("documents_json", ctypes.c_char_p),
        ("variables_json", ctypes.c_char_p),
        ("add_generation_prompt", ctypes.c_int),
        ("now", ctypes.c_void_p),
        ("on_progress", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("parse_arguments", ctypes.c_int),
        ("continue_final_message", ctypes.c_int),
        ("reserved", ctypes.c_uint64 * 7),
    ]


class ChatText(ctypes.Structure):
    """smol_chat_text."""

    _fields_ = [
        ("text", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("from_conversation", ctypes.c_void_p),
        ("reserved", ctypes.c_uint64 * 2),
    ]


class GenerateParams(ctypes.Structure):
    """smol_generate_params."""

    _fields_ = [
        ("max_tokens", ctypes.c_size_t),
        ("prompt_only", ctypes.c_int),
        ("stop", ctypes.c_void_p),
        ("n_stop", ctypes.c_size_t),
        ("show_special", ctypes.c_int),
        ("slide", ctypes.c_int),
        ("n_keep", ctypes.c_size_t),
        ("penalize_context", ctypes.c_int),
        ("on_text", ctypes.c_void_p),
        ("on_token", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("matcher", ctypes.c_void_p),
        ("slice_prompt", ctypes.c_uint64),
        ("lookup", ctypes.c_uint64),
        ("all_tokens", ctypes.c_uint64),
        ("reasoning_limit", ctypes.c_void_p),
        ("new_text", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 2),
    ]


class GenerateResult(ctypes.Structure):
    """smol_generate_result."""

    _fields_ = [
        ("finish", ctypes.c_int),
        ("n_prompt", ctypes.c_size_t),
        ("n_generated", ctypes.c_size_t),
        ("prompt_seconds", ctypes.c_double),
        ("first_token_seconds", ctypes.c_double),
        ("decode_seconds", ctypes.c_double),
        ("n_slides", ctypes.c_size_t),
        ("slide_seconds", ctypes.c_double),
        ("n_reused", ctypes.c_uint64),
        ("n_guessed", ctypes.c_uint64),
        ("n_guessed_right", ctypes.c_uint64),
        ("stop_text", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class Session(ctypes.Structure):
    """smol_session."""

    _fields_ = [
        ("sampler", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("reserved", ctypes.c_uint64 * 4),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "smol_error": Error,
    "smol_model_params": ModelParams,
    "smol_tokenize_params": TokenizeParams,
    "smol_model_info": ModelInfo,
    "smol_context_params": ContextParams,
    "smol_prefix_cache_params": PrefixCacheParams,
    "smol_prefix_cache_info": PrefixCacheInfo,
    "smol_eval_part": EvalPart,
    "smol_sampler_params": SamplerParams,
    "smol_logit_bias": LogitBias,
    "smol_context_info": ContextInfo,
    "smol_constraint_params": ConstraintParams,
    "smol_chat_params": ChatParams,
    "smol_chat_text": ChatText,
    "smol_generate_params": GenerateParams,
    "smol_generate_result": GenerateResult,
    "smol_session": Session,
}

# enumerations, by their constants without the common beginning
STATUS = {
    "OK": 0, "ERROR_MISMATCH": 1, "ERROR_USAGE": 2, "ERROR_FILE": 3, "ERROR_DAMAGED": 4, "ERROR_UNSUPPORTED": 5,
    "ERROR_MEMORY": 6, "ERROR_NUMERIC": 7, "ERROR_CONTEXT_FULL": 8, "ERROR_CANCELLED": 9,
}  # fmt: skip
VERIFY = {"FIRST": 0, "OPEN": 1, "OFF": 2}
KV = {"DEFAULT": 0, "F32": 1, "F16": 2, "INT8": 3, "INT4": 4}
POOL = {"NONE": 0, "MEAN": 1, "LAST": 2, "FIRST": 3, "MAX": 4, "MODEL": 5}
CONSTRAINT = {"JSON_SCHEMA": 0, "REGEX": 1, "CHOICES": 2, "GRAMMAR": 3, "TOOLS": 4}
JSON = {"SPACED": 0, "COMPACT": 1, "INDENTED": 2}
REPLY = {"FREE": 0, "TOOLS": 1, "CONSTRAINED": 2, "TOOLS_SCHEMA": 3}
REASONING = {"NONE": 0, "POSSIBLE": 1, "BEGUN": 2}
TOOL = {"TEXT": 0, "CALL": 1, "ARGUMENTS": 2, "CALL_END": 3}
FINISH = {"STOP": 0, "LENGTH": 1, "CONTEXT_FULL": 2, "CANCELLED": 3}
ENUMS = {
    "SMOL_": STATUS, "SMOL_VERIFY_": VERIFY, "SMOL_KV_": KV, "SMOL_POOL_": POOL, "SMOL_CONSTRAINT_": CONSTRAINT,
    "SMOL_JSON_": JSON, "SMOL_REPLY_": REPLY, "SMOL_REASONING_": REASONING, "SMOL_TOOL_": TOOL, "SMOL_FINISH_": FINISH,
}  # fmt: skip

NO_TOKEN = 0xFFFFFFFF

# smol_on_tool_part
ON_TOOL_PART = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)


POINTER, SIZE, TEXT, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int
ID = ctypes.c_uint32

FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "smol_version": (TEXT, []),
    "smol_status_text": (TEXT, [INT]),
    "smol_free": (None, [POINTER]),
    "smol_model_open": (INT, [TEXT, POINTER, POINTER, POINTER]),
    "smol_model_open_fd": (INT, [INT, TEXT, POINTER, POINTER, POINTER]),
    "smol_model_open_memory": (INT, [POINTER, SIZE, TEXT, POINTER, POINTER, POINTER]),
    "smol_model_close": (None, [POINTER]),
    "smol_model_get_info": (ModelInfo, [POINTER]),
    "smol_model_default_sampler": (SamplerParams, [POINTER]),
    "smol_model_stop_ids": (ctypes.POINTER(ctypes.c_uint32), [POINTER, POINTER]),
    "smol_token_text": (INT, [POINTER, ID, POINTER, POINTER, POINTER, POINTER]),
    "smol_tokenize": (INT, [POINTER, TEXT, SIZE, POINTER, POINTER, POINTER, POINTER]),
    "smol_detokenize": (INT, [POINTER, POINTER, SIZE, INT, POINTER, POINTER, POINTER]),
    "smol_context_create": (INT, [POINTER] * 4),
    "smol_context_free": (None, [POINTER]),
    "smol_context_get_info": (ContextInfo, [POINTER]),
    "smol_context_length": (SIZE, [POINTER]),
    "smol_context_ids": (ctypes.POINTER(ctypes.c_uint32), [POINTER, POINTER]),
    "smol_context_truncate": (None, [POINTER, SIZE]),
    "smol_context_cancel": (None, [POINTER, INT]),
    "smol_context_capacity": (SIZE, [POINTER]),
    "smol_context_pending": (ID, [POINTER]),
    "smol_context_save_memory": (INT, [POINTER] * 5),
    "smol_context_restore_memory": (INT, [POINTER, POINTER, POINTER, SIZE, POINTER]),
    "smol_prefix_cache_create": (INT, [POINTER] * 4),
    "smol_prefix_cache_free": (None, [POINTER]),
    "smol_prefix_cache_get_info": (PrefixCacheInfo, [POINTER]),
    "smol_prefix_cache_count": (SIZE, [POINTER, ctypes.c_uint64, POINTER, SIZE]),
    "smol_eval": (INT, [POINTER, POINTER, SIZE, SIZE, POINTER, POINTER]),
    "smol_eval_many": (INT, [POINTER, SIZE, POINTER]),
    "smol_model_prompt": (INT, [POINTER] * 4),
    "smol_tokenize_pair": (INT, [POINTER, POINTER, SIZE, POINTER, SIZE, POINTER, POINTER, POINTER]),
    "smol_embed": (INT, [POINTER, POINTER, SIZE, INT, POINTER, POINTER]),
    "smol_embed_many": (INT, [POINTER, SIZE, INT, POINTER]),
    "smol_sampler_create": (INT, [POINTER] * 3),
    "smol_sampler_free": (None, [POINTER]),
    "smol_sampler_set_params": (INT, [POINTER] * 3),
    "smol_sampler_get_params": (SamplerParams, [POINTER]),
    "smol_chat_format": (INT, [POINTER] * 4),
    "smol_chat_text_free": (None, [POINTER]),
    "smol_chat_reads": (INT, [POINTER, TEXT]),
    "smol_chat_tokenize": (INT, [POINTER] * 5),
    "smol_generation_create": (INT, [POINTER, POINTER, POINTER, SIZE, POINTER, POINTER, POINTER]),
    "smol_generation_free": (None, [POINTER]),
    "smol_generation_finished": (INT, [POINTER] * 3),
    "smol_sample_masked": (INT, [POINTER, POINTER, SIZE, POINTER, POINTER, SIZE, POINTER, POINTER]),
    "smol_constraint_create": (INT, [POINTER] * 4),
    "smol_constraint_free": (None, [POINTER]),
    "smol_matcher_create": (INT, [POINTER] * 3),
    "smol_matcher_free": (None, [POINTER]),
    "smol_matcher_mask": (INT, [POINTER] * 3),
    "smol_matcher_accept": (INT, [POINTER, ID, POINTER]),
    "smol_matcher_forced": (INT, [POINTER, POINTER, SIZE, POINTER, POINTER]),
    "smol_matcher_complete": (INT, [POINTER]),
    "smol_model_tool_style": (TEXT, [POINTER]),
    "smol_tool_reader_calls_first": (None, [POINTER]),
    "smol_tool_reader_create": (INT, [POINTER, TEXT, ON_TOOL_PART, POINTER, POINTER, POINTER]),
    "smol_tool_reader_add": (INT, [POINTER, TEXT, SIZE, POINTER]),
    "smol_tool_reader_end": (INT, [POINTER, POINTER]),
    "smol_tool_reader_free": (None, [POINTER]),
    "smol_reasoning_after": (INT, [POINTER, POINTER, SIZE, POINTER, POINTER]),
    "smol_reasoning_reader_create": (INT, [POINTER, POINTER, SIZE, INT, POINTER, POINTER]),
    "smol_reasoning_reader_free": (None, [POINTER]),
    "smol_reasoning_limit_create": (INT, [POINTER, POINTER, SIZE, INT, SIZE, POINTER, POINTER]),
    "smol_reasoning_limit_free": (None, [POINTER]),
}


def declare(library: ctypes.CDLL, functions: dict[str, tuple[Any, list[Any]]]) -> None:
    """Tells ctypes the types of functions of `library`."""
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def load(path: str | PathLike[str]) -> ctypes.CDLL:
    """Loads the library at `path`, which has these functions."""
    library = ctypes.CDLL(str(path))
    declare(library, FUNCTIONS)
    return library

"""How to generate: the options of a call, checked and put into the library's structs."""

from __future__ import annotations

import ctypes
import json
import math
import numbers
import os
import reprlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict

from ._smol_h import CONSTRAINT, JSON, NO_TOKEN, LogitBias, SamplerParams
from .errors import UsageError

if TYPE_CHECKING:
    from array import array

    from ._sequence import Cancel

FLT_MIN = 2.0**-126
MAX_LOGPROBS = 20
MAX_TOKENS = 256  # as smolrun without -n
SEED = 42  # as smolrun without --seed


class Options(TypedDict, total=False):
    """Options of every call that generates. What is left out has smolrun's default: greedy, at most 256 tokens."""

    max_tokens: int | None  # 256; None: until the model stops or the context is full
    temperature: float  # 0: greedy
    top_k: int  # 0: all
    top_p: float  # 1: all
    min_p: float  # 0: all
    repetition_penalty: float  # 1: none
    frequency_penalty: float  # -2 to 2; 0: none
    presence_penalty: float  # -2 to 2; 0: none
    logit_bias: Mapping[int, float]  # token id to a number from -100 to 100
    seed: int  # 42
    stop: str | Sequence[str]
    logprobs: int | None  # 0 to 20 alternatives for each token; None: no log-probabilities
    # the form of the answer, at most one of these:
    schema: Any  # a JSON Schema (dict, bool, JSON text), a pydantic model, or what has a method model_json_schema
    regex: str
    choices: Sequence[Any]  # texts
    grammar: str  # EBNF or GBNF
    response_format: Any  # a dict as in OpenAI's interface and smolrun's requests, or a pydantic model
    json_space: str  # "spaced", "compact" or "indented", with schema
    any_order: bool  # properties in any order, with schema
    # of the call itself:
    cancel: Cancel | None
    progress: Callable[[int, int], object] | bool | None  # called with tokens of the prompt (answers, of several prompts)


class ToolOptions(TypedDict, total=False):
    """Options of chats only; see smolrun.Model.chat."""

    tools: Sequence[Mapping[str, Any]] | None
    tool_choice: str | Mapping[str, Any]
    parallel_tool_calls: bool
    documents: Sequence[Mapping[str, Any]] | None
    chat_template_kwargs: Mapping[str, Any] | None
    continue_final_message: bool
    add_generation_prompt: bool | None  # None: unless continue_final_message
    reasoning_format: str  # "auto": reasoning is separated from the text; "none": it stays there, with its markers
    reasoning_effort: str | None  # "none", or as much as the chat template knows: "minimal" to "xhigh"
    thinking_budget_tokens: int | None  # reasoning ends after as many tokens; None, -1: no limit
    on_reasoning: Callable[[str], object] | None  # stream_chat calls it with each piece of the reasoning


class ChatOptions(Options, ToolOptions, total=False):
    """Options of Model.chat."""


SAMPLING = {
    "temperature": float, "top_k": int, "top_p": float, "min_p": float, "repetition_penalty": float,
    "frequency_penalty": float, "presence_penalty": float, "seed": int,
}  # fmt: skip
RANGES = {
    "temperature": (0, 3.4e38), "top_k": (0, NO_TOKEN), "top_p": (0, 1), "min_p": (0, 1), "repetition_penalty": (FLT_MIN, 3.4e38),
    "frequency_penalty": (-2, 2), "presence_penalty": (-2, 2), "seed": (0, 2**64 - 1),
}  # fmt: skip
# options of other interfaces that have another name here
ELSEWHERE = {
    "max_new_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "repeat_penalty": "repetition_penalty",
    "do_sample": "temperature=0, the default, for False", "stream": "the method stream or stream_chat", "json_schema": "schema",
    "stop_strings": "stop", "top_logprobs": "logprobs", "guided_json": "schema", "guided_regex": "regex", "enable_thinking":
    "chat_template_kwargs", "n": "a list of prompts, or other seeds", "messages": "the method chat",
}  # fmt: skip
EFFORTS = {"NONE": 0, "MINIMAL": 1, "LOW": 2, "MEDIUM": 3, "HIGH": 4, "XHIGH": 5}
REASONING_FORMATS = {"NONE": 0, "AUTO": 1, "DEEPSEEK": 1}
CONSTRAINTS = ("schema", "regex", "choices", "grammar", "response_format")
# types of response_format, and the member that has the constraint
FORMATS = {
    "text": None, "json_object": None, "json_schema": "json_schema", "regex": "pattern", "grammar": "grammar", "choices": "choices",
}  # fmt: skip


@dataclass(frozen=True)
class Constraint:
    """A constraint, as the library's compiler wants it. Equal ones are compiled once."""

    kind: int
    text: bytes
    json_space: int = 0
    any_order: bool = False
    tool_choice: bytes | None = None
    one_call: bool = False
    reasoning: int = 0  # what may come before it
    answer_schema: bytes | None = None  # of an answer without calls


@dataclass(frozen=True)
class Settings:
    """Checked options of one answer."""

    max_tokens: int | None = MAX_TOKENS
    sampling: Mapping[str, float] = field(default_factory=dict)  # what was given
    logit_bias: tuple[tuple[int, float], ...] | None = None  # None: not given
    stop: tuple[bytes, ...] = ()
    logprobs: int | None = None
    constraint: Constraint | None = None
    parse: Callable[[str], Any] | None = None  # makes Answer.parsed
    tools: bytes | None = None  # the list, if calls are to be parsed
    reasoning_budget: int | None = None  # tokens
    is_chat: bool = False  # the answer is a text of its own, not the rest of the prompt's
    prompt: array[int] | None = None  # of a conversation: all of it, though a session may evaluate a part only
    separates: bool = False  # reasoning is separated from the text

    def with_tools(self, tools: bytes, choice: bytes, one_call: bool) -> Settings:
        """Adds tools to settings without a constraint or with a JSON schema, of answers that call none."""
        if self.constraint is not None and b"\0" in self.constraint.text:
            raise UsageError("schema: must not contain U+0000")
        constraint = Constraint(CONSTRAINT["TOOLS"], tools, tool_choice=choice, one_call=one_call)
        if (given := self.constraint) is not None:
            schema = given.text if choice == b"auto" else None
            constraint = replace(constraint, json_space=given.json_space, any_order=given.any_order, answer_schema=schema)
        return replace(self, constraint=constraint, tools=tools)

    @property
    def has_answer_schema(self) -> bool:
        return self.constraint is not None and self.constraint.answer_schema is not None

    def sampler_params(self, base: SamplerParams | None = None) -> tuple[SamplerParams, Any]:
        """Returns the struct, and what must live as long as it. `base` has the values of what was not given."""
        params = SamplerParams()
        if base is None:
            params.seed, params.top_p = SEED, 1  # as smolrun's, also in the bytes of a session
        else:
            for name in (*SAMPLING, "logit_bias", "n_logit_bias"):
                setattr(params, name, getattr(base, name))
        for name, value in self.sampling.items():
            setattr(params, name, value)
        if params.top_p == 0:  # which means to the library that it was not given
            params.top_p = FLT_MIN if "top_p" in self.sampling else 1
        biases = (LogitBias * len(self.logit_bias or ()))(*(LogitBias(*one) for one in self.logit_bias or ()))
        if self.logit_bias is not None:
            params.logit_bias, params.n_logit_bias = ctypes.addressof(biases), len(biases)
        return params, biases


# --- reading options ------------------------------------------------------------------------------


def dump(value: Any, name: str) -> bytes:
    """Returns JSON in ASCII, so that lone surrogates pass as escapes."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}: not representable as JSON: {error}") from None


def encode(text: str | bytes, name: str = "text") -> bytes:
    """Returns UTF-8; what is ill-formed the library reads as U+FFFD."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, (bytes, bytearray)):
        return bytes(text)
    raise UsageError(f"{name}: must be a text, found {reprlib.repr(text)}")


def path(value: Any, name: str = "path") -> str:
    """Returns a path as text that the system can take."""
    try:
        found = os.fsdecode(value)
        if "\0" not in found and os.fsencode(found):
            return found
    except (TypeError, UnicodeError):
        pass
    raise UsageError(f"{name}: must be the path of a file, found {reprlib.repr(value)}")


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def _number(name: str, value: Any) -> float:
    least, most = RANGES[name]
    if SAMPLING[name] is int:
        return whole(name, value, int(least), int(most))
    if not _is_number(value) or not least <= value <= most:
        raise UsageError(f"{name}: must be a number from {least:g} to {most:g}, found {reprlib.repr(value)}")
    return float(value)


def items(name: str, given: Any) -> list[Any]:
    """Returns what a list of any kind contains. A text is not a list."""
    return list(each(name, given))


def each(name: str, given: Any) -> Iterator[Any]:
    """Yields what a list of any kind contains."""
    try:
        if not isinstance(given, (str, bytes, Mapping)):
            return iter(given)
    except TypeError:
        pass
    raise UsageError(f"{name}: must be a list, found {reprlib.repr(given)}")


def members(name: str, given: Any) -> Mapping[Any, Any]:
    if isinstance(given, Mapping):
        return given
    raise UsageError(f"{name}: must be a dict, found {reprlib.repr(given)}")


def _biases(given: Any) -> tuple[tuple[int, float], ...] | None:
    biases: list[tuple[int, float]] = []
    if given is None:
        return None
    for key, bias in members("logit_bias", given).items():
        token = int(key) if isinstance(key, str) and key.isdecimal() and key.isascii() else key  # as in JSON
        if not (_is_number(token) and int(token) == token and 0 <= token < NO_TOKEN and _is_number(bias) and -100 <= bias <= 100):
            raise UsageError(f"logit_bias: {{{key!r}: {bias!r}}}: must be a token id and a number from -100 to 100")
        biases.append((int(token), float(bias)))
    return tuple(biases)


def _stop(given: Any) -> tuple[bytes, ...]:
    texts = [given] if isinstance(given, (str, bytes)) else [] if given is None else items("stop", given)
    encoded = tuple(encode(text, "stop") for text in texts)
    if any(not text or b"\0" in text for text in encoded):
        raise UsageError("stop: a text must not be empty or contain NUL")
    return encoded


def _schema(given: Any) -> tuple[bytes, Callable[[str], Any]]:
    """Returns the JSON text, and what parses an answer."""
    if hasattr(given, "model_json_schema"):
        return dump(given.model_json_schema(), "schema"), getattr(given, "model_validate_json", json.loads)
    return (encode(given) if isinstance(given, (str, bytes)) else dump(given, "schema")), json.loads


def _response_format(given: Any) -> dict[str, Any]:
    """Returns the option that means the same. A member of another name may say more than is done."""
    if hasattr(given, "model_json_schema"):
        return {"schema": given}
    kind = str(members("response_format", given).get("type"))
    if kind not in FORMATS:
        raise UsageError(f"response_format: type must be {', '.join(FORMATS)}, found {reprlib.repr(given)}")
    _check_members(given, "type", FORMATS[kind])
    if FORMATS[kind] is None:
        return {"schema": {"type": "object"}} if kind == "json_object" else {}
    found = given.get(FORMATS[kind])
    if kind == "json_schema" and found is not None:
        _check_members(members("response_format: json_schema", found), "schema", "name", "description", "strict")
        kind, found = "schema", found.get("schema")
    if found is None:
        raise UsageError("response_format: the constraint of its type is missing")
    return {kind: found}


def _check_members(given: Mapping[Any, Any], *names: str | None) -> None:
    for name, value in given.items():
        if name not in names and value is not None:
            raise UsageError(f"response_format: {name}: no such member of it")


def _constraint(options: dict[str, Any]) -> tuple[Constraint | None, Callable[[str], Any] | None]:
    space, any_order = options.pop("json_space", None), flag("any_order", options.pop("any_order", None), False)
    given = {name: options.pop(name) for name in CONSTRAINTS if options.get(name) is not None}
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)}: give only one of them")
    json_space = one_of("json_space", "spaced" if space is None else space, JSON)
    if "response_format" in given:
        given = _response_format(given["response_format"])
    if "schema" in given:
        text, parse = _schema(given["schema"])
        return Constraint(CONSTRAINT["JSON_SCHEMA"], text, json_space, any_order), parse
    if "choices" in given:
        return Constraint(CONSTRAINT["CHOICES"], dump(items("choices", given["choices"]), "choices")), None
    for name in ("regex", "grammar"):
        if name in given:
            return Constraint(CONSTRAINT[name.upper()], encode(given[name], name)), None
    return None, None


def whole(name: str, value: Any, least: int = 0, most: int = NO_TOKEN) -> int:
    if not _is_number(value) or int(value) != value or not least <= value <= most:
        raise UsageError(f"{name}: must be a whole number from {least} to {most}, found {reprlib.repr(value)}")
    return int(value)


def one_of(name: str, value: Any, names: Mapping[str, int]) -> int:
    """Returns the number of a name."""
    if isinstance(value, str) and value.upper() in names:
        return names[value.upper()]
    *most, last = (one.lower() for one in names)
    raise UsageError(f"{name}: must be {', '.join(most)} or {last}, found {reprlib.repr(value)}")


def numpy_type(name: str) -> tuple[type[Any], ...]:
    """A type of NumPy for isinstance, or none if the program has not imported NumPy: then no value has that type."""
    found = getattr(sys.modules.get("numpy"), name, None)
    return () if found is None else (found,)


def flag(name: str, value: Any, default: bool) -> bool:
    if value is None:
        return default
    if isinstance(value, (bool, *numpy_type("bool_"))):
        return bool(value)
    raise UsageError(f"{name}: must be True or False, found {reprlib.repr(value)}")


def _refuse(name: str) -> UsageError:
    hint = ELSEWHERE.get(name)
    return UsageError(f"{name}: no such option" + (f": use {hint}" if hint else ""))


def without_call(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of an answer, without those of the call."""
    return {name: value for name, value in options.items() if name not in ("cancel", "progress", "on_reasoning")}


def read(given: Mapping[str, Any]) -> Settings:
    """Checks options, and raises UsageError for those that do not exist."""
    options = dict(given)
    max_tokens, logprobs = options.pop("max_tokens", MAX_TOKENS), options.pop("logprobs", None)
    sampling = {name: _number(name, options.pop(name)) for name in SAMPLING if options.get(name) is not None}
    constraint, parse = _constraint(options)
    settings = Settings(
        max_tokens=None if max_tokens is None else whole("max_tokens", max_tokens),
        sampling=sampling,
        logit_bias=_biases(options.pop("logit_bias", None)),
        stop=_stop(options.pop("stop", None)),
        logprobs=None if logprobs is None else whole("logprobs", logprobs, 0, MAX_LOGPROBS),
        constraint=constraint,
        parse=parse,
    )
    unknown = [name for name in options if name not in (*SAMPLING, *CONSTRAINTS)]  # those may be None
    if unknown:
        raise _refuse(unknown[0])
    return settings

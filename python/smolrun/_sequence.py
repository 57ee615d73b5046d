"""Generations: contexts, the step loop, and answers collected from it.

A step is one call of the library without the interpreter's lock. A generation that is not streamed returns to Python every
50 ms, for Ctrl-C, cancellation and progress; a stream returns for each piece of text."""

from __future__ import annotations

import codecs
import ctypes
import struct
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from ._handles import Handle
from ._library import Collector, PartCollector, address, lib, quick
from ._smol_h import FINISH, ON_TOOL_PART, TOOL, ContextParams, Error, GenerateParams, GenerateResult, SamplerParams
from .answers import Answer, TokenLogprob, ToolCall
from .errors import SmolError, UsageError, check
from .settings import Settings

if TYPE_CHECKING:
    from .model import Model

TURN = 50_000_000  # nanoseconds that a call of the library may take before Python has its turn
FINISH_REASONS = {value: name.lower() for name, value in FINISH.items()}
RANKED = struct.Struct("@Id0d")  # struct ranked
ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

_ON_TEXT, _ON_TOKEN = address("smol_collect_text"), address("smol_collect_token")
_ON_PART = ON_TOOL_PART(address("smol_collect_part") or 0)

Report = Callable[[int, int], object]


def ids_array(ids: Iterable[int]) -> array[int]:
    """Returns ids as 32-bit numbers."""
    try:
        return array("I", ids)
    except (TypeError, OverflowError) as error:
        raise UsageError(f"not a list of token ids: {error}") from None


# --- cancellation and progress ---------------------------------------------------------------------


class Cancel:
    """A stop button: pass it to calls as `cancel`, and press it in any thread or signal handler.

    Calls that generate return what they have, with finish_reason "cancelled". Others raise CancelledError. It stays pressed
    until `reset`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._contexts: list[Handle] = []
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        self._set(True)

    def reset(self) -> None:
        self._set(False)

    def _set(self, value: bool) -> None:
        with self._lock:
            self._cancelled = value
            for context in self._contexts:
                if context.usable:
                    quick.smol_context_cancel(context.pointer, int(value))

    def _attach(self, context: Handle) -> None:
        with self._lock:
            self._contexts.append(context)
            quick.smol_context_cancel(context.pointer, int(self._cancelled))

    def _detach(self, context: Handle) -> None:
        with self._lock:
            self._contexts.remove(context)
            if context.usable:
                quick.smol_context_cancel(context.pointer, 0)


def reporter(progress: Report | bool | None, what: str) -> Report | None:
    """Returns the function that reports progress: for True, one that writes a line to standard error."""
    if not progress:
        return None
    if callable(progress):
        return progress

    def show(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done} of {total} {what}" + ("\n" if done >= total else ""))
        sys.stderr.flush()

    return show


# --- contexts --------------------------------------------------------------------------------------


def create_context(model: Model, share: Handle | None = None) -> Handle:
    params = ContextParams(n_ctx=model._n_ctx, n_threads=model._n_threads, kv=model._kv)
    if share is not None:
        params.share = share.pointer
    cache = model._prefix_cache_handle()
    if cache is not None:
        params.prefix_cache = cache.pointer
    pointer, error = ctypes.c_void_p(), Error()
    status = lib.smol_context_create(model._handle.pointer, ctypes.byref(params), ctypes.byref(pointer), ctypes.byref(error))
    check(status, error)
    assert pointer.value is not None
    return Handle(pointer.value, lib.smol_context_free, cache or model._handle, forks=False)


class Engine:
    """Contexts that are evaluated together; for one thread at a time."""

    def __init__(self, model: Model):
        self._model = model
        self._contexts = [create_context(model)]

    @property
    def usable(self) -> bool:
        return self._contexts[0].usable

    def context(self, i: int) -> Handle:
        """Returns context number i, at most one more than there are."""
        if i == len(self._contexts):
            self._contexts.append(create_context(self._model, self._contexts[0]))
        return self._contexts[i]

    def close(self) -> None:
        for context in self._contexts:
            context.close()


# --- one generation --------------------------------------------------------------------------------


class Request:
    """What to generate: the ids of a prompt, and how."""

    def __init__(self, ids: array[int], settings: Settings):
        self.ids = ids
        self.settings = settings


class Sequence:
    """A generation on a context, which it uses until it is closed."""

    def __init__(self, model: Model, context: Handle, request: Request, sampler: int | None = None, cancel: Cancel | None = None):
        """Prepares it. `sampler` remains the caller's; None: one for the settings."""
        self.collector = Collector()
        self._model, self._context, self._request, self._cancel = model, context, request, cancel
        self._n_prompt = len(request.ids)
        self._own_sampler, self._matcher, self._reader = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self._generation = ctypes.c_void_p()
        self._parts = PartCollector()
        self._text: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a part may end within a character
        self._calls: list[tuple[bytes, list[bytes]]] = []
        self._in_call = self._call_cut = False
        self._attached = False
        self._constraint: Handle | None = None
        try:
            self._prepare(request, sampler)
        except BaseException:
            self.close()
            raise

    def _prepare(self, request: Request, sampler: int | None) -> None:
        settings, error = request.settings, Error()
        if sampler is None:
            sampler_params, kept = settings.sampler_params()
            status = quick.smol_sampler_create(ctypes.byref(sampler_params), ctypes.byref(self._own_sampler), ctypes.byref(error))
            check(status, error)
            del kept
        if settings.logprobs is not None:
            self.collector.wants_logprobs, self.collector.n_logprobs = 1, settings.logprobs
        if settings.constraint is not None:
            self._constraint = self._model._constraint(settings.constraint)
            status = lib.smol_matcher_create(self._constraint.pointer, ctypes.byref(self._matcher), ctypes.byref(error))
            check(status, error)
        if settings.tools is not None:
            self._create_reader(settings.tools, error)
        if self._cancel is not None:
            self._cancel._attach(self._context)
            self._attached = True
        self._create_generation(request, sampler, error)

    def _create_reader(self, tools: bytes, error: Error) -> None:
        status = lib.smol_tool_reader_create(
            self._model._handle.pointer, tools, _ON_PART, ctypes.addressof(self._parts), ctypes.byref(self._reader),
            ctypes.byref(error),
        )  # fmt: skip
        check(status, error)

    def _create_generation(self, request: Request, sampler: int | None, error: Error) -> None:
        settings = request.settings
        stop = (ctypes.c_char_p * len(settings.stop))(*settings.stop)
        params = GenerateParams(
            max_tokens=settings.max_tokens or 0,
            prompt_only=settings.max_tokens == 0,
            stop=ctypes.addressof(stop) if settings.stop else None,
            n_stop=len(settings.stop),
            show_special=settings.tools is not None,
            penalize_context=sampler is not None,
            on_text=_ON_TEXT,
            on_token=_ON_TOKEN,
            user=ctypes.addressof(self.collector),
            matcher=self._matcher,
            slice_prompt=1,
        )
        status = quick.smol_generation_create(
            self._context.pointer,
            self._own_sampler if sampler is None else sampler,
            request.ids.buffer_info()[0],
            len(request.ids),
            ctypes.byref(params),
            ctypes.byref(self._generation),
            ctypes.byref(error),
        )
        check(status, error)

    @property
    def pointer(self) -> int | None:
        return self._generation.value

    def check(self) -> None:
        """Raises UsageError in a child of the process that made the context."""
        self._context.pointer  # noqa: B018

    @property
    def prompt_done(self) -> int:
        """Tokens of the context, which is at most the length of the prompt while it is read."""
        return int(quick.smol_context_length(self._context.pointer))

    @property
    def finished(self) -> bool:
        return bool(quick.smol_generation_finished(self._generation, None, None))

    # --- text ---

    def _read_parts(self) -> None:
        """Sorts the new parts of an answer with calls of tools."""
        text, parts = self._parts.text.take(), self._parts.parts.take()
        at = 0
        for part, size in struct.iter_unpack("@II", parts):
            piece = text[at : at + size]
            at += size
            self._in_call = part in (TOOL["CALL"], TOOL["ARGUMENTS"])
            if part == TOOL["TEXT"]:
                self._text.append(self._decoder.decode(piece))
            elif part == TOOL["CALL"]:
                self._calls.append((piece, []))
            elif part == TOOL["ARGUMENTS"] and self._calls:
                self._calls[-1][1].append(piece)

    def take_text(self) -> str:
        """Returns the text since the last call."""
        data: bytes = self.collector.text.take()
        if not self._reader:
            text = data.decode("utf-8", "replace")
            self._text.append(text)
            return text
        before, error = len(self._text), Error()
        check(quick.smol_tool_reader_add(self._reader, data, len(data), ctypes.byref(error)), error)
        self._read_parts()
        return "".join(self._text[before:])

    def end_text(self) -> str:
        """Returns the rest of the text, once it has finished."""
        text, before, error = self.take_text(), len(self._text), Error()
        if self._reader:
            self._call_cut = self._in_call
            check(quick.smol_tool_reader_end(self._reader, ctypes.byref(error)), error)
            self._read_parts()
            self._text.append(self._decoder.decode(b"", final=True))
        return text + "".join(self._text[before:])

    # --- the answer ---

    def _token(self, token: int, logprob: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        return TokenLogprob(token, self._model.token_text(token), logprob, top)

    def _logprobs(self, n_tokens: int) -> list[TokenLogprob] | None:
        n_top = self._request.settings.logprobs
        if n_top is None:
            return None
        ranked = list(RANKED.iter_unpack(self.collector.logprobs.take()))
        found = []
        for first in range(0, n_tokens * (1 + n_top), 1 + n_top):
            top = tuple(self._token(*one) for one in ranked[first + 1 : first + 1 + n_top] if one[0] != 0xFFFFFFFF)
            found.append(self._token(ranked[first][0], ranked[first][1], top))
        return found

    def _tool_calls(self) -> list[ToolCall]:
        if not self._calls:
            return []
        data = self._request.ids.tobytes()
        digest = quick.smol_collect_digest(data, len(data))
        return [
            ToolCall(call_id(digest, i), name.decode("utf-8", "replace"), b"".join(arguments).decode("utf-8", "replace"))
            for i, (name, arguments) in enumerate(self._calls)
        ]

    def answer(self) -> Answer:
        """Returns the answer, after end_text, or raises the error that it failed with."""
        result, error = GenerateResult(), Error()
        quick.smol_generation_finished(self._generation, ctypes.byref(result), ctypes.byref(error))
        if error.status:
            check(error.status, error)
        if self.collector.text.failed or self.collector.ids.failed or self.collector.logprobs.failed:
            raise MemoryError("out of memory for the answer")
        ids = array("I", self.collector.ids.take())
        text, calls = "".join(self._text), self._tool_calls()
        reason = FINISH_REASONS[result.finish]
        return Answer(
            text=text,
            ids=ids.tolist(),
            finish_reason="tool_calls" if calls and reason == "stop" and not self._call_cut else reason,
            prompt_tokens=result.n_prompt,
            tool_calls=calls,
            logprobs=self._logprobs(len(ids)),
            parse=self._request.settings.parse,
            reused_tokens=result.n_reused,
            prompt_seconds=result.prompt_seconds,
            first_token_seconds=result.first_token_seconds,
            decode_seconds=result.decode_seconds,
        )

    def close(self) -> None:
        """May be called again."""
        if self._attached and self._cancel is not None:
            self._attached = False
            self._cancel._detach(self._context)
        for name in ("generation", "own_sampler", "matcher", "reader"):
            owned = getattr(self, f"_{name}")
            free = {"generation": "generation", "own_sampler": "sampler", "matcher": "matcher", "reader": "tool_reader"}[name]
            if owned and self._context.usable:
                getattr(quick, f"smol_{free}_free")(owned)
            owned.value = None
        for buffer in (self.collector.text, self.collector.ids, self.collector.logprobs, self._parts.text, self._parts.parts):
            buffer.free()


def call_id(prompt_digest: int, index: int) -> str:
    """Returns the id of a call of a tool: the one that smolrun gives it (cli/request/calls.c)."""
    digest = quick.smol_collect_digest(struct.pack("@QQ", prompt_digest, index), 16)
    letters = []
    for _ in range(9):
        digest, letter = divmod(digest, len(ID_LETTERS))
        letters.append(ID_LETTERS[letter])
    return "".join(letters)


# --- several generations ---------------------------------------------------------------------------


def step(sequences: list[Sequence], until_text: bool = False) -> None:
    """Runs sequences until one finishes, or TURN has passed, or, with until_text, there is text."""
    n = len(sequences)
    for sequence in sequences:
        sequence.check()
    generations = (ctypes.c_void_p * n)(*(sequence.pointer for sequence in sequences))
    collectors = (ctypes.c_void_p * n)(*(ctypes.addressof(sequence.collector) for sequence in sequences))
    lib.smol_collect_run(ctypes.byref(generations), ctypes.byref(collectors), n, TURN, int(until_text))


Outcome: TypeAlias = Answer | SmolError


def run(
    model: Model, engine: Engine, requests: Iterator[Request | SmolError], n_sequences: int, cancel: Cancel | None = None,
    report: Report | None = None,
) -> Iterator[tuple[int, Outcome]]:  # fmt: skip
    """Answers requests, up to n_sequences at a time, and yields each one's number and outcome when it is finished.

    `report` receives tokens of the prompt, for a caller with a single request."""
    free = list(range(n_sequences - 1, -1, -1))
    busy: dict[int, tuple[int, Sequence]] = {}
    number, more = 0, True
    try:
        while True:
            while free and more:
                request = next(requests, None)
                if request is None:
                    more = False
                    break
                place, index, number = free[-1], number, number + 1
                if isinstance(request, SmolError):
                    yield index, request
                    continue
                try:
                    context = engine.context(place)
                    quick.smol_context_truncate(context.pointer, 0)
                    busy[place] = index, Sequence(model, context, request, cancel=cancel)
                    free.pop()
                except SmolError as error:
                    yield index, error
            if not busy:
                return
            sequences = [sequence for _, sequence in busy.values()]
            step(sequences)
            if report is not None:
                report(min(sequences[0].prompt_done, sequences[0]._n_prompt), sequences[0]._n_prompt)
            for place, (index, sequence) in list(busy.items()):
                if sequence.finished:
                    outcome = _outcome(sequence)
                    sequence.close()
                    del busy[place]
                    free.append(place)
                    yield index, outcome
    finally:
        for _, sequence in busy.values():
            sequence.close()


def _outcome(sequence: Sequence) -> Outcome:
    try:
        sequence.end_text()
        return sequence.answer()
    except SmolError as error:
        return error


class Stream:
    """An answer as it comes: an iterator over pieces of its text. `answer` is there when it has ended.

    Leaving the loop early, or close(), ends the generation."""

    def __init__(self, sequence: Sequence, release: Callable[[], None], report: Report | None = None):
        self._sequence, self._release, self._report = sequence, release, report
        self._answer: Answer | None = None
        self._closed = False

    @property
    def answer(self) -> Answer:
        if self._answer is None:
            raise UsageError("the answer is not complete: read all of the stream first")
        return self._answer

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        while not self._closed:
            step([self._sequence], until_text=True)
            if self._report is not None:
                n = self._sequence._n_prompt
                self._report(min(self._sequence.prompt_done, n), n)
            try:
                finished = self._sequence.finished
                text = self._sequence.end_text() if finished else self._sequence.take_text()
                if finished:
                    self._answer = self._sequence.answer()
            except BaseException:
                self.close()
                raise
            if finished:
                self.close()
            if text:
                return text
        raise StopIteration

    def close(self) -> None:
        """May be called again."""
        if not self._closed:
            self._closed = True
            self._sequence.close()
            self._release()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


def set_sampler(sampler: int, params: SamplerParams) -> None:
    """Changes the parameters of a session's sampler."""
    error = Error()
    check(quick.smol_sampler_set_params(sampler, ctypes.byref(params), ctypes.byref(error)), error)

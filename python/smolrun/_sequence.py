"""Generations: contexts, the step loop, and answers collected from it.

A step is one call of the library without the interpreter's lock. A generation that is not streamed returns to Python every
50 ms, for Ctrl-C, cancellation and progress; a stream returns for each piece of text."""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import struct
import sys
import threading
from array import array
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from ._handles import Handle, Local, Turn, process
from ._library import Collector, PartCollector, address, lib, quick
from ._smol_h import FINISH, ON_TOOL_PART, REPLY, TOOL, ContextParams, Error, GenerateParams, GenerateResult, SamplerParams
from .answers import Answer, TokenLogprob, ToolCall
from .errors import OutOfMemoryError, SmolError, UsageError, check
from .settings import Constraint, Settings, each

if TYPE_CHECKING:
    import asyncio

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
        if isinstance(ids, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"found {type(ids).__name__}")
        return array("I", ids)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"not a list of token ids: {error}") from None


# --- cancellation and progress ---------------------------------------------------------------------


class Cancel(Local):
    """A stop button: pass it to calls as `cancel`, and press it in any thread or signal handler.

    Calls that generate return what they have, with finish_reason "cancelled". Others raise CancelledError. It stays pressed
    until `reset`."""

    def __init__(self) -> None:
        self._cancelled = False
        self._reset_process()

    def _reset_process(self) -> None:
        self._process = process()
        self._lock = threading.RLock()
        self._stopped: list[Handle | Cancel] = []  # contexts, and buttons that this one presses

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        self._set(True)

    def reset(self) -> None:
        self._set(False)

    def _guard(self) -> Any:
        """Returns the lock: in a child of fork another one, because that of the parent may be taken."""
        if self._process != process():
            self._reset_process()
        return self._lock

    def _set(self, value: bool) -> None:
        with self._guard():
            self._cancelled = value
            for one in self._stopped:
                _press(one, value)

    def _attach(self, one: Handle | Cancel) -> None:
        with self._guard():
            self._stopped.append(one)
            _press(one, self._cancelled)

    def _detach(self, one: Handle | Cancel) -> None:
        with self._guard():
            if one in self._stopped:
                self._stopped.remove(one)


def _press(one: Handle | Cancel, value: bool) -> None:
    if isinstance(one, Cancel):
        one._set(value)
        return
    with contextlib.suppress(UsageError), one as context:  # it may have been closed
        quick.smol_context_cancel(context, int(value))


def attach(context: Handle, cancel: Cancel | None) -> None:
    """Begins a new request on a context: resets what cancelled the last one, and lets `cancel` stop this one."""
    quick.smol_context_cancel(context.pointer, 0)
    if isinstance(cancel, Cancel):
        cancel._attach(context)
    elif cancel is not None:
        raise UsageError(f"cancel: must be a smolrun.Cancel, found {cancel!r}")


def watch(call: Callable[[], int], stop: Callable[[], object], look: Callable[[], object]) -> int:
    """Runs a call of the library in a thread, and `look` in this one, 50 times a second. If that raises, or after Ctrl-C,
    stops the call, and waits for its end."""
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(call()), daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.02)
            look()
    except BaseException:
        stop()
        while thread.is_alive():  # also after another Ctrl-C: it uses our memory
            with contextlib.suppress(KeyboardInterrupt):
                thread.join()
        raise
    return statuses[0]


def reporter(progress: Report | bool | None, what: str) -> Report | None:
    """Returns the function that reports progress: for True, one that writes a line to standard error."""
    if progress is None or progress is False:
        return None
    if callable(progress):
        return progress
    if progress is not True:
        raise UsageError(f"progress: must be a function of (done, total), True or False, found {progress!r}")

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
    with model._handle as opened:
        check(lib.smol_context_create(opened, ctypes.byref(params), ctypes.byref(pointer), ctypes.byref(error)), error)
        return Handle(pointer.value or 0, lib.smol_context_free, cache or model._handle, forks=False)


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
    """The ids of a prompt, and how to continue it."""

    def __init__(self, ids: array[int], settings: Settings):
        self.ids = ids
        self.settings = settings


class Sequence:
    """A generation on a context, which it uses until it is closed."""

    def __init__(
        self, model: Model, context: Handle, request: Request, sampler: Handle | None = None, cancel: Cancel | None = None
    ):
        """Prepares it. sampler: a session's; None: one for the settings."""
        self.collector = Collector()
        self._model, self._context, self._request, self._cancel = model, context, request, cancel
        self._is_session = sampler is not None
        self._n_prompt = len(request.ids)
        self._generation: Handle | None = None
        self._reader: Handle | None = None  # of calls
        self._reasoning_reader: Handle | None = None
        self._limit: Handle | None = None
        self._reasoning: list[str] = []
        self._parts = PartCollector()
        self._text: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a part may end within a character
        self._calls: list[tuple[bytes, list[bytes]]] = []
        self._in_call = self._call_cut = False
        try:
            self._prepare(request, sampler)
        except BaseException:
            self.close()
            raise

    def _prepare(self, request: Request, sampler: Handle | None) -> None:
        settings = request.settings
        if settings.logprobs is not None:
            self.collector.wants_logprobs, self.collector.n_logprobs = 1, settings.logprobs
        self._check_biases(settings)
        matcher = self._create_matcher(settings.constraint) if settings.constraint is not None else None
        if settings.tools is not None:
            self._reader = self._create_reader(settings.tools)
        if settings.separates:
            self._reasoning_reader = self._create_reasoning("reader")
            self.collector.reader = self._reasoning_reader.pointer if self._reasoning_reader else None
        if settings.reasoning_budget is not None and (settings.constraint is None or settings.constraint.reasoning):
            self._limit = self._create_reasoning("limit", settings.reasoning_budget)
        attach(self._context, self._cancel)
        self._generation = self._create_generation(request, sampler, matcher)
        if sampler is not None:  # last, because what failed changes nothing
            set_sampler(sampler.pointer, settings)

    def _check_biases(self, settings: Settings) -> None:
        """The library does so after it has read the prompt. A session would keep a bias that fails."""
        most = max((token for token, _ in settings.logit_bias or ()), default=0)
        if most and most >= (vocab_size := self._model.info.vocab_size):
            raise UsageError(f"logit_bias of token {most}: the vocabulary has {vocab_size} tokens, from 0")

    def _create_matcher(self, constraint: Constraint) -> Handle:
        pointer, error = ctypes.c_void_p(), Error()
        compiled = self._model._constraint(constraint)
        check(lib.smol_matcher_create(compiled.pointer, ctypes.byref(pointer), ctypes.byref(error)), error)
        return Handle(pointer.value or 0, quick.smol_matcher_free, compiled, forks=False)

    def _create_reader(self, tools: bytes) -> Handle:
        pointer, error = ctypes.c_void_p(), Error()
        with self._model._handle as model:
            status = lib.smol_tool_reader_create(
                model, tools, _ON_PART, ctypes.addressof(self._parts), ctypes.byref(pointer), ctypes.byref(error)
            )
            check(status, error)
            reader = Handle(pointer.value or 0, quick.smol_tool_reader_free, self._model._handle)
        if self._request.settings.has_answer_schema:
            quick.smol_tool_reader_calls_first(reader.pointer)
        return reader

    def _create_reasoning(self, what: str, *limit: int) -> Handle | None:
        """Creates a "reader" or a "limit" of reasoning. Returns None if the model does not mark it."""
        settings, pointer, error = self._request.settings, ctypes.c_void_p(), Error()
        prompt = settings.prompt or array("I")
        kind = "TOOLS" if settings.tools is not None else "CONSTRAINED" if settings.constraint is not None else "FREE"
        reply = REPLY["TOOLS_SCHEMA" if settings.has_answer_schema else kind]
        create, free = getattr(lib, f"smol_reasoning_{what}_create"), getattr(quick, f"smol_reasoning_{what}_free")
        with self._model._handle as model:
            status = create(
                model, prompt.buffer_info()[0], len(prompt), reply, *limit,
                ctypes.byref(pointer), ctypes.byref(error),
            )  # fmt: skip
            check(status, error)
            return Handle(pointer.value, free, self._model._handle) if pointer.value else None

    def _create_generation(self, request: Request, sampler: Handle | None, matcher: Handle | None) -> Handle:
        settings, pointer, error = request.settings, ctypes.c_void_p(), Error()
        if sampler is None:
            sampler = create_sampler(*settings.sampler_params())
        stop = (ctypes.c_char_p * len(settings.stop))(*settings.stop)
        params = GenerateParams(
            max_tokens=settings.max_tokens or 0,
            prompt_only=settings.max_tokens == 0,
            stop=ctypes.addressof(stop) if settings.stop else None,
            n_stop=len(settings.stop),
            show_special=1 if settings.tools is not None else 2 if self._reasoning_reader is not None else 0,
            penalize_context=self._is_session,
            on_text=_ON_TEXT,
            on_token=_ON_TOKEN,
            user=ctypes.addressof(self.collector),
            matcher=matcher.pointer if matcher is not None else None,
            slice_prompt=1,
            lookup=self._model._lookup,
            reasoning_limit=self._limit.pointer if self._limit else None,
            new_text=settings.is_chat,
        )
        status = quick.smol_generation_create(
            self._context.pointer, sampler.pointer, request.ids.buffer_info()[0], len(request.ids), ctypes.byref(params),
            ctypes.byref(pointer), ctypes.byref(error),
        )  # fmt: skip
        check(status, error)
        used = (self._context, sampler) if matcher is None else (self._context, sampler, matcher)
        return Handle(pointer.value or 0, quick.smol_generation_free, *used, forks=False)

    @property
    def pointer(self) -> int:
        """The generation. Raises UsageError if it, or its context, was closed or is another process's."""
        self._context.pointer  # noqa: B018
        if self._generation is None:
            raise UsageError("the answer was closed: ask again")
        return self._generation.pointer

    @property
    def prompt_done(self) -> int:
        """Tokens of the context, which is at most the length of the prompt while it is read."""
        return int(quick.smol_context_length(self._context.pointer))

    @property
    def finished(self) -> bool:
        return bool(quick.smol_generation_finished(self.pointer, None, None))

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

    def take_reasoning(self) -> str:
        """Returns the reasoning since the last call."""
        self._reasoning.append(self.collector.reasoning.take().decode("utf-8", "replace"))
        return self._reasoning[-1]

    def take_text(self) -> str:
        """Returns the text since the last call."""
        data: bytes = self.collector.text.take()
        if self._reader is None:
            text = data.decode("utf-8", "replace")
            self._text.append(text)
            return text
        before, error = len(self._text), Error()
        check(quick.smol_tool_reader_add(self._reader.pointer, data, len(data), ctypes.byref(error)), error)
        self._read_parts()
        return "".join(self._text[before:])

    def end_text(self) -> str:
        """Returns the rest of the text, once it has finished."""
        if self._reasoning_reader is not None:
            quick.smol_collect_end(ctypes.addressof(self.collector))
        text, before, error = self.take_text(), len(self._text), Error()
        if self._reader is not None:
            self._call_cut = self._in_call
            check(quick.smol_tool_reader_end(self._reader.pointer, ctypes.byref(error)), error)
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
        quick.smol_generation_finished(self.pointer, ctypes.byref(result), ctypes.byref(error))
        if error.status:
            check(error.status, error)
        self.take_reasoning()
        c = self.collector
        if c.text.failed or c.reasoning.failed or c.ids.failed or c.logprobs.failed:
            raise OutOfMemoryError("out of memory for the answer")
        ids = array("I", self.collector.ids.take())
        text, calls = "".join(self._text), self._tool_calls()
        reason = FINISH_REASONS[result.finish]
        return Answer(
            text=text,
            ids=ids.tolist(),
            finish_reason="tool_calls" if calls and reason == "stop" and not self._call_cut else reason,
            prompt_tokens=result.n_prompt,
            tool_calls=calls,
            reasoning="".join(self._reasoning),
            reasoning_tokens=self.collector.n_reasoning_tokens,
            logprobs=self._logprobs(len(ids)),
            parse=self._request.settings.parse,
            reused_tokens=result.n_reused,
            prompt_seconds=result.prompt_seconds,
            first_token_seconds=result.first_token_seconds,
            decode_seconds=result.decode_seconds,
        )

    def _take_back(self) -> None:
        """Lets the context of a session be as before, if the prompt was not read: which a cancelled generation does."""
        result = GenerateResult()
        if self._generation is not None and self._generation.usable and self._context.usable:
            finished = quick.smol_generation_finished(self._generation.pointer, ctypes.byref(result), None)
            if not finished and result.n_prompt == 0:
                quick.smol_context_cancel(self._context.pointer, 1)
                step([self])

    def close(self) -> None:
        """May be called again."""
        if isinstance(self._cancel, Cancel):
            self._cancel._detach(self._context)
        if self._is_session:
            self._take_back()
        for handle in (self._generation, self._reader, self._reasoning_reader, self._limit):
            if handle is not None:
                handle.close()
        c = self.collector
        for buffer in (c.text, c.reasoning, c.ids, c.logprobs, self._parts.text, self._parts.parts):
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
    generations = (ctypes.c_void_p * n)(*(sequence.pointer for sequence in sequences))
    collectors = (ctypes.c_void_p * n)(*(ctypes.addressof(sequence.collector) for sequence in sequences))
    lib.smol_collect_run(ctypes.byref(generations), ctypes.byref(collectors), n, TURN, int(until_text))


Outcome: TypeAlias = Answer | SmolError


def run(
    model: Model, engine: Engine, requests: Iterable[Request | SmolError], n_sequences: int, cancel: Cancel | None = None,
    report: Report | None = None,
) -> Iterator[tuple[int, Outcome]]:  # fmt: skip
    """Answers requests, up to n_sequences at a time, and yields each one's number and outcome when it is finished.

    `report` receives tokens of the prompt, for a caller with a single request."""
    free = list(range(n_sequences - 1, -1, -1))
    busy: dict[int, tuple[int, Sequence]] = {}
    number, more, requests = 0, True, each("requests", requests)
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
                if not isinstance(request, Request):
                    raise UsageError(f"request {index}: must be what Model.request returns, found {request!r}")
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


class Stream(Local):
    """An answer as it comes: an iterator over pieces of its text. `answer` is there when it has ended.

    Leaving the loop early, or close(), which any thread may call, ends the generation."""

    def __init__(
        self, sequence: Sequence, release: Callable[[], None], report: Report | None = None, turn: Turn | None = None,
        on_reasoning: Callable[[str], object] | None = None,
    ):  # fmt: skip
        """turn: that of a session, whose context the sequence uses."""
        self._sequence, self._release, self._report, self._on_reasoning = sequence, release, report, on_reasoning
        self._answer: Answer | None = None
        self._turn = turn or Turn("stream")
        self._closing = self._closed = False
        self._guard = threading.RLock()  # of _closed, for close()

    @property
    def answer(self) -> Answer:
        if self._answer is None:
            raise UsageError("the answer is not complete: read all of the stream first")
        return self._answer

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        try:
            with self._turn:
                while not self._closed and not self._closing:
                    text = self._read()
                    if text:
                        return text
        finally:
            if self._closing:
                self.close()
        raise StopIteration

    def _read(self) -> str:
        """Runs until there is text, for 50 ms or to the end; returns the text."""
        sequence = self._sequence
        try:
            step([sequence], until_text=True)
            if self._report is not None:
                self._report(min(sequence.prompt_done, sequence._n_prompt), sequence._n_prompt)
            if not sequence.finished:
                self._tell_reasoning()
                return sequence.take_text()
            text = sequence.end_text()
            self._tell_reasoning()
            self._answer = sequence.answer()
        except BaseException:
            self._end()
            raise
        self._end()
        return text

    def _tell_reasoning(self) -> None:
        piece = self._sequence.take_reasoning()
        if piece and self._on_reasoning is not None:
            self._on_reasoning(piece)

    def _end(self) -> None:
        """Frees the generation. The caller has the turn."""
        if not self._sequence._context.here:  # a child of fork, where locks may be taken, has nothing to free
            return
        with self._guard:
            first, self._closed = not self._closed, True
        if first:
            self._sequence.close()
            self._release()

    def close(self) -> None:
        """May be called again. If another thread is reading, the answer ends there."""
        if self._closed or not self._sequence._context.here:
            return
        self._closing = True
        if self._turn.take():
            try:
                self._end()
            finally:
                self._turn.give()
            return
        with self._guard:  # once the stream is closed, the context may be another answer's
            if not self._closed:
                _press(self._sequence._context, True)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


class AsyncStream(Local):
    """An answer as it comes, for asyncio: an asynchronous iterator over pieces of its text. `answer` is there when it has ended.

    Leaving `async with`, or aclose(), ends the generation."""

    def __init__(self, start: Callable[[], Stream]):
        self._begun: list[Stream] = []
        self._turn = Turn("stream")
        self._pieces = _pieces(start, self._begun)  # does not refer to this object, which is freed as soon as nothing else does

    @property
    def answer(self) -> Answer:
        if not self._begun:
            raise UsageError("the answer is not complete: read all of the stream first")
        return self._begun[0].answer

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> str:
        with self._turn:
            return await self._pieces.__anext__()

    async def aclose(self) -> None:
        """May be called again."""
        with self._turn:
            await self._pieces.aclose()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


async def _pieces(start: Callable[[], Stream], begun: list[Stream]) -> AsyncGenerator[str, None]:
    """Starts a stream, appends it to `begun`, and reads it in threads."""
    import asyncio

    stream = await asyncio.to_thread(start)
    begun.append(stream)
    reading: asyncio.Future[str | None] | None = None
    try:
        while True:
            reading = asyncio.ensure_future(asyncio.to_thread(next, stream, None))
            piece = await asyncio.shield(reading)
            if piece is None:
                return
            yield piece
    finally:
        stream.close()
        if reading is not None and not reading.done():  # a thread is in the middle of a step
            await asyncio.wait([reading])


def create_sampler(params: SamplerParams, kept: Any = None) -> Handle:
    """Creates a sampler; `kept` is what the parameters point to."""
    pointer, error = ctypes.c_void_p(), Error()
    check(quick.smol_sampler_create(ctypes.byref(params), ctypes.byref(pointer), ctypes.byref(error)), error)
    return Handle(pointer.value or 0, quick.smol_sampler_free)


def set_sampler(sampler: int, settings: Settings) -> None:
    """Changes those parameters of a session's sampler that were given."""
    params, kept = settings.sampler_params(quick.smol_sampler_get_params(sampler))
    error = Error()
    check(quick.smol_sampler_set_params(sampler, ctypes.byref(params), ctypes.byref(error)), error)
    del kept

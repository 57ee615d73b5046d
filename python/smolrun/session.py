"""Sessions: texts that continue, in memory, in files and in bytes."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._handles import Local, Turn
from ._library import lib, quick
from ._sequence import Request, Sequence, Stream, create_context, create_sampler, ids_array, reporter, set_sampler
from ._smol_h import NO_TOKEN, Error, SamplerParams
from ._smol_h import Session as SessionStruct
from .answers import Answer
from .errors import FileError, UsageError, check
from .settings import ChatOptions, Options, Settings, whole
from .settings import path as read_path
from .settings import read as read_settings

if TYPE_CHECKING:
    from array import array

    from typing_extensions import Unpack

    from .model import Messages, Model, Path, Prompt


class Session(Local):
    """A text that continues: its tokens, keys and values, and sampler. For one thread at a time; others are refused. A stream
    that was not read to its end ends when the session is used again.

        session = model.session()
        session.generate("Once upon a time", max_tokens=100)
        session.generate("", max_tokens=100)       # continues
        session.save("story")                      # smolrun --session story continues it too
        session = model.session("story")

    Sampling options stay as they were unless they are given again; another seed starts anew. The repetition penalty counts
    the whole session. The file is that of `smolrun --session`."""

    def __init__(self, model: Model):
        model._here()
        self.model = model
        self.data = b""  # of the caller's, saved with the session
        self._context = create_context(model)
        self._sampler = create_sampler(SamplerParams())
        self._fresh = True  # the sampler has no parameters yet
        self._turn = Turn("session")
        self._stream: Stream | None = None  # the last one

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other threads from the session, which they may close only afterwards, and ends its last stream."""
        with self._turn, self._context, self._sampler:
            if self._stream is not None:
                self._stream._end()
                self._stream = None
            yield

    # --- the sequence ---

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def _pending(self) -> int | None:
        token = quick.smol_context_pending(self._context.pointer)
        return None if token == NO_TOKEN else int(token)

    @property
    def ids(self) -> list[int]:
        """The tokens so far."""
        with self._turn, self._context:
            held, pending = self._held(), self._pending
        return held if pending is None else [*held, pending]

    def _held(self) -> list[int]:
        """Returns the tokens of the context, without the one that is still to be evaluated."""
        n = ctypes.c_size_t()
        pointer = quick.smol_context_ids(self._context.pointer, ctypes.byref(n))
        return list(pointer[: n.value]) if n.value else []

    @property
    def text(self) -> str:
        """The text so far, without special tokens."""
        return self.model.detokenize(self.ids)

    def truncate(self, n: int) -> None:
        """Removes all but the first n tokens."""
        n = whole("n", n)
        with self._alone():
            quick.smol_context_truncate(self._context.pointer, n)

    def _keep(self, ids: array[int]) -> array[int]:
        """Truncates the context to what it has in common with ids, but the last; returns the rest of ids."""
        held = self._held()
        n, most = 0, min(len(held), len(ids) - 1)
        while n < most and held[n] == ids[n]:
            n += 1
        quick.smol_context_truncate(self._context.pointer, n)
        return ids[n:]

    def _next_ids(self, prompt: Prompt) -> array[int]:
        """Returns what to evaluate for a prompt: as `smolrun --session` (smolrun/session_file.c)."""
        pending = self._pending
        before = ids_array([] if pending is None else [pending])
        held = self._held() + before.tolist()
        if not held:
            return self.model._prompt_ids(prompt)
        if not isinstance(prompt, (str, bytes)):
            return before + ids_array(prompt)
        if not prompt:
            if pending is None:
                quick.smol_context_truncate(self._context.pointer, len(held) - 1)
            return ids_array([held[-1]])
        whole = self.model._tokenize(prompt)
        if whole[: len(held)].tolist() == held:
            return self._keep(whole)
        return before + self.model._tokenize(prompt, whole=False)

    # --- generation ---

    def _prepare(self, settings: Settings) -> None:
        base = None if self._fresh else quick.smol_sampler_get_params(self._sampler.pointer)
        params, kept = settings.sampler_params(base)
        set_sampler(self._sampler.pointer, params)
        self._fresh = False
        del kept

    def _start(self, ids: array[int], settings: Settings, options: Mapping[str, Any]) -> Stream:
        """Starts an answer. The caller has the session alone."""
        report = reporter(options.get("progress"), "tokens of the prompt")
        self._prepare(settings)
        sequence = Sequence(self.model, self._context, Request(ids, settings), self._sampler, options.get("cancel"))
        self._stream = Stream(sequence, lambda: None, report, self._turn)
        return self._stream

    def generate(self, prompt: Prompt = "", **options: Unpack[Options]) -> Answer:
        """Appends a prompt and continues. A prompt that begins with the whole session is the whole text, of which only the
        rest is evaluated. An empty one appends nothing."""
        return _finish(self.stream(prompt, **options))

    def stream(self, prompt: Prompt = "", **options: Unpack[Options]) -> Stream:
        """Does the same piece by piece."""
        settings = read_settings(_without_call(options))
        with self._alone():
            return self._start(self._next_ids(prompt), settings, options)

    def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Answer:
        """Answers a whole conversation. Its common beginning with the session is not evaluated again."""
        return _finish(self.stream_chat(messages, **options))

    def stream_chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Stream:
        """Does the same piece by piece."""
        request = self.model._chat_request(messages, _without_call(options))
        with self._alone():
            return self._start(self._keep(request.ids), request.settings, options)

    # --- saving ---

    def to_bytes(self) -> bytes:
        """Returns the session as bytes (format/SESSION.md). The same state gives the same bytes."""
        if not isinstance(self.data, bytes):
            raise UsageError(f"session.data: must be bytes, found {type(self.data).__name__}")
        data = ctypes.create_string_buffer(self.data, len(self.data))
        session = SessionStruct(sampler=self._sampler.pointer, data=ctypes.addressof(data), size=len(self.data))
        if not self.data:
            session.data = None
        found, size, error = ctypes.c_void_p(), ctypes.c_size_t(), Error()
        with self._alone(), self._context as context:
            status = lib.smol_context_save_memory(
                context, ctypes.byref(session), ctypes.byref(found), ctypes.byref(size), ctypes.byref(error)
            )
        check(status, error)
        saved = ctypes.string_at(found.value or 0, size.value)
        quick.smol_free(found)
        return saved

    def save(self, path: Path) -> None:
        """Writes the session to a file, which appears whole or not at all, and which only its owner may read."""
        import tempfile

        path, saved = os.path.realpath(read_path(path)), self.to_bytes()
        try:
            if os.path.exists(path):
                with open(path, "rb") as old:
                    if old.read(8) != saved[:8]:
                        raise FileError(f"{path}: not a session: choose another name")
            handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".tmp-", dir=os.path.dirname(path))
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(saved)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except FileError:
            raise
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror}") from None

    def _restore(self, saved: Path | bytes) -> None:
        if not isinstance(saved, bytes):
            name = read_path(saved, "saved")
            try:
                with open(name, "rb") as file:
                    saved = file.read()
            except OSError as error:
                raise FileError(f"{name}: cannot be read: {error.strerror}") from None
        session, failure = SessionStruct(sampler=self._sampler.pointer), Error()
        with self._context as context:
            status = lib.smol_context_restore_memory(context, ctypes.byref(session), saved, len(saved), ctypes.byref(failure))
        check(status, failure)
        self.data = ctypes.string_at(session.data, session.size) if session.size else b""
        quick.smol_free(session.data)
        self._fresh = False

    def close(self) -> None:
        """Frees the memory. May be called again."""
        self._context.close()
        self._sampler.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _finish(stream: Stream) -> Answer:
    for _ in stream:
        pass
    return stream.answer


def _without_call(options: Mapping[str, Any]) -> dict[str, Any]:
    from .model import _without_call as without

    return without(options)

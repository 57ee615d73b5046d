"""Sessions: texts that continue, in memory, in files and in bytes."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._handles import Local, Turn
from ._library import lib, quick
from ._sequence import Request, Sequence, Stream, create_context, create_sampler, ids_array, reporter
from ._smol_h import NO_TOKEN, Error
from ._smol_h import Session as SessionStruct
from .answers import Answer
from .errors import FileError, UsageError, check
from .settings import ChatOptions, Options, Settings, whole, without_call
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

    Sampling options stay as they were unless they are given again (logit_bias={} ends biases); another seed starts anew. The
    repetition penalty counts the whole session. The file is that of `smolrun --session`, which cannot hold biases, frequency
    and presence penalties: saving a session with these is a UsageError."""

    def __init__(self, model: Model):
        model._here()
        self.model = model
        self.data = b""  # of the caller's, saved with the session
        self._context = create_context(model)
        self._sampler = create_sampler(Settings().sampler_params()[0])
        # the length of a context from which a call removed tokens, and these, until what it put after them is read
        self._removed: tuple[int, list[int]] = 0, []
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
    def ids(self) -> list[int]:
        """The tokens so far."""
        with self._turn, self._context:
            held, rest = self._tokens()
        return held + rest

    def _tokens(self) -> tuple[list[int], list[int]]:
        """Returns the tokens of the context, and those after them, which are still to be evaluated."""
        n = ctypes.c_size_t()
        pointer = quick.smol_context_ids(self._context.pointer, ctypes.byref(n))
        held, pending = list(pointer[: n.value]) if n.value else [], quick.smol_context_pending(self._context.pointer)
        if pending != NO_TOKEN:
            return held, [pending]
        length, removed = self._removed
        return held, removed if len(held) == length else []

    @property
    def text(self) -> str:
        """The text so far, without special tokens."""
        return self.model.detokenize(self.ids)

    def truncate(self, n: int) -> None:
        """Removes all but the first n tokens."""
        n = whole("n", n)
        with self._alone():
            length, removed = self._removed
            self._removed = length, removed[: max(n - length, 0)]
            quick.smol_context_truncate(self._context.pointer, n)

    def _after(self, prompt: Prompt) -> tuple[int, array[int]]:
        """Returns how many tokens of the context to keep for a prompt, and what to evaluate after them: as
        `smolrun --session` (smolrun/session_file.c)."""
        held, rest = self._tokens()
        so_far = held + rest
        if not so_far:
            return 0, self.model._prompt_ids(prompt)
        if isinstance(prompt, (str, bytes)):
            ids = self.model._tokenize(prompt) if prompt else ids_array(so_far)
            if ids[: len(so_far)].tolist() == so_far:
                return self._common(ids)
            prompt = self.model._tokenize(prompt, whole=False)
        return len(held), ids_array(rest) + ids_array(prompt)

    def _common(self, ids: array[int]) -> tuple[int, array[int]]:
        """Returns how many tokens the context has in common with ids, but the last, and the rest of ids."""
        held, _ = self._tokens()
        n, most = 0, min(len(held), len(ids) - 1)
        while n < most and held[n] == ids[n]:
            n += 1
        return n, ids[n:]

    # --- generation ---

    def _start(self, after: tuple[int, array[int]], settings: Settings, options: Mapping[str, Any]) -> Stream:
        """Starts an answer. The caller has the session alone."""
        (kept, ids), report = after, reporter(options.get("progress"), "tokens of the prompt")
        sequence = Sequence(self.model, self._context, Request(ids, settings), self._sampler, options.get("cancel"))
        held, rest = self._tokens()
        if kept < len(held):
            self._removed = kept, (held + rest)[kept:]
            quick.smol_context_truncate(self._context.pointer, kept)
        self._stream = Stream(sequence, lambda: None, report, self._turn, options.get("on_reasoning"))
        return self._stream

    def generate(self, prompt: Prompt = "", **options: Unpack[Options]) -> Answer:
        """Appends a prompt and continues. A prompt that begins with the whole session is the whole text, of which only the
        rest is evaluated. An empty one appends nothing."""
        return _finish(self.stream(prompt, **options))

    def stream(self, prompt: Prompt = "", **options: Unpack[Options]) -> Stream:
        """Does what generate does, piece by piece."""
        settings = read_settings(without_call(options))
        with self._alone():
            return self._start(self._after(prompt), settings, options)

    def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Answer:
        """Answers a whole conversation. Its common beginning with the session is not evaluated again."""
        return _finish(self.stream_chat(messages, **options))

    def stream_chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Stream:
        """Does what chat does, piece by piece."""
        request = self.model._chat_request(messages, without_call(options))
        with self._alone():
            return self._start(self._common(request.ids), request.settings, options)

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
            self._put_back()
            status = lib.smol_context_save_memory(
                context, ctypes.byref(session), ctypes.byref(found), ctypes.byref(size), ctypes.byref(error)
            )
        check(status, error)
        saved = ctypes.string_at(found.value or 0, size.value)
        quick.smol_free(found)
        return saved

    def _put_back(self) -> None:
        """Evaluates what a call removed, and did not replace."""
        _, rest = self._tokens()
        if quick.smol_context_pending(self._context.pointer) == NO_TOKEN and rest:
            ids, error = ids_array(rest), Error()
            quick.smol_context_cancel(self._context.pointer, 0)
            check(lib.smol_eval(self._context.pointer, ids.buffer_info()[0], len(ids), 0, None, ctypes.byref(error)), error)

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

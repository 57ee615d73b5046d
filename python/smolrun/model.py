"""A model: opens a blob, and answers."""

from __future__ import annotations

import contextlib
import ctypes
import numbers
import os
import re
import reprlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

from ._handles import Handle, process
from ._library import Progress, address, lib, quick
from ._sequence import AsyncStream, Cancel, Engine, Outcome, Report, Request, Stream, attach, ids_array, reporter, run, watch
from ._sequence import Sequence as _Sequence
from ._smol_h import (
    CONSTRAINT,
    KV,
    NO_TOKEN,
    POOL,
    REASONING,
    VERIFY,
    ChatParams,
    ChatText,
    ConstraintParams,
    Error,
    ModelParams,
    PrefixCacheParams,
    TokenizeParams,
)  # fmt: skip
from .answers import Answer, ModelInfo, Perplexity, Score
from .errors import DamagedError, FileError, SmolError, UnsupportedError, UsageError, check
from .settings import (
    EFFORTS,
    REASONING_FORMATS,
    SAMPLING,
    ChatOptions,
    Constraint,
    Options,
    Settings,
    dump,
    each,
    encode,
    flag,
    items,
    members,
    numpy_type,
    one_of,
    whole,
    without_call,
)  # fmt: skip
from .settings import path as read_path
from .settings import read as read_settings

if TYPE_CHECKING:
    from array import array

    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Unpack

    from .session import Session

Ids: TypeAlias = "Sequence[int] | npt.NDArray[np.integer[Any]]"
Prompt: TypeAlias = "str | bytes | Ids"
Messages: TypeAlias = Sequence[Mapping[str, Any]]
Path: TypeAlias = "str | os.PathLike[str]"

MAX_CONSTRAINTS = 32  # compiled ones that a model keeps
MAX_IDLE = 4  # engines that a model keeps


class Model:
    """A language model in a .smol blob. Any number of threads may use it, also after a fork.

        model = smolrun.Model("model.smol")
        print(model.generate("Once upon a time", max_tokens=50).text)

    n_ctx: capacity of a context in tokens; 0: the model's. n_threads: 0: one for each processor that the process may use.
    kv: type of the cache of keys and values: "default", "f32", "f16", "int8" or "int4". sequences: how many answers are
    generated together. verify: when digests are checked: "first" (use), "open" or "off". mmap: False reads the file into
    memory. digest: the SHA-256 that the file must have, in hexadecimal digits. prefix_cache: bytes of memory in which
    common beginnings of prompts are kept; 0: none. lookup: guess tokens from earlier text, which is faster where it repeats
    and changes no answer. progress: called with (done, total) bytes that were checked."""

    def __init__(
        self,
        path: Path,
        *,
        n_ctx: int = 0,
        n_threads: int = 0,
        kv: str = "default",
        sequences: int = 8,
        verify: str = "first",
        mmap: bool = True,
        digest: str | None = None,
        prefix_cache: int = 0,
        lookup: bool = False,
        progress: Report | bool | None = None,
    ):
        self.path = os.path.abspath(read_path(path))
        self._n_ctx, self._n_threads = whole("n_ctx", n_ctx), whole("n_threads", n_threads, 0, 256)
        self._kv, self._sequences = one_of("kv", kv, KV), whole("sequences", sequences, 1, 64)
        self._lookup = flag("lookup", lookup, False)
        self._prefix_cache_bytes = whole("prefix_cache", prefix_cache, 0, 2**63)
        # options that a pickle repeats
        self._options = {
            "n_ctx": n_ctx, "n_threads": n_threads, "kv": kv, "sequences": sequences, "verify": verify, "mmap": mmap,
            "prefix_cache": prefix_cache, "lookup": lookup,
        }  # fmt: skip
        if digest is not None and not re.fullmatch("[0-9a-fA-F]{64}", str(digest)):
            raise UsageError(f"digest: must be a SHA-256 in 64 hexadecimal digits, found {digest!r}")
        self._file_digest = digest.lower() if digest is not None else None
        self._state = file_state(self.path)  # before it is opened: a file that replaces it meanwhile is another one
        self._handle = _open(
            self.path, one_of("verify", verify, VERIFY), flag("mmap", mmap, True), digest, reporter(progress, "bytes")
        )
        self._token_texts: dict[int, str] = {}
        self._reset()
        try:
            self._release(self._take())  # n_ctx and n_threads fit
        except SmolError:
            self._handle.close()
            raise

    def _reset(self) -> None:
        """Forgets what belongs to a process: contexts, and what has locks."""
        self._process = process()
        self._lock = threading.RLock()  # the collector of garbage may end a stream in a thread that holds it
        self._idle: list[Engine] = []
        self._constraints: OrderedDict[Constraint, Handle] = OrderedDict()
        self._prefix_cache: Handle | None = None

    def _here(self) -> None:
        if self._process != process():
            self._reset()

    # --- engines, caches, constraints ---

    def _take(self) -> Engine:
        self._here()
        self._handle.pointer  # noqa: B018  raises if the model was closed
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Engine(self)

    def _release(self, engine: Engine) -> None:
        if not engine.usable:
            return
        with self._lock:
            if len(self._idle) < MAX_IDLE and self._handle.usable:
                self._idle.append(engine)
                return
        engine.close()

    @contextlib.contextmanager
    def _engine(self) -> Iterator[Engine]:
        engine = self._take()
        try:
            yield engine
        finally:
            self._release(engine)

    @contextlib.contextmanager
    def _context(self, cancel: Cancel | None = None) -> Iterator[Handle]:
        """Lends an empty context."""
        with self._engine() as engine:
            context = engine.context(0)
            quick.smol_context_truncate(context.pointer, 0)
            attach(context, cancel)
            try:
                yield context
            finally:
                if cancel is not None:
                    cancel._detach(context)

    def _prefix_cache_handle(self) -> Handle | None:
        if not self._prefix_cache_bytes:
            return None
        with self._lock:
            if self._prefix_cache is None:
                params = PrefixCacheParams(max_bytes=self._prefix_cache_bytes, kv=self._kv)
                pointer, error = ctypes.c_void_p(), Error()
                with self._handle as model:
                    status = lib.smol_prefix_cache_create(model, ctypes.byref(params), ctypes.byref(pointer), ctypes.byref(error))
                    check(status, error)
                    self._prefix_cache = Handle(pointer.value or 0, lib.smol_prefix_cache_free, self._handle, forks=False)
            return self._prefix_cache

    def _constraint(self, wanted: Constraint) -> Handle:
        """Compiles a constraint, or returns the one from before."""
        with self._lock:
            if wanted in self._constraints:
                self._constraints.move_to_end(wanted)
                return self._constraints[wanted]
        params = ConstraintParams(
            kind=wanted.kind, text=wanted.text, size=len(wanted.text), json_space=wanted.json_space,
            any_order=wanted.any_order, tool_choice=wanted.tool_choice, one_call=wanted.one_call,
            reasoning=wanted.reasoning, answer_schema=wanted.answer_schema,
        )  # fmt: skip
        pointer, error = ctypes.c_void_p(), Error()
        with self._handle as model:
            check(lib.smol_constraint_create(model, ctypes.byref(params), ctypes.byref(pointer), ctypes.byref(error)), error)
            handle = Handle(pointer.value or 0, lib.smol_constraint_free, self._handle, forks=False)
        with self._lock:
            self._constraints[wanted] = handle
            if len(self._constraints) > MAX_CONSTRAINTS:
                self._constraints.popitem(last=False)
        return handle

    # --- life ---

    def close(self) -> None:
        """Frees what no running call needs. May be called again; other calls raise UsageError from then on."""
        self._here()
        self._handle.close()
        with self._lock:
            idle, self._idle = self._idle, []
            self._constraints.clear()
            self._prefix_cache = None
        for engine in idle:
            engine.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"smolrun.Model({self.path!r})"

    @property
    def digest(self) -> str:
        """The SHA-256 of the blob's file, in hexadecimal digits. Reads the file once. Raises FileError if it was replaced or
        changed since the model was opened."""
        if self._file_digest is None:
            self._file_digest = file_digest(self.path, self._state)
        return self._file_digest

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Any, ...]]:
        return reopen, (self.path, self.digest, self._options)

    # --- facts ---

    @property
    def info(self) -> ModelInfo:
        with self._handle as model:
            info = quick.smol_model_get_info(model)
            facts = {name: getattr(info, name) for name in ModelInfo.__dataclass_fields__}
        facts["dtype"] = info.dtype.decode()
        facts["bos_id"] = None if info.bos_id == NO_TOKEN else info.bos_id
        facts["has_chat_template"] = bool(info.has_chat_template)
        facts["is_encoder"] = bool(info.is_encoder)
        facts["is_reranker"] = bool(info.is_reranker)
        return ModelInfo(**facts)

    @property
    def n_ctx(self) -> int:
        """The capacity of a context in tokens."""
        return self._n_ctx or self.info.context_length

    @property
    def stop_ids(self) -> list[int]:
        """Ids of the tokens that end a text."""
        n = ctypes.c_size_t()
        with self._handle as model:
            return list(quick.smol_model_stop_ids(model, ctypes.byref(n))[: n.value])

    @property
    def tool_style(self) -> str | None:
        """How the model writes calls of tools, such as "hermes"; None: in no style that is known."""
        with self._handle as model:
            style = quick.smol_model_tool_style(model)
            return style.decode() if style else None

    @property
    def recommended(self) -> Options:
        """The sampling options that the model's authors recommend: model.generate(prompt, **model.recommended)."""
        with self._handle as model:
            params = quick.smol_model_default_sampler(model)
        found = {name: kind(getattr(params, name)) for name, kind in SAMPLING.items() if name != "seed" and getattr(params, name)}
        return cast(Options, found)

    # --- tokens ---

    def tokenize(self, text: str | bytes, *, special: bool = True, whole: bool = True) -> list[int]:
        """Converts text to ids, as `smolrun tokenize` does.

        special: special tokens that are spelled out become those tokens; False: in untrusted text. whole: adds the tokens
        that the tokenizer puts around a whole text, mainly bos; False: for a part of a text."""
        return self._tokenize(text, flag("special", special, True), flag("whole", whole, True)).tolist()

    def _tokenize(self, text: str | bytes, special: bool = True, whole: bool = True, truncate: bool = False) -> array[int]:
        data = encode(text)
        params = TokenizeParams(parse_special=special, whole_text=whole, truncate=truncate)
        ids, n, error = ctypes.c_void_p(), ctypes.c_size_t(), Error()
        with self._handle as model:
            status = lib.smol_tokenize(
                model, data, len(data), ctypes.byref(params), ctypes.byref(ids), ctypes.byref(n), ctypes.byref(error)
            )
        check(status, error)
        return _take_ids(ids, n.value)

    def detokenize(self, ids: Ids, *, special: bool = False) -> str:
        """Converts ids to text. special: shows the text of special tokens."""
        values, show = ids_array(ids), flag("special", special, False)
        text, size, error = ctypes.c_void_p(), ctypes.c_size_t(), Error()
        with self._handle as model:
            status = lib.smol_detokenize(
                model, values.buffer_info()[0], len(values), int(show), ctypes.byref(text), ctypes.byref(size),
                ctypes.byref(error),
            )  # fmt: skip
        check(status, error)
        found = ctypes.string_at(text.value or 0, size.value).decode("utf-8", "replace") if size.value else ""
        quick.smol_free(text)
        return found

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes of a token, which may be a part of a character."""
        return self._token(token)[0]

    def _token(self, token: int) -> tuple[bytes, bool]:
        """Returns the bytes of a token, and whether it is normally not shown."""
        text, size, special, error = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int(), Error()
        pointers = [ctypes.byref(one) for one in (text, size, special, error)]
        number = ids_array([token])[0]
        with self._handle as model:
            check(quick.smol_token_text(model, number, *pointers), error)
            return ctypes.string_at(text.value or 0, size.value) if size.value else b"", special.value != 0

    def token_text(self, token: int) -> str:
        """Returns a token as text; a part of a character is U+FFFD."""
        token = ids_array([token])[0]
        text = self._token_texts.get(token)
        if text is None:
            text = self._token_texts[token] = self.token_bytes(token).decode("utf-8", "replace")
        return text

    def _text_ids(self, text: Prompt, whole: bool) -> array[int]:
        return self._tokenize(text, whole=whole) if isinstance(text, (str, bytes)) else ids_array(text)

    def _prompt_ids(self, prompt: Prompt) -> array[int]:
        """Returns the ids of a text, or the ids given. An empty text is bos, as for smolrun."""
        if not isinstance(prompt, (str, bytes)):
            ids = ids_array(prompt)
            if not ids:
                raise UsageError("the prompt has no tokens: give at least one")
            return ids
        ids = self._tokenize(prompt)
        bos = self.info.bos_id
        if not ids and bos is None:
            raise UsageError("the prompt is empty, and the model has no bos token to start from: pass some text")
        return ids or ids_array([cast(int, bos)])

    # --- chats ---

    def format_chat(
        self,
        messages: Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Renders a conversation with the chat template. continue_final_message: up to the end of the last message's
        content. Otherwise, unless add_generation_prompt is False, the beginning of an answer follows."""
        turn = add_generation_prompt, continue_final_message
        params = _chat_params(messages, tools, documents, chat_template_kwargs, *turn)
        text, error = ChatText(), Error()
        with self._handle as model:
            check(lib.smol_chat_format(model, ctypes.byref(params), ctypes.byref(text), ctypes.byref(error)), error)
        found = ctypes.string_at(text.text, text.size).decode("utf-8", "replace")
        quick.smol_chat_text_free(ctypes.byref(text))
        return found

    def tokenize_chat(
        self,
        messages: Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Renders a conversation as format_chat does, and converts it to ids. A message cannot forge a turn: special
        tokens that it spells out are ordinary text."""
        turn = add_generation_prompt, continue_final_message
        return self._chat_ids(messages, tools, documents, chat_template_kwargs, *turn).tolist()

    def _chat_ids(self, messages: Messages, *details: Any) -> array[int]:
        params = _chat_params(messages, *details)
        ids, n, error = ctypes.c_void_p(), ctypes.c_size_t(), Error()
        with self._handle as model:
            check(
                lib.smol_chat_tokenize(model, ctypes.byref(params), ctypes.byref(ids), ctypes.byref(n), ctypes.byref(error)), error
            )
        found = _take_ids(ids, n.value)
        if not found:
            raise UnsupportedError("the chat template writes nothing for these messages")
        return found

    def _chat_request(self, messages: Messages, options: dict[str, Any]) -> Request:
        """Makes a request of a conversation and its options, as cli/request/calls.c does."""
        given = dict(options)
        tools, documents = given.pop("tools", None), given.pop("documents", None)
        variables, choice = given.pop("chat_template_kwargs", None), _tool_choice(given.pop("tool_choice", None))
        turn = given.pop("add_generation_prompt", None), given.pop("continue_final_message", False)
        one_call = not flag("parallel_tool_calls", given.pop("parallel_tool_calls", None), True)
        separate = bool(one_of("reasoning_format", given.pop("reasoning_format", None) or "auto", REASONING_FORMATS))
        effort, budget = given.pop("reasoning_effort", None), given.pop("thinking_budget_tokens", None)
        if effort is not None:
            variables, budget = self._with_effort(effort, variables or {}, budget)
        settings = replace(read_settings(given), is_chat=True)
        if budget is not None:
            limit = whole("thinking_budget_tokens", budget, -1)
            settings = replace(settings, reasoning_budget=None if limit < 0 else limit)
        ids = self._chat_ids(messages, tools, documents, variables, *turn)
        if not tools:
            if choice not in ("auto", "none"):
                raise UsageError("tool_choice: there are no tools")
        elif choice == "none" and (settings.constraint is not None or self.tool_style is None):
            pass
        elif settings.constraint is not None and settings.constraint.kind != CONSTRAINT["JSON_SCHEMA"]:
            raise UsageError("tools constrain the answer too: only a JSON schema can be combined with them")
        elif self.tool_style is None:
            raise UnsupportedError(
                "tools: the model's chat template does not call them in a known style: convert with --chat-template and one "
                "that does; with tool_choice='none' they are only shown to it"
            )
        else:
            settings = settings.with_tools(dump(list(tools), "tools"), encode(choice), one_call)
        if turn[1] and self._reasoning_after(ids) != REASONING["BEGUN"]:  # as smol_request_settle_begun
            settings, separate = replace(settings, reasoning_budget=None), False
        return Request(ids, self._with_reasoning(settings, ids, separate))

    def _with_effort(self, effort: str, variables: Mapping[str, Any], budget: int | None) -> tuple[Mapping[str, Any], int | None]:
        """Does what cli/request/reasoning.c does: returns variables of the template, and a limit."""
        level = one_of("reasoning_effort", effort, EFFORTS)
        with self._handle as model:
            known = ("enable_thinking", "thinking", "reasoning_effort")
            reads = [name for name in known if lib.smol_chat_reads(model, encode(name))]
        if level == EFFORTS["NONE"]:
            return dict.fromkeys(set(reads) - {"reasoning_effort"}, False) | dict(variables), 0
        if "reasoning_effort" in reads:
            return {"reasoning_effort": effort} | dict(variables), budget
        if level == EFFORTS["MEDIUM"]:
            return variables, budget
        raise UnsupportedError(
            "reasoning_effort: the model's chat template has no levels: use 'none' or 'medium', or limit the reasoning with "
            "thinking_budget_tokens"
        )

    def _reasoning_after(self, ids: array[int]) -> int:
        found, error = ctypes.c_int(), Error()
        with self._handle as model:
            status = lib.smol_reasoning_after(model, ids.buffer_info()[0], len(ids), ctypes.byref(found), ctypes.byref(error))
            check(status, error)
        return found.value

    def _with_reasoning(self, settings: Settings, ids: array[int], separate: bool) -> Settings:
        """Settings of an answer to the prompt `ids`, as cli/request/parts.c makes them."""
        wanted = settings.constraint
        if wanted is not None and (separate or (wanted.tool_choice in (b"auto", b"none") and not settings.has_answer_schema)):
            found = self._reasoning_after(ids)
            if settings.tools is None and not found:
                return settings  # all of the answer follows the constraint
            settings = replace(settings, constraint=replace(wanted, reasoning=found))
        return replace(settings, prompt=ids, separates=separate)

    # --- generation ---

    @overload
    def generate(self, prompt: str | bytes, **options: Unpack[Options]) -> Answer: ...  # type: ignore[overload-overlap]
    @overload
    def generate(self, prompt: Sequence[Prompt], **options: Unpack[Options]) -> list[Answer]: ...
    @overload
    def generate(self, prompt: Ids, **options: Unpack[Options]) -> Answer: ...

    def generate(self, prompt: Any, **options: Unpack[Options]) -> Answer | list[Answer]:
        """Continues a text or token ids. Several prompts are answered together, each as if alone, which takes less time.

        smolrun.settings.Options lists the options."""
        if _is_batch(prompt):
            read = read_settings(without_call(options))
            return self._answer_all(prompt, lambda one: Request(self._prompt_ids(one), read), options)
        return self._answer(Request(self._prompt_ids(prompt), read_settings(without_call(options))), options)

    @overload
    def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Answer: ...
    @overload
    def chat(self, messages: Sequence[Messages], **options: Unpack[ChatOptions]) -> list[Answer]: ...

    def chat(self, messages: Any, **options: Unpack[ChatOptions]) -> Answer | list[Answer]:
        """Answers a conversation, a list of {"role": ..., "content": ...}; or a list of conversations.

        tools: JSON schemas of functions, as in OpenAI's interface; calls are in Answer.tool_calls. tool_choice: "auto",
        "none", "required" or the name of the only one. parallel_tool_calls: False: at most one call.
        chat_template_kwargs: variables of the template, such as enable_thinking. documents: passed to the template.
        continue_final_message: the answer continues the last message, of which it is only the rest. The
        reasoning of models that reason is in Answer.reasoning; reasoning_format: "none" leaves it in the text."""
        given = without_call(options)
        if (several := items("messages", messages)) and not isinstance(several[0], Mapping):
            return self._answer_all(several, lambda one: self._chat_request(one, given), options)
        return self._answer(self._chat_request(messages, given), options)

    def stream(self, prompt: Prompt, **options: Unpack[Options]) -> Stream:
        """Continues a text or token ids: an iterator over pieces of text; its `answer` is the whole at the end."""
        return self._stream(Request(self._prompt_ids(prompt), read_settings(without_call(options))), options)

    def stream_chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Stream:
        """Answers a conversation piece by piece. Calls of tools are not in the pieces, but in the stream's `answer`.

        Reasoning is not in the pieces either: on_reasoning is called with each piece of it."""
        return self._stream(self._chat_request(messages, without_call(options)), options)

    def _answer(self, request: Request, options: Mapping[str, Any]) -> Answer:
        report = reporter(options.get("progress"), "tokens of the prompt")
        with self._engine() as engine:
            [(_, outcome)] = run(self, engine, iter([request]), 1, options.get("cancel"), report)
        if isinstance(outcome, SmolError):
            raise outcome
        return outcome

    def _answer_all(self, prompts: Any, make: Callable[[Any], Request], options: Mapping[str, Any]) -> list[Answer]:
        report, requests = reporter(options.get("progress"), "answers"), []
        for index, prompt in enumerate(prompts):
            try:
                requests.append(make(prompt))
            except SmolError as error:
                error.args = (f"prompt {index}: {error}",)
                raise
        answers: list[Answer | None] = [None] * len(requests)
        for n_done, (index, outcome) in enumerate(self.run(iter(requests), cancel=options.get("cancel")), 1):
            if isinstance(outcome, SmolError):
                outcome.args = (f"prompt {index}: {outcome}",)
                raise outcome
            answers[index] = outcome
            if report is not None:
                report(n_done, len(requests))
        return cast("list[Answer]", answers)

    def run(self, requests: Iterable[Request | SmolError], *, cancel: Cancel | None = None) -> Iterator[tuple[int, Outcome]]:
        """Answers requests as they come, several at a time, and yields each one's number and its answer, or error, as it
        finishes. See request()."""
        with self._engine() as engine:
            yield from run(self, engine, requests, self._sequences, cancel)

    def request(self, prompt: Prompt | None = None, messages: Messages | None = None, **options: Unpack[ChatOptions]) -> Request:
        """Makes a request for run() of a prompt or a conversation, with options of its own."""
        if (prompt is None) == (messages is None):
            raise UsageError("request: expected either a prompt or messages")
        if messages is not None:
            return self._chat_request(messages, dict(options))
        return Request(self._prompt_ids(cast(Prompt, prompt)), read_settings(options))

    def _stream(self, request: Request, options: Mapping[str, Any]) -> Stream:
        engine = self._take()
        try:
            context = engine.context(0)
            quick.smol_context_truncate(context.pointer, 0)
            sequence = _Sequence(self, context, request, cancel=options.get("cancel"))
        except BaseException:
            self._release(engine)
            raise
        report = reporter(options.get("progress"), "tokens of the prompt")
        return Stream(sequence, lambda: self._release(engine), report, on_reasoning=options.get("on_reasoning"))

    # --- asyncio ---

    @overload
    async def agenerate(self, prompt: str | bytes, **options: Unpack[Options]) -> Answer: ...  # type: ignore[overload-overlap]
    @overload
    async def agenerate(self, prompt: Sequence[Prompt], **options: Unpack[Options]) -> list[Answer]: ...
    @overload
    async def agenerate(self, prompt: Ids, **options: Unpack[Options]) -> Answer: ...

    async def agenerate(self, prompt: Any, **options: Unpack[Options]) -> Answer | list[Answer]:
        """generate() that does not block the event loop. If its task is cancelled, so is the generation."""
        return await self._in_thread(self.generate, prompt, dict(options))

    @overload
    async def achat(self, messages: Messages, **options: Unpack[ChatOptions]) -> Answer: ...
    @overload
    async def achat(self, messages: Sequence[Messages], **options: Unpack[ChatOptions]) -> list[Answer]: ...

    async def achat(self, messages: Any, **options: Unpack[ChatOptions]) -> Answer | list[Answer]:
        """chat() that does not block the event loop."""
        return await self._in_thread(self.chat, messages, dict(options))

    async def _in_thread(self, call: Callable[..., Any], prompt: Any, options: dict[str, Any]) -> Answer | list[Answer]:
        import asyncio

        theirs, mine = options.get("cancel"), Cancel()
        if isinstance(theirs, Cancel):
            theirs._attach(mine)
            options["cancel"] = mine
        elif theirs is None:
            options["cancel"] = mine
        try:
            found: Answer | list[Answer] = await asyncio.to_thread(call, prompt, **options)
            return found
        except asyncio.CancelledError:
            mine.cancel()
            raise
        finally:
            if isinstance(theirs, Cancel):
                theirs._detach(mine)

    def astream(self, prompt: Prompt, **options: Unpack[Options]) -> AsyncStream:
        """stream() that does not block the event loop."""
        return AsyncStream(lambda: self.stream(prompt, **options))

    def astream_chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> AsyncStream:
        """stream_chat() that does not block the event loop."""
        return AsyncStream(lambda: self.stream_chat(messages, **options))

    # --- numbers ---

    def logits(self, prompt: Prompt, *, last: int | None = None, cancel: Cancel | None = None) -> npt.NDArray[np.float32]:
        """Returns the logits after each token, float32 of shape (tokens, vocab_size): those that `smolrun logits` writes.

        last: only those after the last tokens, or all if there are fewer."""
        from . import _likelihood

        return _likelihood.logits(self, self._prompt_ids(prompt), last, cancel)

    def embed(
        self,
        text: Prompt | Sequence[Prompt],
        *,
        pooling: str | None = None,
        prompt: str | None = None,
        cancel: Cancel | None = None,
    ) -> npt.NDArray[np.float32]:
        """Returns hidden states after the final norm: their "mean", the "max" of each element, that of the "first" or the
        "last" token, all of shape (hidden_size), or with "none" those of all tokens. "model" makes the embedding, of shape
        (embedding_size), that the checkpoint of an embedding model describes, and cuts texts to the model's longest one; for
        other models it is the mean, scaled to length 1. None: "model" for embedding models, else "mean". Several texts: one
        row for each.

        prompt: the name of one of the model's prompts, such as "query", to put before each text. None: its default, if any.
        Token ids are taken as they are."""
        from . import _likelihood

        if self.info.is_reranker:
            raise UnsupportedError(f"{self.path}: a reranker, which scores pairs of texts: use rerank")
        encodes = bool(self.info.is_encoder)
        pool = one_of("pooling", ("model" if encodes else "mean") if pooling is None else pooling, POOL)
        before = self._prompt_text(prompt)

        def ids_of(one: Prompt) -> array[int]:
            if not isinstance(one, (str, bytes)):
                if prompt is not None:
                    raise UsageError("prompt: only for texts, because token ids are taken as they are")
                return self._prompt_ids(one)
            whole = before + encode(one)
            return self._tokenize(whole, truncate=True) if encodes else self._prompt_ids(whole)

        if not _is_batch(text):
            return _likelihood.embed(self, ids_of(cast(Prompt, text)), pool, cancel)
        if pool == POOL["NONE"]:
            raise UsageError("pooling: none is for a single text only")
        return _likelihood.embed_many(self, map(ids_of, cast("Sequence[Prompt]", text)), pool, cancel)

    def rerank(self, query: str | bytes, texts: Sequence[str | bytes], *, cancel: Cancel | None = None) -> npt.NDArray[np.float32]:
        """Returns a reranker's score of each text: the higher, the better it answers the query."""
        from . import _likelihood

        pairs = (self._tokenize_pair(query, text) for text in each("texts", texts))
        return _likelihood.embed_many(self, pairs, POOL["MODEL"], cancel)[:, 0]

    def _tokenize_pair(self, query: str | bytes, text: str | bytes) -> array[int]:
        first, second = encode(query), encode(text)
        ids, n, error = ctypes.c_void_p(), ctypes.c_size_t(), Error()
        with self._handle as model:
            status = lib.smol_tokenize_pair(
                model, first, len(first), second, len(second), ctypes.byref(ids), ctypes.byref(n), ctypes.byref(error)
            )
        check(status, error)
        return _take_ids(ids, n.value)

    def _prompt_text(self, name: str | None) -> bytes:
        """Returns what the model's prompt puts before a text to be embedded."""
        text, error = ctypes.c_char_p(), Error()
        with self._handle as model:
            status = lib.smol_model_prompt(model, None if name is None else encode(name), ctypes.byref(text), ctypes.byref(error))
            check(status, error)
            return text.value or b""

    @overload
    def score(self, text: str | bytes, *, prompt: Prompt | None = None, cancel: Cancel | None = None) -> Score: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, text: Sequence[Prompt], *, prompt: Prompt | None = None, cancel: Cancel | None = None) -> list[Score]: ...
    @overload
    def score(self, text: Ids, *, prompt: Prompt | None = None, cancel: Cancel | None = None) -> Score: ...

    def score(self, text: Any, *, prompt: Prompt | None = None, cancel: Cancel | None = None) -> Score | list[Score]:
        """Returns the log-probabilities of the tokens of `text`: after those of `prompt`, or, without one, of all but the
        first of the text. In a notebook, the result shows as coloured text. The prompt of several texts is read once."""
        from . import _likelihood

        before = ids_array([]) if prompt is None else self._prompt_ids(prompt)

        def ids(one: Prompt) -> tuple[array[int], int]:
            if prompt is None:
                return self._prompt_ids(one), 1
            return before + self._text_ids(one, whole=False), len(before)

        scores = list(_likelihood.score(self, map(ids, text if _is_batch(text) else [text]), cancel))
        return scores if _is_batch(text) else scores[0]

    explain = score

    def perplexity(
        self, text: Prompt, *, n_ctx: int | None = None, progress: Report | bool | None = None, cancel: Cancel | None = None
    ) -> Perplexity:
        """Measures how well the model predicts a text, in windows of n_ctx tokens, as `smolrun perplexity` does."""
        from . import _likelihood

        ids = self._text_ids(text, whole=True)
        window = self.n_ctx if n_ctx is None else whole("n_ctx", n_ctx, 2, self.n_ctx)
        return _likelihood.perplexity(self, ids, window, reporter(progress, "tokens"), cancel)

    # --- sessions ---

    def session(self, saved: Path | bytes | None = None) -> Session:
        """Starts a session, or resumes the one in a file or in bytes. See smolrun.Session."""
        from .session import Session

        session = Session(self)
        if saved is not None:
            session._restore(saved)
        return session


# --- opening ---------------------------------------------------------------------------------------


def _open(path: str, verify: int, mmap: bool, digest: str | None, report: Report | None) -> Handle:
    progress = Progress()
    params = ModelParams(verify=verify, no_mmap=not mmap, require_digest=digest.encode() if digest is not None else None)
    if report is not None:
        params.on_progress, params.user = address("smol_collect_progress"), ctypes.addressof(progress)
    pointer, error = ctypes.c_void_p(), Error()

    def open_it() -> int:
        name = os.fsencode(path)
        return int(lib.smol_model_open(name, ctypes.byref(params), ctypes.byref(pointer), ctypes.byref(error)))

    def stop() -> None:
        progress.cancel = 1

    def look() -> None:
        if report is not None and progress.total:
            report(progress.done, progress.total)

    quick.smol_guard_mappings()  # a file that becomes shorter is an error, not the end of the process
    status = open_it() if report is None else watch(open_it, stop, look)
    check(status, error)
    if report is not None and progress.total and progress.done < progress.total:
        report(progress.total, progress.total)
    return Handle(pointer.value or 0, lib.smol_model_close)


State: TypeAlias = "tuple[int, int, int, int]"  # of a file: another file has another one, and nearly always a changed one

_digests: dict[State, str] = {}


def file_state(file: str | int) -> State | None:
    """Returns that of a file, by its path or descriptor; None if it is not there."""
    try:
        facts = os.stat(file)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def file_digest(path: str, wanted: State | None = None) -> str:
    """Returns the SHA-256 of a file; once for each file and state of it. wanted: the state that it must have."""
    import hashlib

    try:
        with open(path, "rb") as file:
            state = file_state(file.fileno())
            if state is None or wanted not in (None, state):
                raise FileError(f"{path}: was replaced or changed since the model was opened: open it again")
            if state not in _digests:
                digest = hashlib.sha256()
                while data := file.read(1 << 20):
                    digest.update(data)
                _digests[state] = digest.hexdigest()
            return _digests[state]
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None


def reopen(path: str, digest: str, options: dict[str, Any]) -> Model:
    """Opens the model of a pickle, or of a job. The file is mapped, so processes of a machine share its memory."""
    if (found := file_digest(path)) == digest:
        model = Model(path, **options)
        if (found := model.digest) == digest:  # it may have been replaced meanwhile
            return model
    raise DamagedError(f"{path}: SHA-256 is {found}, but that of the model was {digest}: copy the same file here")


# --- arguments -------------------------------------------------------------------------------------


def _take_ids(ids: ctypes.c_void_p, n: int) -> array[int]:
    found = ids_array([])
    if n:
        found.frombytes(ctypes.string_at(ids.value or 0, n * found.itemsize))
    quick.smol_free(ids)
    return found


def _is_batch(prompt: Any) -> bool:
    """Tells several prompts from one: a list of texts or of lists of ids."""
    if isinstance(prompt, (str, bytes)):
        return False
    if not isinstance(prompt, Sequence) and not (isinstance(prompt, numpy_type("ndarray")) and prompt.ndim):
        raise UsageError(f"prompt: must be a text, a list of token ids, or a list of prompts, found {reprlib.repr(prompt)}")
    return len(prompt) == 0 or not isinstance(prompt[0], numbers.Integral)


def _tool_choice(given: Any) -> str:
    """Returns "auto", "none", "required" or a name."""
    if isinstance(given, Mapping):
        given = given.get("function", given)
        given = given.get("name") if isinstance(given, Mapping) else None
        if given in ("auto", "none", "required"):
            raise UsageError("tool_choice: a function called auto, none or required cannot be chosen")
    if given is not None and not isinstance(given, str):
        raise UsageError(f"tool_choice: must be auto, none, required or the name of a tool, found {reprlib.repr(given)}")
    return given or "auto"


def _chat_params(
    messages: Messages, tools: Any, documents: Any, variables: Any, generation: bool | None, continues: bool
) -> ChatParams:
    continues = flag("continue_final_message", continues, False)
    return ChatParams(
        messages_json=dump(items("messages", messages), "messages"),
        tools_json=dump(items("tools", tools), "tools") if tools is not None else None,
        documents_json=dump(items("documents", documents), "documents") if documents is not None else None,
        variables_json=dump(members("chat_template_kwargs", variables), "chat_template_kwargs") if variables is not None else None,
        add_generation_prompt=flag("add_generation_prompt", generation, not continues),
        parse_arguments=1,
        continue_final_message=continues,
    )

"""Logits, hidden states and probabilities. Texts are evaluated in slices, for Ctrl-C and memory; results are the same bits.

Only this file needs NumPy. Importing NumPy takes longer than loading a model, so callers import this file late."""

from __future__ import annotations

import contextlib
import ctypes
import math
from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ._library import Choice, lib, quick
from ._sequence import attach, watch
from ._smol_h import POOL, Error, EvalPart
from .answers import Perplexity, Score, TokenLogprob
from .errors import ContextFullError, OutOfMemoryError, UsageError, check
from .settings import whole

if TYPE_CHECKING:
    from ._handles import Handle
    from ._sequence import Cancel, Engine, Report
    from .model import Model

SLICE = 128  # tokens of a pass
GROUP, GROUP_TOKENS = 32, 4096  # most texts that are embedded together, and most tokens of several
MAX_BYTES = 32 << 20  # of logits that are only looked at; at least one row


def _evaluate(context: Handle, ids: array[int], start: int, n: int, rows: npt.NDArray[np.float32] | None) -> None:
    """Evaluates ids[start..start + n), and stores the logits after each of them in `rows`, unless it is None."""
    error = Error()
    n_logits, where = (0, None) if rows is None else (n, rows.ctypes.data)
    at = ids.buffer_info()[0] + start * ids.itemsize
    check(lib.smol_eval(context.pointer, at, n, n_logits, where, ctypes.byref(error)), error)


def _check_room(context: Handle, n: int) -> None:
    capacity = quick.smol_context_capacity(context.pointer)
    if n > capacity:
        raise ContextFullError(f"{n} tokens: the model's context holds {capacity}: give a shorter text")


def logits(model: Model, ids: array[int], last: int | None, cancel: Cancel | None) -> npt.NDArray[np.float32]:
    first = 0 if last is None else max(0, len(ids) - whole("last", last, 1, 2**63))
    with model._context(cancel) as context:
        _check_room(context, len(ids))
        n, size = len(ids) - first, model.info.vocab_size
        try:
            found = np.empty((n, size), np.float32)
        except MemoryError:
            raise OutOfMemoryError(f"no memory for logits of {n} tokens ({4 * n * size} bytes): ask for the last ones") from None
        for start in range(0, first, SLICE):
            _evaluate(context, ids, start, min(SLICE, first - start), None)
        for start in range(first, len(ids), SLICE):
            n = min(SLICE, len(ids) - start)
            _evaluate(context, ids, start, n, found[start - first : start - first + n])
    return found


def _check_ids(model: Model, ids: array[int]) -> None:
    """Checks all ids: the library does not see the last one, whose probability is looked up here."""
    vocab_size = model.info.vocab_size
    if ids and max(ids) >= vocab_size:
        raise UsageError(f"token id {max(ids)}: the vocabulary has {vocab_size} tokens, from 0")


def embed(model: Model, ids: array[int], pooling: int, cancel: Cancel | None) -> npt.NDArray[np.float32]:
    info = model.info
    size = info.embedding_size if pooling == POOL["MODEL"] else info.hidden_size
    found = np.empty((len(ids), size) if pooling == POOL["NONE"] else size, np.float32)
    error = Error()
    with model._context(cancel) as context, context as pointer:

        def call() -> int:
            return int(lib.smol_embed(pointer, ids.buffer_info()[0], len(ids), pooling, found.ctypes.data, ctypes.byref(error)))

        status = call() if len(ids) <= SLICE else watch(call, lambda: quick.smol_context_cancel(pointer, 1), lambda: None)
        check(status, error)
    return found


def embed_many(model: Model, texts: Iterable[array[int]], pooling: int, cancel: Cancel | None) -> npt.NDArray[np.float32]:
    """A row for each text, of which a group is evaluated at once; pooling is not none."""
    size = model.info.embedding_size if pooling == POOL["MODEL"] else model.info.hidden_size
    with model._engine() as engine:
        rows = [_embed_group(engine, group, size, pooling, cancel) for group in _groups(texts)]
    return np.concatenate(rows) if rows else np.empty((0, size), np.float32)


def _groups(texts: Iterable[array[int]]) -> Iterator[list[array[int]]]:
    """Texts that are evaluated together, in order: some, of not too many tokens, because each has a context until the end."""
    group: list[array[int]] = []
    n = 0
    for ids in texts:
        if group and (len(group) == GROUP or n + len(ids) > GROUP_TOKENS):
            yield group
            group, n = [], 0
        group.append(ids)
        n += len(ids)
    if group:
        yield group


def _embed_group(
    engine: Engine, group: list[array[int]], size: int, pooling: int, cancel: Cancel | None
) -> npt.NDArray[np.float32]:
    found, parts, error = np.empty((len(group), size), np.float32), (EvalPart * len(group))(), Error()
    with contextlib.ExitStack() as ends:
        for i, ids in enumerate(group):
            context = engine.context(i)
            parts[i].context = ends.enter_context(context)
            quick.smol_context_truncate(parts[i].context, 0)
            ends.callback(quick.smol_context_truncate, parts[i].context, 0)  # frees states
            attach(context, cancel)
            if cancel is not None:
                ends.callback(cancel._detach, context)
            parts[i].ids, parts[i].n, parts[i].logits = ids.buffer_info()[0], len(ids), found[i].ctypes.data

        def call() -> int:
            return int(lib.smol_embed_many(parts, len(group), pooling, ctypes.byref(error)))

        def stop() -> None:
            for part in parts:
                quick.smol_context_cancel(part.context, 1)

        status = call() if sum(map(len, group)) <= SLICE else watch(call, stop, lambda: None)
        check(status, error)
    return found


def score(model: Model, texts: Iterable[tuple[array[int], int]], cancel: Cancel | None = None) -> Iterator[Score]:
    """Scores ids[first..) as continuations of those before them, for each (ids, first). What a text has in common with the
    one before it is not evaluated again."""
    vocab_size = model.info.vocab_size
    rows = np.empty((min(SLICE, max(1, MAX_BYTES // (4 * vocab_size))), vocab_size), np.float32)
    with model._context(cancel) as context:
        held = array("I")
        for ids, first in texts:
            if not 1 <= first < len(ids):
                raise UsageError("score: there is no token to score: the first token of a text has no probability without a prompt")
            _check_ids(model, ids)
            _check_room(context, len(ids) - 1)
            start = _common(held, ids, first - 1)
            quick.smol_context_truncate(context.pointer, start)
            for at in range(start, first - 1, SLICE):
                _evaluate(context, ids, at, min(SLICE, first - 1 - at), None)
            held = ids[:-1]
            yield _scored(model, context, ids, first, rows)


def _common(held: array[int], ids: array[int], most: int) -> int:
    """Returns how many of the first tokens are the same, at most `most`."""
    n = min(len(held), most)
    if held[:n] == ids[:n]:
        return n
    return next(i for i in range(n) if held[i] != ids[i])


def _scored(model: Model, context: Handle, ids: array[int], first: int, rows: npt.NDArray[np.float32]) -> Score:
    """Evaluates ids[first - 1..), but for the last, in a context that holds those before, and looks at the logits."""
    n_scored, vocab_size = len(ids) - first, rows.shape[1]
    logprobs, choices = np.empty(n_scored, np.float64), (Choice * n_scored)()
    for start in range(first - 1, len(ids) - 1, len(rows)):
        n, at = min(len(rows), len(ids) - 1 - start), start + 1 - first
        _evaluate(context, ids, start, n, rows)
        lib.smol_collect_choices(
            rows.ctypes.data, n, vocab_size, ids.buffer_info()[0] + (start + 1) * ids.itemsize,
            logprobs.ctypes.data + at * 8, ctypes.addressof(choices) + at * ctypes.sizeof(Choice),
        )  # fmt: skip
    scored = ids[first:].tolist()
    top = [
        [TokenLogprob(one.id, model.token_text(one.id), one.log_probability) for one in choice.top[: choice.n_top]]
        for choice in choices
    ]
    ranks = np.array([choice.rank for choice in choices], np.int64)
    return Score(scored, [model.token_text(token) for token in scored], logprobs, ranks, top)


def perplexity(model: Model, ids: array[int], window: int, report: Report | None, cancel: Cancel | None) -> Perplexity:
    """Does what smolrun/command_perplexity.c does, in the same order of operations."""
    if len(ids) < 2:
        raise UsageError("perplexity: the text has fewer than two tokens: give a longer one")
    _check_ids(model, ids)
    vocab_size = model.info.vocab_size
    rows = np.empty((min(SLICE, max(1, MAX_BYTES // (4 * vocab_size))), vocab_size), np.float32)
    logprobs = np.empty(len(rows), np.float64)
    n_windows = -(-len(ids) // window)
    n_scored, mean, squares = 0, 0.0, 0.0
    with model._context(cancel) as context:
        for first in range(0, len(ids), window):
            quick.smol_context_truncate(context.pointer, 0)
            end = min(first + window, len(ids)) - 1  # its last token is only predicted
            for start in range(first, end, len(rows)):
                n = min(len(rows), end - start)
                _evaluate(context, ids, start, n, rows)
                following = ids.buffer_info()[0] + (start + 1) * ids.itemsize
                lib.smol_collect_choices(rows.ctypes.data, n, vocab_size, following, logprobs.ctypes.data, None)
                for x in (-logprobs[:n]).tolist():  # Welford, as struct tally
                    before = x - mean
                    n_scored += 1
                    mean += before / n_scored
                    squares += before * (x - mean)
                if report is not None:
                    report(start + n, len(ids))
        if report is not None:
            report(len(ids), len(ids))
    if n_scored == 0:
        raise UsageError("perplexity: no token could be scored: give a longer text")
    error = math.sqrt(squares / (n_scored - 1) / n_scored) if n_scored > 1 else math.nan
    value = quick.smol_collect_exp(mean)
    return Perplexity(len(ids), n_scored, n_windows, window, mean, error, value, value * error)

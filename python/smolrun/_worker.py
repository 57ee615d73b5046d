"""A worker: a process of smolrun that answers rows, and is started again if it is killed.

smolrun itself reads the rows, so that answers and errors have its bytes, in its sandbox, and so that the model is mapped
once for each worker; the page cache shares it among them."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

from . import _openai
from ._parts import Job, Part, message_of
from .errors import CancelledError, FileError, SmolError, from_status

MAX_DEATHS = 10  # of processes in a row that answer nothing
WAITING_EACH = 4  # rows that a worker takes for each sequence, as in smolrun/batch.c
# matches the end of an answer, also of one in a row of OpenAI's
USAGE = re.compile(
    rb'"usage": \{"prompt_tokens": (\d+), "completion_tokens": (\d+), "total_tokens": \d+\}\}(?:\]?\}, "error": null\})?\n'
)


class Worker:
    """Answers rows with one process. For one thread at a time."""

    def __init__(self, job: Job):
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._n_answers = 0  # of the process
        self._deaths = 0
        self._closed = False
        self._lock = threading.Condition()
        self._waiting: deque[bytes] = deque()  # rows without an answer
        self._ended, self._stop = False, False
        self._failure: BaseException | None = None  # of the rows' iterator
        self._feeder: threading.Thread | None = None

    # --- the process ---

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        try:
            # in a session of its own, so that Ctrl-C reaches only this process, which then closes it
            self._process = subprocess.Popen(
                self._job.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
            )
        except OSError as error:
            raise FileError(f"{self._job.words[0]}: cannot be started: {error.strerror}") from None
        self._n_answers = 0
        if self._closed:  # meanwhile
            self._kill()
            raise CancelledError("the worker was closed")
        return self._process

    def close(self) -> None:
        """Ends the process for good. May be called again, and while another thread waits for an answer."""
        self._closed = True
        self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _died(self, process: subprocess.Popen[bytes]) -> None:
        """Raises what smolrun ended with, or returns if it was killed and may be started again."""
        status = process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what was not written yet
                if pipe is not None:
                    pipe.close()
        if self._closed:
            raise CancelledError("the worker was closed")
        if status >= 0 and self._errors is not None:
            self._errors.seek(0)
            raise from_status(status, message_of(self._errors.read(), status))
        self._deaths += 1
        if self._deaths >= MAX_DEATHS:
            raise SmolError(f"smolrun was killed {MAX_DEATHS} times in a row (signal {-status}): is there enough memory?")

    # --- rows ---

    def answers(self, rows: Iterator[bytes]) -> Iterator[bytes]:
        """Yields the answer of smolrun to each row, in order and without `{"index": N`. Takes only few rows in advance."""
        self._waiting.clear()
        self._ended, self._failure = False, None
        process = self._process or self._start()
        self._feed(process, rows)
        try:
            while self._wait_for_row():
                assert process.stdout is not None
                line = process.stdout.readline()
                if line.endswith(b"\n"):
                    yield self._take(line)
                    continue
                self._stop_feeding()
                self._died(process)
                process = self._start()
                self._feed(process, rows)
        finally:
            if self._waiting:  # which the process would go on with
                self._kill()
            self._stop_feeding()
        if self._failure is not None:
            raise self._failure

    def _wait_for_row(self) -> bool:
        """Waits until there is a row without an answer. Returns False if there are no more rows."""
        with self._lock:
            self._lock.wait_for(lambda: self._waiting or self._ended)
            return bool(self._waiting)

    def _take(self, line: bytes) -> bytes:
        start = b'{"index": %d, ' % self._n_answers
        if not line.startswith(start):
            raise SmolError(f"smolrun: unexpected output: {line[:80]!r}")
        self._n_answers += 1
        self._deaths = 0
        with self._lock:
            self._waiting.popleft()
            self._lock.notify_all()
        return line[len(start) - 2 :]

    def _feed(self, process: subprocess.Popen[bytes], rows: Iterator[bytes]) -> None:
        self._stop = False
        self._feeder = threading.Thread(target=self._write_rows, args=(process, rows, list(self._waiting)), daemon=True)
        self._feeder.start()

    def _stop_feeding(self) -> None:
        """Waits until the thread that writes rows has ended."""
        with self._lock:
            self._stop = True
            self._lock.notify_all()
        if self._feeder is not None:
            self._feeder.join()
            self._feeder = None

    def _write_rows(self, process: subprocess.Popen[bytes], rows: Iterator[bytes], again: list[bytes]) -> None:
        assert process.stdin is not None
        most = WAITING_EACH * self._job.sequences
        try:
            for row in again:
                process.stdin.write(row + b"\n")
            process.stdin.flush()
            while not self._ended:
                with self._lock:
                    self._lock.wait_for(lambda: self._stop or len(self._waiting) < most)
                    if self._stop:
                        return
                if (taken := self._next(rows)) is not None:
                    process.stdin.write(taken + b"\n")
                    process.stdin.flush()
        except OSError:
            pass  # the process has ended, which the other thread sees

    def _next(self, rows: Iterator[bytes]) -> bytes | None:
        """Takes a row, or notes that there is none."""
        row = None
        try:
            row = next(rows, None)
        except BaseException as error:
            self._failure = error
        with self._lock:
            if row is None:
                self._ended = True
            else:
                self._waiting.append(row)
            self._lock.notify_all()
        return row


# --- parts -----------------------------------------------------------------------------------------


@dataclass
class Count:
    """Numbers of rows, errors and tokens."""

    rows: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, line: bytes) -> None:
        """Counts a line of answers."""
        usage = USAGE.search(line, max(len(line) - 200, 0))
        self.rows += 1
        self.errors += usage is None
        if usage is not None:
            self.prompt_tokens += int(usage[1])
            self.completion_tokens += int(usage[2])

    @classmethod
    def of_file(cls, path: str) -> Count:
        """Counts the answers of a part."""
        count = cls()
        with open(path, "rb") as file:
            for line in file:
                count.add(line)
        return count


class Answerer:
    """Answers rows in the form of the job."""

    def __init__(self, job: Job):
        self.job = job
        self._worker = Worker(job)
        self._form = _openai.Form(job) if job.row_format == "openai" else Form()

    def close(self) -> None:
        self._worker.close()

    def parts(self, parts: Iterable[Part]) -> Iterator[Count]:
        """Writes the answers of parts, and yields what they amount to, in order. Parts that have their answers meanwhile are
        only counted."""
        started: deque[tuple[Part, deque[Any] | None]] = deque()  # with notes for answers, or None

        def rows() -> Iterator[bytes]:
            for part in parts:
                if self.job.has(part):
                    started.append((part, None))
                    continue
                notes: deque[Any] = deque()
                started.append((part, notes))
                for row in self.job.rows(part):
                    line, note = self._form.read(row, self.job.row_key(row))
                    notes.append(note)
                    yield line

        answers = self._worker.answers(rows())
        for first in chain(answers, [b""]):  # at the end, parts may be left that were passed over
            while started:
                part, notes = started.popleft()
                if notes is not None:
                    yield self._write(part, notes, chain([first], answers))
                    break
                yield Count.of_file(self.job.path(part.name))

    def _write(self, part: Part, notes: deque[Any], answers: Iterator[bytes]) -> Count:
        count = Count()

        def lines() -> Iterator[bytes]:
            for i in range(part.rows):
                line = self._form.write(next(answers), notes.popleft(), part.first + i)
                count.add(line)
                yield line

        self.job.write(part, lines())
        return count

    def rows(self, rows: Iterable[bytes]) -> list[str]:
        """Returns answers without their index, as texts."""
        return ["{" + answer[2:-1].decode() for answer in self._worker.answers(iter(rows))]


class Form:
    """Rows as they are for `smolrun --jsonl`."""

    def read(self, row: bytes, key: bytes) -> tuple[bytes, Any]:
        """Returns a request, and what write() needs."""
        return row, None

    def write(self, answer: bytes, note: Any, index: int) -> bytes:
        """Returns the line of an answer."""
        return b'{"index": %d%b' % (index, answer)

"""Answers many rows on one machine, with a process of smolrun for each processor.

    report = smolrun.batch.run("model.smol", "prompts.jsonl", "answers", max_tokens=60)

    python -m smolrun batch model.smol prompts.jsonl -o answers -n 60

docs/scale.md describes rows, folders of answers, and what happens when a run is stopped. smolrun.ray and smolrun.spark do the
same on several machines."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from ._parts import OPTIONS, ROW_FORMATS, Job, Part, start
from ._worker import Answerer, Count
from .errors import CLASSES, SmolError, UsageError
from .model import Model, Path

Show = Callable[["Report"], object]


@dataclass
class Report:
    """How far a run is, and what it costs."""

    total: int  # rows of the job
    reused: int  # rows that earlier runs have answered
    seconds: float = 0.0
    rows: int = 0  # of this run, as are the following
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    price: float | None = None  # of an hour of all machines

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens of answers in a second."""
        return self.completion_tokens / self.seconds if self.seconds else 0.0

    @property
    def cost_per_thousand_rows(self) -> float | None:
        """In the currency of the price."""
        return self.price * self.seconds / 3.6 / self.rows if self.price is not None and self.rows else None

    def __str__(self) -> str:
        cost = self.cost_per_thousand_rows
        words = [f"{self.reused + self.rows} of {self.total} rows", f"{self.rows_per_second:.1f} rows/s"]
        words += [f"{self.tokens_per_second:.1f} tokens/s"] if self.completion_tokens else []
        words += [f"{self.errors} error{'s' * (self.errors > 1)}"] if self.errors else []
        words += [f"{cost:.6f} for 1,000 rows"] if cost is not None else []
        left = self.total - self.reused - self.rows
        words += [f"{left / self.rows_per_second:.0f} s left"] if left and self.rows else []
        return ", ".join(words)


def show_line(report: Report) -> None:
    """Shows a report on standard error: at a terminal as one line that changes."""
    ended = report.reused + report.rows == report.total
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{report}" + ("\n" if ended else ""))
    else:
        sys.stderr.write(f"{report}\n")
    sys.stderr.flush()


class Progress:
    """Adds counts to a report and shows it, at most every few seconds."""

    def __init__(self, parts: Sequence[Part], missing: Sequence[Part], price: float | None, show: Show | bool):
        total = sum(part.rows for part in parts)
        self.report = Report(total, total - sum(part.rows for part in missing), price=price)
        self._show = show_line if show is True else show or None
        self._began = self._shown = time.monotonic()
        self._every = 1.0 if sys.stderr.isatty() else 10.0

    def add(self, count: Mapping[str, int]) -> None:
        """Adds the members of a Count."""
        for name, value in count.items():
            setattr(self.report, name, getattr(self.report, name) + value)
        now = time.monotonic()
        self.report.seconds = now - self._began
        if self._show is not None and now - self._shown >= self._every:
            self._shown = now
            self._show(self.report)

    @contextlib.contextmanager
    def watching(self, job: Job, parts: Sequence[Part]) -> Iterator[None]:
        """Shows how many rows the folder has answers to, for a caller that gets all counts at the end."""
        ended = threading.Event()

        def watch() -> None:
            while self._show is not None and not ended.wait(self._every):
                left = sum(part.rows for part in job.missing(parts))
                seconds = time.monotonic() - self._began
                self._show(replace(self.report, rows=self.report.total - self.report.reused - left, seconds=seconds))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def end(self) -> Report:
        self.report.seconds = time.monotonic() - self._began
        if self._show is not None:
            self._show(self.report)
        return self.report


def run(
    model: Path | Model,
    inputs: Path | Sequence[Path],
    output: Path,
    *,
    workers: int | None = None,
    row_format: str = "requests",
    columns: Sequence[str] | None = None,
    rows_per_part: int | None = None,
    sequences: int = 8,
    price: float | None = None,
    progress: Show | bool = False,
    **settings: Any,
) -> Report:
    """Answers the rows of files, and writes the answers into a folder: concatenated, its files are what `smolrun --jsonl`
    prints for these rows. A run that was stopped continues when it is started again, with any number of workers.

    inputs: files of JSON lines or Parquet, or folders of them. workers: processes; None: one for each processor that may be
    used. row_format: "requests" (of smolrun --jsonl) or "openai" (batch files). columns: those of Parquet files to read; None:
    all. rows_per_part: rows of a file of answers; None: chosen. sequences: rows that a worker answers together. price: of
    the machine for an hour. progress: called with a Report now and then; True: shows it on standard error. settings: of
    rows that do not have their own: max_tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed, stop, n_ctx,
    kv, template_args, model_defaults, thinking_budget_tokens."""
    workers = len(os.sched_getaffinity(0)) if workers is None else workers
    job, paths = start(
        model, inputs, output, workers, row_format=row_format, columns=columns, rows_per_part=rows_per_part, sequences=sequences,
        **settings,
    )  # fmt: skip
    parts = job.plan(paths)
    missing = job.missing(parts)
    counts = Progress(parts, missing, price, progress)
    for count in _run_workers(job, missing, workers):
        counts.add(vars(count))
    job.finish(parts)
    return counts.end()


def _run_workers(job: Job, parts: Sequence[Part], workers: int) -> Iterator[Count]:
    """Answers parts in threads, each of which has a process."""
    left, results = deque(parts), SimpleQueue[Count | BaseException | None]()

    def take() -> Iterator[Part]:
        while True:
            try:
                yield left.popleft()
            except IndexError:
                return

    def work(answerer: Answerer) -> None:
        try:
            for count in answerer.parts(take()):
                results.put(count)
            results.put(None)
        except BaseException as error:
            results.put(error)

    answerers = [Answerer(job) for _ in range(min(workers, len(parts)))]
    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in answerers]
    busy = len(threads)
    try:
        for thread in threads:
            thread.start()
        while busy:
            try:
                result = results.get(timeout=1)  # without a timeout Ctrl-C would wait
            except Empty:
                continue
            if isinstance(result, BaseException):
                raise result
            if result is None:
                busy -= 1
            else:
                yield result
    finally:
        left.clear()
        for answerer in answerers:
            answerer.close()
        for thread in threads:
            thread.join()


# --- the command -----------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m smolrun batch", allow_abbrev=False,
        description="Answers the rows of files, in processes, and writes the answers into a folder. The same command continues "
        "a run that was stopped. See docs/scale.md.",
    )  # fmt: skip
    found.add_argument("model", metavar="FILE.smol")
    found.add_argument("inputs", metavar="INPUT", nargs="+", help="a file of JSON lines or Parquet, or a folder of them")
    found.add_argument("-o", "--output", metavar="FOLDER", required=True, help="where the answers go")
    found.add_argument("--workers", type=int, metavar="N", help="processes (one per available processor)")
    found.add_argument(
        "--row-format", choices=ROW_FORMATS, default="requests", help="rows are smolrun's requests, or OpenAI's batch file"
    )
    found.add_argument("--columns", metavar="A,B", type=lambda text: text.split(","), help="columns of Parquet files to read (all)")
    found.add_argument("--rows-per-part", type=int, metavar="N", help="rows of a file of answers (chosen)")
    found.add_argument("--sequences", type=int, metavar="N", default=8, help="rows that a worker answers together (8)")
    found.add_argument("--price", type=float, metavar="P", help="price of the machine for an hour")
    found.add_argument("--quiet", action="store_true", help="show no progress")
    settings = found.add_argument_group("settings of rows that do not have their own, as smolrun's options")
    for name, option in OPTIONS.items():
        if name == "model_defaults":
            settings.add_argument(option, dest=name, action="store_const", const=True)
        elif name in ("stop", "template_args"):
            settings.add_argument(option, dest=name, metavar="NAME=JSON" if "args" in name else "TEXT", action="append")
        else:
            settings.add_argument(option, dest=name, metavar=name.upper(), type=_number)
    return found


def _number(text: str) -> Any:
    """Reads a number; what is none is left to smolrun to refuse."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _template_args(given: Sequence[str]) -> dict[str, Any]:
    found = {}
    for word in given:
        name, _, text = word.partition("=")
        try:
            found[name] = json.loads(text)
        except ValueError:
            raise UsageError(f"--template-arg: {word}: expected NAME=JSON") from None
    return found


def main(words: Sequence[str]) -> NoReturn:
    """The command: exits with the status of smolrun for the same error, and 0 if all rows were answered, with errors too."""
    given = vars(parser().parse_args(words))
    settings = {name: value for name in OPTIONS if (value := given.pop(name)) is not None}
    if settings.get("max_tokens") == -1:
        settings["max_tokens"] = None
    quiet = given.pop("quiet")
    try:
        if "template_args" in settings:
            settings["template_args"] = _template_args(settings["template_args"])
        run(**given, progress=not quiet, **settings)
    except KeyboardInterrupt:
        sys.stderr.write("\nsmolrun: stopped: the same command continues\n")
        sys.exit(130)
    except SmolError as error:
        statuses = [status for status, kind in CLASSES.items() if type(error) is kind]
        sys.stderr.write(f"smolrun: {error}\n")
        sys.exit(statuses[0] if statuses else 1)
    sys.exit(0)

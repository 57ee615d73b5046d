"""Answers many rows on a Spark cluster. Needs `pip install 'smolrun[spark]'`.

    report = smolrun.spark.run("/shared/model.smol", "/shared/prompts.jsonl", "/shared/answers")

is smolrun.batch.run with Spark's Python workers in place of processes, and writes the same bytes. `answer` is a stage for a
DataFrame of one's own. Both use mapInArrow, which is mapInPandas without conversions that turn missing numbers into NaN.
docs/scale.md is the guide."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from ._parts import Job, Part, check_columns, group, make_job, start, table_rows
from ._worker import Answerer, Count
from .batch import Progress, Report, Show
from .model import Model, Path

COUNTS = ", ".join(f"{name} long" for name in vars(Count()))


def run(
    model: Path | Model,
    inputs: Path | Sequence[Path],
    output: Path,
    *,
    session: SparkSession | None = None,
    workers: int | None = None,
    price: float | None = None,
    progress: Show | bool = False,
    **options: Any,
) -> Report:
    """Does what smolrun.batch.run does, with its arguments and settings.

    All nodes must find the model, the files and the folder at the same paths. session: None: the active one, or a new one.
    workers: how many tasks Spark runs at a time, by which parts are grouped; None: its default parallelism."""
    session = session or SparkSession.builder.getOrCreate()
    context = session.sparkContext
    workers = context.defaultParallelism if workers is None else workers
    job, paths = start(model, inputs, output, workers, **options)

    def over(function: Callable[[str], Any], paths: Iterable[str]) -> Iterable[Any]:
        given = list(paths)
        return list(context.parallelize(given, len(given)).map(function).collect())

    parts = job.plan(paths, over)
    missing = job.missing(parts)
    counts = Progress(parts, missing, price, progress)
    if missing:
        tasks = group(missing, workers)
        frame = session.range(0, len(tasks), 1, len(tasks)).mapInArrow(_Parts(job, tasks), COUNTS)
        with counts.watching(job, parts):
            rows = frame.collect()
        for row in rows:
            counts.add(row.asDict())
    job.finish(parts)
    return counts.end()


def answer(
    frame: DataFrame, model: Path | Model, *, columns: Sequence[str] | None = None, sequences: int = 8, **settings: Any
) -> DataFrame:
    """Adds the column `answer` to a frame of requests: the JSON that `smolrun --jsonl` prints, without an index.

    columns: those that are members of a request; None: all of them. Settings are those of smolrun.batch.run. Nothing is
    written, and Spark computes rows again that are lost."""
    job = make_job(model, settings, columns=columns, sequences=sequences)
    schema = StructType([*frame.schema.fields, StructField("answer", StringType())])
    return frame.mapInArrow(_Rows(job), schema)


_answerers: dict[str, Answerer] = {}
_lock = threading.Lock()


def _answerer(job: Job) -> Answerer:
    """Returns that of this Python worker, which Spark uses for many tasks."""
    key = repr(job)
    with _lock:
        if key not in _answerers:
            for one in _answerers.values():  # of another job
                one.close()
            _answerers.clear()
            _answerers[key] = Answerer(job)
        return _answerers[key]


class _Parts:
    """Answers the parts of tasks, of which it gets the numbers."""

    def __init__(self, job: Job, tasks: Sequence[Sequence[Part]]):
        self._job, self._tasks = job, tasks

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for count in _answerer(self._job).parts(self._tasks[number]):
                    yield pyarrow.RecordBatch.from_pylist([vars(count)])


class _Rows:
    """Answers the rows of a frame."""

    def __init__(self, job: Job):
        self._job = job

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            columns = check_columns("frame", batch.schema.names, self._job.columns)
            answers = _answerer(self._job).rows(table_rows(batch.select(columns)))
            yield pyarrow.RecordBatch.from_arrays(
                [*batch.columns, pyarrow.array(answers, pyarrow.string())], names=[*batch.schema.names, "answer"]
            )

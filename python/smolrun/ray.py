"""Answers many rows on a Ray cluster. Needs `pip install 'smolrun[ray]'`.

    report = smolrun.ray.run("/shared/model.smol", "/shared/prompts.jsonl", "/shared/answers", workers=64)

is smolrun.batch.run with actors of Ray Data in place of processes, and writes the same bytes. `answer` is a stage for a Dataset of
one's own. docs/scale.md is the guide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow
import ray
from ray.data import ActorPoolStrategy, Dataset

from ._parts import Job, Part, check_columns, group, make_job, start, table_rows
from ._worker import Answerer
from .batch import Progress, Report, Show
from .model import Model, Path


def run(
    model: Path | Model,
    inputs: Path | Sequence[Path],
    output: Path,
    *,
    workers: int | None = None,
    price: float | None = None,
    progress: Show | bool = False,
    **options: Any,
) -> Report:
    """Does what smolrun.batch.run does, with its arguments and settings.

    All nodes must find the model, the files and the folder at the same paths. workers: actors, each with a processor; None:
    one for each processor of the cluster."""
    if not ray.is_initialized():
        ray.init()
    workers = max(int(ray.cluster_resources().get("CPU", 1)), 1) if workers is None else workers
    job, paths = start(model, inputs, output, workers, **options)
    parts = job.plan(paths, _over)
    missing = job.missing(parts)
    counts = Progress(parts, missing, price, progress)
    if missing:
        tasks = group(missing, workers)
        items = [{"parts": [asdict(part) for part in task]} for task in tasks]
        dataset = ray.data.from_items(items, override_num_blocks=len(tasks))
        for row in _map(dataset, _Parts, job, workers, batch_size=None).iter_rows():
            counts.add(row)
    job.finish(parts)
    return counts.end()


def answer(
    dataset: Dataset,
    model: Path | Model,
    *,
    workers: int = 1,
    columns: Sequence[str] | None = None,
    sequences: int = 8,
    **settings: Any,
) -> Dataset:
    """Adds the column `answer` to a dataset of requests: the JSON that `smolrun --jsonl` prints, without an index.

    columns: those that are members of a request; None: all of them. Settings are those of smolrun.batch.run. Nothing is
    written, and Ray computes rows again that are lost."""
    job = make_job(model, settings, columns=columns, sequences=sequences)
    return _map(dataset, _Rows, job, workers, batch_size=1024)


def _map(dataset: Dataset, actor: type, job: Job, workers: int, batch_size: int | None) -> Dataset:
    """Starts actors. Ray Data starts them again, with what they were doing, as often as they are killed."""
    return dataset.map_batches(
        actor, fn_constructor_args=(job,), batch_size=batch_size, batch_format="pyarrow", num_cpus=1,
        compute=ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=2),
    )  # fmt: skip


def _over(function: Callable[[str], Any], paths: Iterable[str]) -> list[Any]:
    task = ray.remote(max_retries=-1)(_call)
    found: list[Any] = ray.get([task.remote(function, path) for path in paths])
    return found


def _call(function: Callable[[str], Any], path: str) -> Any:
    return function(path)


class _Parts:
    """An actor that answers parts."""

    def __init__(self, job: Job):
        self._answerer = Answerer(job)

    def __call__(self, batch: pyarrow.Table) -> Iterator[pyarrow.Table]:
        for row in batch.to_pylist():
            for count in self._answerer.parts(Part(**part) for part in row["parts"]):
                yield pyarrow.Table.from_pylist([vars(count)])


class _Rows:
    """An actor that answers rows of a dataset."""

    def __init__(self, job: Job):
        self._job, self._answerer = job, Answerer(job)

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        columns = check_columns("dataset", batch.column_names, self._job.columns)
        answers = self._answerer.rows(table_rows(batch.select(columns)))
        return batch.append_column("answer", pyarrow.array(answers, pyarrow.string()))

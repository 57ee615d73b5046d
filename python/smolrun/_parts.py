"""Jobs of many rows, for smolrun.batch, smolrun.ray and smolrun.spark: rows of files, their keys, and files of answers.

A job's rows are cut into parts. The answers to a part are a file in the job's folder, whose name has the part's number and
a digest of its rows' keys. It appears whole or not at all, and always with the same bytes, so any number of processes may
work on a job, be killed, and start again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import IO, Any

from .errors import DamagedError, FileError, UsageError, from_status
from .model import Model, Path, file_digest
from .programs import program

MAX_LINE = 1 << 20  # bytes of a row, as in smolrun/lines.h
MAX_ROWS = 256  # of a part, unless more are asked for
TASK = 1024  # rows
ROW_FORMATS = ("requests", "openai")
JOB, SUCCESS = "_job", "_SUCCESS"  # files of a job's folder; readers of folders leave out names that begin so
PARQUET = b"PAR1"
PART = re.compile(r"part-(\d{9})-([0-9a-f]{32})\.jsonl")

# settings of a job, and smolrun's options
OPTIONS = {
    "max_tokens": "-n", "temperature": "--temp", "top_k": "--top-k", "top_p": "--top-p", "min_p": "--min-p",
    "repetition_penalty": "--repeat-penalty", "seed": "--seed", "stop": "--stop", "n_ctx": "--ctx", "kv": "--kv",
    "template_args": "--template-arg", "model_defaults": "--model-defaults", "thinking_budget_tokens": "--reasoning-budget",
}  # fmt: skip

# members of a request that a table may have as columns; those that are not texts or numbers may also be JSON texts
COLUMNS = (
    "prompt", "id", "model", "max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
    "frequency_penalty", "presence_penalty", "seed", "logprobs", "stream", "parallel_tool_calls", "reasoning_format",
    "reasoning_effort", "thinking_budget_tokens", "add_generation_prompt", "continue_final_message",
)  # fmt: skip
JSON_COLUMNS = (
    "messages", "stop", "logit_bias", "response_format", "tools", "tool_choice", "documents", "chat_template_kwargs",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Consecutive rows of one file."""

    number: int
    first: int  # index of its first row in the job
    rows: int
    path: str
    place: int  # of the first row: bytes before it, in Parquet rows
    key: str  # digest of the rows' keys, 32 hexadecimal digits

    @property
    def name(self) -> str:
        return f"part-{self.number:09}-{self.key}.jsonl"

    def __str__(self) -> str:
        return f"{self.path}, rows {self.first} to {self.first + self.rows - 1} of the job"


@dataclass(frozen=True)
class Job:
    """A job: the blob, the settings and the form of rows, which determine the answers. `output` is None for rows that do not
    come from files."""

    model: str
    digest: str
    settings: Mapping[str, Any]
    row_format: str = "requests"
    output: str | None = None
    rows_per_part: int = MAX_ROWS
    columns: Sequence[str] | None = None
    sequences: int = 8

    # --- settings and keys ---

    @property
    def words(self) -> list[str]:
        """The command line of smolrun."""
        words = [program("smolrun"), self.model, "--jsonl", "--require-digest", self.digest, "--threads", "1"]
        words += ["--sequences", str(self.sequences)]
        for name, value in self.settings.items():
            if name == "model_defaults":
                words += [OPTIONS[name]] if value else []
            elif name == "template_args":
                words += [word for key, one in value.items() for word in (OPTIONS[name], f"{key}={json.dumps(one)}")]
            else:
                given = [value] if not isinstance(value, list) else value
                words += [word for one in given for word in (OPTIONS[name], "-1" if one is None else str(one))]
        return words

    @property
    def identity(self) -> dict[str, Any]:
        """The facts other than its row that an answer depends on."""
        from . import __version__

        return {"blob": self.digest, "smolrun": __version__, "row_format": self.row_format, "settings": dict(self.settings)}

    def row_key(self, row: bytes) -> bytes:
        """Returns the SHA-256 of a row and of what else its answer depends on. Rows are the same if their bytes are,
        because answers repeat parts of their row and errors tell bytes of it."""
        return hashlib.sha256(self._identity_digest + row).digest()

    @property
    def _identity_digest(self) -> bytes:
        found = self.__dict__.get("_digest")
        if found is None:
            found = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).digest()
            self.__dict__["_digest"] = found  # a frozen dataclass
        return bytes(found)

    def check(self) -> None:
        """Lets smolrun check the settings and the model."""
        result = subprocess.run(self.words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if result.returncode:
            raise from_status(result.returncode, message_of(result.stderr, result.returncode))

    # --- parts ---

    def plan(self, paths: Sequence[str], over: Callable[..., Iterable[Any]] = map) -> list[Part]:
        """Cuts files into parts. `over` is map, or does the same on several machines."""
        parts: list[Part] = []
        first = 0
        for path, found in zip(paths, over(self.scan, paths)):
            for place, rows, key in found:
                parts.append(Part(len(parts), first, rows, path, place, key))
                first += rows
        return parts

    def scan(self, path: str) -> list[tuple[int, int, str]]:
        """Returns (place, rows, key) of the parts of a file."""
        found: list[tuple[int, int, str]] = []
        with source(path, 0, self.columns) as rows:
            each = iter(rows)  # one iterator for all parts: a new one would read Parquet's row group again
            while True:
                place, digest, n = rows.place, hashlib.sha256(), 0
                for row in islice(each, self.rows_per_part):
                    digest.update(self.row_key(row))
                    n += 1
                if not n:
                    return found
                found.append((place, n, digest.hexdigest()[:32]))

    def rows(self, part: Part) -> Iterator[bytes]:
        """Yields the rows of a part. Raises FileError before the last one if they are not those that were planned."""
        digest, last = hashlib.sha256(), None
        with source(part.path, part.place, self.columns) as rows:
            for row in islice(rows, part.rows):
                digest.update(self.row_key(row))
                if last is not None:
                    yield last
                last = row
        if last is None or digest.hexdigest()[:32] != part.key:
            raise FileError(f"{part}: they have changed since the run began: leave the input as it is")
        yield last

    # --- the folder ---

    def path(self, name: str) -> str:
        assert self.output is not None
        return os.path.join(self.output, name)

    def has(self, part: Part) -> bool:
        return os.path.exists(self.path(part.name))

    def missing(self, parts: Sequence[Part]) -> list[Part]:
        """Returns the parts that have no answers yet. Raises UsageError if there are answers to other rows."""
        wanted = {part.name for part in parts}
        found = {name for name in os.listdir(self.output) if PART.fullmatch(name)}
        for name in sorted(found - wanted):
            raise UsageError(
                f"{self.output}: {name} has answers to other rows: give the rows that the job began with, or another folder"
            )
        return [part for part in parts if part.name not in found]

    def claim(self) -> None:
        """Creates the folder, or checks that it is this job's."""
        identity = {"format": 1, "rows_per_part": self.rows_per_part, **self.identity}
        with writing(self.output):
            os.makedirs(self.output or "", exist_ok=True)
            if not os.path.exists(self.path(JOB)):
                if any(not name.startswith(".") for name in os.listdir(self.output)):
                    raise UsageError(f"{self.output}: has files, but no {JOB}, so it is no job's folder: choose an empty one")
                with self._new_file(JOB, replace=False) as file:
                    file.write(json.dumps(identity, sort_keys=True, indent=1).encode() + b"\n")
        differences(self.output or "", read_job(self.output or ""), identity)

    def write(self, part: Part, lines: Iterable[bytes]) -> None:
        """Writes the answers of a part."""
        with writing(self.output), self._new_file(part.name) as file:
            file.writelines(lines)

    def finish(self, parts: Sequence[Part]) -> None:
        """Marks the job as complete, and removes what killed processes have left."""
        if missing := self.missing(parts):
            raise FileError(f"{self.output}: {missing[0].name} is missing: does each worker see the same folder?")
        with writing(self.output):
            for name in os.listdir(self.output):
                if name.startswith(".") and name.endswith(".tmp"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.path(name))
            with self._new_file(SUCCESS):
                pass

    @contextlib.contextmanager
    def _new_file(self, name: str, replace: bool = True) -> Iterator[IO[bytes]]:
        """Writes a file that appears whole or not at all. With replace=False, one that another process has written
        meanwhile stays."""
        temporary = self.path(f".{name}.{uuid.uuid4().hex}.tmp")
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if replace:
                os.replace(temporary, self.path(name))
            else:
                with contextlib.suppress(FileExistsError):
                    os.link(temporary, self.path(name))
            self._sync_folder()
        except FileNotFoundError:
            # another run has finished the job meanwhile, and removed temporary files
            if not os.path.exists(self.path(name)):
                raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _sync_folder(self) -> None:
        folder = os.open(self.output or "", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def message_of(stderr: bytes, status: int) -> str:
    """Returns smolrun's message without the program's name."""
    text = stderr.decode(errors="replace").strip().removeprefix("smolrun: ")
    return text or f"smolrun ended with status {status}"


@contextlib.contextmanager
def writing(output: str | None) -> Iterator[None]:
    """Turns failed calls of the system into FileError."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{output}: cannot be written: {error.strerror}: a later run continues from here") from None


def read_job(output: str) -> dict[str, Any]:
    """Returns what a folder's job is; {} if it has none."""
    path = os.path.join(output, JOB)
    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DamagedError(f"{path}: is damaged: choose another folder")
    return found


def differences(output: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raises UsageError if a folder belongs to another job."""
    flat = [{**job, "settings": None, **(job.get("settings") or {})} for job in (found, wanted)]
    for name in sorted({*flat[0], *flat[1]}):
        old, new = (json.dumps(one.get(name)) for one in flat)
        if old != new:
            raise UsageError(f"{output}: belongs to another job, whose {name} is {old}, and not {new}: choose another folder")


def group(parts: Sequence[Part], workers: int) -> list[list[Part]]:
    """Groups parts to tasks of at least TASK rows, if each worker then has four tasks or more, and to as many for each
    worker. A worker answers the last rows of a task with fewer sequences, which costs time."""
    rows = sum(part.rows for part in parts)
    size = max(min(len(parts) * TASK // max(rows, 1), len(parts) // (4 * workers)), 1)
    n = max(len(parts) // size // workers * workers, min(workers, len(parts)), 1)
    ends = [len(parts) * i // n for i in range(n + 1)]
    return [list(parts[start:end]) for start, end in pairwise(ends)]


# --- making jobs -----------------------------------------------------------------------------------


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings in order of their names, without those that are not set. max_tokens may be None: no limit."""
    for name in given:
        if name not in OPTIONS:
            raise UsageError(f"{name}: no such setting of a job: expected one of {', '.join(OPTIONS)}")
    found = {name: given[name] for name in sorted(given) if given[name] is not None or name == "max_tokens"}
    if isinstance(found.get("stop"), str):
        found["stop"] = [found["stop"]]
    try:
        plain: dict[str, Any] = json.loads(json.dumps(found, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(f"settings: not representable as JSON: {error}") from None
    return plain


def make_job(model: Path | Model, settings: Mapping[str, Any], **facts: Any) -> Job:
    """Makes a job, and lets smolrun check its settings."""
    path = model.path if isinstance(model, Model) else os.path.abspath(model)
    job = Job(path, model.digest if isinstance(model, Model) else file_digest(path), settings_of(settings), **facts)
    if job.row_format not in ROW_FORMATS:
        raise UsageError(f"row_format: must be {' or '.join(ROW_FORMATS)}, found {job.row_format!r}")
    for name in job.columns or ():
        if name not in COLUMNS + JSON_COLUMNS:
            raise UsageError(f"columns: {name} is not a member of a request")
    job.check()
    return job


def start(
    model: Path | Model,
    inputs: Path | Sequence[Path],
    output: Path,
    workers: int,
    *,
    row_format: str = "requests",
    columns: Sequence[str] | None = None,
    rows_per_part: int | None = None,
    sequences: int = 8,
    **settings: Any,
) -> tuple[Job, list[str]]:
    """Makes the job of files, claims its folder, and returns it with the files."""
    output, paths = os.path.abspath(output), input_files(inputs)
    if workers < 1:
        raise UsageError(f"workers: must be at least 1, found {workers}")
    if rows_per_part is None:
        # the same as before; otherwise so many parts that all workers end at about the same time
        rows_per_part = read_job(output).get("rows_per_part")
    if rows_per_part is None:
        rows_per_part = min(max(count_rows(paths, columns) // (16 * workers), 8), MAX_ROWS)
    if not isinstance(rows_per_part, int) or rows_per_part < 1:
        raise UsageError(f"rows_per_part: must be a whole number of at least 1, found {rows_per_part!r}")
    job = make_job(
        model, settings, row_format=row_format, output=output, rows_per_part=rows_per_part, columns=columns, sequences=sequences
    )
    job.claim()
    return job, paths


# --- rows of files ---------------------------------------------------------------------------------


def input_files(inputs: Path | Sequence[Path]) -> list[str]:
    """Returns the files of a job in their order: of a folder, those whose names do not begin with "." or "_", by name."""
    given = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    found: list[str] = []
    for one in map(os.path.abspath, given):
        if os.path.isdir(one):
            names = sorted(name for name in os.listdir(one) if name[0] not in "._")
            found += [os.path.join(one, name) for name in names]
        else:
            found.append(one)
    if not found:
        raise UsageError("no input: give files of JSON lines or Parquet, or a folder of them")
    for path in found:
        if os.path.exists(path) and not os.path.isfile(path):
            raise UsageError(f"{path}: is not a file, and a job reads its rows more than once: give files")
    return found


def is_parquet(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(PARQUET)) == PARQUET
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None


def count_rows(paths: Sequence[str], columns: Sequence[str] | None) -> int:
    """Returns about how many rows files have."""
    n = 0
    for path in paths:
        if is_parquet(path):
            with ParquetRows(path, 0, columns) as rows:
                n += rows.count()
            continue
        with open(path, "rb") as file:
            while data := file.read(1 << 20):
                n += data.count(b"\n")
    return n


def source(path: str, place: int, columns: Sequence[str] | None) -> JsonRows | ParquetRows:
    """Opens a file for reading rows from a place on."""
    return ParquetRows(path, place, columns) if is_parquet(path) else JsonRows(path, place)


class JsonRows:
    """Rows of JSON lines, cut as smolrun cuts them: blank lines do not count; of a line that is too long, so much is a
    row that smolrun finds it too long. `place` is the number of bytes before the next row."""

    def __init__(self, path: str, place: int):
        self._path = path
        self._file = open(path, "rb")  # noqa: SIM115  closed by __exit__
        self._file.seek(place)

    def __enter__(self) -> JsonRows:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    @property
    def place(self) -> int:
        return self._file.tell()

    def __iter__(self) -> Iterator[bytes]:
        try:
            while line := self._file.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE and not line.endswith(b"\n"):
                    self._skip_line()
                    yield line
                elif line.strip(b" \t\r\n"):
                    yield line.removesuffix(b"\n")
        except OSError as error:
            raise FileError(f"{self._path}: cannot be read: {error.strerror}") from None

    def _skip_line(self) -> None:
        while (rest := self._file.readline(1 << 16)) and not rest.endswith(b"\n"):
            pass


class ParquetRows:
    """Rows of a Parquet file, as JSON lines. `place` is the number of rows before the next."""

    def __init__(self, path: str, place: int, columns: Sequence[str] | None):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise UsageError(f"{path}: reading Parquet needs pyarrow: pip install 'smolrun[parquet]'") from None
        self._path, self.place = path, place
        self._failures = (OSError, pyarrow.ArrowException)
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except self._failures as error:
            raise DamagedError(f"{path}: cannot be read as Parquet: {error}") from None
        self._columns = check_columns(path, self._file.schema_arrow.names, columns)

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def count(self) -> int:
        return int(self._file.metadata.num_rows)

    def __iter__(self) -> Iterator[bytes]:
        skip = self.place
        try:
            for group in range(self._file.num_row_groups):
                n = self._file.metadata.row_group(group).num_rows
                if skip >= n:
                    skip -= n
                    continue
                for batch in self._file.iter_batches(MAX_ROWS, row_groups=[group], columns=self._columns):
                    rows = batch.slice(skip)
                    skip = max(skip - batch.num_rows, 0)
                    for row in table_rows(rows):
                        self.place += 1
                        yield row
        except self._failures as error:
            raise DamagedError(f"{self._path}: cannot be read as Parquet: {error}") from None


def check_columns(where: str, names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Returns the columns to read: those that are named, or else all of a table, which must be members of a request."""
    for name in columns or ():
        if name not in names:
            raise UsageError(f"{where}: has no column {name}; it has {', '.join(names)}")
    for name in names if columns is None else ():
        if name not in COLUMNS + JSON_COLUMNS:
            raise UsageError(f"{where}: column {name} is not a member of a request: say which columns to read, with `columns`")
    return list(names if columns is None else columns)


def table_rows(batch: Any) -> list[bytes]:
    """Converts a batch of Arrow's to rows."""
    columns = [_values(column) for column in batch.columns]
    return [as_row(dict(zip(batch.schema.names, values))) for values in zip(*columns)]


def _values(column: Any) -> list[Any]:
    try:
        return list(column.to_pylist(maps_as_pydicts="strict"))
    except (UnicodeDecodeError, KeyError):
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    """Converts one value. A text that is not UTF-8 remains none, and a map with a key twice is a list: smolrun says what is
    wrong with them."""
    try:
        return scalar.as_py(maps_as_pydicts="strict")
    except UnicodeDecodeError:
        return "\udcff"
    except KeyError:
        return scalar.as_py()


def as_row(members: Mapping[str, Any]) -> bytes:
    """Writes a request as a JSON line, without what is null. Texts in columns of lists and objects are JSON."""
    found = []
    for name, value in members.items():
        if value is not None:
            known = from_json(value) if name in JSON_COLUMNS and isinstance(value, str) else _without_null(value)
            found.append(b'"%b":%b' % (name.encode(), to_json(known)))
    return b"{%b}" % b",".join(found)


def from_json(text: str) -> Any:
    """Parses JSON; a text that is not JSON stays one."""
    try:
        return json.loads(text) if text[:1] in ("[", "{") else text
    except (ValueError, RecursionError):
        return text


def to_json(value: Any) -> bytes:
    """Writes compact JSON in UTF-8. Surrogates of JSON's escapes stay escapes, bytes that are not UTF-8 stay these bytes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_other)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=_other).encode()


def _other(value: Any) -> str:
    """Writes a value of a type that JSON does not have."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _without_null(value: Any) -> Any:
    """Leaves out members that are null, because each struct of a Parquet file has all members."""
    if isinstance(value, dict):
        return {key: _without_null(one) for key, one in value.items() if one is not None}
    return [_without_null(one) for one in value] if isinstance(value, list) else value

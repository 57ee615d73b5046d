"""The rows of the table: their cases, units and bounds."""

import dataclasses

from .measure import Case, median, ratios
from .paths import GGUF_TYPES, THREADS
from .speed import BATCHES, name

MANY = THREADS[-1]
READ, INT8, F32 = "plain read", "int8 multiply-adds", "f32 multiply-adds"  # the limits


@dataclasses.dataclass
class Bound:
    """A bound on a figure itself, or on the ratio of its median to that of another side."""

    value: float
    side: str | None = None  # "peer", "limit", or None: the figure itself
    at_most: bool = False

    def figure(self, case):
        ours = case.values["smol"]
        return ratios(ours, case.values[self.side])[0] if self.side else median(ours)

    def holds(self, case):
        figure = self.figure(case)
        return figure <= self.value if self.at_most else figure >= self.value


def times_peer(value):
    return Bound(value, "peer")


def share(value):
    return Bound(value, "limit")


def at_most(value, side=None):
    return Bound(value, side, at_most=True)


@dataclasses.dataclass
class Row:
    case: str
    unit: str  # a key of report.UNITS
    bounds: list
    peer: str = ""  # name of the peer
    limit: str = ""  # kind of limit
    stretch: float | None = None  # a desired ratio to the peer: the table shows the distance
    extra: str = ""  # another side of the case, a time

    def missed(self, case: Case):
        return [bound for bound in self.bounds if not bound.holds(case)]


def speed(dtype, what, n_threads, bounds, limit="", **more):
    return Row(name(what, dtype, n_threads), "tokens/s", bounds,
               f"llama.cpp {GGUF_TYPES[dtype]}", limit, **more)  # fmt: skip


def decode_rows():
    bounds = {
        ("int8", 2): [times_peer(1.7), share(0.85)],
        ("int8", 1): [times_peer(1.5), share(0.88)],
        ("bf16", 2): [times_peer(1.4), share(0.88)],
        ("bf16", 1): [times_peer(1.4), share(0.88)],
        ("f32", 2): [share(0.88)],
        ("f32", 1): [share(0.88)],
    }
    return [speed(dtype, "decode", n, wanted, READ) for (dtype, n), wanted in bounds.items()]


def prefill_rows():
    def rows(dtype, bounds, limit, **more):
        return [speed(dtype, "prefill of 512", n, bounds, limit, **more) for n in (2, 1)]

    return [
        *rows("int8", [times_peer(1.8), share(0.45)], INT8, stretch=2.5),
        *rows("bf16", [times_peer(1.6)], F32),
        *rows("f32", [times_peer(1.45)], F32),
        # attention takes a negligible part of 64 tokens
        speed("f32", "prefill of 64", MANY, [share(0.75)], F32),
    ]


def deep_rows():
    deep = [times_peer(2), share(0.7)]
    return [
        speed("int8", "decode at depth 4096", MANY, deep, READ),
        speed("int8", "decode at depth 8000", MANY, deep, READ),
        speed("int8", "prefill of 4096", MANY, [times_peer(1.6)]),
        Row(name("attention", "int8", MANY), "multiply-adds/s", [share(0.45)], limit=F32),
    ]


def program_rows():
    return [
        Row("start to first token", "time", [at_most(0.15, "peer")], "llama.cpp Q8_0"),
        Row("exec to exit, one token", "time", [at_most(0.030)]),
        Row("private memory, decode", "MB", [at_most(8e6)]),
        Row("private memory, prefill of 512", "MB", [at_most(24e6)]),
        Row("first-use checks", "time", [at_most(0.0025)]),
        Row("static size of the least program", "KB", [at_most(400e3)]),
        Row("conversion", "GB/s", [Bound(1e9)], extra="sync"),
        Row("conversion memory", "MB", [at_most(64e6)]),
        Row("tokenizing 10 MB", "MB/s", [times_peer(3)], "tokenizers"),
    ]


def fork_rows():
    """Returns rows without cases if there is no build of the fork; the table omits them."""
    fork = "ik_llama.cpp"
    return [
        Row(name(f"{what}, {fork}", "int8", n), "tokens/s", [times_peer(bound)], fork)
        for n in (2, 1)
        for what, bound in (("prefill", 1.25), ("decode", 1.4))
    ]


def rows():
    return [*decode_rows(), *prefill_rows(), *deep_rows(), *program_rows(), *fork_rows()]


def plotted(dtype):
    """Returns {tokens at once: name of the case} for the picture."""
    points = {1: "decode", **{n: f"prefill of {n}" for n in (*BATCHES, 512)}}
    return {n: name(what, dtype, MANY) for n, what in points.items()}

"""The rows of the table: their cases, units and bounds."""

import dataclasses

from .measure import Case, median, ratios
from .paths import GGUF_TYPES, OUR_INT8, THREADS, ik_llama_cpp, llama_cpp
from .speed import BATCHES, F16_CACHE, Q4_0_CACHE, Q8_0, name

MANY = THREADS[-1]
READ, INT8, F32 = "plain read", "int8 multiply-adds", "f32 multiply-adds"  # the limits


@dataclasses.dataclass
class Bound:
    """A bound on a figure itself, or on the ratio of its median to that of the fastest of other sides."""

    value: float
    sides: tuple = ()  # empty: the figure itself
    at_most: bool = False

    def measured(self, case):
        """Returns its sides that the case has: ik_llama.cpp may not be available."""
        return [side for side in self.sides if side in case.values]

    def applies(self, case):
        return not self.sides or bool(self.measured(case))

    def figure(self, case):
        ours = case.values["smol"]
        if not self.sides:
            return median(ours)
        each = [ratios(ours, case.values[side])[0] for side in self.measured(case)]
        return max(each) if self.at_most else min(each)

    def holds(self, case):
        figure = self.figure(case)
        return figure <= self.value if self.at_most else figure >= self.value


def times(value, *sides):
    return Bound(value, sides)


def share(value):
    return Bound(value, ("limit",))


def at_most(value, *sides):
    return Bound(value, sides, at_most=True)


def llama_cpps(dtype):
    return [llama_cpp(kind) for kind in GGUF_TYPES[dtype]]


def ik_llama_cpps(dtype):
    return [ik_llama_cpp(kind) for kind in GGUF_TYPES[dtype]]


def beside(dtype):
    """Returns the sides that a speed of this dtype is shown with, if they were measured."""
    ours = [OUR_INT8] if dtype == "int4" else []
    return [*ours, *llama_cpps(dtype), *ik_llama_cpps(dtype)]


@dataclasses.dataclass
class Row:
    case: str
    unit: str  # a key of report.UNITS
    bounds: list
    beside: tuple | list = ()  # sides to show with their ratios
    limit: str = ""  # kind of limit
    extra: str = ""  # another side of the case, a time

    def judged(self, case: Case):
        return [bound for bound in self.bounds if bound.applies(case)]

    def missed(self, case: Case):
        return [bound for bound in self.judged(case) if not bound.holds(case)]


def speed(dtype, what, n_threads, bounds, limit=""):
    return Row(name(what, dtype, n_threads), "tokens/s", bounds, beside(dtype), limit)


def decode_rows():
    four_bits = [*llama_cpps("int4"), *ik_llama_cpps("int4")]
    int4 = [times(1.5, OUR_INT8), share(0.88)]
    fork, bf16 = times(1.4, ik_llama_cpp("Q8_0")), [times(1.4, llama_cpp("BF16")), share(0.88)]
    bounds = {
        ("int4", 2): [times(1.15, *four_bits), *int4],
        ("int4", 1): [times(1.5, *four_bits), *int4],
        ("int8", 2): [times(1.7, Q8_0), fork, share(0.85)],
        ("int8", 1): [times(1.5, Q8_0), fork, share(0.88)],
        ("bf16", 2): bf16,
        ("bf16", 1): bf16,
        ("f32", 2): [share(0.88)],
        ("f32", 1): [share(0.88)],
    }
    return [speed(dtype, "decode", n, wanted, READ) for (dtype, n), wanted in bounds.items()]


def prefill_rows():
    def rows(dtype, bounds, limit):
        return [speed(dtype, "prefill of 512", n, bounds, limit) for n in (2, 1)]

    return [
        *rows("int4", [times(0.9, OUR_INT8)], INT8),
        *rows("int8", [times(1.8, Q8_0), times(1.25, ik_llama_cpp("Q8_0")), share(0.45)], INT8),
        *rows("bf16", [times(1.6, llama_cpp("BF16"))], F32),
        *rows("f32", [times(1.45, llama_cpp("F32"))], F32),
        # attention takes a negligible part of 64 tokens
        speed("f32", "prefill of 64", MANY, [share(0.75)], F32),
    ]


def deep_rows():
    deep = [times(2, Q8_0), share(0.7)]
    return [
        speed("int8", "decode at depth 4096", MANY, deep, READ),
        speed("int8", "decode at depth 8000", MANY, deep, READ),
        Row(name("decode at depth 4096, int4 cache", "int8", MANY), "tokens/s", [],
            [F16_CACHE, Q4_0_CACHE], READ),
        speed("int8", "prefill of 4096", MANY, [times(1.6, Q8_0)]),
        Row(name("attention", "int8", MANY), "multiply-adds/s", [share(0.45)], limit=F32),
    ]  # fmt: skip


def program_rows():
    return [
        Row("start to first token", "time", [at_most(0.15, Q8_0)], [Q8_0]),
        Row("start to first token, int4", "time", [at_most(1, OUR_INT8)], [OUR_INT8]),
        Row("exec to exit, one token", "time", [at_most(0.030)]),
        Row("private memory, decode", "MB", [at_most(8e6)]),
        Row("private memory, prefill of 512", "MB", [at_most(24e6)]),
        Row("first-use checks", "time", [at_most(0.0025)]),
        Row("static size of the least program", "KB", [at_most(500e3)]),
        Row("conversion", "GB/s", [Bound(1e9)], extra="sync"),
        Row("conversion memory", "MB", [at_most(64e6)]),
        Row("tokenizing 10 MB", "MB/s", [times(3, "tokenizers")], ["tokenizers"]),
    ]


def rows():
    return [*decode_rows(), *prefill_rows(), *deep_rows(), *program_rows()]


def plotted(dtype):
    """Returns {tokens at once: name of the case} for the picture."""
    points = {1: "decode", **{n: f"prefill of {n}" for n in (*BATCHES, 512)}}
    return {n: name(what, dtype, MANY) for n, what in points.items()}

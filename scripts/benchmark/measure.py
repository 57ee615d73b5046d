"""Cases, rounds, medians.

The speed of a small shared machine drifts from minute to minute, so every round measures every case.
Within a case, the sides alternate: forwards in one round and backwards in the next. The first round is not
counted."""

import dataclasses
import statistics
import sys
import time
import traceback
from collections.abc import Callable

from .crowd import Watch
from .paths import Unmeasured

SETTLE = 0.03  # seconds until the other library's threads stop their busy waiting


@dataclasses.dataclass
class Case:
    """`measure(round)` returns {side: figure}; sides are "smol", "limit", names of peers and others."""

    name: str
    measure: Callable
    once: bool = False  # the figure never changes: one round suffices
    values: dict = dataclasses.field(default_factory=dict)  # side: [a figure for each round]
    seconds: float = 0.0  # total time
    others: list = dataclasses.field(default_factory=list)  # load from other processes, for each measurement
    failure: str | None = None


def in_turn(turns=1, **sides):
    """Returns the `measure` of a case from one call per side: each side's median over a few turns."""

    def measure(round_):
        figures = {side: [] for side in sides}
        for turn in range(turns):
            for side in list(sides)[:: -1 if (round_ + turn) % 2 else 1]:
                time.sleep(SETTLE)
                figures[side].append(sides[side]())
        return {side: median(values) for side, values in figures.items()}

    return measure


def run_case(case, round_, counted):
    try:
        with Watch() as watch:
            figures = case.measure(round_)
    except Exception as error:  # one broken case must not prevent the others
        if not isinstance(error, Unmeasured):
            traceback.print_exc()
        case.failure = str(error) or type(error).__name__
        return
    case.seconds += watch.seconds
    if not counted:
        return
    case.others.append(watch.share())
    for side, figure in figures.items():
        case.values.setdefault(side, []).append(figure)


def run(cases, rounds, patience):
    """Fills in the values, or the failure, of every case; waits for a quiet machine before each."""
    for round_ in range(rounds + 1):
        start = time.perf_counter()
        for case in cases:
            if not case.failure and not (case.once and round_):
                show_progress(f"{name_of(round_, rounds)}: {case.name}")
                patience.wait()
                run_case(case, round_, round_ > 0 or case.once)
        show_progress(f"{name_of(round_, rounds)}: {time.perf_counter() - start:.0f} s", "\n")


def name_of(round_, rounds):
    return f"round {round_} of {rounds}" if round_ else "warm-up"


def show_progress(text, end=""):
    """Shows the current measurement on one line of a terminal; otherwise only the ends of rounds."""
    if end or sys.stderr.isatty():
        erase = "\r\033[K" if sys.stderr.isatty() else ""
        print(f"{erase}bench: {text}", end=end, file=sys.stderr, flush=True)


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def median(values):
    return statistics.median(values)


def ratios(values, others):
    """Returns the ratio of the medians, and the lowest and highest ratio within one round."""
    each = [a / b for a, b in zip(values, others, strict=True)]
    return median(values) / median(others), min(each), max(each)

"""Tokens per second: smol, llama.cpp and the machine's limit."""

import functools

import numpy as np

from . import fork, limits, peer, smol
from .measure import Case, in_turn, median, seconds
from .paths import (
    DTYPES, GGUF_TYPES, OUR_INT8, PLOTTED, THREADS, blob, gguf_file, ik_llama_cpp, llama_cpp,
)  # fmt: skip

PREFILL, DECODE, DEEP_DECODE = 512, 24, 16
TURNS = 3  # turns of short measurements within a round
DEPTHS = (4096, 8000)
LONG_PROMPT = 4096
SHALLOW, DEEP = 1024, 8192  # sizes of contexts
ATTENTION_DEPTH = 3584
BATCHES = (8, 64)  # shown in the picture, between decode and prefill
Q8_0 = llama_cpp("Q8_0")
F16_CACHE, Q4_0_CACHE = "smol f16 cache", "llama.cpp Q4_0 cache"

IDS = np.random.default_rng(7).integers(17, 49152, DEEP).astype(np.uint32)  # 0..16 are special


# --- models and contexts, opened on first use --------------------------------------------------


@functools.cache
def smol_model(dtype):
    return smol.Model(blob(dtype))


@functools.cache
def smol_context(dtype, n_threads, depth=0, kv="default"):
    """Returns a context that contains `depth` tokens."""
    context = smol.Context(smol_model(dtype), n_threads, kv=kv)
    if depth:
        context.eval(IDS[:depth])
    return context


@functools.cache
def peer_model(kind):
    return peer.Model(gguf_file(kind))


@functools.cache
def peer_context(kind, n_threads, flash, depth=0, size=SHALLOW, kv="f16"):
    context = peer.Context(peer_model(kind), n_threads, size, flash, kv)
    if depth:
        context.eval(IDS[:depth])
    return context


@functools.cache
def isa():
    return smol_context("int8", 1).info().isa.decode()


# --- tokens per second --------------------------------------------------------------------------


def warm(context, depth):
    """Evaluates one token, which reads all weights and wakes the threads: the kernel may have unmapped pages
    that were not used recently."""
    context.truncate(depth)
    context.eval(IDS[depth : depth + 1])
    context.truncate(depth)


def prefill(context, n, depth=0):
    warm(context, depth)
    taken = seconds(lambda: context.eval(IDS[depth : depth + n]))
    context.truncate(depth)
    return n / taken


def decode(context, n=DECODE, depth=0):
    warm(context, depth)
    steps = [IDS[i : i + 1] for i in range(depth, depth + n)]
    taken = seconds(lambda: [context.eval(step) for step in steps])
    context.truncate(depth)
    return n / taken


def attention(n_threads):
    """Returns the multiply-adds per second for the 3,584 earlier positions of a prompt of 512 tokens."""
    far = smol_context("int8", n_threads, ATTENTION_DEPTH)
    near = smol_context("int8", n_threads)
    extra = PREFILL / prefill(far, PREFILL, ATTENTION_DEPTH) - PREFILL / prefill(near, PREFILL)
    return limits.attention_multiply_adds(PREFILL, ATTENTION_DEPTH) / extra


# --- limits in tokens per second ----------------------------------------------------------------


def read_limit(dtype, n_threads, depth=0, kv="f16"):
    size = limits.blob_bytes(dtype) + limits.kv_bytes(kv, depth)
    return limits.bytes_per_second(isa(), blob(dtype), n_threads) / size


def multiply_limit(dtype, n_threads, n):
    rate = limits.multiply_adds_per_second(isa(), dtype, n_threads)
    return n * rate / limits.prompt_multiply_adds(n)


# --- llama.cpp's fastest settings ---------------------------------------------------------------

FLASH_CHOSEN = {}  # what is measured: "on" or "off"


def best_peer(what, measure, kind, n_threads, depth=0, size=SHALLOW, tries=TURNS):
    """Returns llama.cpp's context with or without flash attention. A few tries of each decide which one is
    faster, once for each thing that is measured."""
    if what not in FLASH_CHOSEN:
        speeds = {"on": [], "off": []}
        for _ in range(tries):
            for flash, figures in speeds.items():
                figures.append(measure(peer_context(kind, n_threads, flash, depth, size)))
        FLASH_CHOSEN[what] = max(speeds, key=lambda flash: median(speeds[flash]))
    return peer_context(kind, n_threads, FLASH_CHOSEN[what], depth, size)


# --- cases --------------------------------------------------------------------------------------


def name(what, dtype, n_threads):
    return f"{dtype} {what}, {n_threads} thread{'s' * (n_threads > 1)}"


def sides(what, measure, dtype, n_threads, fork_measure):
    """Returns the sides of a case: this blob, our int8 beside fewer bits, llama.cpp and the fork with files of
    each type of the same width. `measure` takes a context, `fork_measure` a type."""
    found = {"smol": lambda: measure(smol_context(dtype, n_threads))}
    if dtype == "int4":
        found[OUR_INT8] = lambda: measure(smol_context("int8", n_threads))
    for kind in GGUF_TYPES[dtype]:
        found[llama_cpp(kind)] = lambda kind=kind: measure(best_peer(what, measure, kind, n_threads))
        if fork.program() and dtype in fork.DTYPES:
            found[ik_llama_cpp(kind)] = functools.partial(fork_measure, kind)
    return found


def decode_case(dtype, n_threads):
    return Case(
        name("decode", dtype, n_threads),
        in_turn(
            TURNS,
            **sides("decode", decode, dtype, n_threads,
                    lambda kind: fork.decode(kind, n_threads, DECODE)),
            limit=lambda: read_limit(dtype, n_threads),
        ),
    )  # fmt: skip


def prefill_case(dtype, n_threads, n):
    def measure(context):
        return prefill(context, n)

    what = f"prefill of {n}"
    return Case(
        name(what, dtype, n_threads),
        in_turn(
            1 if n == PREFILL else TURNS,
            **sides("prefill", measure, dtype, n_threads,
                    lambda kind: fork.prefill(kind, n_threads, n)),
            limit=lambda: multiply_limit(dtype, n_threads, n),
        ),
    )  # fmt: skip


def deep_decode_case(depth, n_threads):
    def measure(context):
        return decode(context, DEEP_DECODE, depth)

    what = f"decode at depth {depth}"
    return Case(
        name(what, "int8", n_threads),
        in_turn(
            TURNS,
            smol=lambda: measure(smol_context("int8", n_threads, depth)),
            **{Q8_0: lambda: measure(best_peer("deep decode", measure, "Q8_0", n_threads, depth, DEEP))},
            limit=lambda: read_limit("int8", n_threads, depth),
        ),
    )


def small_cache_case(depth, n_threads):
    """Keys and values of 4 bits, beside our f16 and llama.cpp's Q4_0, which requires flash attention."""

    def measure(context):
        return decode(context, DEEP_DECODE, depth)

    return Case(
        name(f"decode at depth {depth}, int4 cache", "int8", n_threads),
        in_turn(
            TURNS,
            smol=lambda: measure(smol_context("int8", n_threads, depth, "int4")),
            **{F16_CACHE: lambda: measure(smol_context("int8", n_threads, depth))},
            **{Q4_0_CACHE: lambda: measure(peer_context("Q8_0", n_threads, "on", depth, DEEP, "q4_0"))},
            limit=lambda: read_limit("int8", n_threads, depth, "int4"),
        ),
    )


def long_prefill_case(n_threads):
    def measure(context):
        return prefill(context, LONG_PROMPT)

    what = f"prefill of {LONG_PROMPT}"
    return Case(
        name(what, "int8", n_threads),
        in_turn(
            smol=lambda: measure(smol_context("int8", n_threads)),
            **{Q8_0: lambda: measure(best_peer("long prefill", measure, "Q8_0", n_threads, 0, DEEP, 1))},
        ),
    )


def attention_case(n_threads):
    return Case(
        name("attention", "int8", n_threads),
        in_turn(
            smol=lambda: attention(n_threads),
            limit=lambda: limits.multiply_adds_per_second(isa(), "f32", n_threads),
        ),
    )


def cases():
    both = [
        case
        for dtype in DTYPES
        for n_threads in THREADS
        for case in (decode_case(dtype, n_threads), prefill_case(dtype, n_threads, PREFILL))
    ]
    batches = [prefill_case(dtype, THREADS[-1], n) for dtype in PLOTTED for n in BATCHES]
    deep = [deep_decode_case(depth, THREADS[-1]) for depth in DEPTHS]
    return [
        *both, *batches, *deep, small_cache_case(DEPTHS[0], THREADS[-1]),
        long_prefill_case(THREADS[-1]), attention_case(THREADS[-1]),
    ]  # fmt: skip

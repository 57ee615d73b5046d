"""Tokens per second: smol, llama.cpp and the machine's limit."""

import functools

import numpy as np

from . import limits, peer, smol
from .measure import Case, in_turn, median, seconds
from .paths import DTYPES, THREADS, blob, gguf_file

PREFILL, DECODE, DEEP_DECODE = 512, 24, 16
TURNS = 3  # turns of short measurements within a round
DEPTHS = (4096, 8000)
LONG_PROMPT = 4096
SHALLOW, DEEP = 1024, 8192  # sizes of contexts
ATTENTION_DEPTH = 3584
BATCHES = (8, 64)  # shown in the picture, between decode and prefill

IDS = np.random.default_rng(7).integers(17, 49152, DEEP).astype(np.uint32)  # 0..16 are special


# --- models and contexts, opened on first use --------------------------------------------------


@functools.cache
def smol_model(dtype):
    return smol.Model(blob(dtype))


@functools.cache
def smol_context(dtype, n_threads, depth=0):
    """Returns a context that contains `depth` tokens."""
    context = smol.Context(smol_model(dtype), n_threads)
    if depth:
        context.eval(IDS[:depth])
    return context


@functools.cache
def peer_model(dtype):
    return peer.Model(gguf_file(dtype))


@functools.cache
def peer_context(dtype, n_threads, flash, depth=0, size=SHALLOW):
    context = peer.Context(peer_model(dtype), n_threads, size, flash)
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


def read_limit(dtype, n_threads, depth=0):
    size = limits.blob_bytes(dtype) + (limits.kv_bytes(dtype, depth) if depth else 0)
    return limits.bytes_per_second(isa(), dtype, n_threads) / size


def multiply_limit(dtype, n_threads, n):
    rate = limits.multiply_adds_per_second(isa(), dtype, n_threads)
    return n * rate / limits.prompt_multiply_adds(n)


# --- llama.cpp's fastest settings ---------------------------------------------------------------

FLASH_CHOSEN = {}  # kind of measurement: "on" or "off"


def best_peer(kind, measure, dtype, n_threads, depth=0, size=SHALLOW, tries=TURNS):
    """Returns llama.cpp's context with or without flash attention. A few tries of each decide which one is
    faster, once for each kind of measurement."""
    if kind not in FLASH_CHOSEN:
        speeds = {"on": [], "off": []}
        for _ in range(tries):
            for flash, figures in speeds.items():
                figures.append(measure(peer_context(dtype, n_threads, flash, depth, size)))
        FLASH_CHOSEN[kind] = max(speeds, key=lambda flash: median(speeds[flash]))
    return peer_context(dtype, n_threads, FLASH_CHOSEN[kind], depth, size)


# --- cases --------------------------------------------------------------------------------------


def name(what, dtype, n_threads):
    return f"{dtype} {what}, {n_threads} thread{'s' * (n_threads > 1)}"


def decode_case(dtype, n_threads):
    return Case(
        name("decode", dtype, n_threads),
        in_turn(
            TURNS,
            smol=lambda: decode(smol_context(dtype, n_threads)),
            peer=lambda: decode(best_peer("decode", decode, dtype, n_threads)),
            limit=lambda: read_limit(dtype, n_threads),
        ),
    )


def prefill_case(dtype, n_threads, n):
    def measure(context):
        return prefill(context, n)

    what = f"prefill of {n}"
    return Case(
        name(what, dtype, n_threads),
        in_turn(
            1 if n == PREFILL else TURNS,
            smol=lambda: measure(smol_context(dtype, n_threads)),
            peer=lambda: measure(best_peer("prefill", measure, dtype, n_threads)),
            limit=lambda: multiply_limit(dtype, n_threads, n),
        ),
    )


def deep_decode_case(depth, n_threads):
    def measure(context):
        return decode(context, DEEP_DECODE, depth)

    what = f"decode at depth {depth}"
    return Case(
        name(what, "int8", n_threads),
        in_turn(
            TURNS,
            smol=lambda: measure(smol_context("int8", n_threads, depth)),
            peer=lambda: measure(best_peer("deep decode", measure, "int8", n_threads, depth, DEEP)),
            limit=lambda: read_limit("int8", n_threads, depth),
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
            peer=lambda: measure(best_peer("long prefill", measure, "int8", n_threads, 0, DEEP, 1)),
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
    batches = [prefill_case(dtype, THREADS[-1], n) for dtype in DTYPES for n in BATCHES]
    deep = [deep_decode_case(depth, THREADS[-1]) for depth in DEPTHS]
    return [*both, *batches, *deep, long_prefill_case(THREADS[-1]), attention_case(THREADS[-1])]

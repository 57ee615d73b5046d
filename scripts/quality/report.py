"""The page docs/quality.md: all points, and how smol compares at llama.cpp's sizes.

smol's curve is made of its calibrated points, without those that another one beats in both size and
divergence. Between two of them the logarithm of the divergence is interpolated along the bits of a weight: a
blob may mix types, so these sizes exist."""

import math

TITLES = {"moved": "SmolLM2-135M, moved", "small-qwen2": "Qwen2-like, 3 M", "small-olmo2": "OLMo2-like, 5 M"}

# Bits of the targets, types that have them, and the largest ratio of smol's divergence to theirs.
AT_EQUAL_SIZE = (
    ("4.5", ("Q4_0", "IQ4_NL", "Q4_K_M", "Q4_0 pure", "IQ4_NL pure"), 0.5),
    ("5.5", ("Q5_K_M",), 0.7),
    ("6.5", ("Q6_K",), 0.7),
)
TYPE_AGAINST_TYPE = (("int4", "Q4_0", 0.4), ("int8", "Q8_0", 0.55))


def cells(figures):
    """Returns the columns of a table: perplexity, divergence, same top token."""
    return (f"{figures['perplexity']:.4f} +/- {figures['perplexity_error']:.4f} | "
            f"{figures['kl']:.6f} +/- {figures['kl_error']:.6f} | {100 * figures['same_top']:.2f} %")  # fmt: skip


def order(point):
    return point["side"] != "smol", point["bits"], point["calibrated"]


def sort_points(model):
    return sorted(model["points"].values(), key=order)


def side_points(model, side, calibrated):
    """Returns the points of one curve by size. A file of f32 is the reference, not a point of it."""
    found = [p for p in sort_points(model) if p["side"] == side and p["calibrated"] == calibrated]
    return [point for point in found if point["bits"] < 16]


def frontier(points):
    """Returns the points that no smaller one beats, by size."""
    best = []
    for point in points:
        if not best or point["kl"] < best[-1]["kl"]:
            best.append(point)
    return best


def ours_at(model, bits):
    """Returns smol's divergence at a size, or None for sizes below all of its points."""
    curve = frontier(side_points(model, "smol", True))
    if not curve or bits < curve[0]["bits"]:
        return None
    for low, high in zip(curve, curve[1:]):
        if bits < high["bits"]:
            share = (bits - low["bits"]) / (high["bits"] - low["bits"])
            return math.exp((1 - share) * math.log(low["kl"]) + share * math.log(high["kl"]))
    return curve[-1]["kl"]


def find(model, side, kind, calibrated):
    wanted = side, kind, calibrated
    return next((p for p in model["points"].values() if (p["side"], p["kind"], p["calibrated"]) == wanted), None)


def verdict(ratio, bound):
    return f"{ratio:.2f} | at most {bound}: {'met' if ratio <= bound else 'missed'}"


def point_name(point):
    suffix = {"smol": ", calibrated", "llama.cpp": ", importance matrix"}[point["side"]]
    return f"{point['side']} {point['kind']}{suffix if point['calibrated'] else ''}"


def points_table(model):
    yield "| weights | size | bits per weight | perplexity | KL divergence, nats | same top token |"
    yield "|---|---:|---:|---:|---:|---:|"
    for point in sort_points(model):
        size = f"{point['bytes'] / 1e6:.1f} MB | {point['bits']:.2f}"
        yield f"| {point_name(point)} | {size} | {cells(point)} |"


def equal_size_rows(model):
    for bits, kinds, bound in AT_EQUAL_SIZE:
        for kind in kinds:
            theirs = find(model, "llama.cpp", kind, True)
            ours = theirs and ours_at(model, theirs["bits"])
            if ours:
                yield (f"| {bits} | {kind}, importance matrix | {theirs['bits']:.2f} | {theirs['kl']:.5f} | "
                       f"{ours:.5f} | {verdict(ours / theirs['kl'], bound)} |")  # fmt: skip


def type_rows(model):
    for dtype, kind, bound in TYPE_AGAINST_TYPE:
        ours, theirs = find(model, "smol", dtype, True), find(model, "llama.cpp", kind, False)
        if ours and theirs:
            yield (f"| {dtype} | {kind} | {theirs['bits']:.2f} | {theirs['kl']:.5f} | {ours['kl']:.5f} "
                   f"({ours['bits']:.2f} bits) | {verdict(ours['kl'] / theirs['kl'], bound)} |")  # fmt: skip


def ratios_table(model):
    yield "| target for | llama.cpp | bits per weight | its divergence | smol's | ratio | target |"
    yield "|---|---|---:|---:|---:|---:|---|"
    yield from equal_size_rows(model)
    yield from type_rows(model)


INTRODUCTION = """# Quality at each size

This page states what weights of fewer bits lose, beside llama.cpp's types. `scripts/measure-quality` writes it from the figures in
[quality.json](quality.json), which it measures.

![divergence against bits per weight](quality.svg)

For each size the mean Kullback-Leibler divergence from the predictions of the checkpoint's own weights is measured, on the same
token ids of prose (Python's own manual). "Calibrated" is `smolconv --calibration` with statistics of
[demo/calibration.txt](../demo/calibration.txt); "importance matrix" is llama.cpp's, computed from the same text as `llama-imatrix` does.
"pure" gives all matrices one type (`llama-quantize --pure`); otherwise llama.cpp's types are mixtures, and where a width is no
multiple of 256 it takes larger types. Sizes are those of files; bits per weight count all tensors, and nothing else. +/- is the standard
error.

Ratios are of smol's divergence to llama.cpp's with an importance matrix, at its bits per weight: between two of smol's calibrated
sizes, the logarithm of the divergence is interpolated. The last two rows compare types instead, and llama.cpp has no importance
matrix in them.
"""


def facts(model):
    return (f"{model['tokens']:,} tokens in windows of {model['ctx']:,}; perplexity of the original weights "
            f"{model['perplexity']:.4f} +/- {model['perplexity_error']:.4f}; calibrated by "
            f"{model['calibration_tokens']:,} tokens.")  # fmt: skip


def page(results):
    parts = [INTRODUCTION]
    for name, model in results.items():
        parts += [f"## {TITLES.get(name, name)}", "", facts(model), ""]
        parts += [*points_table(model), "", *ratios_table(model), ""]
    return "\n".join(parts)

"""The tables of docs/measurements.md: all points, and how smol compares at llama.cpp's sizes.

smol's curve is made of its calibrated points, without those that another one beats in both size and
divergence. Between two of them the logarithm of the divergence is interpolated along the bits of a weight: a
blob may mix types, so these sizes exist."""

import math

TITLES = {"moved": "SmolLM2-135M, moved", "small-qwen2": "Qwen2-like, 5 M", "small-olmo2": "OLMo2-like, 7 M"}

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
    return f"{ratio:.2f} | {'met' if ratio <= bound else 'missed'}: at most {bound}"


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
    yield "| target for | llama.cpp | bits per weight | its KL | smol's KL | ratio | verdict |"
    yield "|---|---|---:|---:|---:|---:|---|"
    yield from equal_size_rows(model)
    yield from type_rows(model)


def text(results):
    parts = []
    for name, model in results.items():
        parts += [f"{TITLES.get(name, name)}: {model['tokens']} tokens, {model['scored']} scored, windows of "
                  f"{model['ctx']}; perplexity {model['perplexity']:.4f} +/- {model['perplexity_error']:.4f}; "
                  f"calibrated by {model['calibration_tokens']} tokens", ""]  # fmt: skip
        parts += [*points_table(model), "", *ratios_table(model), ""]
    return "\n".join(parts)

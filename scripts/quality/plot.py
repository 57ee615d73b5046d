"""The picture: divergence against the bits of a weight, a panel for each model."""

import picture
from picture import DEPTH, LEFT, TOP, line, text

from .report import TITLES, frontier, side_points

PANEL, GAP = 276, 64
FROM, TO = 4, 9  # bits

STYLE = """.hollow.line { stroke-dasharray: 2 4 } .hollow.mark { stroke-width: 1.5 }
text.smol, text.peer { stroke: none; font-size: 11px }
"""

CURVES = (  # side, calibrated, style, words
    ("smol", True, "smol", "smol, calibrated"),
    ("smol", False, "smol hollow", "smol"),
    ("llama.cpp", True, "peer", "llama.cpp, importance matrix"),
    ("llama.cpp", False, "peer hollow", "llama.cpp"),
)


class Scale(picture.Scale):
    """The axes of one panel; divergence is logarithmic."""

    def x(self, bits):
        return self.left + PANEL * (bits - FROM) / (TO - FROM)


def mark(style, x, y):
    if style.startswith("smol"):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{style} mark"/>'
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" class="{style} mark"/>'


def draw_grid(scale):
    columns = [(scale.x(bits), str(bits)) for bits in range(FROM + 1, TO)]
    rows = [(kl, f"{kl:g}") for kl in picture.round_values(scale, range(-6, 2))]
    return picture.grid(scale, PANEL, columns, rows)


def place_label(labels, x, y):
    """Returns y, moved up until the label is clear of those at `labels`, and adds it to them."""
    while any(abs(x - other_x) < 80 and abs(y - other_y) < 12 for other_x, other_y in labels):
        y -= 2
    labels.append((x, y))
    return y


def draw_curve(model, scale, side, calibrated, style):
    points = side_points(model, side, calibrated)
    shown = frontier(points) if side == "smol" else []  # llama.cpp has types, not a curve
    at = " ".join(f"{scale.x(p['bits']):.1f},{scale.y(p['kl']):.1f}" for p in shown)
    parts = [f'<polyline points="{at}" class="{style} line"/>'] if shown else []
    labels = []
    for point in sorted(points, key=lambda point: point["kl"]):
        x, y = scale.x(point["bits"]), scale.y(point["kl"])
        parts += [mark(style, x, y)]
        if calibrated and not point["kind"].startswith("-"):
            if side == "smol":
                parts += [text(x - 7, y + 14, point["kind"], style, "end")]
            else:
                parts += [text(x + 7, place_label(labels, x, y), point["kind"], style)]
    return parts


def draw_panel(name, model, left):
    kls = [p["kl"] for p in model["points"].values() if p["bits"] < 16]
    scale = Scale(left, min(kls) / 1.8, max(kls) * 1.8)
    middle = left + PANEL / 2
    parts = draw_grid(scale) + [text(scale.left + 2, TOP - 10, TITLES.get(name, name), "strong")]
    for side, calibrated, style, _ in reversed(CURVES):
        parts += draw_curve(model, scale, side, calibrated, style)
    return parts + [text(middle, TOP + DEPTH + 38, "bits per weight", "small", "middle")]


def draw_heading():
    parts = [text(LEFT, 30, "Mean divergence from the original weights, in nats", "strong title")]
    x = LEFT
    for side, calibrated, style, words in CURVES:
        parts += [line(x, 50, x + 26, 50, f"{style} line")] if side == "smol" else []
        parts += [mark(style, x + 13, 50), text(x + 33, 54, words, "small")]
        x += 60 + 6.6 * len(words)
    return parts


def draw(results):
    """Returns the picture of docs/quality.json."""
    parts = draw_heading()
    for i, (name, model) in enumerate(results.items()):
        parts += draw_panel(name, model, LEFT + i * (PANEL + GAP))
    note = "Lower is better. Both sides are calibrated by the same text, and measured on another one."
    return picture.document(STYLE, parts, note)

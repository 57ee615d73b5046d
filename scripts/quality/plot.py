"""The picture: divergence against the bits of a weight, a panel for each model. Written as plain SVG."""

import math
from html import escape

from .report import TITLES, frontier, side_points

WIDTH, HEIGHT = 1080, 440
LEFT, TOP, PANEL, GAP, DEPTH = 64, 84, 276, 64, 276  # DEPTH: height of a panel
FROM, TO = 4, 9  # bits

STYLE = """
svg { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
.card { fill: #fcfcfb } .panel { fill: #ffffff; stroke: #cfd4da }
.grid { stroke: #e6e9ec } text { fill: #3d444d } .strong { fill: #15191e; font-weight: 600 }
.small { font-size: 11.5px } .title { font-size: 16px } .note { fill: #5b646f; font-size: 11.5px }
.smol { stroke: #d0440a; fill: #d0440a }
.peer { stroke: #1c69b4; fill: #1c69b4 }
.line { fill: none !important; stroke-width: 2 } .plain.line { stroke-dasharray: 2 4 }
text.smol, text.peer { stroke: none; font-size: 11px }
.plain.mark { fill: #ffffff; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
.card { fill: #14181d } .panel { fill: #1a1f26; stroke: #3a424c }
.grid { stroke: #2a313a } text { fill: #c3cad2 } .strong { fill: #f2f5f8 } .note { fill: #a2abb6 }
.smol { stroke: #ff8a4c; fill: #ff8a4c } .peer { stroke: #62b0ff; fill: #62b0ff }
.plain.mark { fill: #1a1f26 }
}"""

CURVES = (  # side, calibrated, style, words
    ("smol", True, "smol", "smol, calibrated"),
    ("smol", False, "smol plain", "smol"),
    ("llama.cpp", True, "peer", "llama.cpp, importance matrix"),
    ("llama.cpp", False, "peer plain", "llama.cpp"),
)


class Scale:
    """The axes of one panel; divergence is logarithmic."""

    def __init__(self, left, low, high):
        self.left, self.low, self.high = left, low, high

    def x(self, bits):
        return self.left + PANEL * (bits - FROM) / (TO - FROM)

    def y(self, kl):
        return TOP + DEPTH * (1 - math.log(kl / self.low) / math.log(self.high / self.low))


def text(x, y, words, style="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def mark(style, x, y):
    if style.startswith("smol"):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{style} mark"/>'
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" class="{style} mark"/>'


def draw_grid(scale):
    parts = [f'<rect x="{scale.left}" y="{TOP}" width="{PANEL}" height="{DEPTH}" class="panel"/>']
    for bits in range(FROM + 1, TO):
        x = scale.x(bits)
        parts += [line(x, TOP, x, TOP + DEPTH, "grid")]
        parts += [text(x, TOP + DEPTH + 18, str(bits), "small", "middle")]
    for kl in (m * 10**e for e in range(-6, 2) for m in (1, 2, 5)):
        if scale.low <= kl <= scale.high:
            parts += [line(scale.left, scale.y(kl), scale.left + PANEL, scale.y(kl), "grid")]
            parts += [text(scale.left - 8, scale.y(kl) + 4, f"{kl:g}", "small", "end")]
    return parts


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
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" class="card"/>', *draw_heading()]
    for i, (name, model) in enumerate(results.items()):
        parts += draw_panel(name, model, LEFT + i * (PANEL + GAP))
    note = "Lower is better. Both sides are calibrated by the same text, and measured on another one."
    parts += [text(LEFT, HEIGHT - 14, note, "note")]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([opening, f"<style>{STYLE}</style>", *parts, "</svg>", ""])

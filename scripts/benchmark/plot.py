"""The picture: tokens per second against the roofline, a panel for each dtype.

The more tokens pass through the layers at once, the more work is done for each weight read. With few
tokens, reading memory is the limit (the slope); with many, multiplying is (the ceiling)."""

import math

import picture
from picture import DEPTH, LEFT, TOP, WIDTH, line, text

from . import limits, peer
from .measure import median
from .paths import GGUF_TYPES, PLOTTED, THREADS, llama_cpp
from .targets import plotted

PANEL, GAP = 308, 24
TOKENS = (1, 8, 64, 512)
FROM, TO = 0.3, 2300  # range of the axis of tokens, with room for figures beside the outer points

STYLE = """.roof { fill: none; stroke: #6b7480; stroke-width: 2 } .peer.line { stroke-dasharray: 5 4 }
text.smol, text.peer { stroke: none; font-weight: 600 } .hollow.mark { stroke-width: 2 }
@media (prefers-color-scheme: dark) { .roof { stroke: #98a2ae } }
"""


def complete(cases):
    """Returns whether all figures in the picture were measured."""
    shown = [name for dtype in PLOTTED for name in plotted(dtype).values()]
    return all(name in cases and cases[name].values for name in shown)


# --- data ---------------------------------------------------------------------------------------


class Panel:
    """The figures of one dtype."""

    def __init__(self, dtype, cases):
        self.dtype = dtype
        (self.peer_type,) = GGUF_TYPES[dtype]
        self.points = {
            side: [(n, median(cases[name].values[key])) for n, name in plotted(dtype).items()]
            for side, key in (("smol", "smol"), ("peer", llama_cpp(self.peer_type)))
        }
        one, many = (median(cases[plotted(dtype)[n]].values["limit"]) for n in (1, TOKENS[-1]))
        self.bytes_per_second = one * limits.blob_bytes(dtype)
        self.rate = many * limits.prompt_multiply_adds(TOKENS[-1]) / TOKENS[-1]

    def slope(self, n):
        return n * self.bytes_per_second / limits.blob_bytes(self.dtype)

    def ceiling(self, n):
        return n * self.rate / limits.prompt_multiply_adds(n)

    def roof(self, n):
        return min(self.slope(n), self.ceiling(n))

    def figures(self):
        return [y for points in self.points.values() for _, y in points] + [self.roof(TOKENS[-1])]


# --- axes ---------------------------------------------------------------------------------------


class Scale(picture.Scale):
    """The axes of one panel, both logarithmic."""

    def x(self, n):
        return self.left + PANEL * math.log(n / FROM) / math.log(TO / FROM)

    def at(self, points):
        return " ".join(f"{self.x(n):.1f},{self.y(speed):.1f}" for n, speed in points)


# --- elements -----------------------------------------------------------------------------------


def mark(side, x, y):
    if side == "smol":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="smol mark"/>'
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" class="peer hollow mark"/>'


def draw_grid(scale, first):
    speeds = picture.round_values(scale, range(7))
    columns = [(scale.x(n), str(n)) for n in TOKENS]
    return picture.grid(scale, PANEL, columns, [(v, f"{v:,}" if first else "") for v in speeds])


def draw_roof(panel, scale):
    last = TOKENS[-1]
    steps = [last ** (i / 80) for i in range(81)]
    knee = next(n for n in steps if panel.ceiling(n) < panel.slope(n) or n == steps[-1])
    rise = scale.y(panel.slope(2)) - scale.y(panel.slope(1))
    turn = math.degrees(math.atan2(rise, scale.x(2) - scale.x(1)))
    middle = math.sqrt(knee)
    kind = "int8" if panel.dtype == "int8" else "f32"
    return [
        f'<polyline points="{scale.at([(n, panel.roof(n)) for n in steps])}" class="roof"/>',
        text(scale.x(middle) - 6, scale.y(panel.slope(middle)) - 7,
             f"reading {panel.bytes_per_second / 1e9:.0f} GB/s", "note", "middle", turn),
        text(scale.x(last), scale.y(panel.ceiling(last)) - 8,
             f"{panel.rate / 1e9:.0f} G {kind} multiply-adds/s", "note", "end"),
    ]  # fmt: skip


def draw_side(panel, scale, side):
    points = panel.points[side]
    parts = [f'<polyline points="{scale.at(points)}" class="{side} line"/>']
    return parts + [mark(side, scale.x(n), scale.y(speed)) for n, speed in points]


def draw_figures(panel, scale, index, anchor, aside):
    """Writes the figure beside an outer point of both sides, and moves them apart if they overlap."""
    ends = [(side, *points[index]) for side, points in panel.points.items()]
    ends.sort(key=lambda end: -end[2])
    heights = [scale.y(speed) + 4 for _, _, speed in ends]
    overlap = max(0, 13 - (heights[1] - heights[0]))
    heights = heights[0] - overlap / 2, heights[1] + overlap / 2
    return [
        text(scale.x(n) + aside, y, f"{speed:,.0f}", f"{side} small", anchor)
        for (side, n, speed), y in zip(ends, heights, strict=True)
    ]


def draw_panel(panel, scale, first):
    title = f"{panel.dtype}  (llama.cpp: {panel.peer_type})"
    return [
        *draw_grid(scale, first),
        text(scale.left + 2, TOP - 10, title, "strong"),
        *draw_roof(panel, scale),
        *draw_side(panel, scale, "peer"),
        *draw_side(panel, scale, "smol"),
        *draw_figures(panel, scale, 0, "end", -9),
        *draw_figures(panel, scale, -1, "start", 9),
        text(scale.left + PANEL / 2, TOP + DEPTH + 38, "tokens evaluated at once", "small",
             "middle"),
    ]  # fmt: skip


def draw_heading(machine):
    right = WIDTH - GAP
    heading = f"SmolLM2-135M, {THREADS[-1]} threads: tokens per second and the machine's limits"
    parts = [text(LEFT, 30, heading, "strong title")]
    parts += [text(LEFT, 50, machine, "small")]
    for i, (side, words) in enumerate((("smol", "smol"), ("peer", "llama.cpp"))):
        x = right - 206 + i * 96
        parts += [line(x, 26, x + 32, 26, f"{side} line"), mark(side, x + 16, 26)]
        parts += [text(x + 38, 30, words, side)]
    return parts


def draw(cases, circumstances):
    panels = [Panel(dtype, cases) for dtype in PLOTTED]
    figures = [figure for panel in panels for figure in panel.figures()]
    low, high = min(figures) / 1.4, max(figures) * 1.7
    parts = draw_heading(f"{circumstances['machine']}; smol {circumstances['smol']}")
    for i, panel in enumerate(panels):
        parts += draw_panel(panel, Scale(LEFT + i * (PANEL + GAP), low, high), i == 0)
    note = "Roof: a plain read of the blob, and multiply-adds in registers, by as many threads."
    if "AVX512_BF16" in peer.features():
        note += " llama.cpp multiplies bf16 in bf16 here, which is faster than f32."
    return picture.document(STYLE, parts, note)

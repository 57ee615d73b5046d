"""Common parts of the pictures of measurements: panels with a logarithmic axis, as plain SVG, written without a library."""

import math
from html import escape

WIDTH, HEIGHT = 1080, 440
LEFT, TOP, DEPTH = 64, 84, 276  # DEPTH: height of a panel

STYLE = """
svg { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
.card { fill: #fcfcfb } .panel { fill: #ffffff; stroke: #cfd4da }
.grid { stroke: #e6e9ec } text { fill: #3d444d } .strong { fill: #15191e; font-weight: 600 }
.small { font-size: 11.5px } .title { font-size: 16px } .note { fill: #5b646f; font-size: 11.5px }
.smol { stroke: #d0440a; fill: #d0440a }
.peer { stroke: #1c69b4; fill: #1c69b4 }
.line { fill: none !important; stroke-width: 2 } .hollow.mark { fill: #ffffff }
@media (prefers-color-scheme: dark) {
.card { fill: #14181d } .panel { fill: #1a1f26; stroke: #3a424c }
.grid { stroke: #2a313a } text { fill: #c3cad2 } .strong { fill: #f2f5f8 } .note { fill: #a2abb6 }
.smol { stroke: #ff8a4c; fill: #ff8a4c } .peer { stroke: #62b0ff; fill: #62b0ff }
.hollow.mark { fill: #1a1f26 }
}
"""


class Scale:
    """The vertical axis of a panel, from `low` to `high`; `left` is the panel's place."""

    def __init__(self, left, low, high):
        self.left, self.low, self.high = left, low, high

    def y(self, value):
        return TOP + DEPTH * (1 - math.log(value / self.low) / math.log(self.high / self.low))


def text(x, y, words, style="", anchor="start", turn=0):
    around = f' transform="rotate({turn:.1f} {x:.1f} {y:.1f})"' if turn else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}"{around}>'
        f"{escape(words)}</text>"
    )


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def grid(scale, width, columns, rows):
    """Returns the panel and its grid: columns of (x, label) and rows of (value, label)."""
    parts = [f'<rect x="{scale.left}" y="{TOP}" width="{width}" height="{DEPTH}" class="panel"/>']
    for x, label in columns:
        parts += [line(x, TOP, x, TOP + DEPTH, "grid")]
        parts += [text(x, TOP + DEPTH + 18, label, "small", "middle")]
    for value, label in rows:
        y = scale.y(value)
        parts += [line(scale.left, y, scale.left + width, y, "grid")]
        parts += [text(scale.left - 8, y + 4, label, "small", "end")] if label else []
    return parts


def round_values(scale, exponents):
    """Returns 1, 2, 5, 10, 20 ... within the scale."""
    return [v for e in exponents for m in (1, 2, 5) if scale.low <= (v := m * 10**e) <= scale.high]


def document(style, parts, note):
    """Returns the picture: a card with these parts and a note at its lower edge."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">',
        f"<style>{STYLE}{style}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" class="card"/>',
        *parts,
        text(LEFT, HEIGHT - 14, note, "note"),
        "</svg>\n",
    ])  # fmt: skip

"""A picture of how something grew with time, as SVG: readable in light and dark, and without any library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 64, 44
_COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")
_STYLE = """
svg { font: 13px system-ui, sans-serif; }
text { fill: #1f2937; } .quiet { fill: #6b7280; }
.grid { stroke: #d1d5db; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb; } .quiet { fill: #9ca3af; } .grid { stroke: #4b5563; }
}
"""


@dataclass(frozen=True)
class Curve:
    """One run: seconds, and how many by then. Runs of the same name have the same colour."""

    name: str
    points: Sequence[tuple[float, float]]


def draw(title: str, curves: Sequence[Curve]) -> str:
    """The picture."""
    names = list(dict.fromkeys(curve.name for curve in curves))
    colours = dict(zip(names, _COLOURS, strict=False))
    longest = max(x for curve in curves for x, _ in curve.points) or 1.0
    highest = max(y for curve in curves for _, y in curve.points) or 1.0
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(x: float, y: float) -> str:
        return f"{_LEFT + width * x / longest:.1f},{_TOP + height * (1 - y / highest):.1f}"

    parts = [f'<text x="{_LEFT}" y="24" font-weight="600">{escape(title)}</text>']
    for number in range(5):
        share = number / 4
        x, y = _LEFT + width * share, _TOP + height * (1 - share)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_label(_LEFT - 8, y + 4, f"{highest * share:,.0f}", anchor="end"))
        parts.append(_label(x, _HEIGHT - 18, f"{longest * share:.0f} s", anchor="middle"))
    for curve in curves:
        line = " ".join(place(x, y) for x, y in curve.points)
        colour = colours[curve.name]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for number, name in enumerate(names):
        x = _LEFT + 190 * number
        parts.append(f'<rect x="{x}" y="38" width="14" height="4" fill="{colours[name]}"/>')
        parts.append(f'<text x="{x + 20}" y="45">{escape(name)}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'
    )


def _label(x: float, y: float, text: str, *, anchor: str) -> str:
    return f'<text class="quiet" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'

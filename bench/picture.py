"""What all pictures of benchmarks have in common: colours for light and dark, axes, a legend, numbers.

A picture is SVG without script, font or link. It brings its own background: a page may be dark where the
reader's system is light, and then letters without one could not be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

WIDTH = 760
MARGIN = 20
_LIGHT = (
    "#2563eb",
    "#d97706",
    "#059669",
    "#9333ea",
    "#dc2626",
    "#0891b2",
    "#64748b",
    "#be185d",
)
_DARK = (
    "#3b82f6",
    "#d97706",
    "#10b981",
    "#a855f7",
    "#ef4444",
    "#06b6d4",
    "#64748b",
    "#ec4899",
)
_LETTER, _LINE = 7.4, 20
_STYLE = """
svg {{ font: 13px system-ui, sans-serif; }}
text {{ fill: #1f2937; }} .quiet {{ fill: #5b6472; }} .small {{ font-size: 12px; }}
.page {{ fill: #ffffff; }} .grid {{ stroke: #d8dce2; stroke-width: 1; }}
.rule {{ stroke: #1f2937; stroke-width: 1.5; stroke-dasharray: 5 4; }}
.spread {{ stroke: #1f2937; stroke-width: 1.5; fill: none; }}
.over {{ paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }}
{light}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e5e7eb; }} .quiet {{ fill: #a3adba; }}
.page {{ fill: #111827; }} .grid {{ stroke: #374151; }} .rule, .spread {{ stroke: #f3f4f6; }}
.over {{ stroke: #111827; }}
{dark}
}}
"""


@dataclass(frozen=True)
class Axis:
    """One direction of a picture, from `low` to `high`; a logarithmic one needs a `low` above 0."""

    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """How far along it is, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers along it."""
        if self.log:
            low, high = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            steps = (1, 2, 5) if high - low <= 3 else (1,)
            every = [step * 10.0**power for power in range(low, high + 1) for step in steps]
        else:
            step = _round_step((self.high - self.low) / 5)
            every = [step * number for number in range(math.floor(self.high / step) + 1)]
        slack = 1e-9 * self.high
        return [value for value in every if self.low - slack <= value <= self.high + slack]


def linear(values: Sequence[float]) -> Axis:
    """From 0 to a round number that holds them all."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return Axis(0.0, 1.0)
    step = _round_step(highest / 5)
    return Axis(0.0, step * math.ceil(highest / step - 1e-9))


def logarithmic(values: Sequence[float]) -> Axis:
    """Whole steps of 1, 2, 5 and 10 around them all."""
    if min(values) <= 0:
        raise ValueError(f"a logarithmic axis has no place for {min(values):g}: all values must be above 0")
    steps = [step * 10.0**power for power in range(-9, 13) for step in (1, 2, 5)]
    low = max((step for step in steps if step <= min(values)), default=min(values))
    high = min((step for step in steps if step >= max(values)), default=max(values))
    return Axis(low, high if high > low else low * 10, log=True)


def number(value: float) -> str:
    """As many digits as say something: 15,000, 240, 13.1, 2.4, 0.35."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 1:
        return f"{value:.1f}"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{digits}f}"


def tick(value: float) -> str:
    """A round number, as short as it is."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def label(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    """A line of text."""
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str = "grid") -> str:
    """A straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def width_of(text: str) -> float:
    """About how wide it will be: nobody here knows the reader's letters."""
    return _LETTER * len(text)


def heading(title: str, note: str, names: Sequence[str]) -> tuple[list[str], float]:
    """Title, a note on how to read it, and which colour is what; and where the drawing may begin."""
    parts = [f'<text x="{MARGIN}" y="28" font-weight="600" font-size="15">{escape(title)}</text>']
    y = 28.0
    if note:
        y += _LINE
        parts.append(label(MARGIN, y, note, kind="quiet"))
    if len(names) > 1:
        y += _LINE + 4
        x = float(MARGIN)
        for place, name in enumerate(names):
            wide = 20 + width_of(name) + 22
            if x > MARGIN and x + wide > WIDTH:
                x, y = float(MARGIN), y + _LINE
            parts.append(
                f'<rect class="fill-{colour(place)}" x="{x:.1f}" y="{y - 10:.1f}" width="14" height="10"/>'
            )
            parts.append(label(x + 20, y, name))
            x += wide
    return parts, y + 20


def colour(place: int) -> int:
    """Which colour the name at this place has."""
    return place % len(_LIGHT)


def document(title: str, height: float, parts: Sequence[str]) -> str:
    """The whole file."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"'
        f' height="{height:.0f}" role="img" aria-label={quoteattr(title)}>\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE.format(light=_classes(_LIGHT), dark=_classes(_DARK))}</style>\n"
        f'<rect class="page" width="{WIDTH}" height="{height:.0f}"/>\n{body}\n</svg>\n'
    )


def _classes(colours: Sequence[str]) -> str:
    return "\n".join(
        f".fill-{place} {{ fill: {value}; }} .line-{place} {{ stroke: {value}; fill: none; }}"
        for place, value in enumerate(colours)
    )


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below it."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))

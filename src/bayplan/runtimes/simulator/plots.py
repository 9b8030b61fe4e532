"""Bars in SVG, for a page without scripts: each value twice, the one beside the other."""

from collections.abc import Sequence
from html import escape

_BAR = 10
_GAP = 8
_LABEL = 170
_WIDTH = 640
_NUMBER = 60


def paired_bars(labels: Sequence[str], first: Sequence[float], second: Sequence[float], *, title: str) -> str:
    """Horizontal bars, two a label; `title` is what somebody who cannot see them is told."""
    highest = max([*first, *second, 0]) or 1
    room = _WIDTH - _LABEL - _NUMBER
    parts = []
    for number, label in enumerate(labels):
        top = number * (2 * _BAR + _GAP)
        parts.append(
            f'<text class="label" x="{_LABEL - 8}" y="{top + _BAR + 4}" text-anchor="end">'
            f"{escape(_short(label))}</text>"
        )
        for side, (name, values) in enumerate((("first", first), ("second", second))):
            width = values[number] / highest * room
            y = top + side * _BAR
            parts.append(
                f'<rect class="{name}" x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR - 1}"/>'
                f'<text class="number" x="{_LABEL + width + 4:.1f}" y="{y + _BAR - 2}">'
                f"{_figure(values[number])}</text>"
            )
    height = max(1, len(labels)) * (2 * _BAR + _GAP)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:10] + "…" + label[-13:]


def _figure(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"

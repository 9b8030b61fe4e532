"""Bars in SVG, for a page without scripts: each value twice, the one beside the other."""

from collections.abc import Sequence
from html import escape

_BAR = 13
_GAP = 10
_LETTER = 6.8
_LETTERS = 44
_WIDTH = 860
_NUMBER = 60


def paired_bars(labels: Sequence[str], first: Sequence[float], second: Sequence[float], *, title: str) -> str:
    """Horizontal bars, two a label; `title` is what somebody who cannot see them is told."""
    highest = max([*first, *second, 0]) or 1
    left = round(max((len(_short(label)) for label in labels), default=0) * _LETTER) + 12
    room = _WIDTH - left - _NUMBER
    parts = []
    for number, label in enumerate(labels):
        top = number * (2 * _BAR + _GAP)
        parts.append(
            f'<text class="label" x="{left - 8}" y="{top + _BAR + 4}" text-anchor="end">'
            f"<title>{escape(label)}</title>{escape(_short(label))}</text>"
        )
        for side, (name, values) in enumerate((("first", first), ("second", second))):
            width = values[number] / highest * room
            y = top + side * _BAR
            parts.append(
                f'<rect class="{name}" x="{left}" y="{y}" width="{width:.1f}" height="{_BAR - 1}"/>'
                f'<text class="number" x="{left + width + 4:.1f}" y="{y + _BAR - 2}">'
                f"{_figure(values[number])}</text>"
            )
    height = max(1, len(labels)) * (2 * _BAR + _GAP)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _short(label: str) -> str:
    return label if len(label) <= _LETTERS else label[: _LETTERS // 2] + "…" + label[-(_LETTERS // 2 - 1) :]


def _figure(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"

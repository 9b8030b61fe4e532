"""A picture of figures side by side, as SVG: lying bars with the spread of their rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from bench.picture import (
    MARGIN,
    WIDTH,
    Axis,
    colour,
    document,
    heading,
    label,
    line,
    linear,
    number,
    tick,
    width_of,
)

_THICK, _BETWEEN_BARS, _BETWEEN_GROUPS = 16, 4, 16
_WHISKER = 4
# A longer name of a group takes several lines: bars need the room.
_NAME_LENGTH, _LINE_HEIGHT = 34, 16
_RULES_HEIGHT, _AXIS_HEIGHT = 18, 34


@dataclass(frozen=True)
class Bar:
    """One figure, and the lowest and highest that a round had. Bars of a name have one colour."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Group:
    """Bars that are compared with each other."""

    name: str
    bars: Sequence[Bar]

    @property
    def lines(self) -> list[str]:
        """The name, in lines that are not too long."""
        return wrap(self.name, _NAME_LENGTH) or [""]


@dataclass(frozen=True)
class Rule:
    """A line through all bars: a figure to compare with."""

    value: float
    name: str


def draw(
    title: str, groups: Sequence[Group], *, note: str = "", unit: str = "", rules: Sequence[Rule] = ()
) -> str:
    """The picture; `note` says how to read it, `unit` follows every figure."""
    bars = [bar for group in groups for bar in group.bars]
    names = list(dict.fromkeys(bar.name for bar in bars))
    parts, top = heading(title, note, names)
    top += _RULES_HEIGHT if rules else 0
    reach = [max(bar.value, bar.high) for bar in bars] + [rule.value for rule in rules]
    field = _Field(
        linear(reach),
        left=MARGIN + max(width_of(words) for group in groups for words in group.lines) + 10,
        right=WIDTH - MARGIN - max(width_of(_said(bar, unit)) for bar in bars) - 12,
        top=top,
        bottom=top + sum(_height(group) + _BETWEEN_GROUPS for group in groups),
    )
    parts += field.grid(unit)
    figures: list[str] = []
    y = top + _BETWEEN_GROUPS / 2
    for group in groups:
        first = y + _height(group) / 2 + 4 - (len(group.lines) - 1) * _LINE_HEIGHT / 2
        for number_of_line, words in enumerate(group.lines):
            parts.append(label(field.left - 10, first + number_of_line * _LINE_HEIGHT, words, anchor="end"))
        for number_in_group, bar in enumerate(group.bars):
            at = y + number_in_group * (_THICK + _BETWEEN_BARS)
            parts += field.bar(bar, at, fill=f"fill-{colour(names.index(bar.name))}")
            figures.append(field.figure(bar, at, unit))
        y += _height(group) + _BETWEEN_GROUPS
    for rule in rules:
        x = field.place(rule.value)
        parts.append(line(x, top - 4, x, field.bottom, kind="rule"))
        parts.append(label(x, top - 9, rule.name, anchor="middle", kind="small"))
    return document(title, field.bottom + _AXIS_HEIGHT, [*parts, *figures])


@dataclass(frozen=True)
class _Field:
    """Where the bars are."""

    axis: Axis
    left: float
    right: float
    top: float
    bottom: float

    def place(self, value: float) -> float:
        return self.left + (self.right - self.left) * self.axis.share(value)

    def grid(self, unit: str) -> Iterator[str]:
        for value in self.axis.ticks():
            x = self.place(value)
            yield line(x, self.top, x, self.bottom)
            yield label(x, self.bottom + 18, tick(value) + unit, anchor="middle", kind="quiet small")

    def bar(self, bar: Bar, y: float, *, fill: str) -> Iterator[str]:
        start, end, low, high = map(self.place, (0, bar.value, bar.low, bar.high))
        yield (
            f'<rect class="{fill}" x="{start:.1f}" y="{y:.1f}" width="{end - start:.1f}"'
            f' height="{_THICK}" rx="2"/>'
        )
        middle, up, down = y + _THICK / 2, y + _THICK / 2 - _WHISKER, y + _THICK / 2 + _WHISKER
        yield (
            f'<path class="spread" d="M{low:.1f},{up:.1f}V{down:.1f}M{low:.1f},{middle:.1f}'
            f'H{high:.1f}M{high:.1f},{up:.1f}V{down:.1f}"/>'
        )

    def figure(self, bar: Bar, y: float, unit: str) -> str:
        end = self.place(max(bar.value, bar.high))
        return label(end + 8, y + _THICK - 4, _said(bar, unit), kind="small over")


def _height(group: Group) -> float:
    bars = len(group.bars) * (_THICK + _BETWEEN_BARS) - _BETWEEN_BARS
    return max(bars, len(group.lines) * _LINE_HEIGHT)


def _said(bar: Bar, unit: str) -> str:
    """The figure, with the spread where there is one to speak of."""
    low, high = number(bar.low), number(bar.high)
    spread = f" ({low} to {high})" if low != high else ""
    return f"{number(bar.value)}{unit}{spread}"

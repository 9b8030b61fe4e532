"""A picture of how one figure goes with another, as SVG: runs over time, or measurements with a fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.picture import (
    WIDTH,
    Axis,
    colour,
    document,
    heading,
    label,
    line,
    linear,
    logarithmic,
    tick,
)

_LEFT, _RIGHT, _HEIGHT, _AXIS_HEIGHT = 76, 28, 260, 52

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """One run, or one series of measurements. Those of the same name have the same colour.

    With a `fit`, the points are dots and the fit is the line; without, a line goes through the points.
    """

    name: str
    points: Points
    fit: Points = ()


@dataclass(frozen=True)
class Scale:
    """One axis: what follows its numbers, what it is called, and whether it is logarithmic."""

    unit: str = ""
    name: str = ""
    log: bool = False


SECONDS, COUNT = Scale(" s"), Scale()


def draw(title: str, curves: Sequence[Curve], *, note: str = "", x: Scale = SECONDS, y: Scale = COUNT) -> str:
    """The picture; `note` says how to read it."""
    names = list(dict.fromkeys(curve.name for curve in curves))
    every = [point for curve in curves for point in (*curve.points, *curve.fit)]
    parts, top = heading(title, note or y.name, names)
    field = _Field(
        _axis(x, [point[0] for point in every]), _axis(y, [point[1] for point in every]), top=top + 4
    )
    parts += field.grid(x, y)
    for curve in curves:
        parts += field.curve(curve, colour(names.index(curve.name)))
    return document(title, field.bottom + _AXIS_HEIGHT, parts)


def _axis(scale: Scale, values: Sequence[float]) -> Axis:
    return logarithmic(values) if scale.log else linear(values)


@dataclass(frozen=True)
class _Field:
    """Where the curves are."""

    across: Axis
    up: Axis
    top: float

    @property
    def bottom(self) -> float:
        return self.top + _HEIGHT

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        wide = WIDTH - _LEFT - _RIGHT
        return _LEFT + wide * self.across.share(point[0]), self.bottom - _HEIGHT * self.up.share(point[1])

    def grid(self, x: Scale, y: Scale) -> Iterator[str]:
        for value in self.up.ticks():
            _, at = self.place((self.across.low, value))
            yield line(_LEFT, at, WIDTH - _RIGHT, at)
            yield label(_LEFT - 8, at + 4, tick(value) + y.unit, anchor="end", kind="quiet small")
        for value in self.across.ticks():
            at, _ = self.place((value, self.up.low))
            yield line(at, self.bottom, at, self.bottom + 5)
            yield label(at, self.bottom + 20, tick(value) + x.unit, anchor="middle", kind="quiet small")
        if x.name:
            yield label(
                (WIDTH + _LEFT - _RIGHT) / 2, self.bottom + 40, x.name, anchor="middle", kind="quiet small"
            )

    def curve(self, curve: Curve, number: int) -> Iterator[str]:
        through = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self.place, curve.fit or curve.points))
        dashes = ' stroke-dasharray="6 4"' if curve.fit else ""
        yield f'<polyline class="line-{number}" points="{through}" stroke-width="2"{dashes}/>'
        if curve.fit:
            for x, y in map(self.place, curve.points):
                yield f'<circle class="fill-{number}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'

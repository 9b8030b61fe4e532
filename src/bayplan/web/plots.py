"""Three small plots as SVG: how much was decided, how long it took, who refused nodes."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from bayplan.web.frame import duration
from bayplan.web.markup import Html, tag
from bayplan.web.series import STEP_SECONDS, Moment, verbs_of

_WIDTH, _HEIGHT = 400, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 6, 8, 20
_COLOURS = 6
_RESULTS = ("ok", "refused", "error")


def plots(moments: Sequence[Moment]) -> list[Html]:
    """All of them."""
    return [_decided(moments), _latency(moments), _refused(moments)]


def agreement(moments: Sequence[Moment]) -> Html:
    """How often two sides agreed: the results of these moments are ``same`` and ``different``."""
    stacks = [
        (name, style, [m.results[name] for m in moments])
        for name, style in (("same", "result-ok"), ("different", "result-refused"))
    ]
    every = sum(m.results.total() for m in moments)
    return _figure("Calls compared", f"{every:,} in {_span(moments)}", moments, _Stacks(stacks), unit=_count)


def _decided(moments: Sequence[Moment]) -> Html:
    stacks = [(name, f"result-{name}", [m.results[name] for m in moments]) for name in _RESULTS]
    every = sum(m.results.total() for m in moments)
    return _figure("Decisions", f"{every:,} in {_span(moments)}", moments, _Stacks(stacks), unit=_count)


def _latency(moments: Sequence[Moment]) -> Html:
    lines: list[tuple[str, str, list[float | None]]] = []
    for number, verb in enumerate(verbs_of(moments)[: _COLOURS // 2]):
        for part, dash in ((0.99, ""), (0.5, " half")):
            values = [m.percentile(verb, part) for m in moments]
            lines.append((f"{verb} p{part * 100:.0f}", f"colour-{number}{dash}", values))
    known = [value for _, _, values in lines for value in values if value is not None]
    said = f"up to {duration(max(known))}" if known else "nothing yet"
    return _figure("Time to decide", said, moments, _Lines(lines), unit=duration)


def _refused(moments: Sequence[Moment]) -> Html:
    totals: Counter[str] = Counter()
    for moment in moments:
        totals.update(moment.refused)
    names = [name for name, _ in totals.most_common(_COLOURS - 1)]
    stacks = [
        (name, f"colour-{number}", [m.refused[name] for m in moments]) for number, name in enumerate(names)
    ]
    if len(totals) > len(names):
        rest = [m.refused.total() - sum(m.refused[name] for name in names) for m in moments]
        stacks.append(("others", f"colour-{_COLOURS - 1}", rest))
    said = f"{totals.total():,} in {_span(moments)}"
    return _figure("Nodes refused, by policy", said, moments, _Stacks(stacks), unit=_count)


class _Stacks:
    """Bars, one on the other, a bar a step."""

    def __init__(self, parts: Sequence[tuple[str, str, Sequence[int]]]) -> None:
        self.legend = [(name, style) for name, style, _ in parts]
        self._parts = parts
        self.top: float = max((sum(step) for step in zip(*(p[2] for p in parts), strict=True)), default=0)

    def draw(self, x: Callable[[float], float], y: Callable[[float], float]) -> list[Html]:
        """The marks."""
        below = [0] * (len(self._parts[0][2]) if self._parts else 0)
        drawn = []
        for _, style, values in self._parts:
            path = []
            for step, value in enumerate(values):
                if value:
                    left, right = x(step), x(step + 1) - 0.4
                    low, high = y(below[step]), y(below[step] + value)
                    path.append(f"M{left:.1f} {low:.1f}V{high:.1f}H{right:.1f}V{low:.1f}Z")
                    below[step] += value
            drawn.append(tag("path", d="".join(path), class_=f"bar {style}") if path else Html(""))
        return drawn


class _Lines:
    """Lines that break where nothing happened."""

    def __init__(self, parts: Sequence[tuple[str, str, Sequence[float | None]]]) -> None:
        self.legend = [(name, f"stroke {style}") for name, style, _ in parts]
        self._parts = parts
        self.top = max((v for _, _, values in parts for v in values if v is not None), default=0.0)

    def draw(self, x: Callable[[float], float], y: Callable[[float], float]) -> list[Html]:
        """The marks."""
        return [
            tag("path", d=_path(values, x, y), class_=f"line {style}")
            for _, style, values in self._parts
            if any(value is not None for value in values)
        ]


def _path(values: Sequence[float | None], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    drawn, down = [], False
    for step, value in enumerate(values):
        if value is not None:
            # A point with nothing beside it is a short dash, so that it can be seen.
            drawn.append(f"{'L' if down else 'M'}{x(step):.1f} {y(value):.1f}H{x(step + 1):.1f}")
        down = value is not None
    return "".join(drawn)


def _figure(
    title: str, said: str, moments: Sequence[Moment], marks: _Stacks | _Lines, *, unit: Callable[[float], str]
) -> Html:
    top = _nice(marks.top)
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(step: float) -> float:
        return _LEFT + width * step / len(moments)

    def y(value: float) -> float:
        return _TOP + height * (1 - value / top)

    grid = [
        tag(
            "g",
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=f"{y(value):.1f}", y2=f"{y(value):.1f}"),
            tag("text", unit(value) or "0", x=_LEFT - 6, y=f"{y(value) + 4:.1f}", text_anchor="end"),
            class_="grid",
        )
        for value in (0, top / 2, top)
    ]
    times = [
        tag(
            "text",
            datetime.fromtimestamp(moments[step].at, UTC).strftime("%H:%M"),
            x=f"{x(step):.1f}",
            y=_HEIGHT - 4,
            text_anchor="middle",
            class_="time",
        )
        for step in _labelled(moments)
    ]
    drawing = tag(
        "svg",
        *grid,
        *times,
        *marks.draw(x, y),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"{title}: {said}",
    )
    legend = [tag("li", tag("i", class_=style), name) for name, style in marks.legend]
    heading = tag("figcaption", tag("b", title), tag("span", said, class_="quiet"))
    return tag("figure", heading, drawing, tag("ul", legend, class_="legend"))


def _span(moments: Sequence[Moment]) -> str:
    return f"{len(moments) * STEP_SECONDS / 60:.0f} minutes"


def _labelled(moments: Sequence[Moment]) -> list[int]:
    """Steps that begin a minute: each of them, or each fifth where there are many."""
    every = 60 if len(moments) * STEP_SECONDS <= 360 else 300
    return [
        step
        for step, moment in enumerate(moments)
        if moment.at % every == 0 and 0.03 < step / len(moments) < 0.97
    ]


def _nice(value: float) -> float:
    """The next number above that is easy to read: 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999)


def _count(value: float) -> str:
    # Beside the plot there is room for six characters: 5,000 nodes are soon refused a million times.
    for sign, size in (("M", 1e6), ("k", 1e3)):
        if value >= 100 * 1e3 and value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.1f}"

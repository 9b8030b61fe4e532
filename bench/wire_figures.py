"""What the wire benchmark found, and how it reads: a table, a picture, and what misses the aim.

A ratio says how many times as long a peer takes as Bayplan. At p50 it is the middle of the ratios of the
rounds, since both had the same machine in a round; its spread is the lowest and the highest round. A round
has too few calls for a p99 of its own: that is taken over all calls, and its spread is what it would be with
any one round left out.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench import bars
from bench.outputs import rows
from bench.picture import number

OURS, REFERENCE = "Bayplan", "Go"
NAMES, FULL = "names only", "full nodes"
ASKED = "names only, policies asked each time"
EACH = "names only, functions of one node"
BESIDE = "names only, functions of one node beside a policy of pods"
TARGET, TARGET_FROM_NODES = 3.0, 500


@dataclass(frozen=True)
class Times:
    """Milliseconds of one server for one verb."""

    calls: int
    p50: float
    p99: float
    """The worst one, where there were fewer than 100 calls."""
    round_p50: list[float]
    p99_without: list[float]
    """The same over all rounds but one, for each round."""
    p99_later: float | None = None
    """Without the first call of each round, which comes after a pause; not in older recordings."""

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float]]) -> "Times":
        """From the seconds of each round."""
        every = [seconds for one in rounds for seconds in one]
        without = [_p99([*rounds[:one], *rounds[one + 1 :]] or rounds) for one in range(len(rounds))]
        medians = [statistics.median(one) * 1000 for one in rounds]
        later = [one[1:] for one in rounds if len(one) > 1]
        return cls(
            calls=len(every),
            p50=statistics.median(every) * 1000,
            p99=_p99(rounds),
            round_p50=medians,
            p99_without=without,
            p99_later=_p99(later) if later else None,
        )


@dataclass(frozen=True)
class Ratio:
    """How many times as long a peer takes as we do, with the spread of it."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.value)} ({number(self.low)} to {number(self.high)})"


@dataclass(frozen=True)
class Line:
    """What was measured of one verb at one size."""

    mode: str
    nodes: int
    verb: str
    request_bytes: int
    others_cores: float
    """What everybody else used of the machine meanwhile."""
    times: dict[str, Times]

    @property
    def peers(self) -> list[str]:
        """Everybody but us."""
        return [name for name in self.times if name != OURS]

    @property
    def request(self) -> str:
        """What was sent, in words."""
        return f"{self.mode}, {self.nodes:,}"

    def p50(self, peer: str) -> Ratio:
        """The middle of the rounds."""
        each = _divided(self.times[peer].round_p50, self.times[OURS].round_p50)
        return Ratio(statistics.median(each), min(each), max(each))

    def p99(self, peer: str) -> Ratio:
        """Of all calls."""
        each = _divided(self.times[peer].p99_without, self.times[OURS].p99_without)
        return Ratio(self.times[peer].p99 / self.times[OURS].p99, min(each), max(each))

    def p99_later(self, peer: str) -> float | None:
        """Of all calls but the first of each round."""
        theirs, ours = self.times[peer].p99_later, self.times[OURS].p99_later
        return theirs / ours if theirs is not None and ours is not None else None

    @property
    def counts(self) -> bool:
        """Whether the aim is about this one."""
        return self.mode == FULL or self.nodes >= TARGET_FROM_NODES


@dataclass(frozen=True)
class Recorded:
    """A run that was written down."""

    command: str
    lines: list[Line]

    @classmethod
    def read(cls, file: Path) -> "Recorded":
        """From JSON."""
        return msgspec.json.decode(file.read_bytes(), type=cls)


def text(lines: Sequence[Line]) -> str:
    """All of it, to be read."""
    busiest = max(line.others_cores for line in lines)
    return f"{table(lines)}\n\n{_aim(lines)}\n\nOthers used {busiest:.0%} of a core at most meanwhile."


def table(lines: Sequence[Line]) -> str:
    """Milliseconds and ratios; what misses the aim is bold."""
    peers = lines[0].peers
    head = ["nodes", "verb", "calls", *[f"{name}, ms: p50 / p99" for name in (OURS, *peers)]]
    head += [f"{name} ÷ {OURS}, {figure}" for name in peers for figure in ("p50", "p99")]
    return rows(head, [list(_cells(line, peers)) for line in lines])


def picture(lines: Sequence[Line]) -> str:
    """The ratios to Go as bars."""
    groups: dict[str, list[bars.Bar]] = {}
    for line in lines:
        found = groups.setdefault(line.request, [])
        for name, ratio in (("p50", line.p50(REFERENCE)), ("p99", line.p99(REFERENCE))):
            found.append(bars.Bar(f"{line.verb}, {name}", ratio.value, ratio.low, ratio.high))
    return bars.draw(
        f"How many times as fast as the extender in {REFERENCE}",
        [bars.Group(name, found) for name, found in groups.items()],
        note="Longer is better: 1 is as fast, 3 is the aim. Thin lines: the lowest and the highest round"
        " (p99: any one left out).",
        rules=[bars.Rule(1, "1"), bars.Rule(TARGET, f"{TARGET:g}")],
    )


def _cells(line: Line, peers: Sequence[str]) -> Iterator[str]:
    yield from (line.request, line.verb, f"{line.times[OURS].calls:,}")
    for name in (OURS, *peers):
        yield f"{line.times[name].p50:.2f} / {line.times[name].p99:.2f}"
    for name in peers:
        for ratio in (line.p50(name), line.p99(name)):
            yield f"**{ratio}**" if name == REFERENCE and line.counts and ratio.value < TARGET else str(ratio)


def _aim(lines: Sequence[Line]) -> str:
    missed = [said for line in lines if line.counts for said in _missed(line)]
    aim = f"{TARGET:g} times as fast as {REFERENCE}, at p50 and p99, with full nodes and from 500 names on"
    if not missed:
        return f"The aim, {aim}, is reached everywhere."
    return f"The aim is {aim}. Bold is what misses it:\n\n" + "\n".join(f"- {one}" for one in missed)


def _missed(line: Line) -> Iterator[str]:
    p50, p99, later = line.p50(REFERENCE).value, line.p99(REFERENCE).value, line.p99_later(REFERENCE)
    if p50 < TARGET:
        yield f"{line.request}, {line.verb}: {number(p50)} at p50"
    if p99 < TARGET:
        without = "" if later is None else f" ({number(later)} without the first call of each round)"
        yield f"{line.request}, {line.verb}: {number(p99)} at p99{without}"


def _p99(rounds: Sequence[Sequence[float]]) -> float:
    every = sorted(seconds * 1000 for one in rounds for seconds in one)
    return every[math.ceil(0.99 * len(every)) - 1]


def _divided(theirs: Sequence[float], ours: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(theirs, ours, strict=True)]

"""The guard: a short wire benchmark that fails when Bayplan has lost a third of its lead over Go.

    make bench-guard

Milliseconds cannot be compared between machines, nor between a quiet hour and a busy one. So both servers
are called in turns, in the same run. The median of the ratios of the rounds is compared with the lowest
ratio that was recorded for the same verb and size, in ``docs/benchmarks/wire*.json``. Other work on the
machine can still spoil a run, so a ratio that is too low is measured a second time, for longer, and fails
only if it is too low again.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.outputs import rows
from bench.peers_built import PeerMissing, find_go
from bench.picture import number
from bench.wire import Size, measure
from bench.wire_figures import ASKED, BESIDE, EACH, FULL, NAMES, REFERENCE, Line, Ratio, Recorded
from bench.wire_servers import Peers

RECORDED = Path(__file__).parents[1] / "docs" / "benchmarks" / "wire.json"
# Short rounds: the less time between the two servers, the more alike is the machine that they had. But not so
# short that our journal is written in the pauses between them: the recorded ratio has that work in it.
ROUNDS = {
    Size(NAMES, 500, 200): 6,
    Size(NAMES, 5_000, 20): 8,
    Size(ASKED, 500, 200): 6,
    Size(EACH, 500, 200): 6,
    Size(BESIDE, 500, 200): 6,
    Size(FULL, 1_000, 2): 12,
}
TIMES_AS_MANY_ROUNDS = 3
LEAST_SHARE = 2 / 3

Measure = Callable[[Size, int], Sequence[Line]]


class NotRecorded(LookupError):
    """There is nothing to compare with; the text says how to record it."""


@dataclass(frozen=True)
class Finding:
    """One verb at one size: the ratio to Go now, and the recorded one."""

    line: Line
    recorded: float

    @property
    def now(self) -> Ratio:
        """How many times as long Go takes as we do."""
        return self.line.p50(REFERENCE)

    @property
    def least(self) -> float:
        """What it must reach."""
        return LEAST_SHARE * self.recorded

    @property
    def too_slow(self) -> bool:
        """Whether more than a third of the lead is lost."""
        return self.now.value < self.least

    def cells(self) -> list[str]:
        """A row of the table."""
        said = "TOO SLOW" if self.too_slow else "good"
        return [
            self.line.request,
            self.line.verb,
            str(self.now),
            number(self.recorded),
            number(self.least),
            said,
        ]


def recorded_ratios(file: Path = RECORDED) -> dict[tuple[str, int, str], float]:
    """The ratio to Go of each verb at each size: the lowest that a recorded machine has.

    One kind of processor favours Go more than another does. Recordings of other machines lie beside ``file``,
    as ``wire-NAME.json``: without them a guard on one machine would fail for what another one recorded.
    """
    if not file.exists():
        raise NotRecorded(f"{file} is not there: `make bench` records what the guard compares with")
    lowest: dict[tuple[str, int, str], float] = {}
    for each in (file, *sorted(file.parent.glob(f"{file.stem}-*.json"))):
        for line in Recorded.read(each).lines:
            key = (line.mode, line.nodes, line.verb)
            lowest[key] = min(line.p50(REFERENCE).value, lowest.get(key, math.inf))
    return lowest


def look(
    recorded: dict[tuple[str, int, str], float], measured: Measure, *, rounds: Mapping[Size, int] = ROUNDS
) -> list[Finding]:
    """Measure once; and what is too slow a second time, for longer, which then is what counts."""
    found: list[Finding] = []
    for size, count in rounds.items():
        first = _compare(recorded, measured(size, count))
        if any(one.too_slow for one in first):
            print(f"{size.mode}, {size.nodes:,} nodes: too slow; once more, for longer", flush=True)
            second = _compare(recorded, measured(size, TIMES_AS_MANY_ROUNDS * count))
            first = [later if one.too_slow else one for one, later in zip(first, second, strict=True)]
        found += first
    return found


def _compare(recorded: dict[tuple[str, int, str], float], lines: Sequence[Line]) -> list[Finding]:
    findings = []
    for line in lines:
        key = (line.mode, line.nodes, line.verb)
        if key not in recorded:
            raise NotRecorded(f"{RECORDED.name} has no {line.request}, {line.verb}: `make bench` records it")
        findings.append(Finding(line, recorded[key]))
    return findings


def report(findings: Sequence[Finding]) -> str:
    """All of it, and in the last line whether it is good."""
    head = ["nodes", "verb", f"{REFERENCE} ÷ Bayplan, p50", "recorded", "at least", ""]
    slow = [f"{one.line.request}, {one.line.verb}" for one in findings if one.too_slow]
    table = rows(head, [one.cells() for one in findings])
    if not slow:
        return f"{table}\n\nthe lead over {REFERENCE} is kept"
    return (
        f"{table}\n\nTOO SLOW, twice: {'; '.join(slow)}. More than a third of the recorded lead over"
        f" {REFERENCE} is lost. Profile `bayplan serve`; if it shall be so, record it with `make bench`."
    )


def main() -> None:
    """Measure, compare, and end with 1 where the lead is lost."""
    try:
        peers = Peers(find_go(), flask=None)
        findings = look(recorded_ratios(), lambda size, rounds: measure(size, peers, rounds))
    except PeerMissing as missing:
        if os.environ.get("CI", "") in ("", "0", "false"):
            print(f"!!! NO GUARD OF THE SPEED: {missing}", file=sys.stderr)
            return
        sys.exit(f"NO GUARD OF THE SPEED: {missing}")
    except NotRecorded as missing:
        sys.exit(str(missing))
    print(report(findings))
    sys.exit(any(one.too_slow for one in findings))


if __name__ == "__main__":
    main()

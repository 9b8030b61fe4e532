"""What it takes to know a large cluster: time to ready, memory, events; beside a dict of what `json` makes.

    python -m bench.state [--quick] [--json FILE] [--plot FILE.svg] [--docs FILE.md]

Both follow the same stand-in for an API server, started and ended in turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.bars import Bar, Group, draw
from bench.busy import Busy
from bench.outputs import Outputs, rows
from bench.process import memory_mb
from bench.state_events import EVENTS_A_SNAPSHOT, EventCosts
from bench.state_followers import ROOT, Bayplan, Follower, Naive, event_microseconds, started
from bench.state_stand_in import let_happen
from tests.controlplane.api import Api
from tests.controlplane.certs import make_ca
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.e2e.extender import Extender
from tests.e2e.one_per_node import ONE_PER_NODE

OURS, PEER = Bayplan.name, Naive.name
NODES, PODS, EVENTS, ROUNDS = 5_000, (50_000, 150_000), 40_000, 3
QUICK_NODES, QUICK_PODS, QUICK_EVENTS, QUICK_ROUNDS = 1_000, (10_000, 30_000), 10_000, 2
MEMORY_BUDGET_MB = 1024.0
READY_BUDGET_SECONDS = {50_000: 5.0}
EVENT_BUDGET_MICROSECONDS = 50.0
_STAND_IN_SECONDS = 120.0


@dataclass(frozen=True)
class Seen:
    """One start of one of the two."""

    ready_seconds: float
    resident_mb: float
    peak_mb: float
    event_microseconds: float
    after_events_mb: float


@dataclass(frozen=True)
class Part:
    """What was measured with so many pods: the starts of both, round by round, and the parts of an event."""

    pods: int
    starts: dict[str, list[Seen]]
    event: EventCosts

    def middle(self, who: str, figure: Callable[[Seen], float]) -> float:
        """The median of the rounds."""
        return median(figure(seen) for seen in self.starts[who])

    def ratios(self, figure: Callable[[Seen], float]) -> list[float]:
        """How many times as much the peer takes as we do, round by round."""
        pairs = zip(self.starts[PEER], self.starts[OURS], strict=True)
        return [figure(theirs) / figure(ours) for theirs, ours in pairs]


FIGURES: dict[str, Callable[[Seen], float]] = {
    "ready, s": lambda seen: seen.ready_seconds,
    "memory when ready, MB": lambda seen: seen.resident_mb,
    "most memory, MB": lambda seen: seen.peak_mb,
    "one event, µs of CPU": lambda seen: seen.event_microseconds,
    "memory after the events, MB": lambda seen: seen.after_events_mb,
}


def budgets(pods: int) -> dict[str, float]:
    """What Bayplan may take at that size."""
    found = {"most memory, MB": MEMORY_BUDGET_MB}
    if pods in READY_BUDGET_SECONDS:
        found["ready, s"] = READY_BUDGET_SECONDS[pods]
    return found


def measure(nodes: int, pods: int, *, events: int, rounds: int) -> Part:
    """Both in turns; who begins changes."""
    starts: dict[str, list[Seen]] = {OURS: [], PEER: []}
    with _stand_in(nodes, pods) as (followers, happen):
        for number in range(rounds):
            for follower in followers if number % 2 == 0 else followers[::-1]:
                with started(follower) as start:
                    assert (start.nodes, start.pods) == (nodes, pods), start
                    event = event_microseconds(follower, lambda: happen(events), events=events)
                    after = memory_mb(follower.child.pid, "VmRSS")
                seen = Seen(start.seconds, start.resident_mb, start.peak_mb, event, after)
                starts[follower.name].append(seen)
                print(f"... {pods:,} pods, {follower.name}: ready in {start.seconds:.1f} s", flush=True)
    return Part(pods, starts, _event_costs(nodes, pods, events))


@contextmanager
def _stand_in(nodes: int, pods: int) -> Iterator[tuple[list[Follower], Callable[[int], None]]]:
    """Whoever may follow it, and how to make something happen in it."""
    with tempfile.TemporaryDirectory() as made:
        folder, port = Path(made), free_port()
        ca = make_ca("bayplan-bench-ca", folder / "certs")
        serving = ca.issue("stand-in", ips=["127.0.0.1"], server=True)
        argv = [sys.executable, "-m", "bench.state_stand_in", str(port), str(serving.cert), str(serving.key)]
        argv += [str(nodes), str(pods)]
        child = Child("stand-in", argv, log=folder / "stand-in.log", env={"PYTHONPATH": str(ROOT)})
        server = f"https://127.0.0.1:{port}"
        try:
            child.wait_until(lambda: _listens(port, ca.cert), _STAND_IN_SECONDS)
            kubeconfig = write_kubeconfig(folder / "kubeconfig", server, ca=ca.cert, user="u", token="t")  # noqa: S106
            api = Api(server, ca.cert, token="t")  # noqa: S106
            # A Lease would be asked for here, where nobody has one.
            extender = Extender(api, folder, ONE_PER_NODE, kubeconfig=kubeconfig, flags=["--no-lease"])
            ours, naive = Bayplan(extender), Naive(server, ca.cert, folder=folder)
            yield [ours, naive], lambda events: let_happen(port, ca.cert, events)
        finally:
            child.stop()


def _listens(port: int, ca: Path) -> bool:
    try:
        let_happen(port, ca, 0)
    except OSError:
        return False
    return True


def _event_costs(nodes: int, pods: int, events: int) -> EventCosts:
    """In a process of its own: this one stays small."""
    argv = [sys.executable, "-m", "bench.state_events", str(nodes), str(pods), str(events)]
    done = subprocess.run(argv, capture_output=True, check=True, cwd=ROOT)  # noqa: S603 - our own module
    return EventCosts(**json.loads(done.stdout))


def tables(parts: Sequence[Part]) -> str:
    """All of it, to be read."""
    head = ["pods", "", OURS, PEER, f"{PEER} ÷ {OURS} (rounds)"]
    lines = [_line(part, name) for part in parts for name in FIGURES]
    texts = [rows(head, lines), _made_of(parts)]
    if len(parts) > 1:
        texts.append(_growth(parts[0], parts[-1]))
    return "\n\n".join(texts)


def _line(part: Part, name: str) -> list[str]:
    figure = FIGURES[name]
    ours, theirs = (part.middle(who, figure) for who in (OURS, PEER))
    missed = ours >= budgets(part.pods).get(name, float("inf"))
    shown = f"**{ours:,.1f}**" if missed else f"{ours:,.1f}"
    ratios = sorted(part.ratios(figure))
    ratio = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    return [f"{part.pods:,}", name, shown, f"{theirs:,.1f}", ratio]


def _made_of(parts: Sequence[Part]) -> str:
    head = ["pods", "decode, µs", "`json.loads`, µs", "÷", "apply, µs"]
    head += [f"with a snapshot every {EVENTS_A_SNAPSHOT} events, µs", "one, and a snapshot after it, µs"]
    lines = []
    for part in parts:
        event = part.event
        applied = f"{event.apply:.1f}"
        lines.append(
            [
                f"{part.pods:,}",
                f"{event.decode:.1f}",
                f"{event.json:.1f}",
                f"{event.json / event.decode:.1f}",
                f"**{applied}**" if event.apply >= EVENT_BUDGET_MICROSECONDS else applied,
                f"{event.with_snapshots:.1f}",
                f"{event.single_snapshot:.1f}",
            ]
        )
    return rows(head, lines)


def _growth(small: Part, large: Part) -> str:
    grown = {
        name: large.middle(OURS, figure) / small.middle(OURS, figure) for name, figure in FIGURES.items()
    }
    grown["apply, µs"] = large.event.apply / small.event.apply
    said = "; ".join(f"{name.partition(',')[0]} {times:.2f} times" for name, times in grown.items())
    return f"{OURS} with {large.pods / small.pods:.0f} times the pods: {said}."


def picture(parts: Sequence[Part]) -> str:
    """The ratios to the peer."""
    groups = []
    for name in ("ready, s", "most memory, MB", "one event, µs of CPU"):
        figure, bars = FIGURES[name], []
        for part in parts:
            ratios = part.ratios(figure)
            bars.append(Bar(f"{part.pods:,} pods", median(ratios), min(ratios), max(ratios)))
        groups.append(Group(name.partition(",")[0], bars))
    note = f"how many times as much {PEER} takes as {OURS}; more than 1: {OURS} takes less"
    return draw("Knowing a large cluster", groups, note=note)


def main() -> None:
    """Measure size by size."""
    outputs = Outputs(__doc__.splitlines()[0] if __doc__ else "", quick="a fifth of the size, two rounds")
    nodes, sizes, events, rounds = (
        (QUICK_NODES, QUICK_PODS, QUICK_EVENTS, QUICK_ROUNDS)
        if outputs.quick
        else (NODES, PODS, EVENTS, ROUNDS)
    )
    print(f"{nodes:,} nodes; {events:,} events; {rounds} rounds", flush=True)
    parts: list[Part] = []
    for pods in sizes:
        busy = Busy()
        parts.append(measure(nodes, pods, events=events, rounds=rounds))
        print(f"... {pods:,} pods; {busy.by_others():.0%} of a core used by others", flush=True)
        outputs.keep({"nodes": nodes, "events": events, "parts": [asdict(part) for part in parts]})
    caption = "What plain json takes, as a multiple of what Bayplan takes"
    outputs.finish(tables(parts), picture(parts), caption=caption)


if __name__ == "__main__":
    main()

"""How many binds a second, and how long one takes: the bind verb beside the API server's own limit.

    python -m bench.bind [--quick] [--json FILE] [--plot FILE.svg] [--docs FILE.md]

A real API server and etcd, and one caller for all. In each round it binds some pods straight at the API
server, then as many through each server of ours, at the same number of calls at once; who begins changes.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bayplan.runtimes.fast_loop import run_in_fast_loop
from bench.bars import Bar, Group, Rule, draw
from bench.bind_caller import Batch, call_all
from bench.bind_ways import DIRECT, Pod, Way, World, requests_for
from bench.busy import Busy
from bench.outputs import Outputs, rows
from bench.process import cpu_seconds
from tests.controlplane.binaries import find_or_build
from tests.controlplane.plane import ControlPlane

NODES = 200
# Calls at once, and how many binds each way gets in a round.
SIZES, ROUNDS = {1: 80, 16: 240, 64: 320}, 6
QUICK_SIZES, QUICK_ROUNDS = {1: 30, 16: 96, 64: 128}, 3
_WARMING = 32


@dataclass(frozen=True)
class Turn:
    """One way in one round."""

    rate: float
    latencies: list[float]
    """Milliseconds."""
    caller_ms: float
    """Processor time for each bind, here and in the next two."""
    between_ms: float
    served_ms: float
    caller_cores: float
    """How much of a core the caller kept busy."""


@dataclass(frozen=True)
class Part:
    """Every way at one number of calls at once, round by round."""

    at_once: int
    turns: dict[str, list[Turn]]

    def middle(self, way: str, figure: Callable[[Turn], float]) -> float:
        """The median of the rounds."""
        return median(figure(turn) for turn in self.turns[way])

    def ratios(self, way: str) -> list[float]:
        """Binds a second as a share of what the API server does alone, round by round."""
        pairs = zip(self.turns[way], self.turns[DIRECT], strict=True)
        return [ours.rate / alone.rate for ours, alone in pairs]

    def latency(self, way: str, share: float) -> float:
        """Milliseconds within which that share of the calls of all rounds was answered."""
        every = sorted(each for turn in self.turns[way] for each in turn.latencies)
        return every[math.ceil(share * len(every)) - 1]

    def figures(self) -> dict[str, Any]:
        """What is written down: every round, but not every call."""
        ways = {}
        for way, turns in self.turns.items():
            rounds = [
                {key: value for key, value in asdict(turn).items() if key != "latencies"} for turn in turns
            ]
            ways[way] = {"p50": self.latency(way, 0.5), "p99": self.latency(way, 0.99), "rounds": rounds}
        return {"at_once": self.at_once, "ways": ways}


def measure(
    plane: ControlPlane, world: World, ways: Sequence[Way], *, at_once: int, binds: int
) -> list[Turn]:
    """One round: all ways, in the order in which they are given."""
    pods = {way.name: world.create_pods(binds, devices=way.devices) for way in ways}
    world.wait_seen()
    return [_turn(plane, way, pods[way.name], at_once=at_once) for way in ways]


def _turn(plane: ControlPlane, way: Way, pods: Sequence[Pod], *, at_once: int) -> Turn:
    requests = requests_for(way, pods)

    def used() -> tuple[float, float]:
        served = cpu_seconds(plane.apiserver.pid) + cpu_seconds(plane.etcd.pid)
        return cpu_seconds(way.pid) if way.pid else 0.0, served

    before = used()
    batch = _run(way, requests, at_once=at_once)
    between, served = (1000 * (now - then) / len(pods) for now, then in zip(used(), before, strict=True))
    return Turn(
        batch.rate,
        [1000 * each for each in batch.latencies],
        caller_ms=1000 * batch.cpu_seconds / len(pods),
        between_ms=between,
        served_ms=served,
        caller_cores=batch.cpu_seconds / batch.seconds,
    )


def _run(way: Way, requests: Sequence[bytes], *, at_once: int) -> Batch:
    done: list[Batch] = []

    async def run() -> None:
        done.append(await call_all(way.place, requests, at_once=at_once, check=way.check))
        # TLS says good-bye.
        await asyncio.sleep(0)

    run_in_fast_loop(run)
    return done[0]


def table(parts: Sequence[Part]) -> str:
    """All of it, to be read."""
    head = ["at once", "", "binds a second (rounds)", "÷ API server alone (rounds)", "p50 / p99, ms"]
    head += ["CPU ms a bind: caller", "Bayplan", "API server and etcd", "cores of the caller"]
    lines = []
    for part in parts:
        for way in part.turns:
            rates, ratios = sorted(turn.rate for turn in part.turns[way]), sorted(part.ratios(way))
            between = part.middle(way, lambda turn: turn.between_ms)
            lines.append(
                [
                    str(part.at_once),
                    way,
                    f"{median(rates):.0f} ({rates[0]:.0f} to {rates[-1]:.0f})",
                    "1" if way == DIRECT else f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                    f"{part.latency(way, 0.5):.1f} / {part.latency(way, 0.99):.1f}",
                    f"{part.middle(way, lambda turn: turn.caller_ms):.2f}",
                    "" if way == DIRECT else f"{between:.2f}",
                    f"{part.middle(way, lambda turn: turn.served_ms):.2f}",
                    f"{part.middle(way, lambda turn: turn.caller_cores):.2f}",
                ]
            )
    return rows(head, lines)


def picture(parts: Sequence[Part]) -> str:
    """Each way as a share of the API server's own limit."""
    groups = []
    for part in parts:
        bars = []
        for way in part.turns:
            if way != DIRECT:
                ratios = part.ratios(way)
                bars.append(Bar(way, median(ratios), min(ratios), max(ratios)))
        groups.append(Group(f"{part.at_once} at once", bars))
    note = "binds a second, as a share of what the API server does alone in the same round"
    return draw("The bind verb", groups, note=note, rules=[Rule(1.0, DIRECT)])


def main() -> None:
    """Measure at each number of calls at once."""
    outputs = Outputs(__doc__.splitlines()[0] if __doc__ else "", quick="fewer binds, three rounds")
    sizes, rounds = (QUICK_SIZES, QUICK_ROUNDS) if outputs.quick else (SIZES, ROUNDS)
    parts: list[Part] = []
    with ControlPlane(find_or_build()) as plane, tempfile.TemporaryDirectory() as folder:
        world = World(plane, NODES)
        with world.ways(Path(folder)) as ways:
            measure(plane, world, ways, at_once=_WARMING, binds=_WARMING)
            for at_once, binds in sizes.items():
                busy = Busy()
                part = Part(at_once, {way.name: [] for way in ways})
                for number in range(rounds):
                    turn = number % len(ways)
                    order = [*ways[turn:], *ways[:turn]]
                    found = measure(plane, world, order, at_once=at_once, binds=binds)
                    for way, one in zip(order, found, strict=True):
                        part.turns[way.name].append(one)
                parts.append(part)
                print(f"... {at_once} at once; {busy.by_others():.0%} of a core used by others", flush=True)
                outputs.keep({"nodes": NODES, "parts": [each.figures() for each in parts]})
            assert world.bound() == world.made, f"{world.bound()} of {world.made} pods are bound"
    caption = "Binds a second through Bayplan, as a share of what the API server does alone"
    outputs.finish(table(parts), picture(parts), caption=caption)


if __name__ == "__main__":
    main()

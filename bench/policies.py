"""How long each built-in policy takes for one pod: filter and score over 5,000 nodes with 50,000 pods.

    make bench-policies

The times are of the engine alone: no HTTP, no JSON; what a server does before it has lines of its own. Every
call is about another pod, with another answer of the web service. The first pods of each policy read the
columns and are not counted: a server does that once, not for each pod.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.authoring.expression import Expression, from_expressions
from bayplan.authoring.load import load
from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import filter_nodes, score_nodes
from bench.world import World

MILLISECONDS_EACH, MILLISECONDS_TOGETHER = 2.0, 10.0
WARMING = 3

SETTINGS: dict[str, dict[str, Any]] = {
    "MostAvailableCPU": {},
    "LeastAllocated": {},
    "MostAllocated": {},
    "BalancedAllocation": {},
    "Spread": {"pods": {"sameOwner": True}, "by": "rack", "maxSkew": 1},
    "Affinity": {"rules": [{"notWith": {"differentLabel": "team"}}]},
    "ResourceLimits": {"limits": [{"pods": {"sameLabel": "team"}, "share": {"cpu": "50%"}, "maxPods": 20}]},
    "Cost": {
        "priceLabel": "example.com/price",
        "avoidAbove": 1.2,
        "budgets": [{"namespaces": ["team-*"], "perHour": 1e6}],
    },
    "Load": {
        "columns": [{"source": "usage.cpu", "resource": "cpu", "unit": "fraction", "refuseAbove": 0.85}]
    },
    "ExternalService": {"source": "service"},
    "SharedResource": {"resource": "example.com/gpu-memory", "capacity": "example.com/gpus"},
    "Preemption": {"protectAnnotation": "example.com/keep"},
}
HEAVY: dict[str, tuple[str, dict[str, Any]]] = {
    "SharedResource, two resources x 8 devices": (
        "SharedResource",
        {
            "resource": "example.com/gpu-memory",
            "capacity": "example.com/gpus",
            "also": [{"resource": "example.com/gpu-compute", "capacity": "example.com/gpu-cores"}],
        },
    ),
    "ResourceLimits, all caps": (
        "ResourceLimits",
        {
            "limits": [
                {
                    "pods": {"sameLabel": "team"},
                    "share": {"cpu": "50%", "memory": "50%"},
                    "maxPods": 20,
                    "headroom": {"cpu": "10%", "memory": "4Gi"},
                    "overcommit": {"cpu": {"label": "example.com/factor"}},
                    "usage": {"source": "usage.cpu", "max": "85%"},
                }
            ]
        },
    ),
    "Cost, fill what is paid for": (
        "Cost",
        {
            "priceLabel": "example.com/price",
            "table": [{"instanceType": "small", "perHour": 1.0}, {"perHour": 2.0}],
            "onMissing": "dearest",
            "fill": True,
            "budgets": [{"namespaces": ["team-*"], "perHour": 1e6}],
        },
    ),
}
EXPRESSIONS = {
    "an expression, 100 values of nodes": (
        "node.metadata.labels[?'rack'].orValue('') != pod.metadata.labels[?'avoid'].orValue('none')"
    ),
    "an expression, 5,000 values of nodes": (
        "!node.metadata.name.startsWith('x') && node.metadata.name != pod.metadata.name"
    ),
}


@dataclass(frozen=True)
class Times:
    """Milliseconds of calls, where the table is as it was, and where a pod was bound since the last one."""

    same: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)


def make_lines() -> dict[str, Policy]:
    """Every built-in, some of them once more with all they can do, and expressions."""
    made = {name: load(name)[0].make(args=args) for name, args in SETTINGS.items()}
    heavy = {line: load(name)[0].make(args=args) for line, (name, args) in HEAVY.items()}
    expressions = {
        line: from_expressions(line, {"filter": Expression(text, "bench:1")})
        for line, text in EXPRESSIONS.items()
    }
    return {**made, **heavy, **expressions}


def measure(policies: Sequence[Policy], world: World, rounds: int, *, shuffled: bool = False) -> Times:
    """Filter and score, each time for another pod."""
    times = Times()
    for number in range(rounds + WARMING):
        world.bind()
        bound = _milliseconds(policies, world, shuffled=shuffled)
        same = _milliseconds(policies, world, shuffled=shuffled)
        if number >= WARMING:
            times.bound.append(bound)
            times.same.append(same)
    return times


def _milliseconds(policies: Sequence[Policy], world: World, *, shuffled: bool) -> float:
    pod = world.next_pod()
    world.prepare_answer(shuffled=shuffled)
    readings = world.ask(pod)
    # Two, as a server makes one for each of its verbs.
    to_filter, to_score = world.question(pod, readings), world.question(pod, readings)
    start = time.perf_counter()
    filtered = filter_nodes(policies, to_filter)
    scored = score_nodes(policies, to_score)
    took = (time.perf_counter() - start) * 1000
    assert not filtered.error, filtered.error
    assert not scored.error, scored.error
    return took


def before_the_engine(world: World, rounds: int) -> Mapping[str, list[float]]:
    """What a server does for one pod before it asks policies."""
    answers, snapshots = [], []
    for _ in range(rounds):
        pod = world.next_pod()
        world.prepare_answer()
        answers.append(_timed(lambda pod=pod: world.ask(pod)))  # type: ignore[misc]
        world.bind()
        snapshots.append(_timed(world.refresh))
    return {"the web service's answer, from its bytes on": answers, "the snapshot after a bind": snapshots}


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Print the table; exit 1 where a policy is over its budget and ``--strict`` is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--strict", action="store_true", help="exit 1 where a median is over its budget")
    options = parser.parse_args()
    print(f"{options.nodes} nodes, {options.pods} pods, {options.rounds} pods asked about")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    with World(options.nodes, options.pods) as world:
        over = _table(world, options.rounds)
    if over:
        print(f"\nover the budget: {', '.join(over)}")
    if over and options.strict:
        raise SystemExit(1)


def _table(world: World, rounds: int) -> list[str]:
    """Print the lines; those that are over their budget are returned."""
    print("| policy | median ms | p95 ms | after a bind: median ms | p95 ms |\n|---|---|---|---|---|")
    lines, over = make_lines(), []
    for name, policy in lines.items():
        over += _line(name, measure([policy], world, rounds), MILLISECONDS_EACH)
    shuffled = measure([lines["ExternalService"]], world, rounds, shuffled=True)
    over += _line("ExternalService, nodes in another order each time", shuffled, MILLISECONDS_EACH)
    ten = [lines[name] for name in list(SETTINGS)[:10]]
    over += _line("the first ten together", measure(ten, world, rounds), MILLISECONDS_TOGETHER)
    print("\n| before the engine | median ms | p95 ms |\n|---|---|---|")
    for name, took in before_the_engine(world, rounds).items():
        print(f"| {name} | {_middle_and_late(took)} |")
    return over


def _line(name: str, times: Times, budget: float) -> list[str]:
    print(f"| {name} | {_middle_and_late(times.same)} | {_middle_and_late(times.bound)} |", flush=True)
    middle = max(statistics.median(times.same), statistics.median(times.bound))
    return [name] if middle > budget else []


def _middle_and_late(took: list[float]) -> str:
    return f"{statistics.median(took):.2f} | {sorted(took)[int(len(took) * 0.95)]:.2f}"


if __name__ == "__main__":
    main()

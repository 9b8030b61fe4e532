"""How long each built-in policy takes for one pod: filter and score over 5,000 nodes with 50,000 pods.

    make bench-policies

The times are of the engine alone: no HTTP, no JSON. The first pod of each policy reads the columns and is not
counted: a server does that once, not for each pod.
"""

import argparse
import os
import platform
import random
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bayplan.authoring.expression import Expression, from_expressions
from bayplan.authoring.load import load
from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_node, make_pod

TEAMS, APPS, RACKS = 20, 500, 100
ZONES = ("a", "b", "c")
TYPES = ("small", "medium", "large", "huge")
MILLISECONDS_EACH, MILLISECONDS_TOGETHER = 2.0, 10.0

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
EXPRESSION = "node.metadata.labels[?'rack'].orValue('') != pod.metadata.labels[?'avoid'].orValue('none')"


def make_world(nodes: int, pods: int, dice: random.Random) -> Snapshot:
    """A cluster in racks, zones and prices, with pods of teams on it."""
    made = [
        make_node(
            f"node-{number:04}",
            zone=ZONES[number % len(ZONES)],
            labels={
                "rack": f"rack-{number % RACKS}",
                "example.com/price": f"{0.5 + number % 16 / 10:.2f}",
                "node.kubernetes.io/instance-type": TYPES[number % len(TYPES)],
            },
            annotations={"example.com/gpus": "4x16000"},
            cpu=64,
            memory="256Gi",
        )
        for number in range(nodes)
    ]
    placed = [make_one(number, node=f"node-{dice.randrange(nodes):04}") for number in range(pods)]
    names = [node.name for node in made]
    usage = {name: {"cpu": dice.random(), "memory": dice.random()} for name in names}
    service = {name: {"score": dice.random() * 10} for name in names}
    return make_cluster(made, placed, sources={"usage": usage, "service": service})


def make_one(number: int, *, node: str | None = None) -> Pod:
    """A pod of one of the teams and apps."""
    return make_pod(
        f"pod-{number}",
        namespace=f"team-{number % TEAMS}",
        labels={"team": f"team-{number % TEAMS}", "app": f"app-{number % APPS}"},
        owner=("ReplicaSet", f"app-{number % APPS}"),
        cpu="250m",
        memory="512Mi",
        requests={"example.com/gpu-memory": "1000"},
        node=node,
    )


def make_policies() -> list[Policy]:
    """Every built-in, and one of expressions."""
    made = [load(name)[0].make(args=args) for name, args in SETTINGS.items()]
    return [*made, from_expressions("expression", {"filter": Expression(EXPRESSION, "bench:1")})]


def milliseconds(policies: Sequence[Policy], cluster: Snapshot, pods: Sequence[Pod]) -> list[float]:
    """Filter and score for each pod but the first."""
    took = []
    for pod in pods:
        question = Question(pod, cluster.nodes, cluster, datetime.now(UTC))
        start = time.perf_counter()
        filtered = filter_nodes(policies, question)
        scored = score_nodes(policies, question)
        took.append((time.perf_counter() - start) * 1000)
        assert not filtered.error, filtered.error
        assert not scored.error, scored.error
    return took[1:]


def main() -> None:
    """Print the table; exit 1 where a policy is over its budget and ``--strict`` is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--strict", action="store_true", help="exit 1 where a median is over its budget")
    options = parser.parse_args()
    dice = random.Random(1)  # noqa: S311 - the same cluster each time
    cluster = make_world(options.nodes, options.pods, dice)
    policies = make_policies()
    pods = [make_one(1_000_000 + number) for number in range(options.rounds + 1)]
    print(f"{options.nodes} nodes, {options.pods} pods, {options.rounds} pods asked about")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| policy | median ms | p95 ms |\n|---|---|---|")
    over = []
    for policy in policies:
        over += _line(policy.name, milliseconds([policy], cluster, pods), MILLISECONDS_EACH)
    ten = [p for p in policies if p.of_kind("filter") or p.of_kind("score")][:10]
    over += _line(f"these first {len(ten)} together", milliseconds(ten, cluster, pods), MILLISECONDS_TOGETHER)
    if over:
        print(f"\nover the budget: {', '.join(over)}")
        raise SystemExit(1 if options.strict else 0)


def _line(name: str, took: list[float], budget: float) -> list[str]:
    middle, late = statistics.median(took), sorted(took)[int(len(took) * 0.95)]
    print(f"| {name} | {middle:.2f} | {late:.2f} |")
    return [name] if middle > budget else []


if __name__ == "__main__":
    main()

"""How long kube-scheduler's default profile takes here: one pod, every filter and score.

    make bench-profile

A pod is bound before each call, so that the snapshot is another one and what is patched row by row is in the
figures. Every call is about another pod. The first calls read the columns and are not counted.
"""

import argparse
import os
import platform
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.config.profile import Profile
from bayplan.engine.choose import choose
from bayplan.kube.meta import NamedObject
from bayplan.kube.node import NodeWithImages
from bayplan.kube.pod import Pod
from bayplan.kube.workloads import ReplicaSet, Service
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.cache import Cache
from bayplan.testing import make_pod

APPS, ZONES, IMAGES = 500, ("a", "b", "c"), 200
CPUS = ("100m", "250m", "500m", "1")
WARMING = 5
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


@dataclass(frozen=True)
class Kind:
    """What the pods of a world ask for beside CPU and memory."""

    title: str
    nodes: int
    pods: int
    budget_ms: float
    terms: bool = False
    """Every pod has terms about other pods."""


KINDS = (
    Kind("5,000 nodes, 50,000 pods", 5_000, 50_000, 2.0),
    Kind("15,000 nodes, 50,000 pods", 15_000, 50_000, 6.0),
    Kind("5,000 nodes, 50,000 pods, each with terms about other pods", 5_000, 50_000, 20.0, terms=True),
)


def terms(app: str) -> dict[str, Any]:
    """Apart from its own kind on a node, rather near another app."""
    mine = {"labelSelector": {"matchLabels": {"app": app}}}
    return {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{**mine, "topologyKey": HOST}]
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "podAffinityTerm": {**mine, "topologyKey": ZONE}}
            ]
        },
    }


def make_one(number: int, kind: Kind, *, node: str | None = None) -> Pod:
    """A pod of one of the apps, as its ReplicaSet makes it."""
    app = f"app-{number % APPS}"
    image = f"registry.example/{app}:1"
    spec = {
        "containers": [
            {
                "name": "main",
                "image": image,
                "resources": {"requests": {"cpu": CPUS[number % len(CPUS)], "memory": "512Mi"}},
            }
        ],
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
            for key in ("not-ready", "unreachable")
        ],
        **({"affinity": terms(app)} if kind.terms else {}),
    }
    return make_pod(f"pod-{number}", labels={"app": app}, owner=("ReplicaSet", app), node=node, spec=spec)


def make_node_object(number: int) -> NodeWithImages:
    """A node with the labels, taints and images of a cloud's."""
    images = [
        {"names": [f"registry.example/app-{(number + n * 7) % APPS}:1"], "sizeBytes": 50_000_000 + n}
        for n in range(20)
    ]
    quantities = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "500Gi"}
    name = f"node-{number:05}"
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "labels": {HOST: name, ZONE: ZONES[number % 3], "pool": f"pool-{number % 10}"},
            },
            "spec": {"taints": [{"key": "spot", "effect": "PreferNoSchedule"}] if number % 10 == 0 else []},
            "status": {
                "allocatable": quantities,
                "capacity": quantities,
                "conditions": [{"type": "Ready", "status": "True"}],
                "images": images,
            },
        },
        NodeWithImages,
    )


class World:
    """A cluster as a scheduler sees it: it changes with each pod that is bound."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._dice = random.Random(1)  # noqa: S311 - the same cluster each time
        self._cache = Cache()
        self._next = kind.pods
        self._names = []
        for number in range(kind.nodes):
            node = make_node_object(number)
            self._names.append(node.name)
            self._cache.put_node(node)
        for number in range(kind.pods):
            self._cache.put_pod(make_one(number, kind, node=self._dice.choice(self._names)))
        for what, one in _workloads():
            self._cache.objects.put(what, one)

    def bind(self) -> None:
        """One pod more on some node."""
        self._cache.put_pod(self.next_pod(node=self._dice.choice(self._names)))

    def next_pod(self, node: str | None = None) -> Pod:
        """A pod that nobody has seen yet."""
        self._next += 1
        return make_one(self._next, self._kind, node=node)

    def snapshot(self) -> Snapshot:
        """The cluster as it is now."""
        return self._cache.snapshot()


def _workloads() -> Iterator[tuple[str, NamedObject]]:
    for number in range(APPS):
        app = f"app-{number}"
        meta = {"name": app, "namespace": "default"}
        labels = {"app": app}
        yield "Service", msgspec.convert({"metadata": meta, "spec": {"selector": labels}}, Service)
        spec = {"selector": {"matchLabels": labels}}
        yield "ReplicaSet", msgspec.convert({"metadata": meta, "spec": spec}, ReplicaSet)


def measure(policies: Sequence[Policy], world: World, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the snapshot after a bind, and of filter and score for one pod."""
    snapshots, calls = [], []
    for number in range(rounds + WARMING):
        world.bind()
        pod = world.next_pod()
        before = time.perf_counter()
        cluster = world.snapshot()
        ready = time.perf_counter()
        choice = choose(policies, pod, cluster, now=datetime.now(UTC))
        done = time.perf_counter()
        assert choice.feasible, choice.message
        if number >= WARMING:
            snapshots.append((ready - before) * 1000)
            calls.append((done - ready) * 1000)
    return snapshots, calls


def main() -> None:
    """Print a table for each world; exit 1 where one is over its budget and ``--strict`` is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--nodes", type=int, help="another number of nodes, in each world")
    parser.add_argument("--pods", type=int, help="another number of pods, in each world")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a median is over its budget")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    over = [kind.title for kind in KINDS if not _table(kind, options)]
    if over:
        print(f"\nover the budget: {', '.join(over)}")
        if options.strict:
            raise SystemExit(1)


def _table(kind: Kind, options: argparse.Namespace) -> bool:
    sized = Kind(
        kind.title, options.nodes or kind.nodes, options.pods or kind.pods, kind.budget_ms, kind.terms
    )
    world = World(sized)
    profile = Profile.default()
    print(f"\n{sized.nodes} nodes, {sized.pods} pods{', each with terms' if kind.terms else ''}\n")
    print("| policy | median ms | p95 ms |\n|---|---|---|")
    for policy in profile.policies:
        _line(policy.name, measure([policy], world, options.rounds)[1])
    snapshots, whole = measure(profile.policies, world, options.rounds)
    both = [a + b for a, b in zip(snapshots, whole, strict=True)]
    _line("the whole profile", whole)
    _line("the snapshot after a bind", snapshots)
    _line(f"both (budget {kind.budget_ms:g} ms)", both)
    return statistics.median(both) <= kind.budget_ms


def _line(name: str, took: list[float]) -> None:
    print(
        f"| {name} | {statistics.median(took):.2f} | {sorted(took)[int(len(took) * 0.95)]:.2f} |", flush=True
    )


if __name__ == "__main__":
    main()

"""Small clusters at random, full of odd cases, as plain dicts; and the real objects made of them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.kube.workloads import Namespace, ReplicaSet, Service
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import Objects

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
KEYS = (HOSTNAME, ZONE, "rack", "nobody-has-it")
Raw = dict[str, Any]


@dataclass
class World:
    """A cluster as dicts: nodes, pods with the node each is on, labels of namespaces, and workloads."""

    nodes: list[Raw]
    pods: list[tuple[Raw, str]]
    namespaces: dict[str, dict[str, str]]
    workloads: list[tuple[str, Raw]] = field(default_factory=list)

    def on(self, node: str) -> list[Raw]:
        """The pods on a node."""
        return [pod for pod, place in self.pods if place == node]

    def snapshot(self, dice: random.Random) -> Snapshot:
        """The same as a snapshot: some pods come as a what-if, and some that were there are gone again."""
        some = dice.randint(0, len(self.pods))
        gone = [
            (pod(dice, f"gone-{number}"), dice.choice(self.nodes)) for number in range(dice.randint(0, 2))
        ]
        there = [_placed(raw, place) for raw, place in self.pods[:some]]
        there += [_placed(raw, node["metadata"]["name"]) for raw, node in gone]
        kinds = {"Service": Service, "ReplicationController": Service}
        objects = Objects.of(
            [
                *(("Namespace", namespace(name, labels)) for name, labels in self.namespaces.items()),
                *((kind, msgspec.convert(raw, kinds.get(kind, ReplicaSet))) for kind, raw in self.workloads),
            ]
        )
        cluster = Snapshot.build([msgspec.convert(node, NodeObject) for node in self.nodes], there, objects)
        for raw, place in self.pods[some:]:
            cluster = cluster.placed(read(raw), place)
        return cluster.without([raw["metadata"]["uid"] for raw, _ in gone])


def world(dice: random.Random) -> World:
    """A cluster at random."""
    nodes = [_node(dice, f"node-{number}") for number in range(dice.randint(1, 6))]
    pods = [
        (pod(dice, f"placed-{number}"), dice.choice(nodes)["metadata"]["name"])
        for number in range(dice.randint(0, 9))
    ]
    for (raw, _), (other, _) in pairwise(pods):
        if dice.random() < 0.5:
            # Pods of one deployment have the same terms, and mean by them what their namespace makes of it.
            other["spec"]["affinity"] = raw["spec"]["affinity"]
    namespaces = {name: _labels(dice, ("team",)) for name in ("default", "other") if dice.random() < 0.8}
    return World(nodes, pods, namespaces)


def read(raw: Raw) -> Pod:
    """The pod behind a dict."""
    return msgspec.convert(raw, Pod)


def pod(dice: random.Random, name: str) -> Raw:
    """A pod at random, with terms."""
    metadata: Raw = {
        "name": name,
        "uid": f"uid-of-{name}",
        "namespace": dice.choice(("default", "default", "other")),
        "labels": _labels(dice, ("app", "tier")),
    }
    if dice.random() < 0.15:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    affinity = {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": _some(dice, term),
            "preferredDuringSchedulingIgnoredDuringExecution": _some(dice, _wish),
        }
        for kind in ("podAffinity", "podAntiAffinity")
        if dice.random() < 0.5
    }
    return {"metadata": metadata, "spec": {"affinity": affinity}}


def term(dice: random.Random) -> Raw:
    """A term at random."""
    made: Raw = {"topologyKey": dice.choice(KEYS[:3] if dice.random() < 0.95 else KEYS)}
    if dice.random() < 0.9:
        made["labelSelector"] = selector(dice, ("app", "tier"))
    if dice.random() < 0.25:
        made["namespaces"] = dice.sample(("default", "other", "unknown"), dice.randint(0, 2))
    if dice.random() < 0.3:
        made["namespaceSelector"] = selector(dice, ("team",))
    return made


def selector(dice: random.Random, keys: Sequence[str]) -> Raw:
    """A label selector at random, often an empty one."""
    made: Raw = {}
    if dice.random() < 0.5:
        made["matchLabels"] = {dice.choice(keys): dice.choice("ab")}
    if dice.random() < 0.4:
        operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = dice.sample("abc", dice.randint(1, 2)) if operator.endswith("In") else None
        made["matchExpressions"] = [{"key": dice.choice(keys), "operator": operator, "values": values}]
    return made


def _wish(dice: random.Random) -> Raw:
    return {"weight": dice.choice((1, 1, 5, 100)), "podAffinityTerm": term(dice)}


def _some(dice: random.Random, make: Any) -> list[Raw]:
    made = [make(dice) for _ in range(dice.choice((0, 0, 1, 1, 2)))]
    return made * 2 if dice.random() < 0.1 else made


def _labels(dice: random.Random, keys: Sequence[str]) -> dict[str, str]:
    return {key: dice.choice("aab") for key in keys if dice.random() < 0.8}


def _node(dice: random.Random, name: str) -> Raw:
    labels = {}
    if dice.random() < 0.85:
        labels[HOSTNAME] = name if dice.random() < 0.9 else "node-0"
    if dice.random() < 0.8:
        labels[ZONE] = dice.choice(("east", "west", ""))
    if dice.random() < 0.6:
        labels["rack"] = dice.choice("12")
    taint = {"key": "dedicated", "effect": dice.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))}
    taints = [taint] if dice.random() < 0.3 else []
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}


def _placed(raw: Raw, node: str) -> Pod:
    return read({**raw, "spec": {**raw["spec"], "nodeName": node}})


def namespace(name: str, labels: Mapping[str, str]) -> Namespace:
    """A Namespace with these labels."""
    return msgspec.convert({"metadata": {"name": name, "labels": dict(labels)}}, Namespace)


def selects(chooser: Raw | None, labels: Mapping[str, str]) -> bool:
    """What a label selector means, written out."""
    if chooser is None:
        return False
    for key, value in chooser.get("matchLabels", {}).items():
        if key not in labels or labels[key] != value:
            return False
    for one in chooser.get("matchExpressions", ()):
        value = labels.get(one["key"])
        kept = {
            "In": value is not None and value in (one["values"] or ()),
            "NotIn": value is None or value not in (one["values"] or ()),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[one["operator"]]
        if not kept:
            return False
    return True

"""Names or full nodes, the decision is the same: verdicts, reasons and scores, over the running server."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.runtimes.extender.options import options_from
from bayplan.runtimes.extender.serve import Server
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.runtimes.extender.caller import ask, names_request, nodes_request

Json = dict[str, Any]

GPU = "example.com/gpu-memory"
ALLOCATION = "bayplan.dev/allocation"
NODES, PODS, ASKING = 15, 60, 4

BY_NODE = """
import bayplan

@bayplan.filter
def same_disk(pod, node):
    if node.labels.get("disk") != "ssd" and pod.labels.get("app") != "a":
        return "node has no ssd"

@bayplan.score
def by_number(pod, node):
    return len(node.name) + len(node.labels)
"""

BY_COLUMN = """
import bayplan

PRICE = bayplan.Label("price", float)
DEAR = bayplan.Reason("too dear", preemptible=True)

@bayplan.filter
def cheap(pod, nodes):
    return DEAR.where(nodes[PRICE] > 6)

@bayplan.score(range=(0, 10), best="low")
def cheapest(pod, nodes):
    return nodes[PRICE]
"""

BY_OTHER_PODS = """
import bayplan

APP, RACK = bayplan.PodLabel("app"), bayplan.Label("rack")
CROWDED = bayplan.Reason("rack has enough of them")
FULL = bayplan.Reason("too little CPU left")

@bayplan.filter(recheck=True)
def spread(pod, nodes):
    crowded = CROWDED.where(nodes.count(APP.same_as(pod), by=RACK) >= 6)
    return crowded | FULL.where(nodes["cpu.free"] < pod.cpu_milli)

@bayplan.score
def emptiest(pod, nodes):
    return nodes["cpu.free"] - 100 * nodes.count(APP.same_as(pod))
"""

POLICIES: dict[str, list[str]] = {
    "node by node": ["by_node"],
    "columns of nodes": ["by_column"],
    "other pods": ["by_other_pods"],
    "slices of devices": ["SharedResource"],
    "all of them": ["by_node", "by_column", "by_other_pods", "SharedResource"],
}
NODES_ALONE = ("node by node", "columns of nodes")
seeds = pytest.mark.parametrize("seed", range(3))


@dataclass(frozen=True)
class Said:
    """What an answer means, however it was asked for."""

    passed: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    scores: dict[str, int]
    scores_of_passed: dict[str, int]


class Cluster:
    """Nodes and pods by chance, as an API server sends them."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.nodes = [self._node(number, dice) for number in range(NODES)]
        self.pods = [self._pod(number, dice, node=dice.randrange(NODES)) for number in range(PODS)]
        self.asking = [self._pod(PODS + number, dice) for number in range(ASKING)]
        self.names: list[str] = [node["metadata"]["name"] for node in self.nodes]
        # kube-scheduler asks for some of the nodes only, in an order of its own.
        self.some = dice.sample(self.names, NODES - 3)

    def _node(self, number: int, dice: random.Random) -> Json:
        labels = {"price": str(dice.randrange(1, 9)), "disk": dice.choice(["ssd", "hdd"])}
        if dice.random() < 0.9:
            labels["rack"] = dice.choice("xyz")
        devices = {"example.com/gpus": dice.choice(["2x1000", "1000,500", "4x250"])}
        return node_manifest(
            f"n{number}",
            labels=labels,
            annotations=devices,
            cpu=str(dice.randrange(1, 4)),
            extended={GPU: "9k"},
        )

    def _pod(self, number: int, dice: random.Random, *, node: int | None = None) -> Json:
        labels, cpu = {"app": dice.choice("abc")}, f"{dice.randrange(1, 8)}00m"
        taken = (
            {ALLOCATION: json.dumps({GPU: {"0": 250}})} if node is not None and dice.random() < 0.5 else {}
        )
        manifest = pod_manifest(
            f"p{number}",
            cpu=cpu,
            labels=labels,
            annotations=taken,
            requests={GPU: "250"} if taken else {GPU: dice.choice(["250", "800"])} if node is None else {},
            node_name=None if node is None else f"n{node}",
        )
        manifest["metadata"]["uid"] = f"uid-{number}"
        manifest["status"] = {"phase": "Pending" if node is None else "Running"}
        return manifest

    def snapshot(self) -> str:
        """What ``kubectl get nodes,pods -A -o json`` prints."""
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*self.nodes, *self.pods]})

    def full(self, names: list[str]) -> list[Json]:
        """These nodes as kube-scheduler sends them."""
        by_name = dict(zip(self.names, self.nodes, strict=True))
        return [by_name[name] for name in names]


@asynccontextmanager
async def serving(folder: Path, policies: list[str], cluster: Cluster | None) -> AsyncIterator[Server]:
    """A server with these policies, over that cluster or over what requests bring."""
    files = {"by_node": BY_NODE, "by_column": BY_COLUMN, "by_other_pods": BY_OTHER_PODS}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    shared = {"use": "SharedResource", "args": {"resource": GPU, "capacity": "example.com/gpus"}}
    config: Json = {
        "apiVersion": "bayplan.dev/v1",
        "kind": "BayplanConfiguration",
        "policies": [{"use": f"{name}.py"} if name in files else shared for name in policies],
        "extender": {
            "listen": "127.0.0.1:0",
            "opsListen": "127.0.0.1:0",
            "answer": {"failedNodes": "always"},
        },
        "page": {"listen": "off"},
    }
    if cluster:
        (folder / "cluster.json").write_text(cluster.snapshot())
        config["cluster"] = {"source": "snapshot", "snapshot": "cluster.json"}
    path = folder / "bayplan.yaml"
    path.write_text(yaml.safe_dump(config))
    loaded, problems = load_checked([], Flags(config=path))
    assert problems == []
    options = options_from(loaded, version="test")
    async with Server(replace(options, watch_interpreter=False)).running() as server:
        yield server


async def decide(server: Server, cluster: Cluster, pod: Json, *, full: bool) -> Said:
    """Filter, then prioritize all nodes and those that passed, as kube-scheduler does."""

    def asked(names: list[str]) -> Json:
        return nodes_request(cluster.full(names), pod=pod) if full else names_request(names, pod=pod)

    verdict = (await ask(server, "filter", asked(cluster.some))).json
    assert verdict["Error"] == ""
    items = (verdict["Nodes"] or {}).get("items") or []
    passed = [node["metadata"]["name"] for node in items] if full else verdict["NodeNames"]
    scores = [(await ask(server, "prioritize", asked(names))).json for names in (cluster.some, passed)]
    of_all, of_passed = ({line["Host"]: line["Score"] for line in lines} for lines in scores)
    assert sorted(of_all) == sorted(cluster.some)
    failed, unresolvable = verdict["FailedNodes"] or {}, verdict["FailedAndUnresolvableNodes"] or {}
    assert sorted([*passed, *failed, *unresolvable]) == sorted(cluster.some)
    return Said(passed, failed, unresolvable, of_all, of_passed)


@seeds
@pytest.mark.parametrize("title", POLICIES)
async def test_names_and_full_nodes_get_the_same_decision(tmp_path: Path, title: str, seed: int) -> None:
    cluster = Cluster(seed)
    async with serving(tmp_path, POLICIES[title], cluster) as server:
        by_names = [await decide(server, cluster, pod, full=False) for pod in cluster.asking]
        by_nodes = [await decide(server, cluster, pod, full=True) for pod in cluster.asking]

    assert by_nodes == by_names
    # An agreement about nothing would prove nothing.
    assert any(said.failed or said.unresolvable for said in by_names)
    assert any(len(set(said.scores.values())) > 1 for said in by_names)


@seeds
@pytest.mark.parametrize("title", NODES_ALONE)
async def test_a_server_that_watches_nothing_decides_the_same_about_nodes(
    tmp_path: Path, title: str, seed: int
) -> None:
    cluster = Cluster(seed)
    async with serving(tmp_path, POLICIES[title], cluster) as watching:
        by_names = [await decide(watching, cluster, pod, full=False) for pod in cluster.asking]
    async with serving(tmp_path, POLICIES[title], None) as blind:
        by_nodes = [await decide(blind, cluster, pod, full=True) for pod in cluster.asking]

    assert by_nodes == by_names

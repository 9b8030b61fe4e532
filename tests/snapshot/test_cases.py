"""Many what-ifs at once: each node sees its own pods changed, and everything else as it is."""

import random

import numpy as np
import pytest

from bayplan import Label, Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.conditions import EVERY_POD
from bayplan.testing import make_node, make_pod

RACK = Label("rack")


def world(seed: int) -> tuple[Snapshot, dict[str, set[str]], dict[str, list[Pod]]]:
    dice = random.Random(seed)
    racks = ("a", "b", "c", None)
    nodes = [
        make_node(f"n{number}", labels={"rack": rack} if (rack := dice.choice(racks)) else {}).object
        for number in range(8)
    ]
    pods = [
        make_pod(f"p{number}", uid=f"p{number}", cpu=1, node=f"n{dice.randrange(8)}", labels={"app": "web"})
        for number in range(24)
    ]
    cluster = Snapshot.build(nodes, pods)
    gone = {
        name: {pod.uid for pod in cluster.pods_on(name) if dice.random() < 0.5}
        for name in cluster.nodes.names
        if dice.random() < 0.7
    }
    coming = {name: [make_pod(f"to-{name}", labels={"app": "web"})] for name in dice.sample(sorted(gone), 2)}
    return cluster, gone, coming


@pytest.mark.parametrize("seed", range(20))
def test_each_node_is_counted_as_if_nothing_had_changed_elsewhere(seed: int) -> None:
    cluster, gone, coming = world(seed)
    names = list(gone)
    together = cluster.cases(gone=gone, coming=coming)
    load = together.nodes.load
    assert load is not None

    nodes = together.nodes.take(together.find(names), names)
    counts = nodes.count(EVERY_POD, by=RACK).tolist()
    free = nodes["cpu.free"].tolist()

    for row, name in enumerate(names):
        alone = cluster.without_on({name: gone[name]}).expecting({name: coming.get(name, [])})
        at = alone.rows[name]
        assert counts[row] == alone.nodes.count(EVERY_POD, by=RACK)[at]
        assert free[row] == alone.nodes["cpu.free"][at]
    assert not load.domains_read, "nobody has seen the evictions of another node"


@pytest.mark.parametrize("seed", range(20))
def test_what_is_around_a_node_is_the_cluster_and_its_own_change(seed: int) -> None:
    cluster, gone, coming = world(seed)
    names = list(gone)
    together = cluster.cases(gone=gone, coming=coming)
    nodes = together.nodes.take(together.find(names), names)

    around = nodes.around(np.ones(nodes.kinds[1], dtype=np.bool_))

    assert around.change is not None
    assert around.everywhere.tolist() == cluster.nodes.count(EVERY_POD).tolist()
    assert around.change.tolist() == [len(coming.get(name, [])) - len(gone[name]) for name in names]


def test_around_a_node_of_a_cluster_as_it_is_nothing_changes() -> None:
    cluster, _, _ = world(1)

    around = cluster.nodes.around(np.ones(cluster.nodes.kinds[1], dtype=np.bool_))

    assert around.change is None
    assert around.everywhere.tolist() == cluster.nodes.count(EVERY_POD).tolist()


def test_a_sum_over_domains_still_tells_that_other_nodes_were_seen() -> None:
    cluster, gone, coming = world(1)
    together = cluster.cases(gone=gone, coming=coming)
    load = together.nodes.load
    assert load is not None

    together.nodes.sum("cpu", by=RACK)

    assert load.domains_read


def test_a_pod_that_is_to_come_is_there_once() -> None:
    waiting = make_pod("waiting", uid="waiting")
    cluster = Snapshot.build([make_node("n").object], [waiting])

    assert [pod.node_name for pod in cluster.cases(coming={"n": [waiting]}).pods] == ["n"]

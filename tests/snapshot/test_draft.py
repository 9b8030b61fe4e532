"""A draft with pods placed one after another is the cluster that has them."""

import msgspec
import numpy as np
import pytest

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.kube.quantity import QuantityError
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.draft import Draft
from bayplan.testing import make_node, make_pod

COLUMNS = ("cpu.requested", "cpu.free", "memory.requested", "memory.free", "pods.free", "cpu.allocatable")
EVERY = np.arange(3)


def _cluster(*pods: Pod) -> Snapshot:
    nodes = [make_node(f"n{number}", cpu=4 + number, memory="8Gi").object for number in range(3)]
    cluster = Snapshot.build(nodes, pods)
    for column in COLUMNS:
        # Only what somebody reads is kept up to date from step to step.
        cluster.nodes[column]
    return cluster


def _plan() -> list[tuple[Pod, str]]:
    sizes = [("1", "1Gi", "n1"), ("500m", "2Gi", "n0"), ("250m", None, "n1"), (None, "1Gi", "n1")]
    return [
        (make_pod(f"p{number}", cpu=cpu, memory=memory), node)
        for number, (cpu, memory, node) in enumerate(sizes)
    ]


@pytest.mark.parametrize("column", COLUMNS)
def test_each_step_has_the_numbers_of_a_cluster_with_those_pods(column: str) -> None:
    there = make_pod("there", node="n1", cpu=2, memory="1Gi")
    draft, placed = Draft(_cluster(there)), [there]
    for pod, node in _plan():
        draft.place(pod, node)
        placed.append(draft.placed[-1][0])
        wanted = _cluster(*placed).nodes[column]

        assert draft.snapshot.look(EVERY)[column].tolist() == wanted.tolist()
        assert draft.snapshot.nodes[column].tolist() == wanted.tolist()


def test_the_cluster_that_a_draft_began_with_stays_as_it_is() -> None:
    cluster = _cluster()
    draft = Draft(cluster)
    seen = draft.snapshot.look(EVERY)
    draft.place(make_pod("p", cpu=1), "n0")

    assert cluster.nodes["cpu.free"].tolist() == [4000, 5000, 6000]
    assert seen["cpu.free"].tolist() == [4000, 5000, 6000]


def test_an_amount_that_cannot_be_read_fails_only_who_asks_for_it() -> None:
    allocatable = {"cpu": "4", "example.com/gpu": "many"}
    broken = {"metadata": {"name": "broken"}, "status": {"allocatable": allocatable}}
    cluster = Snapshot.build([msgspec.convert(broken, NodeObject)], [])
    for column in ("cpu.free", "example.com/gpu.requested"):
        cluster.nodes[column]
    draft = Draft(cluster)
    draft.place(make_pod("p", cpu=1), "broken")
    looked = draft.snapshot.look(np.arange(1))

    assert looked["cpu.free"].tolist() == [3000]
    assert looked["example.com/gpu.requested"].tolist() == [0]
    with pytest.raises(QuantityError):
        looked["example.com/gpu.free"]

"""NodeResourcesFit, the score: what is left, what is taken, or a curve over it, in Go's whole numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.authoring.hooks import PolicyError
from bayplan.policies.default_profile.node_resources_fit import NodeResourcesFit
from bayplan.policies.default_profile.scoring_strategy import NonZeroRequests, ShapePoint, curve, percent
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

GPU = "example.com/gpu"
MIB = 1024**2


def strategy(kind: str, *resources: tuple[str, int], shape: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": kind}
    if resources:
        found["resources"] = [{"name": name, "weight": weight} for name, weight in resources]
    if shape is not None:
        points = [{"utilization": taken, "score": score} for taken, score in shape]
        found["requestedToCapacityRatio"] = {"shape": points}
    return {"scoringStrategy": found}


def scores(args: dict[str, Any], pod: Any, *nodes: Any, pods: Any = ()) -> dict[str, float]:
    return run_policy(NodeResourcesFit, pod, make_cluster(nodes, pods), args=args).scores


SMALL, LARGE = make_node("small", cpu=3, memory="1000Mi"), make_node("large", cpu=8, memory="8000Mi")
POD = make_pod(cpu=1, memory="500Mi")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        # CPU: 2 of 3 are left, 66; memory: half is. The mean is 58.
        pytest.param({}, {"small": 58, "large": 90}, id="what is left, without a word"),
        pytest.param(strategy("LeastAllocated"), {"small": 58, "large": 90}, id="what is left"),
        pytest.param(strategy("MostAllocated"), {"small": 41, "large": 9}, id="what is taken"),
        pytest.param(
            strategy("LeastAllocated", ("cpu", 3), ("memory", 1)), {"small": 62, "large": 88}, id="by weight"
        ),
        pytest.param(
            strategy("LeastAllocated", ("cpu", 0)), {"small": 66, "large": 87}, id="a weight of 0 is 1"
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", shape=[(0, 0), (100, 10)]),
            {"small": 42, "large": 9},
            id="a curve, rounded and not cut off",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", shape=[(0, 10), (50, 5), (100, 0)]),
            {"small": 59, "large": 91},
            id="a curve that falls",
        ),
        pytest.param(
            # 33 percent of CPU are worth nothing, and so do not count at all.
            strategy("RequestedToCapacityRatio", shape=[(40, 0), (60, 10)]),
            {"small": 50, "large": 0},
            id="what is worth nothing does not count",
        ),
        pytest.param(
            strategy("LeastAllocated", ("cpu", 1), (GPU, 5)),
            {"small": 66, "large": 87},
            id="an extended resource that the pod does not ask for",
        ),
    ],
)
def test_score(args: dict[str, Any], expected: dict[str, float]) -> None:
    assert scores(args, POD, SMALL, LARGE) == expected


def test_an_extended_resource_counts_for_pods_that_ask_for_it() -> None:
    nodes = [make_node("four", allocatable={GPU: 4}), make_node("one", allocatable={GPU: 1})]

    args = strategy("MostAllocated", (GPU, 1))

    assert scores(args, make_pod(requests={GPU: 1}), *nodes) == {"four": 25, "one": 100}


def test_and_for_no_others() -> None:
    node = make_node("node", cpu=10, allocatable={GPU: 4})

    assert scores(strategy("MostAllocated", ("cpu", 1), (GPU, 1)), make_pod(cpu=5), node) == {"node": 50}


def test_a_container_that_asks_for_nothing_counts_as_a_small_one() -> None:
    node = make_node("node", cpu=1, memory=f"{1000 * MIB}")

    # Two on the node and the one to come: 3 x 100m of 1, 3 x 200Mi of 1000Mi.
    silent = [make_pod(f"silent-{number}", node="node") for number in range(2)]
    assert scores({}, make_pod(), node, pods=silent) == {"node": (70 + 40) // 2}


def test_requests_of_a_pod_as_a_whole_count_once_it_is_placed_and_not_before() -> None:
    node = make_node("node", cpu=10, memory=f"{10_000 * MIB}")
    whole = {"resources": {"requests": {"cpu": "5", "memory": "5000Mi"}}}

    assert scores({}, make_pod(spec=whole), node) == {"node": (99 + 98) // 2}
    assert scores({}, make_pod(), node, pods=[make_pod(node="node", spec=whole)]) == {"node": (49 + 48) // 2}


def test_a_resource_that_a_node_does_not_have_does_not_count_there() -> None:
    virtual = make_node("virtual", cpu=0, memory=0)
    no_memory = make_node("no-memory", cpu=2, memory=0)
    plain = make_node("plain", cpu=2, memory="2000Mi")

    found = scores({}, make_pod(), virtual, no_memory, plain)

    assert found == {"virtual": 0, "no-memory": 95, "plain": (95 + 90) // 2}


def test_more_pods_than_there_is_room_for_leave_nothing_and_not_less() -> None:
    node = make_node("node", cpu="150m", memory=f"{250 * MIB}")
    silent = [make_pod("silent", node="node")]

    assert scores({}, make_pod(), node, pods=silent) == {"node": 0}
    assert scores(strategy("MostAllocated"), make_pod(), node, pods=silent) == {"node": 100}


def test_amounts_past_all_limits_keep_a_score() -> None:
    node = make_node("endless", cpu=4, memory=2**63 - 1)
    greedy = [make_pod(f"greedy-{number}", memory=2**63 - 1, node="endless") for number in range(2)]

    # Nothing of the memory is left; of the CPU 3 x 100m of 4 are taken.
    assert scores({}, make_pod(requests={"memory": 0}), node, pods=greedy) == {"endless": 92 // 2}
    assert scores({}, make_pod(), node) == {"endless": (97 + 99) // 2}


@given(st.lists(st.tuples(st.integers(0, 2**45), st.integers(1, 2**45)), min_size=1))
@settings(deadline=None)
def test_percents_are_those_of_whole_numbers(pairs: list[tuple[int, int]]) -> None:
    parts = np.array([min(part, whole) for part, whole in pairs], dtype=np.int64)
    wholes = np.array([whole for _, whole in pairs], dtype=np.int64)

    expected = [min(part, whole) * 100 // whole for part, whole in pairs]
    assert percent(parts, wholes).tolist() == expected


def test_a_curve_goes_towards_zero_between_its_points_as_go_divides() -> None:
    points = [ShapePoint(utilization=0, score=10), ShapePoint(utilization=3, score=9)]

    assert curve(points)[:5].tolist() == [100, 97, 94, 90, 90]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(
            strategy("LeastAllocated", ("memry", 1)), "did you mean 'memory'", id="a mistyped resource"
        ),
        pytest.param(strategy("LeastAllocated", ("cpu", 101)), "<= 100", id="a weight too many"),
        pytest.param(strategy("RequestedToCapacityRatio"), "goes with the type", id="a curve is missing"),
        pytest.param(strategy("MostAllocated", shape=[(0, 0)]), "goes with the type", id="a curve too many"),
        pytest.param(
            strategy("RequestedToCapacityRatio", shape=[(50, 0), (50, 1)]),
            "above that of",
            id="two at one place",
        ),
        pytest.param(strategy("Least"), "Invalid enum value 'Least'", id="a type that nobody knows"),
        pytest.param({"ignoredResourceGroups": ["example.com/"]}, "give what is before it", id="a group"),
    ],
)
def test_settings_that_make_no_sense_are_an_error(args: dict[str, Any], told: str) -> None:
    with pytest.raises((PolicyError, ValueError), match=told):
        scores(args, POD, SMALL)


def test_the_column_of_small_requests_follows_the_pods() -> None:
    cluster = make_cluster(["node", "other"], [make_pod("silent", node="node")])
    column = NonZeroRequests("memory")

    after = cluster.placed(make_pod("new", memory="1Gi"), "other")

    assert cluster.nodes[column].tolist() == [200 * MIB, 0]
    assert after.nodes[column].tolist() == [200 * MIB, 1024 * MIB]

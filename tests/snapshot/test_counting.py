"""Counting other pods: by any relation of labels, per node and per domain."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.kube.selector import LabelSelector, Requirement
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import Label
from bayplan.snapshot.conditions import (
    EVERY_POD,
    PodCondition,
    PodLabel,
    in_namespace,
    same_owner,
    selected_by,
)
from bayplan.snapshot.table import PodsUnknown
from bayplan.testing import make_cluster, make_node, make_pod

RACK, APP = Label("rack"), PodLabel("app")
CLUSTER = make_cluster(
    [
        make_node("two-databases", labels={"rack": "r1"}),
        make_node("one-web", labels={"rack": "r1"}),
        make_node("one-database", labels={"rack": "r2"}),
        make_node("no-rack"),
    ],
    [
        make_pod("db-1", node="two-databases", labels={"app": "db"}, cpu="1", owner=("ReplicaSet", "db")),
        make_pod("db-2", node="two-databases", labels={"app": "db"}, cpu="500m", owner=("ReplicaSet", "db")),
        make_pod("web-1", node="one-web", labels={"app": "web"}, cpu="250m", namespace="shop"),
        make_pod("db-3", node="one-database", labels={"app": "db"}, cpu="2"),
        make_pod("bare", node="no-rack"),
        make_pod("finished", node="one-web", labels={"app": "db"}, phase="Succeeded"),
        make_pod("waiting", labels={"app": "db"}),
    ],
)


@pytest.mark.parametrize(
    ("where", "counts"),
    [
        pytest.param(EVERY_POD, [2, 1, 1, 1], id="every pod that is placed and not finished"),
        pytest.param(APP == "db", [2, 0, 1, 0], id="a label's value"),
        pytest.param(APP != "db", [0, 1, 0, 1], id="a pod without the label is not of that value"),
        pytest.param(APP.isin(["web", "cache"]), [0, 1, 0, 0], id="one of several values"),
        pytest.param(APP.present, [2, 1, 1, 0], id="the label is there"),
        pytest.param(~APP.present, [0, 0, 0, 1], id="the label is not there"),
        pytest.param(in_namespace("shop"), [0, 1, 0, 0], id="a namespace"),
        pytest.param((APP == "db") | in_namespace("shop"), [2, 1, 1, 0], id="either"),
        pytest.param((APP == "db") & in_namespace("shop"), [0, 0, 0, 0], id="both"),
        pytest.param(APP.same_as(make_pod(labels={"app": "web"})), [0, 1, 0, 0], id="the same as the pod"),
        pytest.param(APP.same_as(make_pod()), [0, 0, 0, 0], id="a pod without the label is like nobody"),
        pytest.param(same_owner(make_pod()), [0, 0, 0, 0], id="a pod made by hand has no siblings"),
        pytest.param(
            selected_by(LabelSelector(match_expressions=(Requirement("app", "In", ("db", "web")),))),
            [2, 1, 1, 0],
            id="a Kubernetes selector",
        ),
    ],
)
def test_count(where: PodCondition, counts: list[int]) -> None:
    assert CLUSTER.nodes.count(where).tolist() == counts


def test_a_domain_is_counted_as_a_whole_and_a_node_outside_of_any_gets_minus_one() -> None:
    assert CLUSTER.nodes.count(APP == "db", by=RACK).tolist() == [2, 2, 1, -1]


def test_requests_are_added_up_like_pods() -> None:
    nodes = CLUSTER.nodes

    assert nodes.sum("cpu", APP == "db").tolist() == [1500, 0, 2000, 0]
    assert nodes.sum("cpu", by=RACK).tolist() == [1750, 1750, 2000, -1]
    assert nodes.sum("example.com/gpu").tolist() == [0, 0, 0, 0]


def test_a_choice_of_rows_still_counts_the_whole_domain() -> None:
    some = CLUSTER.nodes.take(np.array([1, 2])).take(np.array([0]))

    assert some.names == ["one-web"]
    assert some.count(APP == "db", by=RACK).tolist() == [2]


def test_victims_are_gone_from_the_counts_of_an_overlay_and_of_nothing_else() -> None:
    victim = CLUSTER.pods_on("two-databases")[0]

    without = CLUSTER.without_on({"two-databases": {victim.uid}})

    assert without.nodes.count(APP == "db", by=RACK).tolist() == [1, 1, 1, -1]
    assert without.nodes["cpu.requested"].tolist() == [500, 250, 2000, 0]
    assert CLUSTER.nodes.count(APP == "db").tolist() == [2, 0, 1, 0]


def test_a_placed_pod_counts_at_once() -> None:
    placed = CLUSTER.placed(make_pod("new", labels={"app": "cache"}), "no-rack")

    assert placed.nodes.count(APP == "cache").tolist() == [0, 0, 0, 1]


def test_nodes_of_a_request_cannot_count() -> None:
    blind = Snapshot.build(CLUSTER.nodes.objects, None)

    with pytest.raises(PodsUnknown, match="counting pods needs the placed pods"):
        blind.nodes.count()


def test_a_domain_must_be_text() -> None:
    with pytest.raises(TypeError, match="by= wants a column of text"):
        CLUSTER.nodes.count(by=Label("rack", float))


_PODS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc"), st.integers(0, 3)), max_size=30)


@given(_PODS)
@settings(deadline=None, max_examples=60)
def test_counts_are_what_a_loop_would_count(pods: list[tuple[int, str, int]]) -> None:
    nodes = [make_node(f"n{i}", labels={"rack": str(i % 2)} if i < 4 else {}) for i in range(5)]
    placed = [
        make_pod(f"p{i}", node=f"n{row}", labels={"app": app}, cpu=f"{cpu}00m")
        for i, (row, app, cpu) in enumerate(pods)
    ]

    table = make_cluster(nodes, placed).nodes

    mine = [pod for pod in placed if pod.labels["app"] == "a"]
    for row, node in enumerate(table):
        here = [pod for pod in mine if pod.node_name == node.name]
        assert table.count(APP == "a")[row] == len(here)
        assert table.sum("cpu", APP == "a")[row] == sum(pod.cpu_milli for pod in here)

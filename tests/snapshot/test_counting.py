"""Counting other pods: by any relation of labels, per node and per domain."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.kube.quantity import INT64_MAX
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
from bayplan.snapshot.domains import By, Together, domain
from bayplan.snapshot.load import PodsUnknown
from bayplan.snapshot.names import UnknownColumn
from bayplan.snapshot.tally import PodKinds, Tally
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
        pytest.param(in_namespace("sh*", "x?"), [0, 1, 0, 0], id="namespaces with * and ?"),
        pytest.param(in_namespace("*"), [2, 1, 1, 1], id="any namespace"),
        pytest.param(in_namespace(), [0, 0, 0, 0], id="no namespace"),
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
        pytest.param(selected_by(LabelSelector()), [2, 1, 1, 1], id="an empty selector is every pod"),
        pytest.param(
            same_owner(make_pod(owner=("ReplicaSet", "db"))), [2, 0, 0, 0], id="replicas of the same owner"
        ),
    ],
)
def test_count(where: PodCondition, counts: list[int]) -> None:
    assert CLUSTER.nodes.count(where).tolist() == counts


def test_what_was_asked_before_does_not_change_what_is_counted_next() -> None:
    nodes = CLUSTER.nodes

    assert nodes.count(APP == "db").tolist() == [2, 0, 1, 0]
    assert nodes.sum("cpu", APP == "db").tolist() == [1500, 0, 2000, 0]
    assert nodes.sum("cpu", APP == "web").tolist() == [0, 250, 0, 0]
    assert nodes.count(APP == "db").tolist() == [2, 0, 1, 0]


def test_pods_weigh_what_their_kind_does_also_less_than_nothing() -> None:
    tally = CLUSTER.nodes.tally
    kinds, count = tally.kinds
    weights = np.where(kinds.label("app", count) == "db", 7, -1)
    every, dbs = CLUSTER.nodes.count(), CLUSTER.nodes.count(APP == "db")

    assert tally.weigh(weights, 4).tolist() == (8 * dbs - every).tolist()
    assert tally.weigh(weights > 0, 4).tolist() == dbs.tolist()
    assert tally.weigh(weights > 0, 1).tolist() == dbs[:1].tolist()


def test_a_domain_is_counted_as_a_whole_and_a_node_outside_of_any_gets_minus_one() -> None:
    assert CLUSTER.nodes.count(APP == "db", by=RACK).tolist() == [2, 2, 1, -1]


@pytest.mark.parametrize(
    ("by", "counts"),
    [
        pytest.param([RACK], [2, 2, 1, -1], id="a list of one is that one"),
        pytest.param(
            [RACK, Label("row")], [2, 0, -1, -1], id="several together; one that is missing is enough"
        ),
        pytest.param(["zone", RACK], [2, 2, -1, -1], id="by a short name and a label"),
        pytest.param("zone", [2, 2, -1, 0], id="by a short name"),
    ],
)
def test_a_domain_of_several_columns(by: By, counts: list[int]) -> None:
    places = [{"row": "1", "zone": "a"}, {"row": "2", "zone": "a"}, {}, {"row": "1", "zone": "b"}]
    nodes = [
        make_node(node.name, labels={**node.labels, **labels}, zone=labels.get("zone"))
        for node, labels in zip(CLUSTER.nodes, places, strict=True)
    ]

    table = make_cluster(nodes, CLUSTER.pods).nodes

    assert table.count(APP == "db", by=by).tolist() == counts


def test_no_two_combinations_of_labels_are_mistaken_for_each_other() -> None:
    nodes = [
        make_node("one", labels={"row": "a-", "rack": "b"}),
        make_node("two", labels={"row": "a", "rack": "-b"}),
    ]
    table = make_cluster(nodes, [make_pod("there", node="one")]).nodes

    assert table.count(by=[Label("row"), RACK]).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("by", "message"),
    [
        pytest.param([], "at least one column", id="none"),
        pytest.param(["zoen", RACK], "no column 'zoen'; did you mean 'zone'", id="a typo"),
        pytest.param("rack", r"no column 'rack'; .*; a label is Label\('rack'\)", id="the key of a label"),
        pytest.param([RACK, Label("rack", float)], "a column of text", id="numbers"),
    ],
)
def test_what_is_no_domain_is_an_error(by: By, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        CLUSTER.nodes.count(by=by)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        pytest.param(str.isdigit, "<method", id="a function"),
        pytest.param(False, "False", id="what a comparison of a Label is"),
    ],
)
def test_pods_are_counted_by_conditions_alone(where: Any, said: str) -> None:
    wanted = r"pods are counted by a condition, such as PodLabel\('app'\) == 'db' or"
    with pytest.raises(TypeError, match=rf"{wanted} PodLabel\('app'\)\.same_as\(pod\), not by {said}"):
        CLUSTER.nodes.count(where)


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


@pytest.mark.parametrize(
    ("by", "column"),
    [
        pytest.param("rack", Label("rack"), id="a label"),
        pytest.param("zone", Label("topology.kubernetes.io/zone"), id="a short name"),
        pytest.param(["rack"], Label("rack"), id="a list of one"),
        pytest.param(["zone", "rack"], Together((Label("topology.kubernetes.io/zone"), RACK)), id="several"),
        pytest.param("node", None, id="each node"),
        pytest.param([], None, id="nothing is each node"),
    ],
)
def test_the_domain_behind_a_text(by: str | list[str], column: object) -> None:
    assert domain(by) == column


_LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from("abc"))
_REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from("abc"), min_size=1).map(tuple),
    ),
    st.builds(
        Requirement,
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
        st.just(()),
    ),
)


@given(st.builds(LabelSelector, _LABELS, st.lists(_REQUIREMENTS).map(tuple)), st.lists(_LABELS, max_size=8))
@settings(deadline=None, max_examples=200)
def test_a_selector_over_columns_chooses_what_it_matches_one_by_one(
    selector: LabelSelector, pods: list[dict[str, str]]
) -> None:
    names = [f"n{number}" for number in range(len(pods))]
    placed = [make_pod(node=name, labels=labels) for name, labels in zip(names, pods, strict=True)]

    table = make_cluster(names, placed).nodes

    assert table.count(selected_by(selector)).tolist() == [int(selector.matches(labels)) for labels in pods]


def test_a_selector_sees_kinds_of_pods_that_came_after_it_was_first_asked() -> None:
    databases = selected_by(LabelSelector({"app": "db"}))
    assert CLUSTER.nodes.count(databases).tolist() == [2, 0, 1, 0]

    grown = CLUSTER.placed(make_pod("new", labels={"app": "db", "new": "kind"}), "no-rack")

    assert grown.nodes.count(databases).tolist() == [2, 0, 1, 1]
    assert CLUSTER.nodes.count(databases).tolist() == [2, 0, 1, 0]


def jobs(tally: Tally, *, start: int, count: int) -> None:
    """Pods that come and go, each of a kind of its own."""
    for number in range(start, start + count):
        job = make_pod(labels={"job-name": f"job-{number}"})
        tally.add(job, 0)
        tally.add(job, 0, -1)


def test_kinds_of_pods_that_are_gone_do_not_stay() -> None:
    tally = Tally()
    for number in range(100):
        tally.add(make_pod(labels={"app": f"app-{number}"}, cpu=1), number % 2)
    old = tally.freeze()

    for start in range(0, 10_000, 1_000):
        jobs(tally, start=start, count=1_000)
        tally.freeze()
    jobs(tally, start=10_000, count=5_000)
    tally.add(make_pod(labels={"app": "app-7"}, cpu=2), 1)

    new = tally.freeze()
    assert len(new._kinds) < 1_000
    assert new.count(APP.isin(["app-7", "app-8"]), 2).tolist() == [1, 2]
    assert new.sum("cpu", EVERY_POD, 2).tolist() == [50_000, 52_000]
    assert old.count(APP.isin(["app-7", "app-8"]), 2).tolist() == [1, 1], "who still reads it sees no change"


def test_kinds_of_pods_that_were_never_placed_do_not_stay() -> None:
    """Each pod that waits is put on nodes to see what would be."""
    tally = Tally()
    tally.add(make_pod(labels={"app": "there"}), 0)
    for number in range(10_000):
        tally.freeze().changed([(make_pod(labels={"app": f"waits-{number}"}), 0, 1)])

    assert len(tally.freeze()._kinds) < 6_000
    assert tally.freeze().count(APP == "there", 1).tolist() == [1]


HUGE = str(INT64_MAX)
GREEDY = make_cluster(
    [make_node("two", labels={"rack": "r"}), make_node("one", labels={"rack": "r"}), make_node("none")],
    [
        make_pod("a", node="two", requests={"x/y": HUGE}),
        make_pod("b", node="two", requests={"x/y": 5}),
        make_pod("c", node="one", requests={"x/y": INT64_MAX - 3}),
        make_pod("d", node="none", requests={"x/y": 7}),
    ],
)


def test_a_sum_stops_at_the_largest_number_there_is() -> None:
    table = GREEDY.nodes

    assert table.sum("x/y").tolist() == [INT64_MAX, INT64_MAX - 3, 7]
    assert table.sum("x/y", by=RACK).tolist() == [INT64_MAX, INT64_MAX, -1]
    assert table.sum("x/y").tolist() == table["x/y.requested"].tolist()


def test_many_of_a_kind_stop_there_too() -> None:
    pods = [make_pod(f"p{number}", node="n", requests={"x/y": INT64_MAX // 2 + 1}) for number in range(4)]

    assert make_cluster(["n"], pods).nodes.sum("x/y").tolist() == [INT64_MAX]


def test_a_huge_pod_that_is_gone_leaves_what_the_others_ask_for() -> None:
    victim = GREEDY.pods_on("two")[0]

    assert GREEDY.without({victim.uid}).nodes.sum("x/y").tolist() == [5, INT64_MAX - 3, 7]


def test_a_kind_is_there_before_its_number_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(dict[object, int]):
        """Ends the thread at the moment when the number is written down, once."""

        armed = True

        def __setitem__(self, key: object, number: int) -> None:
            if self.armed:
                self.armed = False
                raise KeyboardInterrupt
            super().__setitem__(key, number)

    kinds = PodKinds()
    monkeypatch.setattr(kinds, "_numbers", Interrupting())
    one, two = make_pod(labels={"app": "one"}), make_pod(labels={"app": "two"})
    with pytest.raises(KeyboardInterrupt):
        kinds.number(one)

    numbers = kinds.number(two), kinds.number(one)

    assert len(set(numbers)) == 2
    assert [kinds.label("app", len(kinds))[number] for number in numbers] == ["two", "one"]
    assert [kinds.only(np.array(numbers)).label("app", 2)[row] for row in (0, 1)] == ["two", "one"]


def test_labels_that_anybody_may_ask_about_are_not_kept_for_ever() -> None:
    kinds = PodKinds()
    kinds.number(make_pod(labels={"app": "one"}))

    for number in range(2_000):
        kinds.label(f"key-{number}", 1)

    assert len(kinds._columns) <= 500
    assert kinds.label("app", 1)[0] == "one"


def test_one_text_where_several_are_wanted_is_an_error_at_once() -> None:
    with pytest.raises(TypeError, match=r"isin wants several texts, such as \['db'\]"):
        APP.isin("db")
    with pytest.raises(TypeError, match=r"in_namespace wants names.* got \['shop'\]"):
        in_namespace(["shop"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        pytest.param("mem", "no resource 'mem'; did you mean 'memory'?", id="a short name"),
        pytest.param("gpu", "no resource 'gpu'; extended resources are written", id="no vendor"),
    ],
)
def test_a_sum_of_what_is_no_resource_is_an_error_as_its_column_is(resource: str, said: str) -> None:
    with pytest.raises(UnknownColumn, match=re.escape(said)):
        CLUSTER.nodes.sum(resource)

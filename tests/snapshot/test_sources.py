"""Values from outside as columns: what is missing is NaN, what is latched stays, what came later is added."""

import msgspec
import numpy as np
import pytest

from bayplan import Source
from bayplan.kube.node import NodeObject
from bayplan.snapshot.bynode import by_field
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Reading, Readings, SourceMissing
from bayplan.state.cache import Cache
from bayplan.testing import make_cluster, make_node, make_pod

P95 = Source("p95")


def node_with(**addresses: str) -> NodeObject:

    there = [{"type": kind, "address": address} for kind, address in addresses.items()]
    return msgspec.convert(
        {
            "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "host-n"}},
            "status": {"addresses": there},
        },
        NodeObject,
    )


def test_a_number_a_node_and_nan_where_there_is_none() -> None:
    nodes = make_cluster(["slow", "fast", "silent"], sources={"p95": {"slow": 0.9, "fast": 0.1}}).nodes

    assert nodes[P95].tolist()[:2] == [0.9, 0.1]
    assert np.isnan(nodes[P95][2])
    assert nodes.row("fast")[P95] == 0.1


def test_several_values_of_one_source() -> None:
    values = {"a": {"warranty": True, "vendor": "acme", "price": "1.5"}, "b": {"warranty": False}}
    nodes = make_cluster(["a", "b"], sources={"inventory": values}).nodes

    assert nodes[Source("inventory.warranty", bool)].tolist() == [1.0, 0.0]
    assert [nodes.row(name)[Source("inventory.vendor", str)] for name in ("a", "b")] == ["acme", None]
    assert nodes[Source("inventory.price")].tolist()[0] == 1.5


def test_numbers_of_numpy_are_numbers() -> None:
    assert by_field({"a": np.int64(3), "b": {"x": np.bool_(True)}}) == {"": {"a": 3}, "x": {"b": True}}


def test_yes_and_no_as_text_are_written_as_json_writes_them() -> None:
    nodes = make_cluster(["a", "b"], sources={"svc": {"a": {"refuse": True}, "b": {"refuse": False}}}).nodes

    assert [nodes[Source("svc.refuse", str)][row] for row in range(2)] == ["true", "false"]


def test_a_choice_of_rows_has_its_own_values() -> None:
    cluster = make_cluster(["a", "b", "c"], sources={"p95": {"a": 1, "b": 2, "c": 3}})

    assert cluster.nodes.take(cluster.find(["c", "a"]))[P95].tolist() == [3, 1]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(float("inf"), id="infinity"),
        pytest.param(float("nan"), id="NaN"),
        pytest.param("much", id="a word"),
        pytest.param(10**400, id="more than any float"),
        pytest.param(None, id="null"),
    ],
)
def test_what_is_no_number_is_missing(value: object) -> None:
    nodes = make_cluster(["a"], sources={"p95": {"a": value}}).nodes

    assert np.isnan(nodes[P95][0])


def test_a_source_that_there_is_not_is_named_with_the_nearest() -> None:
    nodes = make_cluster(["a"], sources={"p95": {}}).nodes

    with pytest.raises(SourceMissing, match=r"no source 'p59'.*did you mean 'p95'"):
        nodes[Source("p59")]


def test_values_that_are_neither_numbers_nor_texts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a.x: want a number or a text, got list"):
        by_field({"a": {"x": [1]}})


@pytest.mark.parametrize(
    ("match", "key"),
    [
        pytest.param("name", "n", id="by name"),
        pytest.param("internalIP", "10.0.0.7", id="by address"),
        pytest.param("hostname", "host-n", id="by host name"),
    ],
)
def test_nodes_are_found_by_what_the_source_calls_them(match: str, key: str) -> None:
    reading = Reading(by_field({key: 5.0}), match=match)  # type: ignore[arg-type]

    found = reading.read(P95, [node_with(ExternalIP="1.2.3.4", InternalIP="10.0.0.7")])

    assert found.tolist() == [5.0]  # type: ignore[union-attr]


def test_a_latch_turns_on_above_one_value_and_off_below_another() -> None:
    hot = P95.latched(above=80, below=60)
    on = frozenset[str]()
    seen = []
    for value in (50, 85, 70, 81, 61, 59, 70):
        on = hot.after({"a": value}, on)
        seen.append("a" in on)

    assert seen == [False, True, True, True, True, False, False]


def test_a_latch_without_a_past_is_a_threshold() -> None:
    nodes = make_cluster(["cool", "warm", "hot"], sources={"p95": {"cool": 10, "warm": 70, "hot": 90}}).nodes

    assert nodes[P95.latched(above=80, below=60)].tolist() == [False, False, True]


def test_a_latch_upside_down_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be higher"):
        P95.latched(above=1, below=2)


def test_growth_is_what_pods_request_more_than_when_the_source_was_read() -> None:
    cluster = make_cluster(
        ["busy", "idle"], [make_pod("old", node="busy", cpu="1")], sources={"p95": {"busy": 1, "idle": 0}}
    )

    later = cluster.placed(make_pod("new", cpu="500m"), "idle")

    assert later.nodes.growth("cpu", since=P95).tolist() == [0, 500]
    assert later.nodes.take(later.find(["idle"])).growth("cpu", since=P95).tolist() == [500]


def test_growth_follows_nodes_by_name() -> None:
    before = make_cluster(["a", "b"], [make_pod("p", node="b", cpu="1")]).nodes.requested_now
    after = make_cluster(["new", "b"], [make_pod("p", node="b", cpu="3"), make_pod("q", node="new", cpu="1")])
    later = after.with_readings(Readings({"p95": Reading({}, before=before)}))

    assert later.nodes.growth("cpu", since=P95).tolist() == [1000, 2000]


def test_columns_follow_a_cluster_that_changes() -> None:
    """The cache hands columns on from one snapshot to the next: only touched rows are read again."""
    cache = Cache()
    for name in ("a", "b", "c"):
        cache.put_node(make_node(name).object)
    readings = Readings({"p95": Reading(by_field({"a": 1, "b": 2, "c": 3, "d": 4}))})

    def seen() -> dict[str, float]:
        nodes = cache.snapshot().with_readings(readings).nodes
        return dict(zip(nodes.names, nodes[P95].tolist(), strict=True))

    assert seen() == {"a": 1, "b": 2, "c": 3}
    cache.drop_node("a")
    cache.put_node(make_node("d").object)
    cache.put_pod(make_pod("p", node="b"))
    assert seen() == {"b": 2, "c": 3, "d": 4}
    readings = Readings({"p95": Reading(by_field({"b": 7}), version=1)})
    assert seen()["b"] == 7


def test_nothing_old_is_kept_alive_by_a_reading() -> None:
    """A reading remembers what was requested, and not the table, which remembers older readings."""
    cluster: Snapshot = make_cluster(["a"], sources={"p95": {"a": 1}})
    cluster.nodes[P95]
    before = cluster.nodes.requested_now

    assert not any(isinstance(held, type(cluster.nodes)) for held in vars(before).values())


def test_a_latch_forgets_nodes_that_are_gone_but_not_in_an_outage() -> None:
    hot = P95.latched(above=80, below=60)
    on: frozenset[str] = frozenset()
    for number in range(5_000):
        on = hot.after({f"node-{number}": 90.0}, on)

    assert len(on) < 1_100
    assert hot.after({}, on) == on

"""A table of nodes: columns by name or declaration, and choices of rows that agree with them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bayplan.kube.pod import Pod
from bayplan.snapshot import lastread
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import Label, PodColumn
from bayplan.snapshot.conditions import PodLabel
from bayplan.snapshot.draft import Draft
from bayplan.snapshot.load import PodsUnknown
from bayplan.snapshot.names import UnknownColumn
from bayplan.snapshot.sources import Reading, Readings, Source
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.units import Units
from bayplan.state.cache import Cache
from bayplan.state.view import FixedView
from bayplan.testing import make_cluster, make_node, make_pod

PRICE = Label("price", float)
CLUSTER = make_cluster(
    [
        make_node("busy", cpu=4, zone="z1", labels={"price": "2"}),
        make_node("idle", cpu="2500m", zone="z2", allocatable={"example.com/gpu": 2}),
        make_node("cordoned", unschedulable=True, ready=False, labels={"price": "x"}),
    ],
    [
        make_pod("first", cpu="1", memory="1Gi", node="busy"),
        make_pod("second", cpu="500m", node="busy"),
        make_pod("on-gpu", requests={"example.com/gpu": 1}, node="idle"),
    ],
)
NODES = CLUSTER.nodes
REQUEST_ONLY = Snapshot.build(NODES.objects, None).nodes


def plain(values: Any) -> list[Any]:
    """A column as a list, the same for NaN as for itself."""
    if isinstance(values, Strings):
        return [values[row] for row in range(len(values))]
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param("cpu.allocatable", [4000, 2500, 4000], id="allocatable CPU in milli"),
        pytest.param("cpu.capacity", [4000, 2500, 4000], id="capacity"),
        pytest.param("cpu.requested", [1500, 0, 0], id="requested CPU"),
        pytest.param("cpu.free", [2500, 2500, 4000], id="free CPU"),
        pytest.param("memory.requested", [2**30, 0, 0], id="requested memory in bytes"),
        pytest.param("pods.requested", [2, 1, 0], id="how many pods there are"),
        pytest.param("pods.free", [108, 109, 110], id="how many more may come"),
        pytest.param("example.com/gpu.allocatable", [0, 2, 0], id="an extended resource that few nodes have"),
        pytest.param("example.com/gpu.free", [0, 1, 0], id="what is left of it"),
        pytest.param("example.com/tpu.free", [0, 0, 0], id="an extended resource that no node has"),
        pytest.param("zone", ["z1", "z2", None], id="a well-known label"),
        pytest.param("ready", [True, True, False], id="ready"),
        pytest.param("unschedulable", [False, False, True], id="cordoned"),
        pytest.param(PRICE, [2.0, None, None], id="a declared label"),
    ],
)
def test_columns(column: str | Label, expected: list[Any]) -> None:
    assert plain(NODES[column]) == expected
    assert column in NODES


def test_a_row_reads_the_same_values() -> None:
    busy, idle, cordoned = NODES

    assert (busy.name, busy.zone, busy.ready, busy["cpu.free"], busy[PRICE]) == (
        "busy",
        "z1",
        True,
        2500,
        2.0,
    )
    assert type(busy["cpu.free"]) is int
    assert busy.requested == {"pods": 2, "cpu": 1500, "memory": 2**30}
    assert busy.free["cpu"] == 2500
    assert [pod.name for pod in busy.pods] == ["first", "second"]
    assert idle.free["example.com/gpu"] == 1
    assert (cordoned.unschedulable, cordoned.ready, cordoned["zone"]) == (True, False, None)


def test_a_node_placed_past_its_limit_has_less_than_nothing_free() -> None:
    over = make_cluster([make_node("over", cpu=1)], [make_pod(cpu=3, node="over")]).nodes

    assert over["cpu.free"].tolist() == [-2000]
    assert over.row("over").free["cpu"] == -2000


def test_columns_cannot_be_written_to() -> None:
    for column in ("cpu.allocatable", "cpu.free", PRICE):
        with pytest.raises(ValueError, match="read-only"):
            NODES[column][0] = 0


def test_a_column_is_computed_once() -> None:
    assert NODES["cpu.free"] is NODES["cpu.free"]
    assert NODES[PRICE] is NODES[Label("price", float)]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        pytest.param("cpu.fre", "no column 'cpu.fre'; did you mean 'cpu.free'?", id="a near miss"),
        pytest.param("Zone", "no column 'Zone'; did you mean 'zone'?", id="a capital letter"),
        pytest.param("cpu", "no column 'cpu'", id="a resource without an aspect"),
        pytest.param("cpus.free", "no column 'cpus.free'; did you mean 'cpu.free'?", id="near to a resource"),
        pytest.param("mem.free", "no column 'mem.free'; did you mean 'memory.free'?", id="a part of one"),
        pytest.param(
            "tpu.free",
            "no column 'tpu.free'; extended resources are written as vendor/name, such as 'nvidia.com/gpu",
            id="an extended resource that no node has, without its vendor",
        ),
        pytest.param(
            "example.com/gpu.fre",
            "no column 'example.com/gpu.fre'; did you mean 'example.com/gpu.free'?",
            id="an extended resource",
        ),
        pytest.param(
            "generation",
            "no column 'generation'; a label is nodes[Label('generation')]; `bayplan columns`",
            id="a label",
        ),
        pytest.param(
            "example.com/watts-free",
            "no column 'example.com/watts-free'; a label is nodes[Label('example.com/watts-free')]",
            id="a label with a domain",
        ),
    ],
)
@pytest.mark.parametrize("nodes", [NODES, REQUEST_ONLY], ids=["pods known", "pods unknown"])
def test_an_unknown_column_is_an_error_with_a_suggestion(nodes: NodeTable, name: str, complaint: str) -> None:
    with pytest.raises(UnknownColumn) as caught:
        nodes[name]

    assert str(caught.value).startswith(complaint)
    assert name not in nodes


@pytest.mark.parametrize(
    ("column", "said"),
    [
        pytest.param(PodLabel("app"), r"nodes\[PodLabel\('app'\)\]", id="a label of pods"),
        pytest.param(0, r"nodes\[0\]", id="a number"),
    ],
)
def test_what_is_no_column_is_an_error(column: Any, said: str) -> None:
    with pytest.raises(TypeError, match=rf"{said}: no column; want a name \('cpu.free'\), Label\(KEY\)"):
        NODES[column]


def test_rows_are_found_by_name_or_number() -> None:
    assert NODES.row("idle").name == NODES.row(1).name == NODES.row(-2).name == "idle"


def test_an_unknown_row_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"no node 'idel'; did you mean 'idle'\?"):
        NODES.row("idel")
    with pytest.raises(IndexError):
        NODES.row(3)


@pytest.mark.parametrize("column", ["cpu.free", "cpu.requested", "pods.free"])
@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(REQUEST_ONLY, id="all the nodes of a request"),
        pytest.param(REQUEST_ONLY.take(np.array([0])), id="some of them"),
    ],
)
def test_nodes_of_a_request_know_nothing_about_pods(nodes: NodeTable, column: str) -> None:
    with pytest.raises(PodsUnknown, match=f"column '{column}' needs the placed pods.*--kubeconfig"):
        nodes[column]


def test_rows_of_a_request_know_nothing_about_pods() -> None:
    busy = REQUEST_ONLY.row("busy")

    assert busy["cpu.allocatable"] == 4000
    assert not REQUEST_ONLY.pods_known
    with pytest.raises(PodsUnknown, match="the list of pods on a node needs the placed pods"):
        busy.pods  # noqa: B018
    with pytest.raises(PodsUnknown, match="what pods request on a node"):
        busy.free  # noqa: B018


def test_the_columns_on_offer_are_those_that_can_be_read() -> None:
    assert {"cpu.free", "example.com/gpu.free", "zone", "ready"} <= set(NODES.column_names)
    assert "cpu.free" not in REQUEST_ONLY.column_names
    for name in NODES.column_names:
        assert len(NODES[name]) == len(NODES)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), max_size=5), st.data())
def test_a_choice_of_rows_has_the_rows_of_the_full_columns(rows: list[int], data: st.DataObject) -> None:
    part = NODES.take(np.array(rows, dtype=np.intp))
    again = data.draw(st.lists(st.sampled_from(range(len(rows))), max_size=4) if rows else st.just([]))
    smaller = part.take(np.array(again, dtype=np.intp))

    assert [node.name for node in part] == list(part.names) == [NODES.names[row] for row in rows]
    columns: list[str | Label] = [*NODES.column_names, PRICE]
    for column in columns:
        full = plain(NODES[column])
        assert plain(part[column]) == [full[row] for row in rows]
        assert plain(smaller[column]) == [full[rows[row]] for row in again]
    assert [part.pods(row) for row in range(len(part))] == [NODES.pods(row) for row in rows]
    assert [part.requested(row) for row in range(len(part))] == [NODES.requested(row) for row in rows]


def test_an_empty_table_has_empty_columns() -> None:
    nobody = make_cluster([]).nodes

    assert len(nobody) == 0
    assert [len(nobody[column]) for column in ("cpu.free", "zone", "ready", PRICE)] == [0, 0, 0, 0]


def test_tables_and_rows_print_short() -> None:
    assert (repr(NODES), repr(NODES.row(0))) == ("NodeTable(3 nodes)", "Node('busy')")


RACK, GPUS = Label("rack"), Units("x/gpu", capacity=Label("gpus"))
EVERYTHING = ("zone", "cpu.requested", RACK, GPUS, Source("p95"), Source("p95").latched(above=2, below=1))


def kept(table: NodeTable) -> set[object]:
    columns = table._kept
    return {*columns.static, *columns.named, *columns.units, *columns.sourced}


def test_columns_that_nobody_reads_any_more_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reload may read others, and each that is kept is computed again at every event."""
    monkeypatch.setattr(lastread, "STEPS", 10)
    readings = Readings({"p95": Reading({"": {"n": 1.0}})})
    cache = Cache()
    cache.put_node(make_node("n", labels={"rack": "r", "gpus": "100"}).object)
    first = cache.snapshot().with_readings(readings).nodes
    before = [plain(first[column]) for column in EVERYTHING if not isinstance(column, Units)]
    assert first[GPUS].tolist() == [[100]]

    for step in range(12):
        cache.put_node(make_node("n", labels={"rack": "r", "gpus": "100", "step": str(step)}).object)
        some = cache.snapshot().nodes.take(np.array([0]))
        assert plain(some[RACK]) == ["r"]
    last = cache.snapshot()

    assert kept(last.nodes) == {RACK}
    again = last.with_readings(readings).nodes
    assert [plain(again[column]) for column in EVERYTHING if not isinstance(column, Units)] == before
    assert again[GPUS].tolist() == [[100]]
    assert kept(first) >= set(EVERYTHING[1:]), "who still has the old table loses nothing"


def test_what_is_read_now_and_then_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lastread, "STEPS", 10)
    cache = Cache()
    readings = Readings({"p95": Reading({"": {"n": 1.0}})})
    for number in range(50):
        cache.put_node(make_node("n", labels={"rack": "r", "gpus": "100"}).object)
        table = cache.snapshot().with_readings(readings).nodes
        if number:
            assert kept(table) >= set(EVERYTHING[1:])
        if number % 10 == 0:
            for column in EVERYTHING:
                table[column]


def test_what_ifs_let_no_column_of_the_view_grow_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """One search for victims makes a hundred of them, and what every pod reads was read anew after it."""
    monkeypatch.setattr(lastread, "STEPS", 10)
    cache = Cache()
    cache.put_node(make_node("n", labels={"rack": "r", "gpus": "100"}).object)
    cache.put_pod(make_pod("victim", uid="u", node="n"))
    view = cache.snapshot()
    for column in EVERYTHING[:4]:
        view.nodes[column]

    for number in range(50):
        view.without({"u"})
        view.cases(gone={"n": {"u"}})
        draft = Draft(view)
        draft.place(make_pod(f"p{number}"), "n")
        assert len(draft.snapshot.nodes)
    cache.put_pod(make_pod("news", node="n"))

    assert kept(cache.snapshot().nodes) >= set(EVERYTHING[1:4])


def test_a_view_that_is_replaced_by_hand_moves_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lastread, "STEPS", 10)
    view = FixedView(make_cluster([make_node("n")]))
    assert view.current is not None
    assert view.current.nodes["cpu.requested"].tolist() == [0]

    for number in range(12):
        view.replace(view.current.placed(make_pod(f"p{number}", uid=f"u{number}"), "n"))

    assert kept(view.current.nodes) == set()


@dataclass(frozen=True)
class Picky(PodColumn):
    """A column that cannot be read from every pod."""

    @property
    def title(self) -> str:
        return "Picky"

    @property
    def meaning(self) -> str:
        return "the rank of each pod"

    def read_pods(self, pods: Sequence[Iterable[Pod]]) -> NDArray[Any]:
        return np.array([sum(int(pod.labels["rank"]) for pod in there) for there in pods])


def test_a_column_that_fails_for_one_pod_fails_for_who_reads_it_and_not_for_the_view() -> None:
    cache = Cache()
    cache.put_node(make_node("node").object)
    cache.put_pod(make_pod("good", labels={"rank": "2"}, node="node"))
    assert cache.snapshot().nodes[Picky()].tolist() == [2]

    cache.put_pod(make_pod("odd", node="node"))

    assert len(cache.snapshot().nodes) == 1
    with pytest.raises(KeyError):
        cache.snapshot().nodes[Picky()]
    cache.drop_pod("default/odd")
    assert cache.snapshot().nodes[Picky()].tolist() == [2]


@dataclass(frozen=True)
class Plain(PodColumn):
    """A column whose type is left to NumPy."""

    label: str
    number: bool = False

    @property
    def title(self) -> str:
        return f"Plain({self.label!r})"

    @property
    def meaning(self) -> str:
        return "the labels of the pods"

    def read_pods(self, pods: Sequence[Iterable[Pod]]) -> NDArray[Any]:
        found = [[pod.labels[self.label] for pod in there] for there in pods]
        if self.number:
            return np.array([min(map(int, each), default=float("nan")) for each in found])
        return np.array(["+".join(each) for each in found])


TEAM, RANK = Plain("team"), Plain("rank", number=True)


def test_a_longer_text_is_not_cut_off_and_a_missing_number_is_no_number() -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.put_node(make_node(name).object)
        cache.put_pod(make_pod(f"on-{name}", labels={"team": name, "rank": "5"}, node=name))
    nodes = cache.snapshot().nodes
    assert (nodes[TEAM].tolist(), nodes[RANK].tolist()) == (["a", "b"], [5, 5])

    cache.put_pod(make_pod("more", labels={"team": "platform", "rank": "3"}, node="a"))
    cache.drop_pod("default/on-b")

    nodes = cache.snapshot().nodes
    assert nodes[TEAM].tolist() == ["a+platform", ""]
    assert nodes[RANK][0] == 3
    assert np.isnan(nodes[RANK][1])


@pytest.mark.parametrize("label", [pytest.param("platform", id="too long"), pytest.param(None, id="fails")])
def test_in_a_draft_what_does_not_fit_is_read_anew(label: str | None) -> None:
    cluster = make_cluster([make_node("a"), make_node("b")], [make_pod("p", labels={"team": "x"}, node="a")])
    assert cluster.nodes[TEAM].tolist() == ["x", ""]
    draft = Draft(cluster)

    draft.place(make_pod("q", labels={"team": label} if label else {}), "b")

    for table in (draft.snapshot.look(np.array([1])), draft.snapshot.nodes.take(np.array([1]))):
        if label:
            assert table[TEAM].tolist() == [label]
        else:
            with pytest.raises(KeyError):
                table[TEAM]

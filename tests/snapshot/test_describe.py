"""A column in a line: what it is called, what is found in it, what it means."""

import msgspec
import pytest

from bayplan.snapshot.columns import Column, Label, NodeAnnotation
from bayplan.snapshot.describe import ColumnInfo, describe
from bayplan.testing import make_cluster, make_node, make_pod

NODES = make_cluster(
    [
        make_node("a", cpu=4, zone="z1", labels={"watts": "450W", "price": "2"}),
        make_node("b", cpu=2, zone="z2", labels={"watts": "300", "price": "2"}),
        make_node("c", cpu=2, labels={"watts": "100.5"}),
    ],
    [make_pod("first", cpu="500m", node="a")],
).nodes


def row(column: str | Column) -> ColumnInfo:
    declared = [] if isinstance(column, str) else [column]
    rows = describe(NODES, declared)
    return rows[-1] if declared else next(info for info in rows if info.column == column)


def fields(column: str | Column) -> dict[str, object]:
    """What a program sees of the values."""
    shown = msgspec.to_builtins(row(column))
    return {key: shown[key] for key in ("values", "min", "max", "missing", "distinct") if key in shown}


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param(
            "cpu.free",
            {"values": "2,000 to 3,500", "min": 2000, "max": 3500, "distinct": 2},
            id="a resource: every node has some",
        ),
        pytest.param(
            "zone",
            {"values": "z1, z2 (1 node without)", "missing": 1, "distinct": 2},
            id="a label that one lacks",
        ),
        pytest.param(
            "region", {"values": "no node has it", "missing": 3, "distinct": 0}, id="a label that all lack"
        ),
        pytest.param("ready", {"values": "true on 3 of 3"}, id="a yes or no"),
        pytest.param(
            Label("watts", float),
            {
                "values": "100.5 to 300.0 (1 node without)",
                "min": 100.5,
                "max": 300.0,
                "missing": 1,
                "distinct": 2,
            },
            id="numbers, one of them unreadable",
        ),
        pytest.param(
            Label("price", float),
            {"values": "2.0 (1 node without)", "min": 2.0, "max": 2.0, "missing": 1, "distinct": 1},
            id="one number",
        ),
        pytest.param(
            Label("other", float),
            {"values": "no node has it", "missing": 3, "distinct": 0},
            id="a number that nobody has",
        ),
    ],
)
def test_what_is_found(column: str | Column, expected: dict[str, object]) -> None:
    assert fields(column) == expected


@pytest.mark.parametrize(
    ("column", "code"),
    [
        (Label("example.com/rack"), 'Label("example.com/rack")'),
        (Label("watts", float), 'Label("watts", float)'),
        (Label("watts", float, 1.5), 'Label("watts", float, 1.5)'),
        (NodeAnnotation("gpus", int, 0), 'NodeAnnotation("gpus", int, 0)'),
    ],
    ids=str,
)
def test_a_typed_column_is_shown_as_it_is_typed(column: Column, code: str) -> None:
    assert row(column).column == code
    assert eval(code, {"Label": Label, "NodeAnnotation": NodeAnnotation}) == column


def test_what_cannot_be_read_is_shown_with_its_node() -> None:
    info = row(Label("watts", float))

    assert info.unreadable == {"a": "450W"}
    assert info.read_as == "a number"
    assert row(Label("watts")).unreadable == {}


@pytest.mark.parametrize(
    ("column", "meaning"),
    [
        ("pods.allocatable", "how many pods the node may run"),
        ("pods.requested", "how many pods are on the node"),
        ("pods.free", "how many more pods fit: allocatable - requested"),
        ("cpu.allocatable", "cpu that pods may use"),
    ],
)
def test_meanings(column: str, meaning: str) -> None:
    assert row(column).meaning == meaning


def test_an_example_says_nothing_of_values() -> None:
    rows = describe(NODES, [Label("watts", float)], example=True)

    assert {info.values for info in rows} == {""}
    assert {info.min for info in rows} == {msgspec.UNSET}


def test_whatever_resource_a_node_has_can_be_described_in_its_unit() -> None:
    """Kubelets up to 1.30 say how many disks of a cloud may be attached, as a resource."""
    odd = {
        "hugepages-2Mi": "4Mi",
        "attachable-volumes-aws-ebs": "25",
        "example.com/gpu": "1",
        "nothing-known": "1",
    }
    nodes = make_cluster([make_node("a", allocatable=odd)]).nodes

    units = {info.column: info.unit for info in describe(nodes, [])}

    assert units["hugepages-2Mi.free"] == "bytes"
    assert units["attachable-volumes-aws-ebs.free"] == "units"
    assert units["example.com/gpu.free"] == "units"
    assert (units["cpu.free"], units["memory.free"], units["pods.free"]) == ("milli-CPU", "bytes", "pods")
    assert "nothing-known.free" not in units

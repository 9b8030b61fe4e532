"""Typed columns are read from every node at once."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from bayplan.kube.node import NodeObject
from bayplan.kube.quantity import QuantityError
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import FLAGS, Label, NodeAnnotation, Resource, parse_number, split_resource
from bayplan.testing import make_cluster, make_node


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        pytest.param("0.5", float, 0.5, id="a decimal"),
        pytest.param("12", int, 12.0, id="a whole number"),
        pytest.param("1.5", int, None, id="a decimal is no whole number"),
        pytest.param("cheap", float, None, id="a word is no number"),
        pytest.param("", float, None, id="nothing is no number"),
        pytest.param("nan", float, None, id="not a number"),
        pytest.param("inf", float, None, id="infinity is no number"),
        pytest.param("1e999", float, None, id="a number too large for a float"),
        pytest.param("9" * 400, int, None, id="a whole number too large for a float"),
        pytest.param("9" * 5000, int, None, id="more digits than Python reads"),
        pytest.param("true", bool, 1.0, id="true"),
        pytest.param(" Yes ", bool, 1.0, id="yes, in any spelling"),
        pytest.param("0", bool, 0.0, id="zero is false"),
        pytest.param("", bool, 0.0, id="an empty label is false"),
        pytest.param("maybe", bool, None, id="maybe is neither"),
        pytest.param(None, float, None, id="a missing label"),
    ],
)
def test_parse_number(text: str | None, kind: type, expected: float | None) -> None:
    assert parse_number(text, kind) == expected


def test_a_label_without_a_type_is_text() -> None:
    nodes = make_cluster([make_node("a", labels={"rack": "r1"}), make_node("bare")]).nodes

    assert (nodes[Label("rack")] == "r1").tolist() == [True, False]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda value: make_node("priced", labels={"price": value}), id="a label"),
        pytest.param(lambda value: make_node("priced", annotations={"price": value}), id="an annotation"),
    ],
)
def test_a_typed_column_has_nan_where_there_is_no_number(make: Callable[[str], Any]) -> None:
    column = Label("price", float) if make("1").labels else NodeAnnotation("price", float)
    nodes = make_cluster([make("0.5"), make_node("bare")]).nodes

    values = nodes[column]

    assert values.dtype == np.float64
    assert values[0] == 0.5
    assert math.isnan(values[1])


def test_a_default_stands_where_there_is_no_number() -> None:
    nodes = make_cluster([make_node("typo", labels={"price": "cheap"}), make_node("bare")]).nodes

    assert nodes[Label("price", float, default=9.0)].tolist() == [9.0, 9.0]


def test_nodes_whose_text_is_no_number_are_named() -> None:
    nodes = make_cluster([make_node("typo", labels={"price": "cheap"}), make_node("bare")]).nodes

    assert Label("price", float).unreadable(nodes.objects) == ["typo"]
    assert Label("price").unreadable(nodes.objects) == []


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        pytest.param(
            lambda: Label("x", dict),
            r"Label\('x'\): type must be str, float, int or bool",
            id="a strange type",
        ),
        pytest.param(
            lambda: NodeAnnotation("x", default=1.0), "text has no default", id="a default for a text"
        ),
    ],
)
def test_a_column_that_makes_no_sense_is_refused(make: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        make()


def test_a_label_and_an_annotation_of_one_name_are_two_columns() -> None:
    node = make_node("both", labels={"x": "1"}, annotations={"x": "2"})

    assert (node[Label("x", int)], node[NodeAnnotation("x", int)]) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("cpu.free", ("cpu", "free"), id="a native resource"),
        pytest.param("ephemeral-storage.capacity", ("ephemeral-storage", "capacity"), id="one with a dash"),
        pytest.param(
            "example.com/gpu.requested", ("example.com/gpu", "requested"), id="an extended resource"
        ),
        pytest.param("hugepages-2Mi.allocatable", ("hugepages-2Mi", "allocatable"), id="huge pages"),
        pytest.param("cpu", None, id="a resource without an aspect"),
        pytest.param("cpu.used", None, id="an aspect that does not exist"),
        pytest.param("gpu.free", None, id="a resource that does not exist"),
        pytest.param(".free", None, id="an aspect alone"),
    ],
)
def test_split_resource(name: str, expected: tuple[str, str] | None) -> None:
    assert split_resource(name) == expected


def test_a_malformed_quantity_names_node_and_field() -> None:
    broken = {"metadata": {"name": "broken"}, "status": {"allocatable": {"cpu": "lots"}}}
    nodes = Snapshot.build([msgspec.convert(broken, NodeObject)], []).nodes

    with pytest.raises(
        QuantityError, match=r"node broken: status\.allocatable\.cpu: 'lots' is not a quantity"
    ):
        Resource("cpu", "allocatable").read(nodes.objects)


@pytest.mark.parametrize(
    ("column", "title", "meaning"),
    [
        pytest.param(Label("rack"), "Label('rack')", "label rack of the node, read as text", id="a label"),
        pytest.param(
            NodeAnnotation("gpus", int),
            "NodeAnnotation('gpus')",
            "nodeannotation gpus of the node, read as whole number",
            id="an annotation",
        ),
        pytest.param(Resource("cpu", "capacity"), "cpu.capacity", "cpu that the node has", id="a capacity"),
        pytest.param(
            Resource("cpu", "allocatable"), "cpu.allocatable", "cpu that pods may use", id="an allocatable"
        ),
        pytest.param(FLAGS["ready"], "ready", "the Ready condition is True", id="a flag"),
    ],
)
def test_columns_say_what_they_mean(column: Any, title: str, meaning: str) -> None:
    assert (column.title, column.meaning) == (title, meaning)

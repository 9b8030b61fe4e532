"""Evaluates node selectors: ``nodeSelector``, ``nodeAffinity`` and the node affinity of volumes.

An expression is evaluated once for each distinct value of its label, not once per node.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bayplan.kube.affinity import Expression, NodeSelector, NodeSelectorTerm
from bayplan.kube.quantity import whole_number
from bayplan.snapshot.columns import Label
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.table import NodeTable

Bools = NDArray[np.bool_]

NAME_FIELD = "metadata.name"


def selected(nodes: NodeTable, selector: NodeSelector) -> Bools:
    """The nodes that one of the terms matches; a selector without terms matches none."""
    chosen = np.zeros(len(nodes), dtype=np.bool_)
    for term in selector.node_selector_terms or ():
        chosen |= matching(nodes, term)
    return chosen


def matching(nodes: NodeTable, term: NodeSelectorTerm) -> Bools:
    """The nodes for which every expression of a term holds; an empty term matches none."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    chosen = np.full(len(nodes), bool(expressions or fields), dtype=np.bool_)
    for expression in expressions:
        chosen &= holds(nodes, expression)
    for expression in fields:
        chosen &= _field_holds(nodes, expression)
    return chosen


def with_labels(nodes: NodeTable, labels: Mapping[str, str]) -> Bools:
    """The nodes that have all these labels."""
    chosen = np.ones(len(nodes), dtype=np.bool_)
    for key, value in labels.items():
        chosen &= _label(nodes, key) == value
    return chosen


def holds(nodes: NodeTable, expression: Expression) -> Bools:
    """Where an expression over a label holds; without the label only ``NotIn`` and ``DoesNotExist`` hold."""
    values = _label(nodes, expression.key)
    wanted = expression.values or ()
    match expression.operator:
        case "In":
            return values.isin(wanted)
        case "NotIn":
            return ~values.isin(wanted)
        case "Exists":
            return values.present
        case "DoesNotExist":
            return ~values.present
        case "Gt" | "Lt":
            return _beyond(values, expression.operator, wanted)
    return np.zeros(len(nodes), dtype=np.bool_)


def _label(nodes: NodeTable, key: str) -> Strings:
    values = nodes[Label(key)]
    assert isinstance(values, Strings)
    return values


def _beyond(values: Strings, operator: str, wanted: tuple[str, ...]) -> Bools:
    limit = whole_number(wanted[0]) if len(wanted) == 1 else None
    if limit is None:
        return np.zeros(len(values), dtype=np.bool_)
    numbers = [(value, whole_number(value)) for value in values.values]
    if operator == "Gt":
        return values.isin([value for value, number in numbers if number is not None and number > limit])
    return values.isin([value for value, number in numbers if number is not None and number < limit])


def _field_holds(nodes: NodeTable, expression: Expression) -> Bools:
    """Where an expression over a field holds; ``metadata.name`` is the only field."""
    wanted = expression.values or ()
    if expression.key != NAME_FIELD or len(wanted) != 1 or expression.operator not in ("In", "NotIn"):
        return np.zeros(len(nodes), dtype=np.bool_)
    chosen = named(nodes, wanted[0])
    return chosen if expression.operator == "In" else ~chosen


def named(nodes: NodeTable, name: str) -> Bools:
    """Which node has that name; none if there is no such node."""
    chosen = np.zeros(len(nodes), dtype=np.bool_)
    if name in nodes.names:
        chosen[nodes.names.index(name)] = True
    return chosen

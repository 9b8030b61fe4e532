"""The attributes, methods and functions that a hook may use and still be proven to read the node alone.

None of them can read a clock, another node or the pods on a node, and none has a side effect.
"""

import math
import re
from enum import Enum, auto
from typing import Any

from bayplan.snapshot.columns import FLAGS, LABELS, split_resource


class Unproven(Exception):
    """The answer may depend on something else than the pod and the node."""


class Kind(Enum):
    """The kind of an expression's value."""

    NODE = auto()
    NODES = auto()
    POD = auto()
    COLUMN = auto()
    REASON = auto()
    VALUE = auto()
    """Plain data: of one node, of the pod, or a constant."""
    BY_KEY = auto()
    """Plain data: a map with one number or text for each key."""
    SCALAR = auto()
    """Plain data: one number or text for certain."""
    ROWS = auto()
    """One value for each node of a table."""
    VERDICT = auto()
    STREAM = auto()
    """A generator: it may be consumed at once, but not kept or printed."""


PLAIN = frozenset({Kind.VALUE, Kind.BY_KEY, Kind.SCALAR, Kind.REASON})
"""Kinds that may be compared, returned, or put into a list."""

PARAMETERS = {"node": Kind.NODE, "nodes": Kind.NODES, "pod": Kind.POD}

ATTRIBUTES: dict[tuple[Kind, str], Kind] = {
    **{(Kind.NODE, name): Kind.SCALAR for name in ("name", "uid", "unschedulable", "ready")},
    **{(Kind.NODE, name): Kind.SCALAR for name in ("zone", "region", "instance_type")},
    **{(Kind.NODE, name): Kind.BY_KEY for name in ("labels", "annotations", "allocatable", "capacity")},
    (Kind.NODE, "taints"): Kind.VALUE,
    **{(Kind.VALUE, name): Kind.VALUE for name in ("key", "value", "effect")},
    # Only what all pods of one kind have in common: see `engine.memory.likeness`.
    **{(Kind.POD, name): Kind.SCALAR for name in ("namespace", "priority", "priority_class_name")},
    **{(Kind.POD, name): Kind.SCALAR for name in ("scheduler_name", "service_account_name", "cpu_milli")},
    **{(Kind.POD, name): Kind.BY_KEY for name in ("labels", "annotations", "node_selector", "requests")},
    (Kind.ROWS, "present"): Kind.ROWS,
}

METHODS = frozenset(
    {"get", "keys", "values", "items", "count", "index", "find", "startswith", "endswith", "removeprefix"}
    | {"removesuffix", "lower", "upper", "casefold", "strip", "lstrip", "rstrip", "split", "rsplit", "join"}
    | {"partition", "rpartition", "replace", "isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum"}
    | {"islower", "isupper", "match", "search", "fullmatch", "group", "groups"}
)
"""Methods of texts, dicts, lists and patterns that only read."""

FUNCTIONS: dict[str, Kind] = {
    **dict.fromkeys(("all", "any", "bool", "float", "int", "len", "str"), Kind.SCALAR),
    **dict.fromkeys(("abs", "list", "max", "min", "range", "round", "sorted", "sum", "tuple"), Kind.VALUE),
}
"""Builtins, with the kind of their result. No sets: the place of NaN in a set depends on memory addresses."""

READ_TO_THE_END = frozenset({"all", "any", "list", "max", "min", "sorted", "sum", "tuple"})
"""Builtins that may take a generator."""

OF_MODULES: dict[Any, frozenset[str]] = {
    math: frozenset(
        {"ceil", "exp", "fabs", "floor", "isinf", "isnan", "log", "log10", "log2", "sqrt", "trunc"}
    ),
    re: frozenset({"fullmatch", "match", "search"}),
}
NUMBERS = frozenset({"inf", "nan", "pi", "e"})

ROW_BY_ROW = (
    dict.fromkeys(("abs", "ceil", "exp", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p"), 1)
    | dict.fromkeys(("log2", "logical_not", "sqrt"), 1)
    | dict.fromkeys(("logical_and", "logical_or", "maximum", "minimum"), 2)
    | dict.fromkeys(("clip", "where"), 3)
)
"""NumPy functions, with the number of their arguments: one more would be the array to write into."""


def is_of_node(column: object) -> bool:
    """Whether a column of that name is about the Node objects, and not about the pods on them."""
    if not isinstance(column, str):
        return False
    resource = split_resource(column)
    sized = resource is not None and resource[1] in ("allocatable", "capacity")
    return sized or column in LABELS or column in FLAGS


def worked_out(kinds: list[Kind]) -> Kind:
    """The kind of the result when these are added, compared, or given to a row-by-row function."""
    if Kind.ROWS in kinds:
        # NumPy would combine a tuple with a column by index, so that rows depend on their position.
        if set(kinds) <= {Kind.ROWS, Kind.SCALAR}:
            return Kind.ROWS
        raise Unproven
    return one_of(kinds)


def one_of(kinds: list[Kind]) -> Kind:
    """The kind of a value that is of one of these kinds."""
    if len(set(kinds)) == 1 and kinds[0] in PLAIN:
        return kinds[0]
    if PLAIN.issuperset(kinds):
        return Kind.VALUE
    raise Unproven

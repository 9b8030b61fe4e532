"""The few words of which a function may consist whose answer about a node is about that node alone.

None of them can look at a clock, at another node or at what runs on one, and none can change anything.
"""

import math
import re
from enum import Enum, auto
from typing import Any

from bayplan.snapshot.columns import FLAGS, LABELS, split_resource


class Unproven(Exception):
    """Something else may have a say."""


class Kind(Enum):
    """What an expression can be."""

    NODE = auto()
    NODES = auto()
    POD = auto()
    COLUMN = auto()
    REASON = auto()
    VALUE = auto()
    """Plain data: of one node, of the pod, or of nobody."""
    BY_KEY = auto()
    """The same, with one number or text for each key."""
    SCALAR = auto()
    """The same, and surely one number or text."""
    ROWS = auto()
    """One value for each node of a table."""
    VERDICT = auto()
    STREAM = auto()
    """A generator: nothing that could be kept, or shown as a text."""


PLAIN = frozenset({Kind.VALUE, Kind.BY_KEY, Kind.SCALAR, Kind.REASON})
"""What can be compared, returned, or put into a list."""

PARAMETERS = {"node": Kind.NODE, "nodes": Kind.NODES, "pod": Kind.POD}

ATTRIBUTES: dict[tuple[Kind, str], Kind] = {
    **{(Kind.NODE, name): Kind.SCALAR for name in ("name", "uid", "unschedulable", "ready")},
    **{(Kind.NODE, name): Kind.SCALAR for name in ("zone", "region", "instance_type")},
    **{(Kind.NODE, name): Kind.BY_KEY for name in ("labels", "annotations", "allocatable", "capacity")},
    (Kind.NODE, "taints"): Kind.VALUE,
    **{(Kind.VALUE, name): Kind.VALUE for name in ("key", "value", "effect")},
    # Of a pod what all pods of its kind have: see `engine.memory.likeness`.
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
"""Of texts, dicts, lists and patterns: those that only read."""

FUNCTIONS: dict[str, Kind] = {
    **dict.fromkeys(("all", "any", "bool", "float", "int", "len", "str"), Kind.SCALAR),
    **dict.fromkeys(("abs", "list", "max", "min", "range", "round", "sorted", "sum", "tuple"), Kind.VALUE),
}
"""Of Python's own, with what they give. No sets: where NaN is in one depends on where it is in memory."""

READ_TO_THE_END = frozenset({"all", "any", "list", "max", "min", "sorted", "sum", "tuple"})
"""Those that may be given a generator."""

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
"""Functions of NumPy, with their arguments: one more would be where the result is written."""


def is_of_node(column: object) -> bool:
    """Whether a column of that name holds what nodes are, and not what runs on them."""
    if not isinstance(column, str):
        return False
    resource = split_resource(column)
    sized = resource is not None and resource[1] in ("allocatable", "capacity")
    return sized or column in LABELS or column in FLAGS


def worked_out(kinds: list[Kind]) -> Kind:
    """What comes out where these are added, compared, or given to a function that goes row by row."""
    if Kind.ROWS in kinds:
        # A tuple beside a column would give each row another number, by its place.
        if set(kinds) <= {Kind.ROWS, Kind.SCALAR}:
            return Kind.ROWS
        raise Unproven
    return one_of(kinds)


def one_of(kinds: list[Kind]) -> Kind:
    """What it is, where it is one of these."""
    if len(set(kinds)) == 1 and kinds[0] in PLAIN:
        return kinds[0]
    if PLAIN.issuperset(kinds):
        return Kind.VALUE
    raise Unproven

"""A source that answers, and knows no node by the names that nodes have here: the first mistake with one."""

from typing import get_args

from bayplan.snapshot.sources import Keys, Match, Reading
from bayplan.snapshot.table import NodeTable


def known_nodes(reading: Reading, nodes: NodeTable) -> int:
    """How many of these nodes the reading has a value for, in any of its fields."""
    keys = nodes[Keys(reading.match)]
    names = {name for field in reading.fields.values() for name in field}
    return int(keys.isin(names).sum())


def misfit(reading: Reading, nodes: NodeTable) -> str:
    """Why the reading says nothing of any of these nodes; ``""`` where it does, or there are none."""
    if not len(nodes) or known_nodes(reading, nodes):
        return ""
    names = [name for field in reading.fields.values() for name in field]
    if not names:
        return "its answer has no values"
    for match in get_args(Match):
        if nodes[Keys(match)].isin(names).any():
            return f"no value is of a node by its {reading.match}; say `match: {match}`: it says {names[0]!r}"
    called = nodes[Keys(reading.match)][0]
    return (
        f"no value is of a node: it says {names[0]!r}, and nodes are called {called!r} here"
        f" (match: {reading.match})"
    )

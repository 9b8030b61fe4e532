"""Finds out why a source's values fit no node: the most common mistake in a source's configuration."""

from typing import get_args

from bayplan.snapshot.sources import Keys, Match, Reading
from bayplan.snapshot.table import NodeTable


def known_nodes(reading: Reading, nodes: NodeTable) -> int:
    """The number of these nodes that have a value in any field of the reading."""
    keys = nodes[Keys(reading.match)]
    names = {name for field in reading.fields.values() for name in field}
    return int(keys.isin(names).sum())


def misfit(reading: Reading, nodes: NodeTable) -> str:
    """Why the reading has no value for any of these nodes; ``""`` if it has one, or if there are no nodes."""
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

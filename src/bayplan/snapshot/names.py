"""The names of columns, and what to say of a name that none of them has."""

from collections.abc import Sequence

from bayplan.kube.yaml import did_you_mean
from bayplan.snapshot.columns import ASPECTS, FLAGS, LABELS, resource_meant


class UnknownColumn(KeyError):
    """The table has no column of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


def column_names(resources: Sequence[str], aspects: Sequence[str] = ASPECTS) -> list[str]:
    """The columns of these resources, and those that every table has."""
    return [f"{resource}.{aspect}" for resource in resources for aspect in aspects] + [*LABELS, *FLAGS]


def unknown_column(name: str, resources: Sequence[str]) -> UnknownColumn:
    """The error about that name; it tells which one was meant, also of the resources that nodes here have."""
    said, _, aspect = name.rpartition(".")
    if said and "/" not in name and aspect in ASPECTS:
        return UnknownColumn(f"no column {name!r}{resource_meant(said, resources, aspect=aspect)}")
    # Also those that need pods: a typo in cpu.free is a typo first.
    known = column_names(resources)
    if "/" in name:
        # An extended resource may be asked for that no node has.
        known += [f"{said}.{each}" for each in ASPECTS]
    label = f"; a label is nodes[Label({name!r})]; `bayplan columns` lists all columns"
    return UnknownColumn(f"no column {name!r}{did_you_mean(name, known) or label}")

"""The names of columns, and the error about an unknown name."""

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
    """The error about an unknown column, with a suggestion; ``resources`` are those of the nodes."""
    resource, _, aspect = name.rpartition(".")
    if resource and "/" not in name and aspect in ASPECTS:
        return UnknownColumn(f"no column {name!r}{resource_meant(resource, resources, aspect=aspect)}")
    # Also columns that need pods: a typo in cpu.free is reported as a typo first.
    known = column_names(resources)
    if "/" in resource:
        # A policy may read an extended resource that no node has.
        known += [f"{resource}.{each}" for each in ASPECTS]
    elif "/" in name and name not in resources:
        # No aspect, so it is a label, however much it looks like a resource of the same domain.
        known = []
    label = f"; a label is nodes[Label({name!r})]; `bayplan columns` lists all columns"
    return UnknownColumn(f"no column {name!r}{did_you_mean(name, known) or label}")

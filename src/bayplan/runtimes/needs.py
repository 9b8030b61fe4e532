"""Collects what policies need from the door that runs them: sources, latches, units."""

from collections.abc import Collection, Sequence

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import interested
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Latch, Source
from bayplan.snapshot.units import Units


def sources_for(policies: Sequence[Policy], pod: Pod) -> set[str]:
    """The names of the sources that the policies for this pod read."""
    mine = interested(policies, pod, shadows=True)
    return {c.source for policy in mine for c in policy.columns if isinstance(c, Source | Latch)}


def newest(asked: Snapshot, now: Snapshot) -> Snapshot:
    """The cluster now, unless it has nodes that sources were not ``asked`` about: these would have no values.

    Sources take time to answer, and meanwhile others place pods too.
    """
    return now if now.era is asked.era or now.rows.keys() <= asked.rows.keys() else asked


def latches(policies: Collection[Policy]) -> set[Latch]:
    """The latches that policies read."""
    return {column for policy in policies for column in policy.columns if isinstance(column, Latch)}


def managed(policies: Collection[Policy]) -> set[Units]:
    """The units (devices) that policies allocate."""
    return {column for policy in policies for column in policy.columns if isinstance(column, Units)}

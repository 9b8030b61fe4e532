"""What policies need from whoever runs them: sources, switches with a memory, devices to hand out."""

from collections.abc import Collection, Sequence

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import interested
from bayplan.kube.pod import Pod
from bayplan.snapshot.sources import Latch, Source
from bayplan.snapshot.units import Units


def sources_for(policies: Sequence[Policy], pod: Pod) -> set[str]:
    """The sources that policies read for this pod."""
    mine = interested(policies, pod, shadows=True)
    return {c.source for policy in mine for c in policy.columns if isinstance(c, Source | Latch)}


def latches(policies: Collection[Policy]) -> set[Latch]:
    """The switches with a memory that policies read."""
    return {column for policy in policies for column in policy.columns if isinstance(column, Latch)}


def managed(policies: Collection[Policy]) -> set[Units]:
    """The devices that policies hand out."""
    return {column for policy in policies for column in policy.columns if isinstance(column, Units)}

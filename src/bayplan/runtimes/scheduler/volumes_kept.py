"""The volumes that are kept for a pod's unbound claims, found ones and ones to provision."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bayplan.authoring.registry import Policy
from bayplan.kube.meta import NamedObject
from bayplan.kube.pod import Pod
from bayplan.kube.volumes import PersistentVolume, PersistentVolumeClaim
from bayplan.policies.default_profile.volume_binding import VolumeBindingArgs

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


class VolumesRefused(Exception):
    """The pod does not get its volumes on that node now; the text says why."""


@dataclass(frozen=True)
class Kept:
    """The volumes that are kept for one pod."""

    pod: Pod
    node: str
    term: int
    """The term of the Lease at that time."""
    seconds: float
    """How long to wait for the volumes."""
    found: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...]
    """Claims with an existing volume."""
    to_make: tuple[PersistentVolumeClaim, ...]
    """Claims whose volume must be provisioned."""
    assumed: dict[tuple[str, str], NamedObject] = field(default_factory=dict)
    """Objects that are assumed and not written yet, by kind and key."""
    written: dict[tuple[str, str], NamedObject] = field(default_factory=dict)
    """Objects as the API server returned them, by kind and key."""

    @property
    def claims(self) -> frozenset[str]:
        """The keys of all claims."""
        return frozenset(each.key for each in (*(claim for claim, _ in self.found), *self.to_make))


def bind_seconds(policies: Iterable[Policy], configured: float | None) -> float | None:
    """How long to wait for volumes of a profile's pods; ``None`` if the profile does not bind volumes."""
    for hook in (hook for policy in policies for hook in policy.hooks):
        if isinstance(hook.args, VolumeBindingArgs):
            return hook.args.bind_timeout_seconds if configured is None else configured
    return None

"""What is kept for a pod whose claims waited for it: volumes that are there, and nodes to make others on."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bayplan.authoring.registry import Policy
from bayplan.kube.meta import NamedObject
from bayplan.kube.pod import Pod
from bayplan.kube.volumes import PersistentVolume, PersistentVolumeClaim
from bayplan.policies.default_profile.volume_binding import VolumeBindingArgs

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


class VolumesRefused(Exception):
    """The pod does not get its volumes on that node, for now; the text says why."""


@dataclass(frozen=True)
class Kept:
    """What is kept for one pod."""

    pod: Pod
    node: str
    term: int
    """Of the Lease, when it was kept."""
    seconds: float
    """How long its volumes may take."""
    found: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...]
    """Claims, each with its volume."""
    to_make: tuple[PersistentVolumeClaim, ...]
    """Claims whose volume is to be made."""
    assumed: dict[tuple[str, str], NamedObject] = field(default_factory=dict)
    """What nobody but us knows yet, by kind and key."""
    written: dict[tuple[str, str], NamedObject] = field(default_factory=dict)
    """What the API server has, as it said."""

    @property
    def claims(self) -> frozenset[str]:
        """Keys of the claims."""
        return frozenset(each.key for each in (*(claim for claim, _ in self.found), *self.to_make))


def bind_seconds(policies: Iterable[Policy], configured: float | None) -> float | None:
    """How long volumes may take for pods of a profile; ``None`` where it does not bind volumes at all."""
    for hook in (hook for policy in policies for hook in policy.hooks):
        if isinstance(hook.args, VolumeBindingArgs):
            return hook.args.bind_timeout_seconds if configured is None else configured
    return None

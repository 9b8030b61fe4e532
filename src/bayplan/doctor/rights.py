"""The rights that Bayplan needs of the API server, and those that it must not have."""

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.doctor.extender_entry import may_be_ours
from bayplan.doctor.ours import Ours
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.engine.commit import commits


@dataclass(frozen=True)
class Right:
    """One verb on one resource, and what for."""

    verb: str
    resource: str
    purpose: str = ""
    group: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        full = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {full}{f'.{self.group}' if self.group not in ('', '*') else ''}"


@dataclass(frozen=True)
class Rights:
    """What one user may and may not, of what matters."""

    subject: str
    place: str
    missing: Sequence[Right] = ()
    wide: Sequence[Right] = ()
    bindings: Sequence[str] = ()
    """The ClusterRoleBindings that make it cluster-admin."""
    own: bool = False
    """It is the user of the kubeconfig, who need not be the one that Bayplan runs as."""


WIDE = (
    Right("*", "*", group="*"),
    Right("list", "secrets"),
)
_VIEW = tuple(
    Right(verb, resource, "Bayplan watches nodes and pods")
    for resource in ("nodes", "pods")
    for verb in ("list", "watch")
)
_NODE = Right("get", "nodes", "a node that kube-scheduler hears of before us is read at once")
_BIND = (
    Right("create", "pods", "bindVerb", subresource="binding"),
    Right("get", "pods", "bindVerb: a lost reply is looked into"),
)
_LEASE = tuple(
    Right(verb, "leases", "of several servers one binds", group="coordination.k8s.io")
    for verb in ("get", "create", "update")
)
_NUDGE = Right("patch", "pods", "cluster.nudge")


def needed(schedulers: Sequence[SchedulerFile], setting: Setting) -> list[Right]:
    """What the configurations ask of whoever runs Bayplan."""
    mine = [entry for file in schedulers for entry in file.entries if may_be_ours(file, entry, setting)]
    binds = any(entry.text("bindVerb") for entry in mine)
    ours: Ours | None = setting.ours
    rights = [*_VIEW, _NODE]
    if binds:
        rights += _BIND
    if binds and ours is not None and commits(ours.policies):
        rights += _LEASE
    if ours is not None and ours.nudges:
        rights.append(_NUDGE)
    return rights

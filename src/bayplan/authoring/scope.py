"""Scopes say which pods a policy, a group or a rule applies to."""

from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from bayplan.kube.pod import Pod
from bayplan.kube.selector import LabelSelector

Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
OwnerKind = Annotated[str, Meta(min_length=1, max_length=63)]

_KINDS = ("DaemonSet", "Job", "Node", "ReplicaSet", "ReplicationController", "StatefulSet")
_MAKERS = {"Deployment": "ReplicaSet", "CronJob": "Job"}


class Scope(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Pods by namespace and labels. All given criteria must match; without any, all pods match."""

    namespaces: tuple[str, ...] = ()
    """Names of namespaces, with ``*`` and ``?``."""
    pod_selector: LabelSelector = LabelSelector()
    """Labels of the pod."""

    def matches(self, pod: Pod) -> bool:
        """Whether the pod is in the scope."""
        if self.namespaces and not any(fnmatchcase(pod.namespace, n) for n in self.namespaces):
            return False
        return self.pod_selector.matches(pod.labels)


class PriorityRange(Struct, frozen=True, forbid_unknown_fields=True):
    """A range of priorities, ``{min: 1000}``, with both ends included."""

    min: Priority | None = None
    max: Priority | None = None

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise ValueError("give `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"no priority is at least {self.min} and at most {self.max}")

    def __contains__(self, priority: int) -> bool:
        above = self.min is None or priority >= self.min
        return above and (self.max is None or priority <= self.max)


class PolicyScope(Scope, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """``for:`` in the configuration: a `Scope` that also looks at a pod's priority and its owner."""

    priority: PriorityRange | None = None
    """``spec.priority`` of the pod."""
    owner_kinds: tuple[OwnerKind, ...] = ()
    """Kind of the pod's controller, such as ``DaemonSet`` or ``Job``."""

    def __post_init__(self) -> None:
        for kind in self.owner_kinds:
            _check_kind(kind)

    def matches(self, pod: Pod) -> bool:
        """Whether the pod is in the scope."""
        if self.priority is not None and pod.priority not in self.priority:
            return False
        if self.owner_kinds and (pod.owner is None or pod.owner.kind not in self.owner_kinds):
            return False
        return Scope.matches(self, pod)


def _check_kind(kind: str) -> None:
    """Raise `ValueError` for a kind that is certainly wrong; any kind may own pods."""
    if kind in _MAKERS:
        raise ValueError(f"ownerKinds: the pods of a {kind} belong to its {_MAKERS[kind]}; name that")
    meant = next((known for known in _KINDS if known.lower() == kind.lower().removesuffix("s")), kind)
    if meant != kind:
        raise ValueError(f"ownerKinds: no kind {kind!r}; did you mean {meant!r}?")
    if not (kind.isalnum() and kind[0].isupper()):
        raise ValueError(f"ownerKinds: a kind is one word with a capital letter, not {kind!r}")


EVERY_POD = PolicyScope()

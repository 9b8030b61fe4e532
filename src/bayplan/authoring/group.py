"""Groups of pods in a policy's arguments: ``pods: {podSelector: ..., sameOwner: true}``."""

from functools import reduce
from operator import and_

from bayplan.authoring.scope import Scope
from bayplan.kube.pod import Pod
from bayplan.snapshot.conditions import (
    EVERY_POD,
    PodCondition,
    PodLabel,
    in_namespace,
    same_owner,
    selected_by,
)


class PodGroup(Scope, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A group of pods, seen from one pod. All given criteria must match."""

    same_namespace: bool = False
    """Only pods of the pod's own namespace."""
    same_owner: bool = False
    """Only pods of the same controller: the other replicas."""
    same_label: str | tuple[str, ...] = ()
    """Only pods with the pod's own value of this label, or of each of these."""

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has what defines its group: an owner, the labels."""
        owner = pod.owner
        owned = owner is not None and bool(owner.uid)
        return (owned or not self.same_owner) and all(key in pod.labels for key in self._keys())

    def includes(self, pod: Pod) -> bool:
        """Whether the pod itself belongs to the group."""
        return self.matches(pod) and self.concerns(pod)

    def seen_from(self, pod: Pod) -> PodCondition:
        """The pods of the group, for ``nodes.count``."""
        return chosen_by(self) & self.related_to(pod)

    def related_to(self, pod: Pod) -> PodCondition:
        """The pods with the same owner, namespace and labels as this one, as far as the group wants them."""
        conditions = [PodLabel(key).same_as(pod) for key in self._keys()]
        if self.same_owner:
            conditions.append(same_owner(pod))
        if self.same_namespace:
            conditions.append(in_namespace(pod.namespace))
        return reduce(and_, conditions) if conditions else EVERY_POD

    def _keys(self) -> tuple[str, ...]:
        return (self.same_label,) if isinstance(self.same_label, str) else self.same_label


class OtherPods(PodGroup, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A group of pods that a pod is kept together with or apart from; the pod need not belong to it."""

    different_label: str = ""
    """Only pods that have this label with another value than the pod's."""

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has what defines its group: an owner, the labels."""
        return PodGroup.concerns(self, pod) and (
            not self.different_label or self.different_label in pod.labels
        )

    def includes(self, pod: Pod) -> bool:
        """Whether the pod itself belongs to the group; never with ``different_label``."""
        return not self.different_label and PodGroup.includes(self, pod)

    def related_to(self, pod: Pod) -> PodCondition:
        """As in `PodGroup`, and with another value of ``different_label``."""
        related = PodGroup.related_to(self, pod)
        if not self.different_label:
            return related
        label = PodLabel(self.different_label)
        return related & label.present & ~label.same_as(pod)


def chosen_by(scope: Scope) -> PodCondition:
    """The placed pods in a scope: those of a policy's ``for:``, or of a group."""
    selected = selected_by(scope.pod_selector)
    return in_namespace(*scope.namespaces) & selected if scope.namespaces else selected

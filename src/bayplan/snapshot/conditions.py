"""Conditions say which pods to count: ``PodLabel("customer").same_as(pod)``, and combinations."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache, reduce
from operator import and_

import numpy as np

from bayplan.kube.pod import Pod
from bayplan.kube.selector import LabelSelector, Requirement
from bayplan.snapshot.tally import Bools, PodKinds


@dataclass(frozen=True)
class PodCondition:
    """Says which pods to count; combine with ``&``, ``|`` and ``~``."""

    title: str
    choose: Callable[[PodKinds, int], Bools]

    def over(self, kinds: PodKinds, count: int) -> Bools:
        """One bool for each of the first ``count`` kinds of pods."""
        return self.choose(kinds, count)

    def __and__(self, other: "PodCondition") -> "PodCondition":
        return PodCondition(
            f"({self.title} & {other.title})", lambda k, n: self.over(k, n) & other.over(k, n)
        )

    def __or__(self, other: "PodCondition") -> "PodCondition":
        return PodCondition(
            f"({self.title} | {other.title})", lambda k, n: self.over(k, n) | other.over(k, n)
        )

    def __invert__(self) -> "PodCondition":
        return PodCondition(f"~{self.title}", lambda k, n: ~self.over(k, n))

    def __repr__(self) -> str:
        return self.title


EVERY_POD = PodCondition("every pod", lambda _, n: np.ones(n, dtype=np.bool_))
NO_POD = PodCondition("no pod", lambda _, n: np.zeros(n, dtype=np.bool_))


class PodLabel:
    """A label of other pods, to count those: ``nodes.count(PodLabel("app") == "db")``.

    Also ``!=``, ``.isin([...])``, ``.present`` and ``.same_as(pod)``; combine with ``&``, ``|`` and ``~``.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: str) -> None:
        self.key = key

    def same_as(self, pod: Pod) -> PodCondition:
        """Pods with the same value of the label as this pod; no pods if this pod lacks the label."""
        value = pod.labels.get(self.key)
        return NO_POD if value is None else self == value

    @property
    def present(self) -> PodCondition:
        """Pods that have the label."""
        return PodCondition(f"{self!r}.present", lambda k, n: k.label(self.key, n).present)

    def isin(self, values: Iterable[str]) -> PodCondition:
        """Pods whose label is one of these."""
        if isinstance(values, str):
            raise TypeError(f"isin wants several texts, such as [{values!r}]; for one there is ==")
        wanted = list(values)
        return PodCondition(f"{self!r}.isin({wanted})", lambda k, n: k.label(self.key, n).isin(wanted))

    def __eq__(self, value: object) -> PodCondition:  # type: ignore[override]
        return PodCondition(f"({self!r} == {value!r})", lambda k, n: k.label(self.key, n) == value)

    def __ne__(self, value: object) -> PodCondition:  # type: ignore[override]
        return ~(self == value)

    def __repr__(self) -> str:
        return f"PodLabel({self.key!r})"


def in_namespace(*names: str) -> PodCondition:
    """Pods in one of these namespaces: ``in_namespace("a", "b-*")``; ``*`` and ``?`` stand for any text."""
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"in_namespace wants names, such as in_namespace('a', 'b-*'); got {name!r}")

    def choose(kinds: PodKinds, count: int) -> Bools:
        namespaces = kinds.namespaces(count)
        return namespaces.isin(_matching(namespaces.values, names))

    return PodCondition(f"in_namespace{names}", choose)


def same_owner(pod: Pod) -> PodCondition:
    """Pods of the same controller, such as the other replicas; no pods for a pod without a controller."""
    owner = pod.owner
    if owner is None or not owner.uid:
        return NO_POD
    return PodCondition(f"same_owner({owner.name})", lambda k, n: k.owners(n) == owner.uid)


def selected_by(selector: LabelSelector) -> PodCondition:
    """Pods whose labels a Kubernetes selector matches; an empty selector matches every pod."""
    # Built from label columns, which are kept and only grow, so that asking again costs next to nothing.
    conditions = [PodLabel(key) == value for key, value in selector.match_labels.items()]
    conditions += [_required(requirement) for requirement in selector.match_expressions]
    return reduce(and_, conditions) if conditions else EVERY_POD


def _required(requirement: Requirement) -> PodCondition:
    label = PodLabel(requirement.key)
    if requirement.operator in ("Exists", "DoesNotExist"):
        condition = label.present
    else:
        condition = label.isin(requirement.values)
    # A pod without the label is not in any list: NotIn is satisfied, as in Kubernetes.
    return condition if requirement.operator in ("Exists", "In") else ~condition


@lru_cache(maxsize=256)
def _matching(names: tuple[str, ...], globs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if any(fnmatchcase(name, glob) for glob in globs))

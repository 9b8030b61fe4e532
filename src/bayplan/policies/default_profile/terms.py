"""Terms between pods: which pods one means, as one pod or as kinds of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan import Pod, Snapshot
from bayplan.blocks import Expression, PodAffinityTerm, PodKinds, Selector

Bools = NDArray[np.bool_]

_NO_LABELS: Mapping[str, str] = {}


def plain(selector: Selector | None) -> Selector | None:
    """The selector in one spelling, so that equal ones are equal: expressions alone, in order."""
    if selector is None:
        return None
    labels = (selector.match_labels or {}).items()
    every = [Expression(key, "In", (value,)) for key, value in labels]
    every += [
        Expression(one.key, one.operator, tuple(sorted(one.values or ())))
        for one in selector.match_expressions or ()
    ]
    ordered = sorted(set(every), key=lambda one: (one.key, one.operator, one.values or ()))
    return Selector(match_expressions=tuple(ordered))


def chosen_kinds(selector: Selector | None, kinds: PodKinds, count: int) -> Bools:
    """The kinds whose labels a `plain` selector matches; no selector matches none, an empty one all."""
    if selector is None:
        return np.zeros(count, dtype=np.bool_)
    chosen = np.ones(count, dtype=np.bool_)
    for expression in selector.match_expressions or ():
        chosen &= _held(expression, kinds, count)
    return chosen


def _held(expression: Expression, kinds: PodKinds, count: int) -> Bools:
    values, wanted = kinds.label(expression.key, count), expression.values or ()
    match expression.operator:
        case "In":
            return values == wanted[0] if len(wanted) == 1 else values.isin(wanted)
        case "NotIn":
            return ~(values == wanted[0] if len(wanted) == 1 else values.isin(wanted))
        case "Exists":
            return values.present
        case "DoesNotExist":
            return ~values.present
    return np.zeros(count, dtype=np.bool_)


@dataclass(frozen=True)
class Term:
    """A term as the pod that has it means it: namespaces that were left out are the pod's own."""

    topology_key: str
    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None

    @classmethod
    def of(cls, term: PodAffinityTerm, namespace: str) -> "Term":
        """A term of a pod in that namespace.

        The API server has put ``matchLabelKeys`` and ``mismatchLabelKeys`` into the selector already.
        """
        names = frozenset(term.namespaces or ())
        if not names and term.namespace_selector is None:
            names = frozenset({namespace})
        return cls(term.topology_key, plain(term.label_selector), names, plain(term.namespace_selector))

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod is meant whose namespace has these labels."""
        if self.selector is None or not self.selector.matches(pod.labels):
            return False
        if pod.namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)


@dataclass(frozen=True)
class OwnTerm:
    """A term of the pod that is to be placed: the namespaces it selects are looked up beforehand."""

    topology_key: str
    selector: Selector | None
    namespaces: frozenset[str] | None
    """``None`` for every namespace."""

    @classmethod
    def of(cls, term: PodAffinityTerm, pod: Pod, cluster: Snapshot) -> "OwnTerm":
        """A term of this pod in this cluster."""
        meant = Term.of(term, pod.namespace)
        return cls(meant.topology_key, meant.selector, _namespaces(meant, cluster))

    def matches(self, pod: Pod) -> bool:
        """Whether a pod is meant."""
        if self.namespaces is not None and pod.namespace not in self.namespaces:
            return False
        return self.selector is not None and self.selector.matches(pod.labels)

    def kinds(self, kinds: PodKinds, count: int) -> Bools:
        """The kinds of pods that are meant."""
        chosen = chosen_kinds(self.selector, kinds, count)
        if self.namespaces is None:
            return chosen
        names = kinds.namespaces(count)
        if len(self.namespaces) == 1:
            (name,) = self.namespaces
            return chosen & (names == name)
        return chosen & names.isin(self.namespaces)


def _namespaces(term: Term, cluster: Snapshot) -> frozenset[str] | None:
    selector = term.namespace_selector
    if selector is None:
        return term.namespaces
    # kube-scheduler also holds the selector against no labels at all, as if every namespace had none: one
    # that asks for the absence of a label so selects all of them.
    if selector.matches(_NO_LABELS):
        return None
    labels = cluster.objects.namespace_labels
    return term.namespaces.union(name for name, found in labels.items() if selector.matches(found))

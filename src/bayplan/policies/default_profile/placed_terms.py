"""The terms that placed pods have about others.

A cluster has many pods and few distinct terms. Each distinct term is kept once, with the kinds of pods that
have it; a new pod is held against the terms that can mean its labels, not against the pods.
"""

import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from bayplan import Pod
from bayplan.blocks import PodKind, PodKinds
from bayplan.policies.default_profile.terms import Term

Ints = NDArray[np.int64]

_INDEX = "terms of placed pods"


class Relation(Enum):
    """What a term of a placed pod says about the pods that it means."""

    AFFINITY = "required affinity"
    ANTI_AFFINITY = "required anti-affinity"
    WISH = "preferred"


@dataclass(frozen=True)
class Matched:
    """A term of placed pods that means the pod to be placed."""

    relation: Relation
    topology_key: str
    weight: int
    """Of a wish, below 0 for one to be apart; 0 of what is required."""
    kinds: Ints
    """The kinds of pods that have it; one that has it twice is here twice."""


@dataclass(frozen=True)
class _Group:
    """A distinct term, and the kinds that have it."""

    relation: Relation
    weight: int
    term: Term
    kinds: "array[int]" = field(default_factory=lambda: array("q"))


class PlacedTerms:
    """The distinct terms of kinds of pods. It grows with the kinds."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Relation, int, Term], _Group] = {}
        # Kinds with the same terms, in one namespace, mean the same by them: those are read once.
        self._by_text: dict[tuple[str, bytes], list[_Group]] = {}
        self._by_label: dict[tuple[str, str], list[_Group]] = {}
        self._any_label: list[_Group] = []
        self._read = 0
        # Several pods are judged at once, each in a thread.
        self._lock = threading.Lock()

    @classmethod
    def of(cls, kinds: PodKinds, count: int) -> "PlacedTerms":
        """The terms of at least the first ``count`` kinds."""
        index = kinds.kept(_INDEX, cls)
        if index._read < count:
            found = kinds.facts(_INDEX, count, lambda kind: kind if kind.affinity_text else None)
            with index._lock:
                # A deadline may end this anywhere: the next call begins with the kind that was not done.
                for number in range(index._read, count):
                    kind = found[number]
                    if kind is not None:
                        index._take(number, index._of(kind))
                    index._read = number + 1
        return index

    @property
    def some(self) -> bool:
        """Whether there is any."""
        return bool(self._groups)

    def meaning(
        self, pod: Pod, namespace_labels: Mapping[str, str], *, relations: frozenset[Relation], count: int
    ) -> list[Matched]:
        """The terms of these relations that mean the pod, of the first ``count`` kinds."""
        if not self._groups:
            return []
        with self._lock:
            found = [
                (group, np.array(group.kinds))
                for group in self._candidates(pod.labels)
                if group.relation in relations and group.term.matches(pod, namespace_labels)
            ]
        return [
            Matched(group.relation, group.term.topology_key, group.weight, numbers[numbers < count])
            for group, numbers in found
        ]

    @staticmethod
    def _take(number: int, groups: list[_Group]) -> None:
        """Put the kind into its groups, as often as it has the term; twice is as once."""
        for group in groups:
            wanted = sum(other is group for other in groups)
            have = sum(1 for _ in takewhile(number.__eq__, reversed(group.kinds)))
            group.kinds.extend([number] * (wanted - have))

    def _of(self, kind: PodKind) -> list[_Group]:
        text = (kind.namespace, kind.affinity_text)
        known = self._by_text.get(text)
        if known is None:
            known = self._by_text[text] = [self._group(*told) for told in _terms_of(kind)]
        return known

    def _group(self, relation: Relation, weight: int, term: Term) -> _Group:
        known = self._groups.get((relation, weight, term))
        if known is None:
            known = _Group(relation, weight, term)
            for place in self._places(term):
                place.append(known)
            # Last: one that is known must be where pods look.
            self._groups[relation, weight, term] = known
        return known

    def _places(self, term: Term) -> Iterable[list[_Group]]:
        """Where a pod that the term means will look: at one of its labels, if the term names one."""
        if term.selector is None:
            return ()
        for one in term.selector.match_expressions or ():
            if one.operator == "In":
                return [self._by_label.setdefault((one.key, value), []) for value in set(one.values or ())]
        return (self._any_label,)

    def _candidates(self, labels: Mapping[str, str]) -> Iterator[_Group]:
        yield from self._any_label
        for label in labels.items():
            yield from self._by_label.get(label, ())


def _terms_of(kind: PodKind) -> Iterator[tuple[Relation, int, Term]]:
    near, apart = kind.affinity.pod_affinity, kind.affinity.pod_anti_affinity
    for given, relation, sign in ((near, Relation.AFFINITY, 1), (apart, Relation.ANTI_AFFINITY, -1)):
        if given is not None:
            for term in given.required or ():
                yield relation, 0, Term.of(term, kind.namespace)
            for wish in given.preferred or ():
                yield Relation.WISH, sign * wish.weight, Term.of(wish.pod_affinity_term, kind.namespace)

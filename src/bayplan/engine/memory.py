"""What hooks said about pods of a kind, so that the next one of it is judged by what has changed since.

Pods of one controller differ in their names alone. A hook that promises what it `reads` is asked again only
about the nodes on which something happened; one that promises nothing is asked about everything, as ever. So
the answer is the same as if nobody had remembered anything.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.hooks import Reads
from bayplan.authoring.registry import Hook
from bayplan.engine.decision import NOBODY, Decision, Outcome
from bayplan.kube.meta import NO_META
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.marks import Marks, Rows
from bayplan.snapshot.objects import Objects
from bayplan.snapshot.sources import Readings

_KINDS = 256
# A kind takes some 100 bytes a node.
_ROWS = 400_000
# Where so large a part of the nodes has changed, all of them are asked about: that is no slower.
_MOST = 0.25


@dataclass(frozen=True, eq=False)
class Said:
    """What was said at one moment."""

    marks: Marks
    objects: Objects
    readings: Readings
    filtered: tuple[Outcome, ...]
    scored: tuple[Outcome, ...] | None
    """``None`` where there was nothing to compare."""
    refused_by: NDArray[np.int16]
    total: NDArray[np.float64] | None
    plan: "Plan"

    @cached_property
    def outcomes(self) -> dict[int, Outcome]:
        """By identity of the hook, of those that promise something."""
        every = (*self.filtered, *(self.scored or ()))
        return {id(outcome.hook): outcome for outcome in every if outcome.hook.spec.reads != "cluster"}

    @cached_property
    def passed(self) -> NDArray[np.bool_]:
        """The nodes that were left for scores."""
        return np.equal(self.refused_by, NOBODY)


@dataclass(frozen=True, eq=False)
class Plan:
    """What has to be looked at for the next pod of a kind, as far as that is always the same."""

    simple: bool
    """Whether every hook promises something, and every node has its score."""
    conditions: frozenset[Callable[[Pod, Snapshot], Reads]] = frozenset()
    """What has to be `node` still, of hooks that do not promise it for every pod."""
    filters: tuple[Hook, ...] = ()
    """Those that read the pods on a node."""

    @classmethod
    def of(cls, filtered: Decision, scored: Decision | None) -> "Plan":
        """The plan for pods like this one."""
        if scored is None or scored.total is None or any(map(_has_gaps, scored.outcomes)):
            return cls(simple=False)
        every = (*filtered.outcomes, *scored.outcomes)
        prepared = {outcome.hook.policy for outcome in every if outcome.hook.spec.kind == "prepare"}
        hooks = [outcome.hook for outcome in every if outcome.hook.spec.kind != "prepare"]
        if any(
            hook.spec.reads == "cluster" or (hook.spec.reads == "pods" and hook.policy in prepared)
            for hook in hooks
        ):
            return cls(simple=False)
        return cls(
            simple=True,
            conditions=frozenset(hook.spec.reads for hook in hooks if callable(hook.spec.reads)),
            filters=tuple(h for h in hooks if h.spec.kind == "filter" and h.spec.reads == "pods"),
        )

    def holds(self, pod: Pod, cluster: Snapshot) -> bool:
        """Whether it will do for this pod in this cluster."""
        return self.simple and all(reads(pod, cluster) == "node" for reads in self.conditions)


def _has_gaps(outcome: Outcome) -> bool:
    return outcome.normalised is not None and math.isnan(outcome.normalised.sum())


@dataclass(frozen=True, eq=False)
class Recalled:
    """What of it is still of use for a pod of the same kind, in the cluster as it is now."""

    pod: Pod
    cluster: Snapshot
    said: Said
    changed: Rows
    """The nodes on which something has happened since."""

    def of(self, hook: Hook) -> tuple[Outcome, Reads] | None:
        """What the hook said, and how far that goes; ``None`` where it has to be asked."""
        known = self.said.outcomes.get(id(hook))
        if known is None:
            return None
        reads = hook.spec.reads
        told = reads if isinstance(reads, str) else reads(self.pod, self.cluster)
        return None if told == "cluster" else (known, told)


class Memory:
    """The last kinds of pods that one set of policies has judged."""

    def __init__(self, kinds: int = _KINDS, *, most: float = _MOST) -> None:
        """Where more than ``most`` of the nodes have changed, nothing is recalled."""
        self._limit = kinds
        self._most = most
        self._known: dict[bytes, Said] = {}

    def recall(self, pod: Pod, cluster: Snapshot) -> Recalled | None:
        """What is known about pods like this one; ``None`` where that is of no use."""
        said = self._known.get(likeness(pod))
        if said is None or cluster.marks is None:
            return None
        if cluster.objects is not said.objects or cluster.nodes.readings is not said.readings:
            return None
        changed = cluster.marks.changed_since(said.marks)
        if changed is None or changed.size > self._most * len(cluster.nodes):
            return None
        return Recalled(pod, cluster, said, changed)

    def keep(
        self, cluster: Snapshot, filtered: Decision, scored: Decision | None, *, plan: Plan | None = None
    ) -> None:
        """Remember what was said, where it can be of use again; ``plan`` where it is the same as before."""
        kind, marks = likeness(filtered.pod), cluster.marks
        failures = (*filtered.failures, *(scored.failures if scored else ()))
        if not kind or marks is None or failures:
            return
        said = Said(
            marks,
            cluster.objects,
            cluster.nodes.readings,
            filtered.outcomes,
            scored.outcomes if scored else None,
            filtered.refused_by,
            scored.total if scored else None,
            plan or Plan.of(filtered, scored),
        )
        # As the last one. A thread that was given up may be here as well: no step relies on the one before.
        self._known.pop(kind, None)
        self._known[kind] = said
        while len(self._known) > min(self._limit, 1 + _ROWS // (1 + len(said.refused_by))):
            self._known.pop(next(iter(self._known)), None)


def likeness(pod: Pod) -> bytes:
    """The same for pods that differ in their names alone; ``b""`` for one that is like no other.

    Claims are of one pod each, or of few: a pod with volumes is always judged for itself.
    """
    if pod.volumes or (pod.spec and pod.spec.resource_claims):
        return b""
    owner, metadata = pod.owner, pod.metadata or NO_META
    return msgspec.json.encode(
        (
            pod.namespace,
            metadata.labels,
            metadata.annotations,
            (owner.kind, owner.name, owner.uid) if owner else None,
            pod.terminating,
            pod.spec,
        )
    )

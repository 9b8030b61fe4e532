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
_ENCODER = msgspec.json.Encoder()
# A kind takes some 100 bytes a node.
_ROWS = 400_000
# Where so large a part of the nodes has changed, all of them are asked about: that is no slower.
_MOST = 0.25


@dataclass(frozen=True, eq=False)
class Frame:
    """What stays the same as long as no node is refused that was not before, nor the other way round."""

    filtered: tuple[Outcome, ...]
    refused_by: NDArray[np.int16]
    simple: bool = False
    """Whether every hook promises something, and every node has its score."""
    conditions: frozenset[Callable[[Pod, Snapshot], Reads]] = frozenset()
    """What must still be no matter of pods, of hooks that do not promise that for every pod."""
    filters: tuple[Hook, ...] = ()
    """Those that read the pods on a node."""

    @classmethod
    def of(cls, filtered: Decision, scored: Decision | None) -> "Frame":
        """The frame for pods like this one."""
        told = filtered.outcomes, filtered.refused_by
        if scored is None or scored.total is None or any(map(_has_gaps, scored.outcomes)):
            return cls(*told)
        every = (*filtered.outcomes, *scored.outcomes)
        prepared = {outcome.hook.policy for outcome in every if outcome.hook.spec.kind == "prepare"}
        hooks = [outcome.hook for outcome in every if outcome.hook.spec.kind != "prepare"]
        if any(hook.spec.reads == "cluster" or _wants_more(hook, prepared) for hook in hooks):
            return cls(*told)
        if any(hook.spec.kind == "prefer" for hook in hooks):
            return cls(*told)
        return cls(
            *told,
            simple=True,
            conditions=frozenset(hook.spec.reads for hook in hooks if callable(hook.spec.reads)),
            filters=tuple(h for h in hooks if h.spec.kind == "filter" and h.spec.reads == "pods"),
        )

    def holds(self, pod: Pod, cluster: Snapshot) -> bool:
        """Whether a few numbers are all that can be different for this pod in this cluster."""
        return self.simple and all(reads(pod, cluster) in ("node", "nodes") for reads in self.conditions)

    @cached_property
    def passed(self) -> NDArray[np.bool_]:
        """The nodes that were left for scores."""
        return np.equal(self.refused_by, NOBODY)

    @cached_property
    def left(self) -> Rows | None:
        """Their rows; ``None`` where that is all of them."""
        rows = np.flatnonzero(self.passed)
        return None if rows.size == self.passed.size else rows

    @cached_property
    def nobody(self) -> NDArray[np.int16]:
        """That none of them is refused."""
        return np.full(int(self.passed.sum()), NOBODY, dtype=np.int16)


def _has_gaps(outcome: Outcome) -> bool:
    return outcome.normalised is not None and math.isnan(outcome.normalised.sum())


def _wants_more(hook: Hook, prepared: set[str]) -> bool:
    """Whether a hook that would be asked about some nodes alone wants to see more than those."""
    return hook.spec.reads == "pods" and (hook.policy in prepared or "cluster" in hook.spec.parameters)


@dataclass(frozen=True, eq=False)
class Said:
    """What was said at one moment."""

    marks: Marks
    objects: Objects
    readings: Readings
    frame: Frame
    scored: tuple[Outcome, ...] | None
    """``None`` where there was nothing to compare."""
    total: NDArray[np.float64] | None

    @cached_property
    def outcomes(self) -> dict[int, Outcome]:
        """By identity of the hook, of those that promise something."""
        every = (*self.frame.filtered, *(self.scored or ()))
        return {id(outcome.hook): outcome for outcome in every if outcome.hook.spec.reads != "cluster"}


@dataclass(frozen=True, eq=False)
class Recalled:
    """What of it is still of use for a pod of the same kind, in the cluster as it is now."""

    pod: Pod
    kind: bytes
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
        kind = likeness(pod)
        said = self._known.get(kind)
        if said is None or cluster.marks is None:
            return None
        if cluster.objects is not said.objects or cluster.same_nodes.readings is not said.readings:
            return None
        changed = cluster.marks.changed_since(said.marks)
        if changed is None or changed.size > self._most * len(cluster.same_nodes):
            return None
        return Recalled(pod, kind, cluster, said, changed)

    def keep(
        self, cluster: Snapshot, filtered: Decision, scored: Decision | None, *, like: Recalled | None = None
    ) -> None:
        """Remember what was said, where it can be of use again; ``like`` what, where only numbers differ."""
        marks = cluster.marks
        if marks is None:
            return
        if like is not None:
            kind, frame = like.kind, like.said.frame
        else:
            kind = likeness(filtered.pod)
            if not kind or filtered.failures or (scored is not None and scored.failures):
                return
            frame = Frame.of(filtered, scored)
        said = Said(
            marks,
            cluster.objects,
            cluster.same_nodes.readings,
            frame,
            scored.outcomes if scored else None,
            scored.total if scored else None,
        )
        # As the last one. A thread that was given up may be here as well: no step relies on the one before.
        self._known.pop(kind, None)
        self._known[kind] = said
        while len(self._known) > min(self._limit, 1 + _ROWS // (1 + len(frame.refused_by))):
            self._known.pop(next(iter(self._known)), None)


def likeness(pod: Pod) -> bytes:
    """The same for pods that differ in name, UID and age alone; ``b""`` for one that is like no other.

    Claims are of one pod each, or of few: a pod with volumes is always judged for itself.
    """
    spec, meta = pod.spec, pod.metadata or NO_META
    if spec is not None and (spec.volumes or spec.resource_claims):
        return b""
    terminating = meta.deletion_timestamp is not None
    parts = (meta.namespace, meta.labels, meta.annotations, meta.owner_references, terminating)
    return _ENCODER.encode((*parts, spec, pod.status))

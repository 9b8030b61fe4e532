"""Remembers the outcomes for pods of one kind, so that the next pod is judged by what changed since.

Pods of one controller differ only in their names. A hook that promises what it `reads` runs again only on the
nodes that changed; a hook that promises nothing runs on all nodes. The decision is the same either way.
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
# If more than this share of the nodes changed, judging all of them is no slower.
_MOST = 0.25


@dataclass(frozen=True, eq=False)
class Frame:
    """The part of the outcomes that stays the same as long as the same nodes pass."""

    filtered: tuple[Outcome, ...]
    refused_by: NDArray[np.int16]
    simple: bool = False
    """Whether every hook promises what it reads, and scores every node."""
    conditions: frozenset[Callable[[Pod, Snapshot], Reads]] = frozenset()
    """The ``reads`` functions of hooks that promise per pod; each must still promise to read no pods."""
    filters: tuple[Hook, ...] = ()
    """The filters that read the pods on a node."""

    @classmethod
    def of(cls, filtered: Decision, scored: Decision | None) -> "Frame":
        """The frame from the decisions about one pod of the kind."""
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
        """Whether only scores can differ for this pod in this cluster."""
        return self.simple and all(reads(pod, cluster) in ("node", "nodes") for reads in self.conditions)

    @cached_property
    def passed(self) -> NDArray[np.bool_]:
        """For each node, whether it passed and was scored."""
        return np.equal(self.refused_by, NOBODY)

    @cached_property
    def left(self) -> Rows | None:
        """The rows that passed; ``None`` if all did."""
        rows = np.flatnonzero(self.passed)
        return None if rows.size == self.passed.size else rows

    @cached_property
    def nobody(self) -> NDArray[np.int16]:
        """`NOBODY` for each node that passed: the ``refused_by`` of the scored table."""
        return np.full(int(self.passed.sum()), NOBODY, dtype=np.int16)


def _has_gaps(outcome: Outcome) -> bool:
    return outcome.normalised is not None and math.isnan(outcome.normalised.sum())


def _wants_more(hook: Hook, prepared: set[str]) -> bool:
    """Whether a hook that would run on the changed nodes only also sees other nodes."""
    return hook.spec.reads == "pods" and (hook.policy in prepared or "cluster" in hook.spec.parameters)


@dataclass(frozen=True, eq=False)
class Remembered:
    """The outcomes for one pod, and the state of the cluster that they are based on."""

    marks: Marks
    objects: Objects
    readings: Readings
    frame: Frame
    scored: tuple[Outcome, ...] | None
    """``None`` if nodes were not scored."""
    total: NDArray[np.float64] | None

    @cached_property
    def outcomes(self) -> dict[int, Outcome]:
        """The outcomes of hooks that promise what they read, by ``id`` of the hook."""
        every = (*self.frame.filtered, *(self.scored or ()))
        return {id(outcome.hook): outcome for outcome in every if outcome.hook.spec.reads != "cluster"}


@dataclass(frozen=True, eq=False)
class Recalled:
    """Remembered outcomes that can be used for another pod of the kind, in the cluster as it is now."""

    pod: Pod
    kind: bytes
    cluster: Snapshot
    said: Remembered
    changed: Rows
    """The rows that changed since."""

    def of(self, hook: Hook) -> tuple[Outcome, Reads] | None:
        """The hook's outcome, and what the hook reads for this pod; ``None`` if the hook must run."""
        known = self.said.outcomes.get(id(hook))
        if known is None:
            return None
        reads = hook.spec.reads
        told = reads if isinstance(reads, str) else reads(self.pod, self.cluster)
        return None if told == "cluster" else (known, told)


class Memory:
    """The outcomes of one set of policies for the kinds of pods that were judged last."""

    def __init__(self, kinds: int = _KINDS, *, most: float = _MOST) -> None:
        """If more than the share ``most`` of the nodes changed, nothing is recalled."""
        self._limit = kinds
        self._most = most
        self._known: dict[bytes, Remembered] = {}

    def recall(self, pod: Pod, cluster: Snapshot) -> Recalled | None:
        """The outcomes remembered for this pod's kind; ``None`` if they cannot be used."""
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
        """Remember these decisions, if they can be reused; ``like`` the recalled ones but for scores."""
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
        said = Remembered(
            marks,
            cluster.objects,
            cluster.same_nodes.readings,
            frame,
            scored.outcomes if scored else None,
            scored.total if scored else None,
        )
        # Put last, as the most recently used. A thread that was given up may run here too, so each step
        # tolerates what another one did.
        self._known.pop(kind, None)
        self._known[kind] = said
        while len(self._known) > min(self._limit, 1 + _ROWS // (1 + len(frame.refused_by))):
            self._known.pop(next(iter(self._known)), None)


def likeness(pod: Pod) -> bytes:
    """A key that is equal for pods that differ only in name, UID and age; ``b""`` for a pod with volumes.

    Volume and resource claims belong to one pod or to few, so a pod with claims is always judged by itself.
    """
    spec, meta = pod.spec, pod.metadata or NO_META
    if spec is not None and (spec.volumes or spec.resource_claims):
        return b""
    terminating = meta.deletion_timestamp is not None
    parts = (meta.namespace, meta.labels, meta.annotations, meta.owner_references, terminating)
    return _ENCODER.encode((*parts, spec, pod.status))

"""Judges one pod: a node for it, or the pods to evict for it. No I/O.

Runs in a policy thread, on a snapshot that contains the pods placed before.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bayplan.authoring.registry import Policy
from bayplan.engine.choose import Choice, choose
from bayplan.engine.commit import allocate, allocates
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.guard import Attempt
from bayplan.engine.make_room import DEFAULT_PREEMPTION, DefaultPreemptionArgs, Eviction, make_room
from bayplan.engine.memory import Memory
from bayplan.kube.meta import EMPTY
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.nominations import Nomination
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.draft import Draft

log = logging.getLogger(__name__)

NO_CLAIMS = "no new claims to deallocate"
"""What kube-scheduler's plugin for claims says before it comes to evictions, of a pod that has none."""


@dataclass(frozen=True)
class Judgement:
    """The result of judging one pod: a node, an eviction, or a refusal."""

    choice: Choice
    node: str = ""
    """The node for the pod; ``""`` for none."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations to bind it with."""
    refusal: str = ""
    """Why a policy refused to allocate on a node that had passed its filter."""
    eviction: Eviction | None = None
    """The eviction that would make room, if no node passes."""
    preemption: str = ""
    """Why no pod is evicted, in kube-scheduler's words."""
    waits: bool = False
    """Whether victims are already leaving for the pod."""

    @property
    def error(self) -> str:
        """The error of a policy that failed; ``""`` without one."""
        return self.choice.filtered.error or (self.choice.scored.error if self.choice.scored else "")

    @property
    def message(self) -> str:
        """Why there is no node, as in kube-scheduler's event."""
        return " ".join(filter(None, (self.refusal or self.choice.message, self.preemption)))


@dataclass(frozen=True)
class Placed:
    """One pod of a batch that was judged together."""

    found: Judgement
    cluster: Snapshot
    """The cluster that it was judged on, which contains the pods of the batch before it."""


class Judge:
    """Judges the pods of one profile."""

    def __init__(
        self,
        policies: Sequence[Policy],
        *,
        rng: random.Random | None = None,
        record: Callable[[str, Decision], object] = lambda *_: None,
        ran: Callable[[Attempt], object] = lambda _: None,
        preemption: DefaultPreemptionArgs | None = DEFAULT_PREEMPTION,
    ) -> None:
        """``record`` gets each decision, ``ran`` the attempt of each judgement, in the policy thread.

        ``preemption`` ``None`` turns evictions off.
        """
        self.policies = tuple(policies)
        self._preemption = preemption
        self.shadows = {policy.name for policy in policies if policy.shadow}
        self._rng = rng or random.Random()  # noqa: S311 - which of equals, no secret
        self._record = record
        self._ran = ran
        self._hands_out = allocates(policies)
        self._memory = Memory()
        self._first = NO_CLAIMS if any(p.name == "DynamicResources" for p in policies) else ""

    def judge(
        self, pod: Pod, cluster: Snapshot, attempt: Attempt, *, kept: Nomination | None = None
    ) -> Judgement:
        """Judge one pod; ``kept`` is its nomination, if it has one."""
        found = self._judge(pod, cluster, attempt, kept)
        self._ran(attempt)
        return found

    def place_some(
        self, pods: Sequence[Pod], cluster: Snapshot, attempt: Attempt, *, seconds: float
    ) -> list[Placed]:
        """Where these pods go, one after another, each with those before it in sight.

        It ends with the first one that is not placed just so, which nothing is said about, and after so many
        seconds. What is found is what would be found if each of them were judged for itself.
        """
        draft, until = Draft(cluster), time.perf_counter() + seconds
        placed: list[Placed] = []
        for pod in pods:
            seen = draft.snapshot
            choice = choose(self.policies, pod, seen, now=attempt.now, attempt=attempt, memory=self._memory)
            if not choice.found or (choice.scored is not None and choice.scored.error):
                break
            found = self._go_on(choice, seen, attempt)
            if not found.node:
                break
            placed.append(Placed(found, seen))
            draft.place(pod, found.node, found.annotations)
            self._ran(attempt)
            attempt.ran.clear()
            if time.perf_counter() > until:
                break
        return placed

    def last_word(
        self, pod: Pod, node: str, cluster: Snapshot, attempt: Attempt
    ) -> tuple[str, Mapping[str, str]]:
        """Recheck the pod on its node: a refusal, or the annotations of its allocation."""
        others = cluster.without_on({node: {pod.uid}})
        if node not in others.rows:
            return f"node {node} is gone", EMPTY
        decision = self._filter_one(pod, node, others, attempt)
        refusal = decision.refusal(0)
        if decision.error or refusal:
            return decision.error or (refusal.reason.text if refusal else ""), EMPTY
        if not self._hands_out:
            return "", EMPTY
        given = allocate(self.policies, Question(pod, others.nodes, others, attempt.now), node, attempt)
        return given.refusal, given.annotations

    def _judge(self, pod: Pod, cluster: Snapshot, attempt: Attempt, kept: Nomination | None) -> Judgement:
        choice = self._on_kept(pod, cluster, kept, attempt) or choose(
            self.policies, pod, cluster, now=attempt.now, attempt=attempt, memory=self._memory
        )
        if choice.found:
            return self._go_on(choice, cluster, attempt)
        self._tell(choice)
        found = Judgement(choice)
        return found if found.error else self._make_room(found, cluster, kept, attempt)

    def _go_on(self, choice: Choice, cluster: Snapshot, attempt: Attempt) -> Judgement:
        """Take one of the best nodes, and allocate there."""
        self._tell(choice)
        found = Judgement(choice)
        if found.error:
            return found
        return self._hand_out(Judgement(choice, choice.any_of_best(self._rng)), cluster, attempt)

    def _tell(self, choice: Choice) -> None:
        self._record("filter", choice.filtered)
        if choice.scored is not None:
            self._record("prioritize", choice.scored)

    def _on_kept(
        self, pod: Pod, cluster: Snapshot, kept: Nomination | None, attempt: Attempt
    ) -> Choice | None:
        """The nominated node, if it passes; then no other node is judged."""
        if kept is None or kept.node not in cluster.rows:
            return None
        decision = self._filter_one(pod, kept.node, cluster, attempt)
        choice = Choice(decision, None)
        return choice if choice.found else None

    def _filter_one(self, pod: Pod, node: str, cluster: Snapshot, attempt: Attempt) -> Decision:
        row = cluster.nodes.take(np.array([cluster.rows[node]], dtype=np.intp), [node])
        return filter_nodes(self.policies, Question(pod, row, cluster, attempt.now), attempt)

    def _hand_out(self, found: Judgement, cluster: Snapshot, attempt: Attempt) -> Judgement:
        if not self._hands_out:
            return found
        pod = found.choice.filtered.pod
        # In the cluster that the filters have just judged, so no recheck is needed.
        question = Question(pod, cluster.nodes, cluster, attempt.now)
        given = allocate(self.policies, question, found.node, attempt)
        if given.refusal:
            return replace(found, node="", refusal=given.refusal)
        return replace(found, annotations=given.annotations)

    def _make_room(
        self, found: Judgement, cluster: Snapshot, kept: Nomination | None, attempt: Attempt
    ) -> Judgement:
        refused = found.choice.filtered
        if not len(cluster.nodes):
            return found
        if self._preemption is None:
            return replace(found, preemption=self._first)
        room = make_room(
            self.policies,
            cluster,
            refused,
            now=attempt.now,
            settings=self._preemption,
            attempt=attempt,
            kept=kept.node if kept else "",
            told=kept.victims if kept else (),
        )
        for text in dict.fromkeys(failure.text for failure in room.failures):
            log.warning("pod %s: %s", refused.pod.key, text, extra={"pod": refused.pod.key})
        if not room.evictions:
            told = ", ".join(filter(None, (self._first, room.message)))
            return replace(found, preemption=told, waits=room.waits)
        return replace(found, eviction=self._rng.choice(room.best))

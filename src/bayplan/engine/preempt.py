"""Which candidates for preemption would really help, and which victims are protected.

kube-scheduler picks candidates without asking extender filters. A node that our filters would still
refuse once its victims are gone must be dropped, or pods die for nothing, again and again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayplan.authoring import lift
from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.verdict import Reason
from bayplan.engine.cycle import Question, filter_nodes, interested
from bayplan.engine.decision import Decision
from bayplan.engine.guard import Attempt, Failure, guarded
from bayplan.kube.pod import Pod

NO_VICTIMS = Reason("no victims were named for the node")
UNKNOWN_VICTIM = Reason("a victim is not in Bayplan's view, so nobody can say whether it is protected")


@dataclass(frozen=True)
class Candidate:
    """A node that could be freed by evicting these pods."""

    node: str
    victims: tuple[str, ...]
    """UIDs, in the order they were sent."""


@dataclass(frozen=True)
class Dropped:
    """A candidate that is no longer one, and why."""

    candidate: Candidate
    policy: str
    text: str


@dataclass(frozen=True)
class PreemptDecision:
    """The candidates that are left, those dropped, and the hooks that failed."""

    pod: Pod
    kept: tuple[Candidate, ...]
    dropped: tuple[Dropped, ...]
    decisions: tuple[Decision, ...] = ()
    failures: tuple[Failure, ...] = ()


def choose_candidates(
    policies: Sequence[Policy],
    question: Question,
    candidates: Sequence[Candidate],
    *,
    victims: Mapping[str, Pod],
    attempt: Attempt | None = None,
) -> PreemptDecision:
    """Keep the candidates that the pod could use once the victims are gone.

    ``question.nodes`` holds the candidates' rows; ``victims`` the pods that are known, by UID.
    """
    mine = interested(policies, question.pod)
    run = _Run(mine, question, attempt or Attempt(), victims)
    left = [c for c in candidates if run.has_victims(c)]
    left = run.drop_protected(left)
    left = run.drop_refused(left)
    return PreemptDecision(
        question.pod, tuple(left), tuple(run.dropped.values()), tuple(run.decisions), tuple(run.failures)
    )


class _Run:
    """One pass over the candidates."""

    def __init__(
        self,
        policies: list[Policy],
        question: Question,
        attempt: Attempt,
        victims: Mapping[str, Pod],
    ) -> None:
        self._policies = policies
        self._question = question
        self._attempt = attempt
        self._victims = victims
        self.dropped: dict[str, Dropped] = {}
        self.decisions: list[Decision] = []
        self.failures: list[Failure] = []

    def has_victims(self, candidate: Candidate) -> bool:
        """kube-scheduler refuses a whole answer for one node without victims."""
        if not candidate.victims:
            self._drop(candidate, "", NO_VICTIMS.text)
        return bool(candidate.victims)

    def drop_protected(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates none of whose victims a policy protects."""
        hooks = [(p, hook) for p in self._policies for hook in p.of_kind("protect")]
        return [c for c in candidates if all(self._may_evict(c, p, hook) for p, hook in hooks)]

    def drop_refused(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates that every hard rule accepts with the victims gone."""
        if not candidates or not any(p.of_kind("filter") for p in self._policies):
            return candidates
        # A rule that reads a node by itself cannot see what is gone elsewhere: one pass for all.
        alone = self._reads_other_nodes()
        groups = [[candidate] for candidate in candidates] if alone else [candidates]
        return [c for group in groups for c in self._passing(group)]

    def _reads_other_nodes(self) -> bool:
        return any(
            "cluster" in hook.spec.parameters
            for policy in self._policies
            for kind in ("filter", "prepare")
            for hook in policy.of_kind(kind)
        )

    def _passing(self, group: list[Candidate]) -> list[Candidate]:
        cluster = self._question.cluster
        if cluster.pods_known:
            cluster = cluster.without({uid for candidate in group for uid in candidate.victims})
        rows = cluster.find([candidate.node for candidate in group])
        known = rows >= 0
        for candidate, there in zip(group, known, strict=True):
            if not there:
                self._drop(candidate, "", "node is not in Bayplan's view")
        inside = [c for c, there in zip(group, known, strict=True) if there]
        nodes = cluster.nodes.take(rows[known], [c.node for c in inside])
        question = replace(self._question, nodes=nodes, cluster=cluster, not_in_view=())
        hard = [
            replace(p, hooks=tuple(h for h in p.hooks if h.spec.kind != "prefer")) for p in self._policies
        ]
        decision = filter_nodes(hard, question, self._attempt)
        self.decisions.append(decision)
        self.failures += [o.failure for o in decision.failures if o.failure]
        if decision.error:
            for candidate in inside:
                self._drop(candidate, "", decision.error)
            return []
        for row in np.flatnonzero(~decision.passed):
            refusal = decision.refusal(int(row))
            if refusal:
                self._drop(inside[row], refusal.policy, refusal.reason.text)
        return [inside[row] for row in np.flatnonzero(decision.passed)]

    def _may_evict(self, candidate: Candidate, policy: Policy, hook: Hook) -> bool:
        for uid in candidate.victims:
            victim = self._victims.get(uid)
            if victim is None:
                self._drop(candidate, policy.name, UNKNOWN_VICTIM.text)
                return False
            protected, failure = self._protected(hook, victim)
            if failure is not None:
                protected = policy.failure_policy == "Fail"
            if protected:
                why = failure.summary if failure else f"pod {victim.key} is protected by {hook.name}"
                self._drop(candidate, policy.name, why)
                return False
        return True

    def _protected(self, hook: Hook, victim: Pod) -> tuple[bool, Failure | None]:
        available = {
            "pod": self._question.pod,
            "victim": victim,
            "cluster": self._question.cluster,
            "now": self._question.now,
        }
        answer, failure, _ = guarded(hook, self._attempt, lambda: lift.protects(hook, available))
        if failure is not None:
            self.failures.append(failure)
        return bool(answer), failure

    def _drop(self, candidate: Candidate, policy: str, text: str) -> None:
        self.dropped.setdefault(candidate.node, Dropped(candidate, policy, text))

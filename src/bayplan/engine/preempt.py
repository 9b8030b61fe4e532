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
from bayplan.engine.decision import NOT_IN_VIEW, Decision
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

    ``question.nodes`` holds the candidates' rows; ``victims`` holds the pods that came with
    the question, by UID; others are looked for on their nodes.
    """
    mine = interested(policies, question.pod)
    run = _Run(mine, question, attempt or Attempt(), victims)
    left = [c for c in candidates if run.has_victims(c)]
    left = run.drop_protected(left)
    left = run.drop_refused(left)
    return PreemptDecision(
        question.pod, tuple(left), tuple(run.dropped.values()), tuple(run.decisions), tuple(run.failures)
    )


@dataclass(frozen=True)
class _Judgement:
    """What was decided about a group of candidates at once."""

    group: list[Candidate]
    decision: Decision
    saw_other_nodes: bool
    """A rule counted over racks or zones, and so saw other candidates' victims gone too."""


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
        if not any(p.of_kind("filter") for p in self._policies):
            return candidates
        known = [c for c in candidates if self._in_view(c)]
        if not known:
            return []
        # A rule that reads each node by itself cannot see what is gone elsewhere: one pass for all.
        together = None if self._reads_the_cluster() else self._judge(known)
        if together is not None and not together.saw_other_nodes:
            return self._passing(together)
        return [c for candidate in known for c in self._passing(self._judge([candidate]))]

    def _reads_the_cluster(self) -> bool:
        return any(
            "cluster" in hook.spec.parameters
            for policy in self._policies
            for kind in ("filter", "prepare")
            for hook in policy.of_kind(kind)
        )

    def _in_view(self, candidate: Candidate) -> bool:
        inside = candidate.node in self._question.cluster.rows
        if not inside:
            self._drop(candidate, "", NOT_IN_VIEW.text)
        return inside

    def _judge(self, group: list[Candidate]) -> "_Judgement":
        """What the filters say of these nodes once all their victims are gone."""
        cluster = self._question.cluster
        if cluster.pods_known:
            cluster = cluster.without_on({c.node: c.victims for c in group})
        names = [c.node for c in group]
        nodes = cluster.nodes.take(cluster.find(names), names)
        question = replace(self._question, nodes=nodes, cluster=cluster, not_in_view=())
        hard = [
            replace(p, hooks=tuple(h for h in p.hooks if h.spec.kind != "prefer")) for p in self._policies
        ]
        decision = filter_nodes(hard, question, self._attempt)
        load = cluster.nodes.load
        saw_other_nodes = len(group) > 1 and load is not None and load.domains_read
        return _Judgement(group, decision, saw_other_nodes=saw_other_nodes)

    def _passing(self, judgement: "_Judgement") -> list[Candidate]:
        group, decision = judgement.group, judgement.decision
        self.decisions.append(decision)
        self.failures += [o.failure for o in decision.failures if o.failure]
        if decision.error:
            for candidate in group:
                self._drop(candidate, "", decision.error)
            return []
        for row in np.flatnonzero(~decision.passed).tolist():
            refusal = decision.refusal(row)
            if refusal:
                self._drop(group[row], refusal.policy, refusal.reason.text)
        return [group[row] for row in np.flatnonzero(decision.passed).tolist()]

    def _may_evict(self, candidate: Candidate, policy: Policy, hook: Hook) -> bool:
        for uid in candidate.victims:
            victim = self._victims.get(uid) or self._pod_on(candidate.node, uid)
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

    def _pod_on(self, node: str, uid: str) -> Pod | None:
        cluster = self._question.cluster
        if not cluster.pods_known or node not in cluster.rows:
            return None
        return next((pod for pod in cluster.pods_on(node) if pod.uid == uid), None)

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

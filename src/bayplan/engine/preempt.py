"""Which candidates for preemption would really help, spare protected pods, and cost least.

kube-scheduler picks candidates without asking extender filters. A node that our filters would still
refuse once its victims are gone must be dropped, or pods die for nothing, again and again. Of the rest
the cheapest are kept: kube-scheduler takes no order from us, so preferring means leaving out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from bayplan.authoring.registry import Policy
from bayplan.authoring.verdict import Reason
from bayplan.engine.cycle import Question, filter_nodes, interested
from bayplan.engine.decision import NOT_IN_VIEW, Decision
from bayplan.engine.guard import Attempt, Failure
from bayplan.engine.victims import Objection, Witness, cheapest
from bayplan.kube.pod import Pod

NO_VICTIMS = Reason("no victims were named for the node")
UNKNOWN_VICTIM = Reason("a victim is not in Bayplan's view, so nobody can say whether it may be evicted")


@dataclass(frozen=True)
class Candidate:
    """A node that could be freed by evicting these pods."""

    node: str
    victims: tuple[str, ...]
    """UIDs, in the order they were sent."""
    violations: int = 0
    """PodDisruptionBudgets that evicting them would violate, as kube-scheduler counts."""


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
    would_drop: tuple[Dropped, ...] = ()
    """Of those kept, what each shadow policy would have left out, were it the only one more."""


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
    attempt = attempt or Attempt()
    everybody = interested(policies, question.pod, shadows=True)
    run = _Run([p for p in everybody if not p.shadow], question, attempt, victims)
    # Where only shadows have something to say, nothing is changed.
    only_shadows = bool(everybody) and all(p.shadow for p in everybody)
    left = run.choose([c for c in candidates if only_shadows or run.has_victims(c)])
    shadows = []
    for policy in everybody:
        if policy.shadow and left:
            # Heard as one that decides, and its failures as those of one that abstains.
            heard = replace(policy, shadow=False, failure_policy="Ignore")
            shadows.append(_Run([heard], question, attempt, victims))
            shadows[-1].choose([c for c in left if c.victims])
    return PreemptDecision(
        question.pod,
        tuple(left),
        tuple(run.dropped.values()),
        tuple(run.decisions),
        tuple(failure for each in (run, *shadows) for failure in each.all_failures),
        tuple(dropped for shadow in shadows for dropped in shadow.dropped.values()),
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
        self.witness = Witness(policies, question, attempt)
        self.dropped: dict[str, Dropped] = {}
        self.decisions: list[Decision] = []
        self.failures: list[Failure] = []

    def has_victims(self, candidate: Candidate) -> bool:
        """kube-scheduler refuses a whole answer for one node without victims."""
        if not candidate.victims:
            self._drop(candidate, "", NO_VICTIMS.text)
        return bool(candidate.victims)

    def choose(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates that are left when all have spoken."""
        return self.drop_expensive(self.drop_refused(self.drop_protected(candidates)))

    @property
    def all_failures(self) -> list[Failure]:
        """Every hook that failed, those about victims first."""
        return [*self.witness.failures, *self.failures]

    def drop_protected(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates none of whose victims a policy protects."""
        guards = self.witness.guards
        if not guards:
            return candidates
        known = [(c, pods) for c in candidates if (pods := self._pods_of(c, guards[0][0])) is not None]
        return [c for c, pods in known if self._agreed(c, self.witness.protects(pods))]

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

    def drop_expensive(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates whose victims cost least, by what each policy says in turn."""
        pricers = self.witness.pricers
        if not pricers:
            return candidates
        if self.witness.needs_nodes:
            candidates = [c for c in candidates if self._in_view(c)]
        prices = {}
        for candidate in candidates:
            pods = self._pods_of(candidate, pricers[0][0])
            said = None if pods is None else self.witness.prices(pods, candidate.node)
            if isinstance(said, Objection):
                self._agreed(candidate, said)
            elif said is not None:
                prices[candidate.node] = said
        priced = {c.node: c for c in candidates if c.node in prices}
        left, outbid = cheapest({node: c.violations for node, c in priced.items()}, prices)
        for one in outbid:
            policy = "" if one.hook is None else pricers[one.hook][0].name
            what = "violate more PodDisruptionBudgets" if one.hook is None else "cost more"
            self._drop(priced[one.node], policy, f"its victims {what} than those on {one.by}")
        return [priced[node] for node in left]

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
        question = msgspec.structs.replace(self._question, nodes=nodes, cluster=cluster, not_in_view=())
        decision = filter_nodes([policy.hard for policy in self._policies], question, self._attempt)
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

    def _pods_of(self, candidate: Candidate, asking: Policy) -> list[Pod] | None:
        """The victims; ``None`` where one of them is not known, and so nobody can judge it."""
        found = [self._victims.get(uid) or self._pod_on(candidate.node, uid) for uid in candidate.victims]
        known = [pod for pod in found if pod is not None]
        if len(known) < len(found):
            self._drop(candidate, asking.name, UNKNOWN_VICTIM.text)
            return None
        return known

    def _agreed(self, candidate: Candidate, objection: Objection | None) -> bool:
        if objection is not None:
            self._drop(candidate, objection.policy, objection.text)
        return objection is None

    def _pod_on(self, node: str, uid: str) -> Pod | None:
        cluster = self._question.cluster
        if not cluster.pods_known or node not in cluster.rows:
            return None
        return next((pod for pod in cluster.pods_on(node) if pod.uid == uid), None)

    def _drop(self, candidate: Candidate, policy: str, text: str) -> None:
        self.dropped.setdefault(candidate.node, Dropped(candidate, policy, text))

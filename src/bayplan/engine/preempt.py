"""Drops candidates for preemption that would not help, whose victims are protected, or that cost too much.

kube-scheduler picks candidates without asking extender filters. A node that our filters would still
refuse once its victims are gone must be dropped, or pods die for nothing, again and again. Of the others
only the cheapest are kept: kube-scheduler ignores our order, so preferring means leaving out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bayplan.authoring.registry import Policy
from bayplan.authoring.verdict import Reason
from bayplan.engine.cycle import Question, interested
from bayplan.engine.decision import NOT_IN_VIEW, Refusal
from bayplan.engine.guard import Attempt, Failure
from bayplan.engine.trials import Trials
from bayplan.engine.victims import Objection, Witness, cheapest
from bayplan.kube.pod import Pod

NO_VICTIMS = Reason("no victims were named for the node")
UNKNOWN_VICTIM = Reason("a victim is not in Bayplan's view, so nobody can say whether it may be evicted")


@dataclass(frozen=True)
class Candidate:
    """A node that could be freed by evicting these pods."""

    node: str
    victims: tuple[str, ...]
    """UIDs of the pods to evict, in the request's order."""
    violations: int = 0
    """How many PodDisruptionBudgets the eviction would violate, as kube-scheduler counts."""


@dataclass(frozen=True)
class Dropped:
    """A candidate that was dropped, by which policy and why."""

    candidate: Candidate
    policy: str
    text: str


@dataclass(frozen=True)
class PreemptDecision:
    """The candidates that are kept, those dropped, and the hooks that failed."""

    pod: Pod
    kept: tuple[Candidate, ...]
    dropped: tuple[Dropped, ...]
    judged: int = 0
    """How many candidates the filters judged."""
    refused: tuple[Refusal, ...] = ()
    """The filters' refusals among those."""
    failures: tuple[Failure, ...] = ()
    would_drop: tuple[Dropped, ...] = ()
    """The kept candidates that each shadow policy would have dropped, if it alone counted too."""


def choose_candidates(
    policies: Sequence[Policy],
    question: Question,
    candidates: Sequence[Candidate],
    *,
    victims: Mapping[str, Pod],
    attempt: Attempt | None = None,
) -> PreemptDecision:
    """Keep the candidates that the pod could use once their victims are gone.

    ``victims`` are the pods that came with the request, by UID; others are looked up on their nodes.
    """
    attempt = attempt or Attempt()
    everybody = interested(policies, question.pod, shadows=True)
    run = _Run([p for p in everybody if not p.shadow], question, attempt, victims)
    # With shadow policies only, the answer must not change.
    only_shadows = bool(everybody) and all(p.shadow for p in everybody)
    left = run.choose([c for c in candidates if only_shadows or run.has_victims(c)])
    shadows = []
    for policy in everybody:
        if policy.shadow and left:
            # Run as a deciding policy, but one whose failures make it abstain.
            heard = replace(policy, shadow=False, failure_policy="Ignore")
            shadows.append(_Run([heard], question, attempt, victims))
            shadows[-1].choose([c for c in left if c.victims])
    return PreemptDecision(
        question.pod,
        tuple(left),
        tuple(run.dropped.values()),
        run.judged,
        tuple(run.refused),
        tuple(failure for each in (run, *shadows) for failure in each.all_failures),
        tuple(dropped for shadow in shadows for dropped in shadow.dropped.values()),
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
        self.witness = Witness(policies, question, attempt)
        self.dropped: dict[str, Dropped] = {}
        self.judged = 0
        self.refused: list[Refusal] = []
        self.failures: list[Failure] = []

    def has_victims(self, candidate: Candidate) -> bool:
        """Drop a candidate without victims: kube-scheduler rejects a whole answer that contains one."""
        if not candidate.victims:
            self._drop(candidate, "", NO_VICTIMS.text)
        return bool(candidate.victims)

    def choose(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates that all policies keep."""
        return self.drop_expensive(self.drop_refused(self.drop_protected(candidates)))

    @property
    def all_failures(self) -> list[Failure]:
        """Every failure, those of hooks about victims first."""
        return [*self.witness.failures, *self.failures]

    def drop_protected(self, candidates: list[Candidate]) -> list[Candidate]:
        """Drop the candidates with a victim that a policy protects."""
        guards = self.witness.guards
        if not guards:
            return candidates
        known = [(c, pods) for c in candidates if (pods := self._pods_of(c, guards[0][0])) is not None]
        return [c for c, pods in known if self._agreed(c, self.witness.protects(pods))]

    def drop_refused(self, candidates: list[Candidate]) -> list[Candidate]:
        """Drop the candidates that a hard filter refuses even with the victims gone."""
        if not any(p.of_kind("filter") for p in self._policies):
            return candidates
        known = {c.node: c for c in candidates if self._in_view(c)}
        trials = Trials(self._policies, self._question, self._attempt)
        answers = trials.answers({node: frozenset(c.victims) for node, c in known.items()})
        refusals: dict[str, Refusal] = {}
        error = ""
        for node, answer in answers:
            if isinstance(answer, str):
                error = answer
                break
            if answer is not None:
                refusals[node] = answer
        self.failures += trials.failures
        if error:
            # The pod's next filter would fail again, so its victims would die for nothing.
            for candidate in known.values():
                self._drop(candidate, "", error)
            return []
        self.judged = len(known)
        self.refused = list(refusals.values())
        for node, refusal in refusals.items():
            self._drop(known[node], refusal.policy, refusal.reason.text)
        return [c for node, c in known.items() if node not in refusals]

    def drop_expensive(self, candidates: list[Candidate]) -> list[Candidate]:
        """Keep the candidates whose victims cost least, by each policy's price in turn."""
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

    def _in_view(self, candidate: Candidate) -> bool:
        inside = candidate.node in self._question.cluster.rows
        if not inside:
            self._drop(candidate, "", NOT_IN_VIEW.text)
        return inside

    def _pods_of(self, candidate: Candidate, asking: Policy) -> list[Pod] | None:
        """The victims as pods; drops the candidate and returns ``None`` if one is not known."""
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

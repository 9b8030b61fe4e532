"""Runs the hooks of all policies for one pod over a table of nodes, and records a `Decision`."""

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring import lift
from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.authoring.verdict import Score, Verdict
from bayplan.engine.again import Again
from bayplan.engine.combine import combine, normalise
from bayplan.engine.decision import NOBODY, Decision, Outcome, nobody
from bayplan.engine.guard import CURRENT_POD, Attempt, Failure, guarded
from bayplan.engine.memory import Memory, Recalled
from bayplan.engine.node_hooks import NodeHooks
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.table import NodeTable


class Question(msgspec.Struct, frozen=True):
    """Where may this pod go, among these nodes, in this cluster, at this moment?"""

    pod: Pod
    nodes: NodeTable
    cluster: Snapshot
    now: datetime
    not_in_view: tuple[str, ...] = ()
    """Names that were asked about and are not in the cluster."""
    known: NodeHooks | None = None
    """What some hooks say about every node of this cluster, so that they need not be called."""


def interested(policies: Sequence[Policy], pod: Pod, *, shadows: bool = False) -> list[Policy]:
    """The policies whose scope matches this pod; shadow policies only with ``shadows``."""
    return [
        p for p in policies if (shadows or not p.shadow) and (p.scope is EVERY_POD or p.scope.matches(pod))
    ]


def filters(policies: Sequence[Policy]) -> list[tuple[Policy, Hook]]:
    """Every hard filter, in the order in which they run: those marked ``first``, then the others."""
    every = [(policy, hook) for policy in policies for hook in policy.of_kind("filter")]
    return sorted(every, key=lambda found: not found[1].spec.first)


def filter_nodes(policies: Sequence[Policy], question: Question, attempt: Attempt | None = None) -> Decision:
    """Run the hard filters (``filter``) and then the soft ones (``prefer``)."""
    cycle = _Cycle(policies, question, attempt or Attempt())
    cycle.filter()
    return cycle.decision(scored=False)


def filter_to_allocate(
    policies: Sequence[Policy], question: Question, attempt: Attempt
) -> tuple[Decision, list[tuple[Policy, Any]]]:
    """As `filter_nodes`, and the policies with an ``allocate`` hook, each with its prepared value.

    There are none if no node passed. Policies whose ``prepare`` failed are left out.
    """
    cycle = _Cycle(policies, question, attempt)
    cycle.filter()
    ready = [
        (policy, available["prepared"])
        for policy in (cycle.policies if cycle.going_on else ())
        if policy.of_kind("allocate") and (available := cycle.prepare(policy)) is not None
    ]
    return cycle.decision(scored=False), ready


def score_nodes(policies: Sequence[Policy], question: Question, attempt: Attempt | None = None) -> Decision:
    """Score each node: the weighted mean of the policies' scores."""
    cycle = _Cycle(policies, question, attempt or Attempt())
    cycle.score()
    return cycle.decision(scored=True)


def filter_and_score(
    policies: Sequence[Policy],
    question: Question,
    attempt: Attempt,
    *,
    memory: Memory | None = None,
    recalled: Recalled | None = None,
    more_than: int = 1,
) -> tuple[Decision, Decision | None]:
    """Filter, then score the nodes that passed, if there are more than ``more_than``.

    Each policy prepares once. If every node passed, the table itself is scored, so that its columns are
    reused. With ``recalled`` outcomes of a similar pod, hooks run only on the nodes that changed, as far as
    their ``reads`` promise allows it; the decision is the same. The outcomes go into ``memory``.
    """
    nodes = question.nodes
    cycle = _Cycle(policies, question, attempt, Again.of_filters(recalled, nodes))
    cycle.filter()
    filtered = cycle.decision(scored=False)
    passed = filtered.passed
    left = passed.nonzero()[0]
    scored = None
    if not filtered.error and left.size > more_than:
        table = nodes if left.size == len(nodes) else nodes.take(left)
        after = cycle.over(table, Again.of_scores(recalled, table, passed=passed, rows=left))
        after.score()
        scored = after.decision(scored=True)
    # Verdicts given with expected pods in place do not hold without them.
    if memory is not None and not cycle.with_expected:
        memory.keep(question.cluster, filtered, scored)
    return filtered, scored


class _Cycle:
    """The state of one evaluation: one pod, one table of nodes."""

    def __init__(
        self, policies: Sequence[Policy], question: Question, attempt: Attempt, again: Again | None = None
    ) -> None:
        # Shadow policies run last: they see what the others left, and change nothing.
        self.policies = interested(policies, question.pod, shadows=True)
        if any(policy.shadow for policy in self.policies):
            self.policies.sort(key=lambda policy: policy.shadow)
        self._question = question
        self._attempt = attempt
        self._again = again
        self._started = time.perf_counter()
        self._outcomes: list[Outcome] = []
        self._refused_by = nobody(len(question.nodes))
        self._error = ""
        self.with_expected = False
        """Whether a node was refused because of the pods that it is kept for."""
        # By the policy's `id`: fastest, and a policy with unhashable arguments cannot be hashed. Names are
        # unique in a configuration only; a direct caller of the engine may use one twice.
        self._available: dict[int, dict[str, Any]] = {}
        self._pod_in_logs = CURRENT_POD.set(question.pod.key)

    def over(self, nodes: NodeTable, again: Again | None) -> "_Cycle":
        """A cycle for the same pod over other nodes, which reuses what the policies prepared."""
        other = _Cycle(
            self.policies, msgspec.structs.replace(self._question, nodes=nodes), self._attempt, again
        )
        other._available = {
            number: {**available, "nodes": nodes} if available else available
            for number, available in self._available.items()
        }
        return other

    @property
    def going_on(self) -> bool:
        """Whether a node is left and no policy with ``failurePolicy: Fail`` failed."""
        return not self._error and bool((self._refused_by == NOBODY).any())

    def filter(self) -> None:
        """Run the hard filters of all policies, then the soft ones."""
        for policy, hook in filters(self.policies):
            self.refuse(policy, hook)
        if self._question.cluster.expected:
            self._refuse_beside_expected()
        for policy in self.policies:
            for hook in policy.of_kind("prefer"):
                self.dislike(policy, hook)

    def refuse(self, policy: Policy, hook: Hook) -> None:
        """Run a hard filter over all nodes; a node keeps the first reason that it got."""
        verdict = self._verdict(policy, hook)
        if verdict is not None and verdict.reasons and not policy.shadow:
            if self._refused_by.flags.writeable:
                self._mark(verdict.refused & (self._refused_by == NOBODY))
            else:
                # The first filter that refuses a node; `_refused_by` is still the shared constant.
                number = np.int16(len(self._outcomes) - 1)
                self._refused_by = np.where(verdict.codes, number, np.int16(NOBODY))

    def _mark(self, refused: NDArray[np.bool_] | NDArray[np.intp]) -> None:
        """Mark these nodes as refused by the last outcome."""
        if not self._refused_by.flags.writeable:
            self._refused_by = self._refused_by.copy()
        self._refused_by[refused] = len(self._outcomes) - 1

    def _refuse_beside_expected(self) -> None:
        """Run the hard filters again over nodes kept for other pods, as if those pods were there."""
        question = self._question
        expected, names = question.cluster.expected, question.nodes.names
        left = np.flatnonzero(self._refused_by == NOBODY)
        rows = np.array([row for row in left.tolist() if names[row] in expected], dtype=np.intp)
        if self._error or not rows.size:
            return
        coming = {names[row]: expected[names[row]] for row in rows.tolist()}
        cluster = question.cluster.cases(coming=coming)
        nodes = cluster.nodes.take(cluster.find(list(coming)), list(coming))
        beside = msgspec.structs.replace(question, nodes=nodes, cluster=cluster, known=None)
        found = filter_nodes([policy.hard for policy in self.policies], beside, self._attempt)
        self._error = found.error
        for number, outcome in enumerate(found.outcomes):
            refused = rows[found.refused_by == number]
            if outcome.verdict is not None and refused.size:
                verdict = outcome.verdict.spread(rows, len(names))
                self._outcomes.append(msgspec.structs.replace(outcome, verdict=verdict))
                self._mark(refused)
                self.with_expected = True
            elif outcome.failure:
                self._outcomes.append(outcome)

    def dislike(self, policy: Policy, hook: Hook) -> None:
        """Run a soft filter over the nodes that are left; it is void if it would leave none."""
        left = np.flatnonzero(self._refused_by == NOBODY)
        # The least of no nodes is an error, which would hide why there are none.
        verdict = self._verdict(policy, hook, left) if left.size else None
        if verdict is None:
            return
        if verdict.refused.sum() < left.size:
            if not policy.shadow:
                self._mark(verdict.refused)
        else:
            self._outcomes[-1] = msgspec.structs.replace(self._outcomes[-1], void=True)

    def score(self) -> None:
        """Run the score hooks of all policies."""
        for policy in self.policies:
            for hook in policy.of_kind("score"):
                self.rate(policy, hook)

    def rate(self, policy: Policy, hook: Hook) -> None:
        """Run a score hook and put its numbers on the common scale."""
        known = self._known(policy, hook)
        if known is None and self._again is not None:
            known = self._again.score(hook, partial(self._score_of, policy, hook))
        if known is not None:
            self._outcomes.append(known)
            return
        available = self.prepare(policy)
        if available is None:
            return
        score, failure, seconds = guarded(hook, self._attempt, lambda: lift.scores(hook, available))
        if failure is not None:
            self._fail(policy, hook, failure, seconds)
        elif score is None:
            self._outcomes.append(Outcome(hook, seconds, shadow=policy.shadow))
        else:
            spec = hook.spec
            values = normalise(score.scores, range=spec.range, best=spec.best)
            self._outcomes.append(
                Outcome(
                    hook,
                    seconds,
                    score=score,
                    normalised=values,
                    weight=policy.weight * spec.weight,
                    shadow=policy.shadow,
                )
            )

    def decision(self, *, scored: bool) -> Decision:
        """The decision, from all outcomes."""
        CURRENT_POD.reset(self._pod_in_logs)
        count = len(self._question.nodes)
        opinions = [o for o in self._outcomes if o.normalised is not None and not o.shadow]
        total = None
        if scored and opinions:
            values = [o.normalised for o in opinions if o.normalised is not None]
            total = combine(values, [o.weight for o in opinions], count)
        return Decision(
            pod=self._question.pod,
            nodes=self._question.nodes,
            outcomes=tuple(self._outcomes),
            refused_by=self._refused_by,
            total=total,
            error=self._error,
            not_in_view=self._question.not_in_view,
            judged=bool(self.policies),
            seconds=time.perf_counter() - self._started,
        )

    def _verdict(self, policy: Policy, hook: Hook, rows: NDArray[np.intp] | None = None) -> Verdict | None:
        """Run a filter hook over all nodes, or over these rows only."""
        if rows is None:
            known = self._known(policy, hook)
            if known is None and self._again is not None:
                known = self._again.verdict(hook, partial(self._verdict_of, policy, hook))
            if known is not None:
                self._outcomes.append(known)
                return known.verdict
        available = self.prepare(policy)
        if available is None:
            return None
        if rows is not None:
            available = {**available, "nodes": self._question.nodes.take(rows)}
        verdict, failure, seconds = guarded(hook, self._attempt, lambda: lift.verdict(hook, available))
        if failure is not None:
            self._fail(policy, hook, failure, seconds)
            return None
        if verdict is not None and rows is not None:
            verdict = verdict.spread(rows, len(self._question.nodes))
        self._outcomes.append(Outcome(hook, seconds, verdict, shadow=policy.shadow))
        return verdict

    def _known(self, policy: Policy, hook: Hook) -> Outcome | None:
        """The hook's outcome for these nodes, if its results are known for every node of the cluster."""
        known = self._question.known
        # A policy that was given up has no say, whatever some of its hooks would say.
        if known is None or policy.shadow or hook.policy in self._attempt.given_up:
            return None
        return known.outcome(hook, self._question.nodes)

    def _verdict_of(self, policy: Policy, hook: Hook, nodes: NodeTable) -> Verdict | None:
        """A filter's verdict on these nodes; ``None`` if it fails: then it runs over all nodes."""
        available = self.prepare(policy)
        if available is None:
            return None
        return guarded(hook, self._attempt, lambda: lift.verdict(hook, {**available, "nodes": nodes}))[0]

    def _score_of(self, policy: Policy, hook: Hook, nodes: NodeTable) -> Score | None:
        """A score hook's scores of these nodes; ``None`` if it fails or has no opinion."""
        available = self.prepare(policy)
        if available is None:
            return None
        return guarded(hook, self._attempt, lambda: lift.scores(hook, {**available, "nodes": nodes}))[0]

    def prepare(self, policy: Policy) -> dict[str, Any] | None:
        """The values for the parameters of the policy's hooks; ``None`` once its ``prepare`` failed."""
        known = self._available.get(id(policy))
        if known is not None:
            return known or None
        question = self._question
        available: dict[str, Any] = {
            "pod": question.pod,
            "nodes": question.nodes,
            "cluster": question.cluster,
            "now": question.now,
            "prepared": None,
        }
        for hook in policy.of_kind("prepare"):
            ready, failure, seconds = guarded(hook, self._attempt, lambda h=hook: h.call(available))  # type: ignore[misc]
            if failure is not None:
                self._fail(policy, hook, failure, seconds)
                self._available[id(policy)] = {}
                return None
            self._outcomes.append(Outcome(hook, seconds, shadow=policy.shadow))
            available["prepared"] = ready
        self._available[id(policy)] = available
        return available

    def _fail(self, policy: Policy, hook: Hook, failure: Failure, seconds: float) -> None:
        ignored = policy.failure_policy == "Ignore" or policy.shadow
        self._outcomes.append(Outcome(hook, seconds, failure=failure, ignored=ignored, shadow=policy.shadow))
        if not ignored and not self._error:
            self._error = f"policy {policy.name!r} failed: {failure.text}"

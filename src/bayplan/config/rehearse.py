"""A dry run of every hook on 0, 1 and 3 nodes: what would break in production breaks here, promises too."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from threading import Thread
from typing import TypeVar

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.config.made_up import example_cluster, plain_pod
from bayplan.config.problems import Problems
from bayplan.config.time_limits import LimitOf, TimedAttempt
from bayplan.engine.commit import commit, commits
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision
from bayplan.engine.entering import Entrance
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import membership
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.engine.promise import tried, unmade
from bayplan.snapshot.bynode import Scalar
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Latch, Reading, Readings, Source

T = TypeVar("T")
A = TypeVar("A", bound=Attempt)

# Nobody looks at the clock at the very moment when a call has begun.
_MOST = 0.9
# Enough of a large cluster for what is asked node by node.
_SOME = 20


@dataclass(frozen=True)
class Limits:
    """How long a dry run may take, in seconds: far more than a first call that loads something large."""

    one_call: float = 10.0
    all_calls: float = 10.0
    """Of all hooks of one policy together."""


NOT_LONG = Limits()
"""For a server that is to start."""
LONGER = Limits(all_calls=60.0)
"""For somebody who waits for the answer: hooks that are slow are tried twice."""


def rehearse(
    policies: Sequence[Policy],
    *,
    pods_known: bool,
    cluster: Snapshot | None = None,
    limits: Limits = NOT_LONG,
) -> list[str]:
    """What went wrong, hook by hook; empty when all is well.

    ``pods_known`` says whether the server will know the placed pods: a policy that reads ``cpu.free``
    cannot work with the nodes of a request alone. With a ``cluster`` its nodes are tried too.
    `PolicyError` for a hook that does not return.
    """
    rehearsal = Rehearsal(pods_known=pods_known, cluster=cluster, limits=limits)
    for policy in policies:
        rehearsal.of(policy)
    return rehearsal.failures


class Rehearsal:
    """A dry run of some policies, one after the other, and what was found."""

    def __init__(
        self,
        *,
        pods_known: bool,
        cluster: Snapshot | None = None,
        limit_of: LimitOf | None = None,
        limits: Limits = NOT_LONG,
    ) -> None:
        stages = [example_cluster(count) for count in (0, 1, 3)]
        if not pods_known:
            stages = [Snapshot.build(stage.nodes.objects, None) for stage in stages]
        self._stages = stages if cluster is None else [*stages, cluster]
        self._limit_of = limit_of
        self._limits = limits
        self._problems = Problems()
        self.late: list[str] = []
        """Hooks that took longer than the server would wait; none where no ``limit_of`` was given."""

    @property
    def failures(self) -> list[str]:
        """What went wrong, hook by hook."""
        return self._problems.texts

    def of(self, policy: Policy) -> None:
        """Call every hook of the policy on each stage; `PolicyError` for one that does not return."""
        every_pod = replace(policy, scope=EVERY_POD, shadow=False)
        _in_time(policy, partial(self._ask, every_pod), self._limits, TimedAttempt(limit_of=self._limit_of))

    def _ask(self, policy: Policy, attempt: TimedAttempt) -> None:
        # The last stage, the cluster's where there is one, has the texts that are kept.
        for rank, stage in enumerate(self._stages):
            cluster = stage.with_readings(_readings(policy, stage))
            question = Question(plain_pod(), cluster.nodes, cluster, datetime.now(UTC))
            where = "" if len(cluster.nodes) else " (with no nodes)"
            for step in _STEPS:
                texts = list(step(policy, question, attempt))
                if attempt.late:
                    # A first call may load something: that is over before a server is asked anything.
                    attempt.late.clear()
                    texts = list(step(policy, question, attempt))
                self._problems.add((text + where for text in texts), rank=rank)
                if attempt.late:
                    self.late += attempt.told(len(cluster.nodes))
                    return


def promises_unmade(
    policies: Sequence[Policy], *, cluster: Snapshot | None = None, limits: Limits = NOT_LONG
) -> list[Hook]:
    """Hooks that could say ``reads="node"``, as far as a few nodes show, where answers would be known then.

    One policy that looks at more than a node is enough to have all of them asked about each pod: then there
    is nothing to be won, and nobody is named.
    """
    stage = cluster if cluster is not None and len(cluster.nodes) > 1 else example_cluster(3)
    question = Question(plain_pod(), stage.nodes, stage, datetime.now(UTC))
    found: list[Hook] = []
    for policy in policies:
        every_pod = replace(policy, scope=EVERY_POD)
        hooks = _in_time(policy, partial(unmade, every_pod, question), limits, Attempt())
        if hooks is None:
            return []
        found += hooks
    return found


def _in_time(policy: Policy, work: Callable[[A], T], limits: Limits, attempt: A) -> T:
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(work(attempt))
        except BaseException as error:
            found.set_exception(error)

    # A daemon, since a thread that never comes back must not keep the command from ending.
    Thread(target=run, name=f"bayplan-rehearsal-{policy.name}", daemon=True).start()
    ends = time.monotonic() + limits.all_calls
    while (left := ends - time.monotonic()) > 0:
        try:
            return found.result(min(left, limits.one_call))
        except TimeoutError:
            hook, seconds = attempt.hook, time.monotonic() - attempt.since
            if hook is not None and seconds >= _MOST * limits.one_call:
                raise PolicyError(
                    f"{hook.title}: still running after {seconds:.2g} s in the dry run"
                ) from None
    calls = sum(ran.calls for ran in attempt.ran.values())
    raise PolicyError(
        f"{attempt.hook.title if attempt.hook else policy.name}: the dry run of policy {policy.name!r} is not"
        f" over after {limits.all_calls:g} s and {calls} calls of its hooks; make them faster"
    )


def _filtered(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    yield from _failures_of(filter_nodes([policy], question, attempt))


def _scored(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    yield from _failures_of(score_nodes([policy], question, attempt))


def _failures_of(decision: Decision) -> Iterator[str]:
    return (outcome.failure.text for outcome in decision.failures if outcome.failure)


def _committed(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    if question.cluster.pods_known and commits([policy]):
        for name in question.nodes.names[:_SOME]:
            yield from (failure.text for failure in commit([policy], question, name, attempt).failures)


def _ganged(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    for hook in policy.of_kind("gang"):
        said = membership([replace(policy, hooks=(hook,))], question.pod, attempt)
        yield from (failure.text for _, failure in said.failures)


def _preempted(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    if not policy.of_kind("protect") and not policy.of_kind("victims"):
        return
    victims = [plain_pod(f"victim-of-{name}", node=name) for name in question.nodes.names[:_SOME]]
    candidates = [Candidate(victim.node_name, (victim.uid,)) for victim in victims]
    known = {victim.uid: victim for victim in victims}
    chosen = choose_candidates([policy], question, candidates, victims=known, attempt=attempt)
    yield from (failure.text for failure in chosen.failures)


def _entered(policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
    for hook in (*policy.of_kind("gate"), *policy.of_kind("order")):
        answer = Entrance([replace(policy, hooks=(hook,))]).ask(question.pod, question.cluster, attempt)
        yield from (failure.text for _, failure in answer.failures)


# Not `bound`: it is there to tell somebody, and nothing was bound.
_STEPS = (_filtered, _scored, tried, _committed, _ganged, _preempted, _entered)


def _readings(policy: Policy, stage: Snapshot) -> Readings:
    """Values of every source that the policy names, for the first nodes; the others have none."""
    fields: dict[str, dict[str, dict[str, Scalar]]] = {}
    for named in policy.columns:
        column = named.column if isinstance(named, Latch) else named
        if isinstance(column, Source):
            value: Scalar = "text" if column.type is str else 1.0
            there = dict.fromkeys(stage.nodes.names[:2], value)
            fields.setdefault(column.source, {})[column.field] = there
    return Readings({name: Reading(by_name) for name, by_name in fields.items()})

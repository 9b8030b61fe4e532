"""The dry run: calls every hook with 0, 1 and 3 nodes, to find errors and broken promises early."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.config.in_time import NOT_LONG, Limits, in_time
from bayplan.config.lines import Lines
from bayplan.config.made_up import example_cluster, plain_pod
from bayplan.config.problems import Problems
from bayplan.config.refusals import Refusals
from bayplan.config.steps import STEPS, failures_of
from bayplan.config.time_limits import LimitOf, TimedAttempt
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.guard import Attempt
from bayplan.engine.promise import unmade
from bayplan.kube.pod import Pod
from bayplan.snapshot.bynode import Scalar
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Latch, Reading, Readings, Source


def rehearse(
    policies: Sequence[Policy],
    *,
    pods_known: bool,
    cluster: Snapshot | None = None,
    limits: Limits = NOT_LONG,
) -> list[str]:
    """The problems, hook by hook; empty if there are none.

    ``pods_known`` says whether the server will know the placed pods: a policy that reads ``cpu.free``
    cannot work with the nodes of a request alone. With a ``cluster`` its nodes are tried too.
    Raises `PolicyError` for a hook that does not return.
    """
    rehearsal = Rehearsal(pods_known=pods_known, cluster=cluster, limits=limits)
    for policy in policies:
        rehearsal.of(policy)
    return rehearsal.failures


class Rehearsal:
    """A dry run of some policies, one after another, and its results."""

    def __init__(
        self,
        *,
        pods_known: bool,
        cluster: Snapshot | None = None,
        given: Sequence[Pod] = (),
        there: Sequence[Pod] = (),
        limit_of: LimitOf | None = None,
        limits: Limits = NOT_LONG,
        lines: Lines | None = None,
    ) -> None:
        """``given`` are pods to try on every stage, ``there`` are pods of the cluster's kinds.

        The lines that are run are noted in ``lines``.
        """
        stages = [example_cluster(count) for count in (0, 1, 3)]
        if not pods_known:
            stages = [Snapshot.build(stage.nodes.objects, None) for stage in stages]
        self._stages = stages if cluster is None else [*stages, cluster]
        scenes = [(given, stages[-1]), *([] if cluster is None else [((*given, *there), cluster)])]
        self._scenes = [(pod, stage) for pods, stage in scenes for pod in pods]
        self._cluster = cluster
        self._limit_of = limit_of
        self._limits = limits
        self._watching = contextlib.nullcontext if lines is None else lines.watching
        self._seconds_left = limits.all_other_pods
        self._problems = Problems()
        self.late: list[str] = []
        """Hooks that took longer than the server would wait; empty without ``limit_of``."""
        self.cut_short: list[str] = []
        """Policies for which there was no time to try all pods."""
        self.refusals = Refusals()
        """The verdicts of the filters."""
        self.called: set[int] = set()
        """The hooks that were called, by identity."""

    @property
    def failures(self) -> list[str]:
        """The problems, hook by hook."""
        return self._problems.texts

    def of(self, policy: Policy) -> None:
        """Call every hook of the policy on each stage; raises `PolicyError` for one that does not return."""
        attempt = TimedAttempt(limit_of=self._limit_of)
        in_time(policy, partial(self._ask, replace(policy, shadow=False)), self._limits, attempt)
        self.called.update(number for number, ran in attempt.ran.items() if ran.calls)

    def _ask(self, policy: Policy, attempt: TimedAttempt) -> None:
        every_pod = replace(policy, scope=EVERY_POD)
        # Texts of the last stage, which is the cluster if there is one, are preferred.
        for rank, stage in enumerate(self._stages):
            if not self._asked(every_pod, plain_pod(), stage, attempt, rank=rank):
                return
        began = time.monotonic()
        try:
            self._ask_about_others(policy, every_pod, attempt)
        finally:
            self._seconds_left -= time.monotonic() - began

    def _ask_about_others(self, policy: Policy, every_pod: Policy, attempt: TimedAttempt) -> None:
        seconds = max(0.0, min(self._limits.other_pods, self._seconds_left))
        ends = time.monotonic() + seconds
        mine = [(pod, stage) for pod, stage in self._scenes if policy.scope.matches(pod)]
        for number, (pod, stage) in enumerate(mine):
            if time.monotonic() > ends:
                self.cut_short.append(
                    f"policy {policy.name!r}: time was up ({seconds:.2g} s) after"
                    f" {number} of {len(mine)} questions about other pods than a plain one"
                )
                return
            # A text without the name of a pod is preferred: it fails for all pods.
            rank = -1 if stage is self._stages[-1] else -2
            if not self._asked(every_pod, pod, stage, attempt, rank=rank):
                return

    def _asked(self, policy: Policy, pod: Pod, stage: Snapshot, attempt: TimedAttempt, *, rank: int) -> bool:
        """Call every hook for one pod; whether to go on."""
        cluster = stage.with_readings(_readings(policy, stage))
        question = Question(pod, cluster.nodes, cluster, datetime.now(UTC))
        # Errors do not name the made-up pod, which the user does not know.
        attempt.pod = pod.key if rank < 0 else ""
        where = " (with no nodes)" if not len(cluster.nodes) else f" (for pod {pod.key})" if rank < 0 else ""
        for step in (self._filtered, *STEPS):
            with self._watching():
                texts = list(step(policy, question, attempt))
            if attempt.late:
                # A first call may load something, which a server does before its first request. And tracing
                # makes hooks slower.
                attempt.late.clear()
                texts = list(step(policy, question, attempt))
            self._problems.add((text + where for text in texts), rank=rank)
            if attempt.late:
                self.late += attempt.told(len(cluster.nodes))
                return False
        return True

    def _filtered(self, policy: Policy, question: Question, attempt: Attempt) -> Iterator[str]:
        decision = filter_nodes([policy], question, attempt)
        of_cluster = self._cluster is not None and question.nodes.names == self._cluster.nodes.names
        self.refusals.note(policy, decision, of_cluster=of_cluster)
        return failures_of(decision)


def promises_unmade(
    policies: Sequence[Policy], *, cluster: Snapshot | None = None, limits: Limits = NOT_LONG
) -> list[Hook]:
    """Hooks that could declare ``reads="node"``, as far as a few nodes show, if that would save calls.

    If one policy reads more than the node, only hooks that are called node by node are named: reusing the
    result of one over the table saves next to nothing then.
    """
    stage = cluster if cluster is not None and len(cluster.nodes) > 1 else example_cluster(3)
    question = Question(plain_pod(), stage.nodes, stage, datetime.now(UTC))

    def ask(policy: Policy) -> list[Hook] | None:
        every_pod = replace(policy, scope=EVERY_POD)
        return in_time(policy, partial(unmade, every_pod, question), limits, Attempt())

    found = [ask(policy) for policy in policies]
    if None not in found:
        return [hook for hooks in found for hook in hooks or ()]
    alone = [
        replace(policy, hooks=(hook,))
        for policy in policies
        for hook in policy.hooks
        if hook.spec.per_node and not policy.of_kind("prepare")
    ]
    return [hook for each in alone for hook in ask(each) or ()]


def _readings(policy: Policy, stage: Snapshot) -> Readings:
    """Made-up values of every source that the policy declares, for the first nodes only."""
    fields: dict[str, dict[str, dict[str, Scalar]]] = {}
    for named in policy.columns:
        column = named.column if isinstance(named, Latch) else named
        if isinstance(column, Source):
            value: Scalar = "text" if column.type is str else 1.0
            there = dict.fromkeys(stage.nodes.names[:2], value)
            fields.setdefault(column.source, {})[column.field] = there
    return Readings({name: Reading(by_name) for name, by_name in fields.items()})

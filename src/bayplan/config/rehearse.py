"""A dry run of every hook on 0, 1 and 3 nodes: what would break in production breaks here, promises too."""

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
        given: Sequence[Pod] = (),
        there: Sequence[Pod] = (),
        limit_of: LimitOf | None = None,
        limits: Limits = NOT_LONG,
        lines: Lines | None = None,
    ) -> None:
        """``given`` are pods to ask about everywhere, ``there`` are those of the cluster's kinds.

        What is run is noted in ``lines``.
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
        """Hooks that took longer than the server would wait; none where no ``limit_of`` was given."""
        self.cut_short: list[str] = []
        """Policies for which there was no time to ask about all pods."""
        self.refusals = Refusals()
        """What filters said."""
        self.called: set[int] = set()
        """The hooks that were called, by identity."""

    @property
    def failures(self) -> list[str]:
        """What went wrong, hook by hook."""
        return self._problems.texts

    def of(self, policy: Policy) -> None:
        """Call every hook of the policy on each stage; `PolicyError` for one that does not return."""
        attempt = TimedAttempt(limit_of=self._limit_of)
        in_time(policy, partial(self._ask, replace(policy, shadow=False)), self._limits, attempt)
        self.called.update(number for number, ran in attempt.ran.items() if ran.calls)

    def _ask(self, policy: Policy, attempt: TimedAttempt) -> None:
        every_pod = replace(policy, scope=EVERY_POD)
        # Of the stages the last one, the cluster's where there is one, has the texts that are kept.
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
            # A text without the name of a pod is better: it is wrong for all of them.
            rank = -1 if stage is self._stages[-1] else -2
            if not self._asked(every_pod, pod, stage, attempt, rank=rank):
                return

    def _asked(self, policy: Policy, pod: Pod, stage: Snapshot, attempt: TimedAttempt, *, rank: int) -> bool:
        """Call every hook about one pod; whether it is worth going on."""
        cluster = stage.with_readings(_readings(policy, stage))
        question = Question(pod, cluster.nodes, cluster, datetime.now(UTC))
        # The plain one is none that anybody knows.
        attempt.pod = pod.key if rank < 0 else ""
        where = " (with no nodes)" if not len(cluster.nodes) else f" (for pod {pod.key})" if rank < 0 else ""
        for step in (self._filtered, *STEPS):
            with self._watching():
                texts = list(step(policy, question, attempt))
            if attempt.late:
                # A first call may load something: that is over before a server is asked anything. And whoever
                # is watched is slower.
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
    """Hooks that could say ``reads="node"``, as far as a few nodes show, where answers would be known then.

    One policy that looks at more than a node is enough to have all of them asked about each pod: then there
    is nothing to be won, and nobody is named.
    """
    stage = cluster if cluster is not None and len(cluster.nodes) > 1 else example_cluster(3)
    question = Question(plain_pod(), stage.nodes, stage, datetime.now(UTC))
    found: list[Hook] = []
    for policy in policies:
        every_pod = replace(policy, scope=EVERY_POD)
        hooks = in_time(policy, partial(unmade, every_pod, question), limits, Attempt())
        if hooks is None:
            return []
        found += hooks
    return found


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

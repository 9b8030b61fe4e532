"""A dry run of every hook on 0, 1 and 3 nodes: what would break in production breaks here, promises too."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import Thread
from typing import TypeVar

import msgspec

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.engine.commit import commit, commits
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.entering import Entrance
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import membership
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.engine.promise import tried, unmade
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.bynode import Scalar
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Latch, Reading, Readings, Source

T = TypeVar("T")

# Far more than a first call takes that loads something large.
LIMIT_SECONDS = 10.0
# Enough of a large cluster for what is asked node by node.
_SOME = 20


def rehearse(
    policies: Sequence[Policy],
    *,
    pods_known: bool,
    cluster: Snapshot | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> list[str]:
    """What went wrong, hook by hook; empty when all is well.

    ``pods_known`` says whether the server will know the placed pods: a policy that reads ``cpu.free``
    cannot work with the nodes of a request alone. With a ``cluster`` its nodes are tried too.
    `PolicyError` for a hook that does not return.
    """
    stages = [example_cluster(count) for count in (0, 1, 3)]
    if not pods_known:
        stages = [Snapshot.build(stage.nodes.objects, None) for stage in stages]
    if cluster is not None:
        stages.append(cluster)
    problems: dict[str, None] = {}
    for policy in policies:
        every_pod = replace(policy, scope=EVERY_POD, shadow=False)
        for text in _in_time(policy, partial(_problems, every_pod, stages), limit_seconds=limit_seconds):
            problems[text] = None
    return list(problems)


def promises_unmade(
    policies: Sequence[Policy], *, cluster: Snapshot | None = None, limit_seconds: float = LIMIT_SECONDS
) -> list[Hook]:
    """Hooks that could say ``reads="node"``, as far as a few nodes show, where answers would be known then.

    One policy that looks at more than a node is enough to have all of them asked about each pod: then there
    is nothing to be won, and nobody is named.
    """
    stage = cluster if cluster is not None and len(cluster.nodes) > 1 else example_cluster(3)
    question = Question(_pod("rehearsal", node=None), stage.nodes, stage, datetime.now(UTC))
    found: list[Hook] = []
    for policy in policies:
        every_pod = replace(policy, scope=EVERY_POD)
        hooks = _in_time(policy, partial(unmade, every_pod, question), limit_seconds=limit_seconds)
        if hooks is None:
            return []
        found += hooks
    return found


def _in_time(policy: Policy, work: Callable[[Attempt], T], *, limit_seconds: float) -> T:
    attempt = Attempt()
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(work(attempt))
        except BaseException as error:
            found.set_exception(error)

    # A daemon, since a thread that never comes back must not keep the command from ending.
    Thread(target=run, name=f"bayplan-rehearsal-{policy.name}", daemon=True).start()
    try:
        return found.result(limit_seconds)
    except TimeoutError:
        late = attempt.hook.title if attempt.hook else policy.name
        raise PolicyError(f"{late}: still running after {limit_seconds:g} s in the dry run") from None


def _problems(policy: Policy, stages: list[Snapshot], attempt: Attempt) -> list[str]:
    return list(_failures(policy, stages, attempt))


def _failures(policy: Policy, stages: list[Snapshot], attempt: Attempt) -> Iterator[str]:
    pod = _pod("rehearsal", node=None)
    for stage in stages:
        cluster = stage.with_readings(_readings(policy, stage))
        victims = [_pod(f"victim-of-{name}", node=name) for name in cluster.nodes.names[:_SOME]]
        question = Question(pod, cluster.nodes, cluster, datetime.now(UTC))
        for judge in (filter_nodes, score_nodes):
            decision = judge([policy], question, attempt)
            yield from (outcome.failure.text for outcome in decision.failures if outcome.failure)
        yield from tried(policy, question, attempt)
        if cluster.pods_known and commits([policy]):
            for name in cluster.nodes.names[:_SOME]:
                said = commit([policy], question, name, attempt)
                yield from (failure.text for failure in said.failures)
        for hook in policy.of_kind("gang"):
            alone = replace(policy, hooks=(hook,), failure_policy="Fail")
            yield from filter(None, [membership([alone], pod, attempt).error])
        if policy.of_kind("protect") or policy.of_kind("victims"):
            candidates = [Candidate(v.node_name, (v.uid,)) for v in victims]
            known = {v.uid: v for v in victims}
            chosen = choose_candidates([policy], question, candidates, victims=known, attempt=attempt)
            yield from (failure.text for failure in chosen.failures)
        # Not `bound`: it is there to tell somebody, and nothing was bound.
        for hook in (*policy.of_kind("gate"), *policy.of_kind("order")):
            answer = Entrance([replace(policy, hooks=(hook,))]).ask(pod, cluster, attempt)
            yield from (failure.text for _, failure in answer.failures)


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


def example_cluster(count: int) -> Snapshot:
    """A few plain nodes with a pod on each."""
    pods = [_pod(f"victim-{number}", node=f"rehearsal-{number}") for number in range(count)]
    return Snapshot.build([_node(number) for number in range(count)], pods)


def _node(number: int) -> NodeObject:
    quantities = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {
        "kubernetes.io/hostname": f"rehearsal-{number}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 2}",
    }
    return msgspec.convert(
        {
            "metadata": {"name": f"rehearsal-{number}", "uid": f"node-{number}", "labels": labels},
            "status": {
                "allocatable": quantities,
                "capacity": quantities,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        NodeObject,
    )


def _pod(name: str, *, node: str | None) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [container], "nodeName": node, "priority": 0},
            "status": {"phase": "Running" if node else "Pending"},
        },
        Pod,
    )

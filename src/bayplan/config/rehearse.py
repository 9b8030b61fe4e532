"""A dry run of every hook on 0, 1 and 3 nodes: what would break in production breaks here."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import EVERY_POD
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot


def rehearse(policies: Sequence[Policy], *, pods_known: bool) -> list[str]:
    """What went wrong, hook by hook; empty when all is well.

    ``pods_known`` says whether the server will know the placed pods: a policy that reads ``cpu.free``
    cannot work with the nodes of a request alone.
    """
    problems: dict[str, None] = {}
    for policy in policies:
        for text in _failures(replace(policy, scope=EVERY_POD), pods_known=pods_known):
            problems[text] = None
    return list(problems)


def _failures(policy: Policy, *, pods_known: bool) -> Iterator[str]:
    pod = _pod("rehearsal", node=None)
    for count in (0, 1, 3):
        cluster = example_cluster(count)
        victims = list(cluster.pods)
        if not pods_known:
            cluster = Snapshot.build(cluster.nodes.objects, None)
        question = Question(pod, cluster.nodes, cluster, datetime.now(UTC))
        for decision in (filter_nodes([policy], question), score_nodes([policy], question)):
            yield from (outcome.failure.text for outcome in decision.failures if outcome.failure)
        if policy.of_kind("protect"):
            candidates = [Candidate(v.node_name, (v.uid,)) for v in victims]
            chosen = choose_candidates([policy], question, candidates, victims={v.uid: v for v in victims})
            yield from (failure.text for failure in chosen.failures)


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

"""Against the real kube-scheduler: whom it evicts, and whom Bayplan would; and what needs no cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from bayplan.config.profile import Profile
from bayplan.engine.choose import Choice, choose
from bayplan.engine.cycle import Question
from bayplan.engine.make_room import Room, make_room
from bayplan.engine.trials import Trials
from bayplan.kube.meta import NO_META
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.parity.crowded import RANKS, crowded_case, rank_class
from tests.parity.evictions import evictor
from tests.parity.preemption import SORTS, both
from tests.parity.world import Case, Json

SEED, CASES = 32, 80
POLICIES = Profile.default().policies
NOW = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.mark.e2e
@pytest.mark.timeout(200)
def test_bayplan_evicts_whom_kube_scheduler_evicts(
    cluster: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    with both(cluster, seed=SEED) as run:
        report = run.cases(CASES, lambda found: print(found.told()))

    with capsys.disabled():
        print(f"\n{report.figure()}")
    print(report.table())
    assert not report.disagreements
    assert SORTS - report.seen.keys() == set(), "these sorts of cases did not occur"


@pytest.mark.e2e
def test_both_wait_for_those_who_leave_the_node_that_was_promised(cluster: ControlPlane) -> None:
    api = cluster.api
    api.create_priority_class("low", 1)
    api.create_priority_class("urgent", 1000)
    api.create_node("promised", cpu="1")
    slow = {"terminationGracePeriodSeconds": 600}
    api.create_pod("leaving", cpu="1", node_name="promised", priority_class="low", spec=slow)
    with evictor(cluster):
        api.create_pod("urgent", cpu="1", priority_class="urgent")
        wait_until(
            lambda: "nominatedNodeName" in api.get("pods", "urgent")["status"], 30.0, what="a nomination"
        )
        wait_until(
            lambda: "deletionTimestamp" in api.get("pods", "leaving")["metadata"], 30.0, what="an eviction"
        )
        # A node with enough room is news that wakes the pod up; that it is tainted is found out then.
        api.create_node("tainted", cpu="1", taints=[{"key": "dedicated", "effect": "NoSchedule"}])
        wait_until(
            lambda: _message(api.get("pods", "urgent")).startswith("0/2"), 30.0, what="a second attempt"
        )

    choice, room = _room_for(cluster, "urgent")
    told = _message(api.get("pods", "urgent")).replace("no new claims to deallocate, ", "")
    assert room.message == "preemption: not eligible due to a terminating pod on the nominated node."
    assert told == f"{choice.message} {room.message}"


@pytest.mark.e2e
def test_neither_waits_for_those_who_end_for_another_reason(cluster: ControlPlane) -> None:
    api = cluster.api
    api.create_priority_class("low", 1)
    api.create_priority_class("middle", 5)
    api.create_priority_class("urgent", 1000)
    slow = {"terminationGracePeriodSeconds": 600}
    for node, rank in (("promised", "middle"), ("other", "low")):
        api.create_node(node, cpu="1")
        api.create_pod(f"on-{node}", cpu="1", node_name=node, priority_class=rank, spec=slow)
    api.request("DELETE", "/api/v1/namespaces/default/pods/on-promised", body={"gracePeriodSeconds": 600})
    api.create_pod("urgent", cpu="1", priority_class="urgent")
    api.patch("pods", "urgent", {"status": {"nominatedNodeName": "promised"}}, subresource="status")

    room = _room_for(cluster, "urgent")[1]
    with evictor(cluster):
        wait_until(
            lambda: "deletionTimestamp" in api.get("pods", "on-other")["metadata"], 30.0, what="an eviction"
        )

    assert [(one.node, [pod.name for pod in one.victims]) for one in room.best] == [("other", ["on-other"])]


def _room_for(cluster: ControlPlane, name: str) -> tuple[Choice, Room]:
    """What Bayplan says of a pod, in the cluster as it is."""
    api = cluster.api
    seen = Snapshot.build(
        [msgspec.convert(node, NodeObject) for node in api.items("nodes")],
        [msgspec.convert(pod, Pod) for pod in api.items("pods")],
    )
    pod = next(pod for pod in seen.pods if pod.name == name)
    choice = choose(POLICIES, pod, seen, now=NOW)
    return choice, make_room(POLICIES, seen, choice.filtered, now=NOW)


def _message(pod: Json) -> str:
    conditions = {one["type"]: one.get("message", "") for one in pod["status"].get("conditions", ())}
    found: str = conditions.get("PodScheduled", "")
    return found


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_many_nodes_at_once_are_judged_as_each_by_itself(number: int) -> None:
    case = crowded_case(SEED, number)
    world, incoming = _decoded(case)
    trials = Trials(POLICIES, Question(incoming, world.nodes, world, NOW))
    gone = {
        node: {pod.uid for pod in world.pods_on(node) if pod.priority < incoming.priority}
        for node in world.nodes.names
    }

    together = trials.refusals(gone)

    alone = [
        Trials(POLICIES, Question(incoming, world.nodes, world, NOW)).refusals({node: gone[node]})
        for node in gone
    ]
    assert together == {node: texts for one in alone for node, texts in one.items()}
    assert trials.fitting(gone) == {node for node, texts in together.items() if not texts}


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_nodes_that_are_kept_for_others_are_judged_as_each_by_itself(number: int) -> None:
    world, incoming = _decoded(crowded_case(SEED, number))
    # Pods of the world wait as well, for a node that is not their own.
    names = list(world.nodes.names)
    coming = {
        node: [
            msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata or NO_META, uid="x"))
        ]
        for node, other in zip(names, [*names[1:], names[0]], strict=True)
        for pod in world.pods_on(other)[:1]
    }
    kept = world.keeping(coming)
    gone = {node: {pod.uid for pod in world.pods_on(node)[1:]} for node in names}

    together = Trials(POLICIES, Question(incoming, kept.nodes, kept, NOW)).refusals(gone)

    for node in names:
        bare = world.without_on({node: gone[node]})
        passes = [
            choose(POLICIES, incoming, seen, now=NOW).filtered.refusal(seen.rows[node]) is None
            for seen in (bare.expecting({node: coming.get(node, [])}), bare)
        ]
        assert (not together[node]) == all(passes)


def test_a_case_depends_on_the_seed_and_its_number_alone() -> None:
    assert crowded_case(SEED, 7) == crowded_case(SEED, 7)
    assert crowded_case(SEED, 7) != crowded_case(SEED + 1, 7)


def test_the_page_has_the_figure_of_the_test() -> None:
    page = (Path(__file__).parents[2] / "docs" / "parity.md").read_text()

    assert f"| {CASES} | 0 | {SEED} |" in page.partition("## Preemption")[2]


def _decoded(case: Case) -> tuple[Snapshot, Pod]:
    """The case as the API server would have it."""
    ranks = {rank_class(rank, never=never): rank for rank in RANKS for never in (False, True)}

    def pod(manifest: Json) -> Pod:
        spec = {**manifest["spec"], "priority": ranks[manifest["spec"]["priorityClassName"]]}
        metadata = {**manifest["metadata"], "uid": manifest["metadata"]["name"]}
        return msgspec.convert({**manifest, "metadata": metadata, "spec": spec}, Pod)

    nodes = [msgspec.convert(node, NodeObject) for node in case.world.nodes]
    return Snapshot.build(nodes, map(pod, case.world.pods)), pod(case.pod)

"""Where a pod goes, or who has to leave for it."""

import asyncio
import random
import threading
from dataclasses import replace
from typing import Any

import msgspec
import pytest

import bayplan
from bayplan import Pod
from bayplan.authoring.load import Definition, load
from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import PolicyScope
from bayplan.config.profile import Profile
from bayplan.engine.guard import Attempt
from bayplan.engine.make_room import VICTIMS_LEAVE
from bayplan.kube.meta import NO_META
from bayplan.kube.pod import NO_STATUS, Condition
from bayplan.runtimes.scheduler.hints import helped_by, refused_by
from bayplan.runtimes.scheduler.judge import NO_CLAIMS, Judge, Judgement
from bayplan.runtimes.scheduler.nominations import Nomination
from bayplan.runtimes.scheduler.queue import ANYTHING
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.units import ALLOCATION
from bayplan.testing import make_cluster, make_node, make_pod

DEFAULT = Profile.default().policies
SPARE = bayplan.Reason("kept as a spare", helped_by=frozenset({"pods"}))
NEVER = bayplan.Reason("not today")


@bayplan.filter
def no_spare(pod, node):  # type: ignore[no-untyped-def]
    return SPARE if node.name == "spare" else None


@bayplan.filter
def not_today(pod, node):  # type: ignore[no-untyped-def]
    return NEVER


@bayplan.protect
def keep(pod, victim):  # type: ignore[no-untyped-def]
    return victim.labels.get("keep") == "yes"


def own(name: str, hook: object) -> Policy:
    return Definition(name, ((name, hook),), None, ()).make()  # type: ignore[arg-type]


def judge(
    pod: Pod, cluster: Snapshot, *policies: Policy, kept: Nomination | None = None, seed: int = 1
) -> Judgement:
    judging = Judge((*DEFAULT, *policies), rng=random.Random(seed))
    return judging.judge(pod, cluster, Attempt(), kept=kept)


def test_a_pod_goes_to_the_best_node() -> None:
    cluster = make_cluster(["empty", "busy"], [make_pod("there", cpu=3, node="busy")])

    assert judge(make_pod(cpu=1), cluster).node == "empty"


def test_of_equals_any_is_taken() -> None:
    cluster = make_cluster(["a", "b", "c"])

    assert {judge(make_pod(cpu=1), cluster, seed=seed).node for seed in range(30)} == {"a", "b", "c"}


def test_policies_of_the_user_have_a_say() -> None:
    cluster = make_cluster(["spare", "other"], [make_pod("there", cpu=3, node="other")])

    assert judge(make_pod(cpu=1), cluster).node == "spare"
    assert judge(make_pod(cpu=1), cluster, own("no_spare", no_spare)).node == "other"


def test_a_pod_that_fits_nowhere_is_told_so_in_kube_schedulers_words() -> None:
    there = [make_pod(node=node, cpu=3) for node in ("a", "b")]
    found = judge(make_pod(cpu=2), make_cluster(["a", "b"], there))

    assert (found.node, found.eviction) == ("", None)
    assert found.message == (
        f"0/2 nodes are available: 2 Insufficient cpu. {NO_CLAIMS}, preemption: 0/2 nodes are available:"
        " 2 No preemption victims found for incoming pod."
    )


def test_without_nodes_nobody_is_blamed() -> None:
    assert judge(make_pod(cpu=8), make_cluster([])).message == "no nodes available to schedule pods"


def test_nobody_has_to_leave_where_the_profile_has_no_preemption() -> None:
    cluster = make_cluster(["a"], [make_pod("low", cpu=4, priority=1, node="a")])
    urgent = make_pod("urgent", cpu=4, priority=10)
    refused = "0/1 nodes are available: 1 Insufficient cpu."
    # kube-scheduler's plugin for claims is heard there all the same.
    for policies, message in (
        (DEFAULT, f"{refused} {NO_CLAIMS}"),
        ([policy for policy in DEFAULT if policy.name != "DynamicResources"], refused),
    ):
        found = Judge(policies, preemption=None).judge(urgent, cluster, Attempt())

        assert (found.eviction, found.waits, found.message) == (None, False, message)


def test_the_least_important_pods_have_to_leave() -> None:
    there = [
        make_pod("low", cpu=4, priority=1, node="cheap"),
        make_pod("middle", cpu=4, priority=5, node="dear"),
    ]
    found = judge(make_pod("urgent", cpu=4, priority=10), make_cluster(["cheap", "dear"], there))

    assert found.eviction is not None
    assert (found.eviction.node, [pod.name for pod in found.eviction.victims]) == ("cheap", ["low"])
    assert found.message == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_protected_pod_stays_and_others_leave() -> None:
    there = [
        make_pod("low", cpu=4, priority=1, node="cheap", labels={"keep": "yes"}),
        make_pod("middle", cpu=4, priority=5, node="dear"),
    ]
    urgent, cluster = make_pod("urgent", cpu=4, priority=10), make_cluster(["cheap", "dear"], there)

    one = judge(urgent, cluster, own("keep", keep)).eviction
    none = judge(urgent, make_cluster(["cheap"], there[:1]), own("keep", keep))

    assert one is not None
    assert one.node == "dear"
    assert none.eviction is None
    assert none.message.endswith(
        "preemption: 0/1 nodes are available: 1 node(s) with pods that are protected by keep."
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"shadow": True}, id="it is a shadow"),
        pytest.param({"scope": PolicyScope(namespaces=("other",))}, id="it is for other pods"),
    ],
)
def test_a_policy_that_does_not_decide_protects_nobody(changes: dict[str, Any]) -> None:
    low = make_pod("low", cpu=4, priority=1, node="cheap", labels={"keep": "yes"})
    policy = replace(own("keep", keep), **changes)

    found = judge(make_pod("urgent", cpu=4, priority=10), make_cluster(["cheap"], [low]), policy)

    assert found.eviction is not None


async def test_binds_and_watches_go_on_while_victims_are_looked_for() -> None:
    others_go_on = threading.Event()

    @bayplan.protect
    def unless_others_go_on(victim):  # type: ignore[no-untyped-def]
        return not others_go_on.wait(10)

    policies = (*DEFAULT, own("unless_others_go_on", unless_others_go_on))
    cluster = make_cluster(["full"], [make_pod("low", cpu=4, priority=1, node="full")])
    urgent = make_pod("urgent", cpu=4, priority=10)
    workers = Workers(policy_seconds=30, request_seconds=30, stuck_limit=1)
    asyncio.get_running_loop().call_soon(others_go_on.set)

    found = await workers.run(
        lambda attempt: Judge(policies).judge(urgent, cluster, attempt), patience_seconds=0.005
    )

    assert found.eviction is not None
    workers.stop()


def test_the_node_that_was_made_free_comes_before_better_ones() -> None:
    cluster = make_cluster(["empty", "kept"], [make_pod("there", cpu=3, node="kept")])
    pod = make_pod(cpu=1)

    assert judge(pod, cluster).node == "empty"
    assert judge(pod, cluster, kept=Nomination(pod, "kept")).node == "kept"
    assert judge(pod, cluster, kept=Nomination(pod, "gone")).node == "empty"


@pytest.mark.parametrize(
    ("known", "leaving"),
    [
        pytest.param(True, False, id="a victim that was told"),
        pytest.param(False, True, id="a pod that a scheduler evicted, whichever it was"),
    ],
)
def test_while_victims_leave_nobody_else_has_to(known: bool, leaving: bool) -> None:
    victim, other = (make_pod(name, cpu=4, priority=1, node=name) for name in ("kept", "other"))
    if leaving:
        meta = msgspec.structs.replace(victim.metadata or NO_META, deletion_timestamp="2026-01-01T00:00:00Z")
        told = Condition("DisruptionTarget", "True", "PreemptionByScheduler")
        status = msgspec.structs.replace(victim.status or NO_STATUS, conditions=(told,))
        victim = msgspec.structs.replace(victim, metadata=meta, status=status)
    pod = make_pod("urgent", cpu=4, priority=10)
    nomination = Nomination(pod, "kept", frozenset({victim.uid} if known else ()))

    found = judge(pod, make_cluster(["kept", "other"], [victim, other]), kept=nomination)

    assert found.waits
    assert found.eviction is None
    assert found.message.endswith(VICTIMS_LEAVE)


def test_a_node_that_no_eviction_helps_any_more_is_not_waited_for() -> None:
    victim, other = (make_pod(name, cpu=4, priority=1, node=name) for name in ("kept", "other"))
    pod = make_pod("urgent", cpu=4, priority=10)
    nodes = [make_node("kept", unschedulable=True), make_node("other")]

    found = judge(
        pod, make_cluster(nodes, [victim, other]), kept=Nomination(pod, "kept", frozenset({victim.uid}))
    )

    assert found.eviction is not None
    assert found.eviction.node == "other"


def test_what_a_policy_hands_out_is_written_on_the_pod() -> None:
    (definition,) = load("SharedResource")
    policy = definition.make(args={"resource": "example.com/memory", "capacity": "example.com/gpus"})
    node = make_node("a", annotations={"example.com/gpus": "8,16"}, allocatable={"example.com/memory": 24})
    cluster = make_cluster([node])

    found = judge(make_pod(requests={"example.com/memory": 12}), cluster, policy)

    assert found.node == "a"
    assert '"1"' in found.annotations[ALLOCATION]


def test_rules_are_asked_once_also_where_something_is_handed_out() -> None:
    """What is handed out is of the cluster that they have just seen: a second look would find the same."""
    asked: list[str] = []

    @bayplan.filter(recheck=True)
    def counted(pod, nodes):  # type: ignore[no-untyped-def]
        asked.append(pod.name)

    (definition,) = load("SharedResource")
    gpus = definition.make(args={"resource": "example.com/memory", "capacity": "example.com/gpus"})
    policies, cluster = (*DEFAULT, gpus, own("counted", counted)), make_cluster(["a", "b"])

    one = Judge(policies).judge(make_pod("one", cpu=1), cluster, Attempt())
    several = [make_pod(f"m-{number}", cpu=number) for number in (1, 2)]
    placed = Judge(policies).place_some(several, cluster, Attempt(), seconds=10)
    refusal, _ = Judge(policies).last_word(make_pod("late"), "a", cluster, Attempt())

    assert (one.node != "", len(placed), refusal) == (True, 2, "")
    assert asked == ["one", "m-1", "m-2", "late"]


def test_only_what_could_change_a_refusal_is_worth_another_attempt() -> None:
    full = judge(make_pod(cpu=8), make_cluster(["a"]))
    spare = judge(make_pod(cpu=1), make_cluster(["spare"]), own("no_spare", no_spare))
    silent = judge(make_pod(cpu=1), make_cluster(["a"]), own("not_today", not_today))

    assert helped_by(full.choice) == {"pods", "nodes"}
    assert helped_by(spare.choice) == {"pods", "placed", "nodes"}
    assert helped_by(silent.choice) == ANYTHING
    assert helped_by(judge(make_pod(), make_cluster([])).choice) == {"nodes"}
    assert refused_by(spare.choice) == {"no_spare"}


def test_a_bind_from_before_is_looked_at_again() -> None:
    pod = make_pod("mine", cpu=3, uid="mine")
    judging = Judge(DEFAULT)
    there = make_pod("mine", cpu=3, uid="mine", node="a")
    other = make_pod("other", cpu=3, node="a")

    assert judging.last_word(pod, "a", make_cluster(["a"], [there]), Attempt()) == ("", {})
    full = make_cluster(["a"], [there, other])
    assert judging.last_word(pod, "a", full, Attempt()) == ("Insufficient cpu", {})
    assert judging.last_word(pod, "a", make_cluster(["b"]), Attempt()) == ("node a is gone", {})


def test_a_bind_from_before_gets_what_is_free_by_now() -> None:
    """Another scheduler led meanwhile, and has given the second device to somebody else."""
    (definition,) = load("SharedResource")
    policy = definition.make(args={"resource": "example.com/memory", "capacity": "example.com/gpus"})
    node = make_node("a", annotations={"example.com/gpus": "16,16"}, allocatable={"example.com/memory": 32})
    wants = {"example.com/memory": 12}
    pod = make_pod("mine", uid="mine", requests=wants)

    def other(name: str, device: str) -> Pod:
        given = {ALLOCATION: f'{{"example.com/memory":{{"{device}":12}}}}'}
        return make_pod(name, requests=wants, node="a", annotations=given)

    said = [
        Judge((policy,)).last_word(pod, "a", make_cluster([node], others), Attempt())
        for others in ([other("x", "0")], [other("x", "1")], [other("x", "0"), other("y", "1")])
    ]

    assert [refusal == "" for refusal, _ in said] == [True, True, False]
    assert ['"1"' in given.get(ALLOCATION, "") for _, given in said] == [True, False, False]

"""Nodes that are kept for pods which are not there yet: a pod must fit beside them, and without them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bayplan import Pod
from bayplan.config.profile import Profile
from bayplan.engine.choose import Choice, choose
from bayplan.engine.make_room import make_room
from bayplan.engine.memory import Memory
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.cache import Cache
from bayplan.testing import make_cluster, make_node, make_pod

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
POLICIES = Profile.default().policies
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = {"app": "web"}


def cluster(*pods: Pod) -> Snapshot:
    nodes = [make_node(name, cpu=4, labels={HOST: name, ZONE: "here"}) for name in ("kept", "other")]
    return make_cluster(nodes, pods)


def judged(pod: Pod, seen: Snapshot) -> Choice:
    return choose(POLICIES, pod, seen, now=NOON)


def terms(kind: str, key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": WEB}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str) -> dict[str, Any]:
    one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**one, "labelSelector": {"matchLabels": WEB}}]}


COMING = make_pod("coming", cpu=3, labels=WEB)


def test_the_room_of_a_node_that_is_kept_is_not_for_others() -> None:
    seen = cluster(make_pod("there", cpu=4, node="other"), COMING).keeping({"kept": [COMING]})

    assert judged(make_pod("small", cpu=1), seen).feasible == ["kept"]
    large = judged(make_pod("large", cpu=2), seen)
    assert large.feasible == []
    assert large.message == "0/2 nodes are available: 2 Insufficient cpu."


def test_who_wants_to_be_near_a_pod_waits_until_it_is_there() -> None:
    near = make_pod("near", cpu=1, spec=terms("podAffinity", HOST))
    expected = cluster(COMING).keeping({"kept": [COMING]})

    assert judged(near, expected).feasible == []
    assert judged(near, cluster(COMING).placed(COMING, "kept")).feasible == ["kept"]


@pytest.mark.parametrize(
    ("spec", "feasible"),
    [
        pytest.param(terms("podAntiAffinity", HOST), ["other"], id="apart by host"),
        # To kube-scheduler a pod that is to come counts on its own node and nowhere else.
        pytest.param(terms("podAntiAffinity", ZONE), ["other"], id="apart by zone"),
        pytest.param(spread(HOST), ["other"], id="evenly over hosts"),
        pytest.param(terms("podAffinity", ZONE), [], id="near by zone"),
    ],
)
def test_a_pod_that_is_to_come_counts_on_its_own_node_only(spec: dict[str, Any], feasible: list[str]) -> None:
    seen = cluster(COMING).keeping({"kept": [COMING]})

    assert (
        judged(make_pod("late", labels={} if "affinity" in spec else WEB, spec=spec), seen).feasible
        == feasible
    )


def test_the_lowest_domain_is_that_of_the_others_where_the_own_one_fills_up() -> None:
    there = [make_pod("web", labels=WEB, node="other")]
    late = make_pod("late", labels=WEB, spec=spread(HOST))

    # 1 on each with the coming one, and so the pod may be anywhere.
    assert judged(late, cluster(*there, COMING).keeping({"kept": [COMING]})).feasible == ["kept"]
    two = [make_pod(f"coming-{number}", labels=WEB) for number in range(2)]
    assert judged(late, cluster(*there, *two).keeping({"kept": two})).feasible == []


def test_scores_do_not_count_who_is_not_there() -> None:
    seen = cluster(COMING, make_pod("there", cpu=1, node="other"))

    for one in (seen, seen.keeping({"kept": [COMING]})):
        assert judged(make_pod("late", cpu=1), one).best == ["kept"]


def test_nodes_that_are_gone_are_not_kept() -> None:
    seen = cluster()

    assert seen.keeping({"gone": [COMING]}) is seen


def test_evictions_make_room_for_both() -> None:
    there = [
        make_pod(f"{node}{n}", uid=f"{node}{n}", cpu=1, priority=n, node=node)
        for node in ("kept", "other")
        for n in range(4)
    ]
    coming = make_pod("coming", cpu=2, priority=100)
    seen = cluster(*there, coming)
    urgent = make_pod("urgent", cpu=1, priority=50)

    def evicted(world: Snapshot) -> dict[str, int]:
        found = make_room(POLICIES, world, judged(urgent, world).filtered, now=NOON)
        return {eviction.node: len(eviction.victims) for eviction in found.evictions}

    assert evicted(seen) == {"kept": 1, "other": 1}
    assert evicted(seen.keeping({"kept": [coming]})) == {"kept": 3, "other": 1}


def test_nobody_is_evicted_so_that_a_pod_is_near_one_that_is_not_there() -> None:
    full = [make_pod(node, uid=node, cpu=4, node=node) for node in ("kept", "other")]
    near = make_pod("near", cpu=1, priority=50, spec=terms("podAffinity", HOST))
    seen = cluster(*full, COMING).keeping({"kept": [COMING]})

    assert make_room(POLICIES, seen, judged(near, seen).filtered, now=NOON).evictions == ()


def test_what_is_remembered_of_pods_alike_is_not_mixed_up_with_who_is_to_come() -> None:
    cache = Cache()
    for name in ("kept", "other"):
        cache.put_node(make_node(name, cpu=4, labels={HOST: name}).object)
    cache.put_pod(COMING)
    seen, memory = cache.snapshot(), Memory()
    kept = seen.keeping({"kept": [COMING]})
    alike = [make_pod(f"late-{number}", cpu=2, labels={"app": "late"}) for number in range(6)]
    clusters = [seen, kept, seen, kept, kept, seen]

    found = [
        choose(POLICIES, pod, one, now=NOON, memory=memory).feasible
        for pod, one in zip(alike, clusters, strict=True)
    ]

    assert found == [["kept", "other"] if one is seen else ["other"] for one in clusters]

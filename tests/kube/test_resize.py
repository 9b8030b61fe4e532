"""A placed pod that is being resized counts for what it holds, as kube-scheduler counts it."""

from typing import Any

import msgspec
import pytest

from bayplan.kube.pod import Pod
from bayplan.state import news
from bayplan.state.cache import Cache
from bayplan.state.siblings import Siblings
from bayplan.testing import make_cluster, make_node

INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def asks(cpu: str, *, name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def has(cpu: str | None, *, allocated: str | None = None, name: str = "main") -> dict[str, Any]:
    told: dict[str, Any] = {"name": name}
    if cpu is not None:
        told["resources"] = {"requests": {"cpu": cpu}}
    if allocated is not None:
        told["allocatedResources"] = {"cpu": allocated}
    return told


def pod(spec: dict[str, Any], **status: Any) -> Pod:
    body = {
        "metadata": {"name": "p", "uid": "1"},
        "spec": {"nodeName": "n", **spec},
        "status": {"phase": "Running", **status},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


@pytest.mark.parametrize(
    ("spec", "told", "counts"),
    [
        pytest.param("1", has("4"), 4000, id="made smaller, the kubelet has not done it yet"),
        pytest.param("1", has("1", allocated="4"), 4000, id="made smaller, not agreed to yet"),
        pytest.param("4", has("1", allocated="1"), 4000, id="made larger: what it asks for is kept for it"),
        pytest.param("2", has("2", allocated="2"), 2000, id="as it is"),
        pytest.param("2", has(None, allocated="4"), 2000, id="one that does not run yet says nothing"),
        pytest.param("1", has("4", name="other"), 1000, id="of a container that it does not have"),
    ],
)
def test_the_most_of_what_it_asks_for_and_what_it_has_counts(
    spec: str, told: dict[str, Any], counts: int
) -> None:
    assert pod({"containers": [asks(spec)]}, containerStatuses=[told]).cpu_milli == counts


@pytest.mark.parametrize(
    ("condition", "counts"),
    [
        pytest.param(INFEASIBLE, 2000, id="the kubelet has said no: only what it has"),
        pytest.param(DEFERRED, 64000, id="the kubelet waits for room: that room is its own"),
    ],
)
def test_what_can_never_be_given_is_not_kept_free(condition: dict[str, str], counts: int) -> None:
    told = pod(
        {"containers": [asks("64")]}, containerStatuses=[has("2", allocated="2")], conditions=[condition]
    )

    assert told.cpu_milli == counts


def test_a_sidecar_counts_by_what_it_has_an_init_container_does_not() -> None:
    spec = {
        "containers": [asks("1")],
        "initContainers": [asks("1", name="sidecar", restartPolicy="Always"), asks("1", name="first")],
    }

    told = pod(spec, initContainerStatuses=[has("3", name="sidecar"), has("9", name="first")])

    assert told.cpu_milli == 4000


def test_a_pod_that_asks_as_a_whole_counts_by_what_it_has_as_a_whole() -> None:
    spec = {"containers": [{"name": "main"}], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    whole = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2", "memory": "2Gi"}}

    told = pod(spec, **whole)

    assert told.requests == {"cpu": 3000, "memory": 2 * 2**30}


def test_where_nodes_are_scored_it_counts_likewise() -> None:
    told = pod({"containers": [asks("1")]}, containerStatuses=[has("4")])

    assert told.nonzero_requests == (4000, 200 * 2**20)


def test_what_repeats_the_spec_is_not_kept() -> None:
    """Every container of a cluster has such a line."""
    told = pod({"containers": [asks("2")]}, containerStatuses=[has("2", allocated="2")])

    assert told.status is not None
    assert told.status.container_statuses is None


def test_pods_that_wait_for_room_are_told_when_the_kubelet_is_done() -> None:
    spec = {"containers": [asks("1")]}
    before, now = pod(spec, containerStatuses=[has("4")]), pod(spec, containerStatuses=[has("1")])

    assert news.of_pod(before, now) == news.PODS


def test_its_node_has_less_free_meanwhile() -> None:
    cluster = make_cluster(["n"], [pod({"containers": [asks("1")]}, containerStatuses=[has("4")])])

    assert cluster.nodes["cpu.free"].tolist() == [0]


@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        pytest.param(
            [
                ("4", has("4"), ()),
                ("1", has("4"), ()),
                ("1", has("4", allocated="1"), ()),
                ("1", has("1"), ()),
            ],
            [4000, 4000, 4000, 1000],
            id="made smaller, and the kubelet did it",
        ),
        pytest.param(
            [
                ("1", has("1"), ()),
                ("8", has("1"), ()),
                ("8", has("1"), (DEFERRED,)),
                ("8", has("1"), (INFEASIBLE,)),
            ],
            [1000, 8000, 8000, 1000],
            id="made larger, and the kubelet said no",
        ),
    ],
)
def test_what_it_counts_for_follows_what_the_kubelet_says(
    steps: list[tuple[str, dict[str, Any], tuple[dict[str, str], ...]]], counts: list[int]
) -> None:
    cache = Cache()
    cache.put_node(make_node("n", cpu=16).object)
    seen, heard = [], frozenset[str]()
    for cpu, told, conditions in steps:
        before = cache.pod("default/p")
        now = pod({"containers": [asks(cpu)]}, containerStatuses=[told], conditions=conditions)
        cache.put_pod(now)
        seen.append(int(cache.snapshot().nodes["cpu.requested"][0]))
        heard = news.of_pod(before, cache.pod("default/p"))

    assert seen == counts
    # Whoever waits for the room is told of it.
    assert heard == news.PODS


def test_a_pod_of_the_same_controller_does_not_count_for_what_another_holds() -> None:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
    shrinking, done = (
        msgspec.convert(
            {
                "metadata": {"name": name, "uid": name, "ownerReferences": [owner]},
                "spec": {"nodeName": "n", "containers": [asks("1")]},
                "status": {"containerStatuses": [has(cpu)]},
            },
            Pod,
        )
        for name, cpu in (("shrinking", "4"), ("done", "1"))
    )
    siblings = Siblings()
    assert (shrinking.cpu_milli, shrinking.nonzero_requests[0]) == (4000, 4000)

    siblings.join(shrinking, None)
    siblings.join(done, None)

    assert (done.cpu_milli, done.nonzero_requests[0]) == (1000, 1000)

"""A placed pod that is being resized counts for what it holds, as kube-scheduler counts it."""

from typing import Any

import msgspec
import pytest

from bayplan.kube.pod import Pod
from bayplan.state import news
from bayplan.testing import make_cluster

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

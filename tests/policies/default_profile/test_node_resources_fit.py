"""NodeResourcesFit, the filter: a node has room, or says what it lacks."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bayplan.authoring.load import load
from bayplan.engine.choose import choose
from bayplan.policies.default_profile.node_resources_fit import NodeResourcesFit
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
GPU = "example.com/gpu"
CLUSTER = make_cluster(
    [
        make_node("half-full", cpu=2, memory="2Gi", allocatable={GPU: 2}),
        make_node("small", cpu=1, memory="1Gi"),
        make_node("crowded", cpu=8, memory="8Gi", pods=1),
        make_node("virtual", cpu=0, memory=0, pods=10),
    ],
    [
        make_pod("busy", cpu=1, memory="1Gi", requests={GPU: 1}, node="half-full"),
        make_pod("lonely", node="crowded"),
    ],
)


@pytest.mark.parametrize(
    ("requests", "refused"),
    [
        pytest.param({}, {"crowded": ["Too many pods"]}, id="nothing fits where pods do"),
        pytest.param(
            {"cpu": "1"},
            {"crowded": ["Too many pods"], "virtual": ["Insufficient cpu"]},
            id="an exact fit is a fit",
        ),
        pytest.param(
            {"cpu": "1001m", "memory": "1025Mi"},
            {
                "half-full": ["Insufficient cpu", "Insufficient memory"],
                "small": ["Insufficient cpu", "Insufficient memory"],
                "crowded": ["Too many pods"],
                "virtual": ["Insufficient cpu", "Insufficient memory"],
            },
            id="everything that is short is told",
        ),
        pytest.param(
            {GPU: 1},
            {
                "small": [f"Insufficient {GPU}"],
                "crowded": ["Too many pods", f"Insufficient {GPU}"],
                "virtual": [f"Insufficient {GPU}"],
            },
            id="a resource that only some nodes have",
        ),
        pytest.param({"cpu": 0, GPU: 0}, {"crowded": ["Too many pods"]}, id="zero is nothing"),
        pytest.param(
            {"ephemeral-storage": "1Gi"},
            {
                **{name: ["Insufficient ephemeral-storage"] for name in ("half-full", "small", "virtual")},
                "crowded": ["Too many pods", "Insufficient ephemeral-storage"],
            },
            id="disk",
        ),
        pytest.param(
            {"hugepages-2Mi": "2Mi"},
            {
                **{name: ["Insufficient hugepages-2Mi"] for name in ("half-full", "small", "virtual")},
                "crowded": ["Too many pods", "Insufficient hugepages-2Mi"],
            },
            id="huge pages",
        ),
        pytest.param({"requests.example.com/x": 1}, {"crowded": ["Too many pods"]}, id="a quota's name"),
    ],
)
def test_filter(requests: dict[str, Any], refused: dict[str, list[str]]) -> None:
    result = run_policy(NodeResourcesFit, make_pod(requests=requests), CLUSTER)

    found = {
        CLUSTER.nodes.names[row]: [reason.text, *reason.also]
        for _, reason, rows in result.filtered.groups()
        for row in rows
    }
    assert found == refused


@pytest.mark.parametrize(
    ("requests", "helps"),
    [
        pytest.param({"cpu": "1500m"}, True, id="an empty node would do"),
        pytest.param({"cpu": "2001m"}, False, id="not even an empty node would do"),
        pytest.param({"cpu": "1500m", "memory": "3Gi"}, False, id="one thing that never fits is enough"),
        pytest.param({GPU: 2}, True, id="devices that others have"),
        pytest.param({GPU: 3}, False, id="more devices than there are"),
    ],
)
def test_eviction_helps_only_where_an_empty_node_would_do(requests: dict[str, Any], helps: bool) -> None:
    cluster = make_cluster([CLUSTER.nodes.row("half-full")], CLUSTER.pods_on("half-full"))

    (group,) = run_policy(NodeResourcesFit, make_pod(requests=requests), cluster).filtered.groups()

    assert group[1].preemptible is helps


def test_eviction_helps_where_there_are_too_many_pods() -> None:
    groups = run_policy(NodeResourcesFit, make_pod(), CLUSTER).filtered.groups()

    assert [(reason.text, reason.preemptible) for _, reason, _ in groups] == [("Too many pods", True)]


def test_the_sentence_counts_every_reason_of_every_node() -> None:
    policies = [definition.make() for definition in load("NodeResourcesFit")]

    choice = choose(policies, make_pod(cpu="1500m", requests={GPU: 2}), CLUSTER, now=NOON)

    assert choice.message == (
        "0/4 nodes are available: 1 Too many pods, 3 Insufficient cpu, 4 Insufficient example.com/gpu."
    )


def test_the_numbers_are_there_for_who_asks() -> None:
    result = run_policy(NodeResourcesFit, make_pod(cpu="1500m", requests={GPU: 2}), CLUSTER)

    assert result.details["half-full"] == "cpu: 1500m needed, 1000m left; example.com/gpu: 2 needed, 1 left"


def test_a_pod_that_asks_for_many_things_that_nobody_has_is_answered_at_once() -> None:
    many = {f"example.com/thing-{number}": 1 for number in range(100)}

    result = run_policy(NodeResourcesFit, make_pod(requests=many), CLUSTER)

    assert [len(reason.also) for _, reason, _ in result.filtered.groups()] == [99, 100]


@pytest.mark.parametrize(
    ("args", "passed"),
    [
        pytest.param({"ignoredResources": [GPU]}, ["half-full", "small"], id="by name"),
        pytest.param({"ignoredResourceGroups": ["example.com"]}, ["half-full", "small"], id="by group"),
        pytest.param({"ignoredResources": ["cpu"]}, [], id="native resources are never ignored"),
        pytest.param({"ignoredResources": ["example.com/other"]}, [], id="another one"),
    ],
)
def test_ignored_resources(args: dict[str, Any], passed: list[str]) -> None:
    assert (
        run_policy(NodeResourcesFit, make_pod(cpu=1, requests={GPU: 9}), CLUSTER, args=args).passed == passed
    )


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        pytest.param({"overhead": {"cpu": "1m"}}, False, id="overhead counts"),
        pytest.param(
            {"resources": {"requests": {"cpu": "1001m"}}}, False, id="the pod as a whole asks for more"
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "900m"}}}, True, id="the pod as a whole asks for less"
        ),
        pytest.param(
            {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": 1}}}]},
            True,
            id="init, then main",
        ),
        pytest.param(
            {
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1m"}}}
                ]
            },
            False,
            id="a sidecar runs beside",
        ),
    ],
)
def test_what_a_pod_requests_is_what_kube_scheduler_counts(spec: dict[str, Any], fits: bool) -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    pod = make_pod(spec={"containers": [container], **spec})

    assert ("small" in run_policy(NodeResourcesFit, pod, CLUSTER).passed) is fits


def test_who_asks_for_nothing_fits_on_a_node_that_has_given_away_too_much() -> None:
    cluster = make_cluster([make_node("overbooked", cpu=1)], [make_pod(cpu=2, node="overbooked")])

    assert run_policy(NodeResourcesFit, make_pod(requests={"cpu": 0}), cluster).passed == ["overbooked"]


def test_huge_pages_are_never_ignored() -> None:
    args = {"ignoredResources": ["hugepages-2Mi"], "ignoredResourceGroups": ["hugepages-2Mi"]}
    pod = make_pod(requests={"hugepages-2Mi": "2Mi"})

    assert run_policy(NodeResourcesFit, pod, CLUSTER, args=args).passed == []


def test_requests_past_all_limits_do_not_wrap_round() -> None:
    node = make_node("endless", memory="7Ei")
    pods = [make_pod(f"greedy-{number}", memory="7Ei", node="endless") for number in range(3)]

    result = run_policy(NodeResourcesFit, make_pod(memory=1), make_cluster([node], pods))

    assert result.refused == {"endless": "Insufficient memory"}

"""A pod's needs are summed as kube-scheduler sums them."""

from typing import Any

import msgspec
import pytest

from bayplan.kube.pod import Pod
from bayplan.kube.quantity import INT64_MAX, QuantityError
from bayplan.kube.resources import amounts

GI = 2**30
MI = 2**20


def container(
    *, limits: dict[str, Any] | None = None, sidecar: bool = False, **requests: Any
) -> dict[str, Any]:
    resources = {"requests": requests, "limits": limits}
    return {"resources": resources, **({"restartPolicy": "Always"} if sidecar else {})}


def needs(**spec: Any) -> dict[str, int]:
    """Requests of a pod with this spec."""
    return dict(msgspec.convert({"spec": spec}, Pod).requests)


def test_containers_are_added_up() -> None:
    assert needs(containers=[container(cpu="100m", memory="1Gi"), container(cpu="0.25")]) == {
        "cpu": 350,
        "memory": GI,
    }


def test_extended_resources_are_counted_in_units() -> None:
    resources = {"requests": {"example.com/gpu": "2"}}

    assert needs(containers=[{"resources": resources}]) == {"example.com/gpu": 2}


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        pytest.param([container(cpu="200m")], 300, id="a small init container hides behind the containers"),
        pytest.param([container(cpu="1")], 1000, id="a large init container is the peak"),
        pytest.param([container(cpu="1"), container(cpu="2")], 2000, id="init containers take turns"),
        pytest.param([container(cpu="50m", sidecar=True)], 350, id="a sidecar runs beside the containers"),
        pytest.param(
            [container(cpu="50m", sidecar=True), container(cpu="60m", sidecar=True)],
            410,
            id="sidecars are added up",
        ),
        pytest.param(
            [container(cpu="500m", sidecar=True), container(cpu="600m")],
            1100,
            id="a sidecar runs beside the init container after it",
        ),
        pytest.param(
            [container(cpu="600m"), container(cpu="500m", sidecar=True)],
            800,
            id="a sidecar does not run beside the init container before it",
        ),
        pytest.param(
            [
                container(cpu="100m", sidecar=True),
                container(cpu="1"),
                container(cpu="200m", sidecar=True),
                container(cpu="900m"),
            ],
            1200,
            id="each init container runs beside the sidecars that came before it",
        ),
    ],
)
def test_init_containers(init: list[dict[str, Any]], expected: int) -> None:
    assert needs(containers=[container(cpu="300m")], initContainers=init)["cpu"] == expected


def test_each_resource_has_a_peak_of_its_own() -> None:
    wanted = needs(
        containers=[container(cpu="1", memory="1Gi")],
        initContainers=[container(cpu="100m", memory="4Gi")],
    )

    assert wanted == {"cpu": 1000, "memory": 4 * GI}


def test_overhead_comes_on_top() -> None:
    wanted = needs(
        containers=[container(cpu="100m")],
        initContainers=[container(cpu="1")],
        overhead={"cpu": "250m", "memory": "120Mi"},
    )

    assert wanted == {"cpu": 1250, "memory": 120 * MI}


def test_a_limit_without_a_request_is_the_request() -> None:
    wanted = needs(containers=[container(cpu="100m", limits={"cpu": "2", "memory": "1Gi"})])

    assert wanted == {"cpu": 100, "memory": GI}


@pytest.mark.parametrize(
    ("pod_level", "expected"),
    [
        pytest.param(
            {"requests": {"cpu": "1"}}, {"cpu": 1000, "memory": GI}, id="a request replaces the sum"
        ),
        pytest.param({"requests": {"cpu": "0"}}, {"cpu": 0, "memory": GI}, id="also where it is smaller"),
        pytest.param(
            {"limits": {"cpu": "4"}}, {"cpu": 300, "memory": GI}, id="a limit leaves what containers ask for"
        ),
        pytest.param(
            {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
            {"cpu": 1000, "memory": GI},
            id="a request goes before the limit",
        ),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"cpu": 300, "memory": GI, "hugepages-2Mi": 4 * MI},
            id="a limit is the request of what no container asks for",
        ),
        pytest.param(
            {"requests": {"example.com/gpu": "1"}, "limits": {"ephemeral-storage": "1Gi"}},
            {"cpu": 300, "memory": GI},
            id="only cpu, memory and huge pages exist at pod level",
        ),
    ],
)
def test_pod_level_resources(pod_level: dict[str, Any], expected: dict[str, int]) -> None:
    containers = [container(cpu="100m", memory="1Gi"), container(cpu="200m")]

    assert needs(containers=containers, resources=pod_level) == expected


def test_the_huge_pages_of_a_pod_are_its_limit() -> None:
    pages = {"hugepages-2Mi": "2Mi"}
    containers = [{"resources": {"requests": pages, "limits": pages}}]

    assert needs(containers=containers, resources={"limits": {"hugepages-2Mi": "8Mi"}}) == {
        "hugepages-2Mi": 8 * MI
    }


def test_overhead_comes_on_top_of_pod_level_requests() -> None:
    wanted = needs(
        containers=[container(cpu="100m")],
        resources={"requests": {"cpu": "2"}},
        overhead={"cpu": "10m"},
    )

    assert wanted == {"cpu": 2010}


def test_sums_stop_at_the_largest_int64() -> None:
    assert needs(containers=[container(memory="7E"), container(memory="7E")]) == {"memory": INT64_MAX}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="an empty spec"),
        pytest.param({"containers": None, "initContainers": None}, id="nulls, as Go writes them"),
        pytest.param({"containers": [{}]}, id="a container without resources"),
        pytest.param({"containers": [{"resources": {}}]}, id="empty resources"),
        pytest.param({"containers": [container()], "overhead": {}, "resources": {}}, id="empty maps"),
    ],
)
def test_a_pod_that_asks_for_nothing_needs_nothing(spec: dict[str, Any]) -> None:
    assert needs(**spec) == {}


def test_amounts_are_exact_integers_by_resource() -> None:
    assert amounts({"cpu": "4", "memory": "8Gi", "pods": 110}) == {"cpu": 4000, "memory": 8 * GI, "pods": 110}
    assert amounts(None) == {}


def test_a_malformed_quantity_is_an_error_when_it_is_read() -> None:
    with pytest.raises(QuantityError, match="'lots' is not a quantity"):
        needs(containers=[container(cpu="lots")])


# 107374182.4 bytes.
TENTH = container(memory="0.1Gi")


@pytest.mark.parametrize(
    ("spec", "memory"),
    [
        pytest.param({"containers": [TENTH]}, 107_374_183, id="one"),
        pytest.param({"containers": [TENTH, TENTH]}, 214_748_365, id="two"),
        pytest.param({"containers": [TENTH] * 5}, GI // 2, id="five make a whole number"),
        pytest.param(
            {"containers": [TENTH], "initContainers": [container(memory="0.1Gi", sidecar=True)]},
            214_748_365,
            id="one and a sidecar",
        ),
        pytest.param(
            {"containers": [TENTH], "overhead": {"memory": "500m"}}, 107_374_183, id="one and overhead"
        ),
        pytest.param(
            {"containers": [container(limits={"memory": "107374182400m"})] * 2}, 214_748_365, id="limits"
        ),
    ],
)
def test_parts_of_a_byte_are_rounded_up_once_a_pod(spec: dict[str, Any], memory: int) -> None:
    """kube-scheduler adds up what containers ask for as it is, and rounds the sum."""
    pod = msgspec.convert({"spec": spec}, Pod)

    assert (pod.memory_bytes, pod.nonzero_requests[1]) == (memory, memory)

"""What a pod counts for where nodes are scored: never nothing, unless it says so."""

from typing import Any

import pytest

from bayplan.testing import make_pod

MIB = 1024**2


def container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("spec", "cpu_milli", "mebibytes"),
    [
        pytest.param({"containers": [container()]}, 100, 200, id="a container that asks for nothing"),
        pytest.param({"containers": [{"name": "c"}]}, 100, 200, id="not even a list of requests"),
        pytest.param({"containers": [container(), container()]}, 200, 400, id="each of two"),
        pytest.param({"containers": [container(cpu="1")]}, 1000, 200, id="what is not said alone"),
        pytest.param({"containers": [container(cpu="0", memory="0")]}, 0, 0, id="zero is said"),
        pytest.param(
            {"containers": [container(cpu="1", memory="1Mi")], "initContainers": [container(cpu="3")]},
            3000,
            200,
            id="an init container is a small one too",
        ),
        pytest.param(
            {"containers": [container()], "overhead": {"cpu": "10m", "memory": "1Mi"}},
            110,
            201,
            id="overhead comes on top",
        ),
        pytest.param(
            {"containers": [container()], "resources": {"requests": {"cpu": "20m", "memory": "2Mi"}}},
            20,
            2,
            id="the pod as a whole is taken at its word",
        ),
        pytest.param(
            {"containers": [container(), container()], "resources": {"requests": {"cpu": "20m"}}},
            20,
            400,
            id="for what it says",
        ),
        pytest.param(
            {"containers": [container(cpu="5m"), container()], "resources": {"requests": {"memory": "2Mi"}}},
            5,
            2,
            id="once a whole pod asks, one container's word is enough",
        ),
    ],
)
def test_a_container_that_does_not_ask_counts_as_a_small_one(
    spec: dict[str, Any], cpu_milli: int, mebibytes: int
) -> None:
    assert make_pod(spec=spec).nonzero_requests == (cpu_milli, mebibytes * MIB)


def test_what_a_pod_requests_stays_what_it_says() -> None:
    pod = make_pod(spec={"containers": [container(cpu="1")]})

    assert (pod.nonzero_requests, dict(pod.requests)) == ((1000, 200 * MIB), {"cpu": 1000})

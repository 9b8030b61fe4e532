"""NodePorts: a port of a node is taken once."""

from typing import Any

import pytest

from bayplan.policies.default_profile.node_ports import NodePorts
from bayplan.testing import bind, make_cluster, make_pod, run_policy


def with_ports(*ports: dict[str, Any], node: str | None = None, sidecar: bool = False) -> Any:
    container = {"name": "web", "ports": list(ports)}
    spec: dict[str, Any] = {"containers": [{"name": "main"}, container]}
    if sidecar:
        spec = {
            "initContainers": [{**container, "restartPolicy": "Always"}],
            "containers": [{"name": "main"}],
        }
    return make_pod("web", node=node, spec=spec)


def port(number: int, address: str = "", protocol: str = "") -> dict[str, Any]:
    found = {"hostPort": number, "hostIP": address, "protocol": protocol}
    return {"containerPort": 80, **{key: value for key, value in found.items() if value}}


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        pytest.param(port(80), port(80), False, id="the same port"),
        pytest.param(port(80), port(81), True, id="another port"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="another protocol"),
        pytest.param(port(80, protocol="TCP"), port(80), False, id="TCP goes without saying"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), True, id="another address"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.1"), False, id="the same address"),
        pytest.param(port(80, "10.0.0.1"), port(80), False, id="every address is wanted"),
        pytest.param(port(80), port(80, "10.0.0.1"), False, id="every address is taken"),
        pytest.param(port(80, "0.0.0.0"), port(80, "10.0.0.1"), False, id="every address, spelled out"),
        pytest.param({"containerPort": 80}, {"containerPort": 80}, True, id="a port of the pod's own"),
    ],
)
def test_filter(taken: dict[str, Any], wanted: dict[str, Any], fits: bool) -> None:
    cluster = make_cluster(["busy", "free"], [with_ports(taken, node="busy"), make_pod("idle", node="free")])

    result = run_policy(NodePorts, with_ports(wanted), cluster)

    assert result.passed == (["busy", "free"] if fits else ["free"])
    assert set(result.refused.values()) <= {"node(s) didn't have free ports for the requested pod ports"}


def test_a_sidecar_keeps_its_port() -> None:
    cluster = make_cluster(["busy"], [with_ports(port(80), node="busy", sidecar=True)])

    assert run_policy(NodePorts, with_ports(port(80)), cluster).passed == []


def test_one_of_several_ports_is_enough_to_be_refused() -> None:
    cluster = make_cluster(["busy"], [with_ports(port(80), port(443), node="busy")])

    assert run_policy(NodePorts, with_ports(port(9000), port(443)), cluster).passed == []


def test_evicting_the_holder_would_help() -> None:
    cluster = make_cluster(["busy"], [with_ports(port(80), node="busy")])

    (group,) = run_policy(NodePorts, with_ports(port(80)), cluster).filtered.groups()

    assert group[1].preemptible


def test_a_port_that_was_taken_meanwhile_is_seen_at_bind() -> None:
    cluster = make_cluster(["busy"], [with_ports(port(80), node="busy")])

    assert "free ports" in bind(NodePorts, with_ports(port(80)), "busy", cluster).refusal

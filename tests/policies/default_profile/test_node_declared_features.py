"""NodeDeclaredFeatures: what a pod needs of a kubelet is what the node declares."""

from typing import Any

import msgspec
import pytest

from bayplan.kube.node import NodeObject
from bayplan.policies.default_profile.node_declared_features import NodeDeclaredFeatures
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_pod, run_policy

RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RULE = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]


def node(name: str, *features: str) -> NodeObject:
    body = {"metadata": {"name": name}, "status": {"declaredFeatures": list(features)}}
    return msgspec.convert(body, NodeObject)


CLUSTER = Snapshot.build([node("old"), node("restarts", RESTART), node("both", RESTART, USERS)], [])


@pytest.mark.parametrize(
    ("spec", "passed"),
    [
        pytest.param({}, ["old", "restarts", "both"], id="a plain pod needs nothing"),
        pytest.param(
            {"containers": [{"name": "main", "restartPolicyRules": RULE}]}, ["restarts", "both"], id="a rule"
        ),
        pytest.param(
            {"initContainers": [{"name": "init", "restartPolicyRules": RULE}]},
            ["restarts", "both"],
            id="a rule of an init container",
        ),
        pytest.param(
            {"containers": [{"name": "main", "restartPolicyRules": [{"action": "Restart"}]}]},
            ["old", "restarts", "both"],
            id="another rule",
        ),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False}, ["both"], id="own users on the host's network"
        ),
        pytest.param({"hostNetwork": True}, ["old", "restarts", "both"], id="the host's network alone"),
        pytest.param({"hostUsers": False}, ["old", "restarts", "both"], id="own users alone"),
    ],
)
def test_filter(spec: dict[str, Any], passed: list[str]) -> None:
    result = run_policy(NodeDeclaredFeatures, make_pod(spec=spec), CLUSTER)

    assert result.passed == passed
    assert set(result.refused.values()) <= {"node(s) didn't match Pod's required features"}

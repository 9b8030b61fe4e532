"""NodeUnschedulable: a cordoned node gets only pods that tolerate it."""

from typing import Any

import pytest

from bayplan.policies.default_profile.node_unschedulable import NodeUnschedulable
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

CLUSTER = make_cluster([make_node("open"), make_node("cordoned", unschedulable=True)])
KEY = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("toleration", "passed"),
    [
        pytest.param({"key": "other", "operator": "Exists"}, ["open"], id="another taint"),
        pytest.param({"key": KEY, "operator": "Exists"}, ["open", "cordoned"], id="the taint"),
        pytest.param({"key": KEY}, ["open", "cordoned"], id="its value is empty, as that of the toleration"),
        pytest.param({"key": KEY, "value": "x"}, ["open"], id="another value"),
        pytest.param(
            {"key": KEY, "operator": "Exists", "effect": "NoExecute"}, ["open"], id="another effect"
        ),
        pytest.param({"operator": "Exists"}, ["open", "cordoned"], id="everything"),
    ],
)
def test_filter(toleration: dict[str, Any], passed: list[str]) -> None:
    result = run_policy(NodeUnschedulable, make_pod(tolerations=[toleration]), CLUSTER)

    assert result.passed == passed
    assert set(result.refused.values()) <= {"node(s) were unschedulable"}


def test_nothing_is_said_where_no_node_is_cordoned() -> None:
    assert NodeUnschedulable().is_open(make_pod(), make_cluster(["open"]).nodes) is None

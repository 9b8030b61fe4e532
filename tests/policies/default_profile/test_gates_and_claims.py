"""SchedulingGates and DynamicResources: pods that no node can have, whatever it is like."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bayplan.authoring.load import load
from bayplan.engine.choose import choose
from bayplan.testing import make_cluster, make_pod

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CLUSTER = make_cluster(["one", "two"])


def message(policy: str, spec: dict[str, Any]) -> str:
    policies = [definition.make() for definition in load(policy)]
    return choose(policies, make_pod(spec=spec), CLUSTER, now=NOON).message


@pytest.mark.parametrize(
    ("policy", "spec", "told"),
    [
        pytest.param("SchedulingGates", {}, "", id="no gates"),
        pytest.param("SchedulingGates", {"schedulingGates": []}, "", id="the last gate is gone"),
        pytest.param(
            "SchedulingGates",
            {"schedulingGates": [{"name": "example.com/quota"}]},
            "0/2 nodes are available: Scheduling is blocked due to non-empty scheduling gates.",
            id="a gate",
        ),
        pytest.param("DynamicResources", {}, "", id="no claims"),
        pytest.param(
            "DynamicResources",
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]},
            "0/2 nodes are available: Bayplan does not judge resource claims (DRA).",
            id="a claim",
        ),
    ],
)
def test_a_pod_that_no_node_can_have_is_told_so_once(policy: str, spec: dict[str, Any], told: str) -> None:
    assert message(policy, spec) == told


def test_a_gate_is_told_before_whatever_is_wrong_with_the_nodes() -> None:
    policies = [load(name)[0].make() for name in ("NodeResourcesFit", "DynamicResources", "SchedulingGates")]
    pod = make_pod(cpu=100, spec={"schedulingGates": [{"name": "example.com/quota"}]})

    choice = choose(policies, pod, CLUSTER, now=NOON)

    assert choice.message.endswith("available: Scheduling is blocked due to non-empty scheduling gates.")

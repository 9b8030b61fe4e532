"""Policies that raise or never return: ``failurePolicy`` answers for them, and the server lives on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

# Line 6 is the one that events must name.
BROKEN = """\
import bayplan

@bayplan.filter
def quota(pod, node):
    if pod.namespace == "default" and node.name == "n1":
        raise LookupError("no quota for team blue")
"""

ENDLESS = """\
import bayplan

@bayplan.filter
def endless(pod, node):
    while pod.name == "p":
        pass
"""

POLICY_SECONDS = 1.0


def broken(cluster: ControlPlane, directory: Path, failure_policy: str) -> Extender:
    return Extender(
        cluster.api,
        directory,
        BROKEN,
        name="quota",
        kubeconfig=cluster.kubeconfig,
        failure_policy=failure_policy,
    )


def endless(cluster: ControlPlane, directory: Path, failure_policy: str) -> Extender:
    limits = {"policyTimeout": f"{POLICY_SECONDS:g}s"}
    return Extender(
        cluster.api,
        directory,
        ENDLESS,
        name="endless",
        kubeconfig=cluster.kubeconfig,
        failure_policy=failure_policy,
        config={"extender": {"limits": limits}},
    )


def test_fail_shows_policy_exception_and_line_and_the_pod_is_tried_again(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    cluster.api.create_node("n1")
    cluster.api.create_node("n2")

    with (
        broken(cluster, tmp_path, "Fail") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("p")

        said = cluster.api.wait_event("p", "FailedScheduling")
        expected = "policy 'quota' failed: quota.py:6 quota: LookupError: no quota for team blue (on node n1)"
        assert expected in said
        assert expected in cluster.api.wait_unschedulable("p", reason="SchedulerError")
        bayplan.wait_metric(3, "bayplan_requests_total", verb="filter", result="error")
        assert bayplan.metric("bayplan_policy_failures_total", policy="quota", kind="exception") >= 3
        assert cluster.api.node_of("p") is None
        assert "quota.py:6" in bayplan.log()


def test_ignore_makes_the_policy_abstain(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("n1")
    cluster.api.create_node("n2")

    with (
        broken(cluster, tmp_path, "Ignore") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("p")

        cluster.api.wait_bound("p")
        assert bayplan.requests("filter", result="ok") == 1
        assert bayplan.metric("bayplan_policy_failures_total", policy="quota", kind="exception") == 1
        assert "quota.py:6" in bayplan.log()


def test_fail_answers_for_a_policy_that_never_returns(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("n1")

    with (
        endless(cluster, tmp_path, "Fail") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("p")

        said = cluster.api.wait_event("p", "FailedScheduling")
        assert "policy 'endless' failed: endless.py:3 endless: still running after 1.0 s" in said
        assert cluster.api.node_of("p") is None
        assert bayplan.metric("bayplan_policy_failures_total", policy="endless", kind="overrun") >= 1
        # Others get their answer, also from the policy that was given up for the first one.
        cluster.api.create_pod("q")
        cluster.api.wait_bound("q")


def test_ignore_lets_the_pod_pass_a_policy_that_never_returns(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("n1")

    with (
        endless(cluster, tmp_path, "Ignore") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("p")

        assert cluster.api.wait_bound("p") == "n1"
        assert bayplan.metric("bayplan_policy_failures_total", policy="endless", kind="overrun") == 1


@pytest.mark.alone
def test_health_and_metrics_are_answered_while_a_policy_loops(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("n1")

    with (
        endless(cluster, tmp_path, "Fail") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        cluster.api.create_pod("p")
        answered_in: list[float] = []

        def three_loops_met_their_deadline() -> bool:
            if bayplan.metric("bayplan_requests_in_flight"):
                for path in ("/livez", "/metrics"):
                    start = time.monotonic()
                    status, _ = bayplan.ops(path, timeout_seconds=1.0)
                    answered_in.append(time.monotonic() - start)
                    assert status == 200
            return bayplan.requests("filter", result="error") >= 3

        wait_until(three_loops_met_their_deadline, 60, what="three loops met their deadline")

        assert len(answered_in) >= 6
        assert max(answered_in) < 1.0
        print(f"\n{len(answered_in)} questions to the ops port, the slowest took {max(answered_in):.3f} s")

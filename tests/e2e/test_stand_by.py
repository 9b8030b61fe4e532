"""Of two ``bayplan schedule`` one stands by: what dashboard and alerts take for granted about its metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.deploy.exposed import NAME as METRIC
from tests.deploy.exposed import scheduler_samples
from tests.e2e.second_scheduler import SecondScheduler
from tests.e2e.test_schedule import create_pods, wait_bound
from tests.e2e.two_schedulers import leader_first, leads, short_lease

pytestmark = pytest.mark.e2e

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_who_stands_by_sees_the_same_pods_wait_and_tries_none(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("small", cpu="1")
    flag = short_lease(tmp_path)
    first, second = (
        SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, name=name, flags=[flag])
        for name in ("first", "second")
    )
    with second, first:
        leader, other = leader_first(first, second)
        create_pods(cluster, 1, cpu="100m", prefix="fits")
        create_pods(cluster, 2, cpu="64", prefix="too-big")
        wait_bound(cluster, 1)
        wait_until(
            lambda: all(each.metric("bayplan_pending_pods") == 2 for each in (leader, other)),
            30,
            what="both see two pods wait",
        )
        wait_until(
            lambda: leader.metric("bayplan_schedule_attempts_total", result="unschedulable") >= 2,
            30,
            what="both were refused",
        )

        assert leads(leader)
        assert leader.metric("bayplan_schedule_attempts_total", result="scheduled") == 1
        assert not leads(other)
        assert other.metric("bayplan_schedule_attempts_total") == 0
        assert sorted(asked_for() - exposed_by(leader)) == []


def asked_for() -> set[str]:
    """The metrics of the scheduler that dashboard and alerts ask for."""
    board = json.loads((DEPLOY / "grafana" / "bayplan.json").read_text())
    rules = yaml.safe_load((DEPLOY / "prometheus" / "bayplan-rules.yaml").read_text())
    named = set(METRIC.findall(json.dumps([board, rules])))
    return named & scheduler_samples().keys()


def exposed_by(bayplan: SecondScheduler) -> set[str]:
    """The names of all its series."""
    _, text = bayplan.ops("/metrics")
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}

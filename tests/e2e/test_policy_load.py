"""Load on the real kube-scheduler, with a real Prometheus: limits, bursts, and Prometheus gone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender
from tests.e2e.prometheus import METRIC, Prometheus

pytestmark = pytest.mark.e2e


def extender(
    cluster: ControlPlane,
    directory: Path,
    prometheus: Prometheus,
    *,
    interval: str = "1s",
    max_age: str = "5m",
    **column: Any,
) -> Extender:
    # One scrape that takes too long, on a busy machine, must not look like a node without a value.
    query = f"last_over_time({METRIC}[1m])"
    asked = {"url": prometheus.url, "query": query, "match": "name"}
    config = {
        "sources": [{"name": "load", "prometheus": asked, "interval": interval, "maxAge": max_age}],
        "policies": [{"use": "Load", "args": {"columns": [{"source": "load", **column}]}}],
        "cluster": {"nudge": {"enabled": True, "interval": "1s"}},
    }
    return Extender(cluster.api, directory, "", kubeconfig=cluster.kubeconfig, config=config)


def values_are_in(bayplan: Extender) -> None:
    """Before the first answer every value is missing."""
    wait_until(lambda: bayplan.metric("bayplan_source_up", source="load") == 1, 30, what="load was read")


def test_a_pod_waits_for_the_load_to_fall_and_then_goes_without_any_other_event(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("busy")
    with (
        Prometheus(tmp_path, {"busy": 0.95}) as prometheus,
        extender(cluster, tmp_path, prometheus, refuseAbove=0.8, until=0.6, onMissing="fail") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        values_are_in(bayplan)
        api.create_pod("web", cpu="100m")
        api.wait_event("web", "FailedScheduling", containing="1 load is above 0.8")

        prometheus.set("busy", 0.7)
        api.wait_event("web", "FailedScheduling", containing="1 load was above 0.8 and is not below 0.6 yet")
        assert api.node_of("web") is None

        prometheus.set("busy", 0.5)
        assert api.wait_bound("web", 10) == "busy"
        assert bayplan.metric("bayplan_nudges_total") >= 2


def test_a_burst_does_not_all_hit_the_one_idle_node(cluster: ControlPlane, tmp_path: Path) -> None:
    """To Prometheus the idle node stays idle for the whole test; what was placed there is counted here."""
    api = cluster.api
    for name in ("idle", "half"):
        api.create_node(name, cpu="10")
    with (
        Prometheus(tmp_path, {"idle": 0.1, "half": 0.5}) as prometheus,
        extender(cluster, tmp_path, prometheus, interval="60s", resource="cpu") as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=100, bind=True)]),
    ):
        values_are_in(bayplan)
        for number in range(10):
            api.create_pod(f"p{number}", cpu="1")
        found = Counter(api.wait_bound(f"p{number}") for number in range(10))

        # Four bring the idle one to the other's half; from there on they take turns.
        assert found["idle"] > found["half"] >= 2


def test_without_prometheus_values_grow_old_and_the_setting_decides(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("busy")
    with (
        Prometheus(tmp_path, {"busy": 0.95}) as prometheus,
        extender(
            cluster, tmp_path, prometheus, interval="500ms", max_age="3s", refuseAbove=0.8, onMissing="pass"
        ) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry()]),
    ):
        values_are_in(bayplan)
        api.create_pod("waiting", cpu="100m")
        api.wait_event("waiting", "FailedScheduling", containing="load is above 0.8")

        prometheus.kill()
        # That the value is too old is news as well: it does not wait for kube-scheduler's five minutes.
        assert api.wait_bound("waiting", 20) == "busy"
        assert bayplan.metric("bayplan_source_up", source="load") == 0
        assert bayplan.metric("bayplan_source_failures_total", source="load") >= 1
        assert "failures in a row" in bayplan.ops("/healthz?verbose")[1]
        assert bayplan.ops("/readyz")[0] == 200

        prometheus.start()
        values_are_in(bayplan)
        api.create_pod("later", cpu="100m")
        api.wait_event("later", "FailedScheduling", containing="load is above 0.8")

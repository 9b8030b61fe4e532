"""A candidate beside the live configuration, and a real kube-scheduler: pods go where the live one says."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

LIVE = """
    import bayplan

    @bayplan.filter
    def disk(pod, node):
        return None if node.name != "n3" else "no ssd"

    @bayplan.score(range=(0, 10))
    def first(pod, node):
        return 10 if node.name == "n1" else 0
"""
CANDIDATE = """
import time

import bayplan


@bayplan.filter
def disk(pod, node):
    what = pod.labels.get("try")
    if what == "raise":
        raise ValueError("half-baked")
    if what == "hang":
        time.sleep(600)
    if what == "nowhere":
        return "nothing is good enough"
    return None if node.name != "n3" else "no ssd"


@bayplan.score(range=(0, 10))
def first(pod, node):
    return 10 if node.name == ("n2" if pod.labels.get("try") == "elsewhere" else "n1") else 0
"""
PATIENCE_SECONDS = 30.0


def write_candidate(folder: Path) -> Path:
    """The candidate's configuration, and its policy beside it."""
    (folder / "next.py").write_text(CANDIDATE)
    config = {
        "apiVersion": "bayplan.dev/v1",
        "kind": "BayplanConfiguration",
        "policies": [{"use": "next.py", "name": "policy"}],
        "extender": {"listen": "127.0.0.1:1"},
    }
    (folder / "next.yaml").write_text(yaml.safe_dump(config))
    return folder / "next.yaml"


def shadow(bayplan: Extender) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{bayplan.page_port}/api/shadow") as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def until_settled(bayplan: Extender, calls: int) -> dict[str, Any]:
    """What ``/api/shadow`` says, once the candidate has had its turn with so many calls."""
    wait_until(
        lambda: sum(shadow(bayplan)["results"].values()) >= calls,
        PATIENCE_SECONDS,
        what=f"{calls} calls are through",
        explain=lambda: f"{shadow(bayplan)}\n{bayplan.log()}",
    )
    return shadow(bayplan)


def extender(cluster: ControlPlane, folder: Path) -> Extender:
    flags = [f"--shadow={write_candidate(folder)}"]
    return Extender(cluster.api, folder, LIVE, kubeconfig=cluster.kubeconfig, flags=flags)


def test_pods_go_where_the_live_one_says_and_every_disagreement_is_counted(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.api.create_node(name)
    pods = [*["same"] * 4, *["elsewhere"] * 3, *["nowhere"] * 2]
    with (
        extender(cluster, tmp_path) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=10)]),
    ):
        placed = []
        for number, what in enumerate(pods):
            cluster.api.create_pod(f"{what}-{number}", labels={"try": what})
            placed.append(cluster.api.wait_bound(f"{what}-{number}"))
        report = until_settled(bayplan, 2 * len(pods))
        counted = {
            (verb, result): bayplan.metric("bayplan_shadow_decisions_total", verb=verb, result=result)
            for verb in ("filter", "prioritize")
            for result in ("same", "refuses_more", "accepts_more", "mixed", "other_node", "failed", "skipped")
        }
        refused_nodes = bayplan.metric("bayplan_shadow_nodes_total", difference="refuses")
        refused_pods = bayplan.metric("bayplan_shadow_pods_total", turn="refused")

    assert placed == ["n1"] * len(pods)
    assert {key: count for key, count in counted.items() if count} == {
        ("filter", "same"): 7,
        ("filter", "refuses_more"): 2,
        ("prioritize", "same"): 6,
        ("prioritize", "other_node"): 3,
    }
    assert (refused_nodes, refused_pods) == (4, 2)
    assert (report["compared"], report["disagreed"], report["rate"]) == (18, 5, 5 / 18)
    assert (report["refusedPods"], report["admittedPods"]) == (2, 0)
    by_pod = {example["pod"]: example for example in report["examples"]}
    assert sorted(by_pod) == [f"default/{what}-{n}" for n, what in enumerate(pods) if what != "same"]
    nowhere = by_pod["default/nowhere-8"]["difference"]
    assert (nowhere["turn"], nowhere["candidate"]["whyNone"]) == ("refused", "3 nothing is good enough")
    assert {(n["node"], n["candidate"]["reason"]) for n in nowhere["nodes"]} == {
        ("n1", "nothing is good enough"),
        ("n2", "nothing is good enough"),
    }
    elsewhere = by_pod["default/elsewhere-4"]
    assert (elsewhere["difference"]["live"]["best"], elsewhere["difference"]["candidate"]["best"]) == (
        ["n1"],
        ["n2"],
    )
    assert "extender of next.yaml is ignored" in bayplan.log()


def test_a_candidate_that_raises_or_hangs_or_is_replaced_by_a_bad_one_disturbs_nobody(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    for name in ("n1", "n2"):
        cluster.api.create_node(name)
    with (
        extender(cluster, tmp_path) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(weight=10)]),
    ):
        for number, what in enumerate(["raise", "hang", "hang", "raise"]):
            cluster.api.create_pod(f"{what}-{number}", labels={"try": what})
            assert cluster.api.wait_bound(f"{what}-{number}") == "n1"
        until_settled(bayplan, 8)
        failed = bayplan.metric("bayplan_shadow_decisions_total", verb="filter", result="failed")
        slowest = bayplan.metric("bayplan_request_duration_seconds_bucket", verb="filter", le="0.5")
        answered = bayplan.requests("filter", result="ok")

        (tmp_path / "next.py").write_text("this is no python")
        wait_until(
            lambda: bayplan.metric("bayplan_shadow_last_reload_successful") == 0,
            PATIENCE_SECONDS,
            what="the bad candidate is refused",
            explain=bayplan.log,
        )
        cluster.api.create_pod("after")
        assert cluster.api.wait_bound("after") == "n1"
        report = until_settled(bayplan, 10)
        ready, _ = bayplan.ops("/readyz")
        live_reload = bayplan.metric("bayplan_last_reload_successful")

    assert failed == 4
    assert (slowest, answered) == (4, 4)
    assert "next.py" in report["problem"]
    assert (report["generation"], ready, live_reload) == (1, 200, 1)

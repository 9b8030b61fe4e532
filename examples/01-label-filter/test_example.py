"""The example does what its README says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bayplan.testing import make_cluster, make_node, make_pod, run_policy
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

HERE = Path(__file__).parent
POLICY = HERE / "policy.py"
LABEL = {"example-label": "yes"}


def test_only_nodes_with_the_label_pass() -> None:
    cluster = make_cluster([make_node("node-1", labels=LABEL), "node-2"])

    result = run_policy(POLICY, make_pod(), cluster)

    assert result.passed == ["node-1"]
    assert result.refused == {"node-2": "node lacks example-label"}


def test_the_highest_last_digit_is_best() -> None:
    cluster = make_cluster([make_node(name, labels=LABEL) for name in ("node-1", "node-9", "node-5")])

    result = run_policy(POLICY, make_pod(), cluster)

    assert result.scores == {"node-1": 0, "node-9": 100, "node-5": 50}
    assert result.best == "node-9"
    assert result.errors == []


@pytest.mark.e2e
def test_pods_land_where_the_readme_says(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    for name in ("node-1", "node-2", "node-3"):
        api.create_node(name)
    extender = Extender(api, tmp_path, POLICY, kubeconfig=cluster.kubeconfig)
    configuration = yaml.safe_load((HERE / "scheduler.yaml").read_text())
    (entry,) = configuration["extenders"]
    assert entry["urlPrefix"] == "http://127.0.0.1:8888"
    entry["urlPrefix"] = extender.url

    with extender as bayplan, cluster.scheduler(configuration=configuration):
        api.create_pod("web", scheduler_name="label-filter")
        said = api.wait_event("web", "FailedScheduling")
        assert said.startswith("0/3 nodes are available: 3 node lacks example-label.")

        api.patch("nodes", "node-1", {"metadata": {"labels": LABEL}})
        assert api.wait_bound("web") == "node-1"

        api.patch("nodes", "node-2", {"metadata": {"labels": LABEL}})
        wait_until(lambda: labels_are_seen(bayplan), 30, what="Bayplan has heard of both labels")
        api.create_pod("web-2", scheduler_name="label-filter")
        assert api.wait_bound("web-2") == "node-2"


def labels_are_seen(bayplan: Extender) -> bool:
    """Ask as kube-scheduler would."""
    question = {
        "Pod": {"metadata": {"name": "any", "namespace": "default"}},
        "NodeNames": ["node-1", "node-2"],
    }
    return bool(bayplan.call("filter", question)["NodeNames"] == ["node-1", "node-2"])

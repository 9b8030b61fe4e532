"""Two of our servers in one kube-scheduler: both have their say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

SSD = """
    import bayplan

    @bayplan.filter
    def disk(pod, node):
        return None if node.labels.get("disk") == "ssd" else "no ssd"
"""

EAST = """
    import bayplan

    @bayplan.filter
    def region(pod, node):
        return None if node.labels.get("region") == "east" else "not in the east"
"""


@pytest.fixture(params=["names only", "full nodes"])
def both(cluster: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Extender]]:
    """Two servers with a rule each; of four nodes one satisfies the two, and that one is small.

    With ``always`` each of them tells why nodes were refused whatever passes.
    """
    cluster.api.create_node("neither")
    cluster.api.create_node("spinning", labels={"region": "east"})
    cluster.api.create_node("far", labels={"disk": "ssd"})
    cluster.api.create_node("right", labels={"disk": "ssd", "region": "east"}, cpu="1")
    kubeconfig = None if request.param == "full nodes" else cluster.kubeconfig
    config = {"extender": {"answer": {"failedNodes": "always"}}} if request.param == "always" else None
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                Extender(cluster.api, tmp_path, policy, name=name, kubeconfig=kubeconfig, config=config)
            )
            for name, policy in (("ssd", SSD), ("east", EAST))
        ]


def test_both_filters_hold(cluster: ControlPlane, both: list[Extender]) -> None:
    with cluster.scheduler(extenders=[bayplan.entry() for bayplan in both]):
        cluster.api.create_pod("p")

        assert cluster.api.wait_bound("p") == "right"
        assert [bayplan.requests("filter", result="ok") for bayplan in both] == [1, 1]


REASONS = "0/4 nodes are available: 1 Insufficient cpu, 1 not in the east, 2 no ssd."


def test_the_reasons_of_both_show_when_the_pod_comes_again(
    cluster: ControlPlane, both: list[Extender]
) -> None:
    with cluster.scheduler(extenders=[bayplan.entry() for bayplan in both]):
        cluster.api.create_pod("p", cpu="2")

        # The first one let a node pass, and could not know that the second would refuse it.
        message = cluster.api.wait_event("p", "FailedScheduling")
        assert message.startswith("0/4 nodes are available: 1 Insufficient cpu, 1 not in the east.")

        cluster.api.patch("pods", "p", {"metadata": {"annotations": {"again": "please"}}})
        assert cluster.api.wait_event("p", "FailedScheduling", containing="2 no ssd").startswith(REASONS)


@pytest.mark.parametrize("both", ["always"], indirect=True)
def test_the_reasons_of_both_show_at_once_where_that_is_wanted(
    cluster: ControlPlane, both: list[Extender]
) -> None:
    with cluster.scheduler(extenders=[bayplan.entry() for bayplan in both]):
        cluster.api.create_pod("p", cpu="2")

        assert cluster.api.wait_event("p", "FailedScheduling").startswith(REASONS)

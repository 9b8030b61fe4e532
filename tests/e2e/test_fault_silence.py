"""A connection goes silent and nobody closes it: this is noticed, and the view is right again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender
from tests.e2e.fault_proxy import FaultProxy
from tests.e2e.one_per_node import ONE_PER_NODE, SINGLE, bind, free_for, placed, wait_view

# The API server speaks once a minute on a quiet watch: less than that says nothing.
pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

PATIENCE_SECONDS = 150.0


@pytest.mark.timeout(300)
def test_half_open_watches_are_opened_anew(cluster: ControlPlane, tmp_path: Path) -> None:
    nodes = ["n1", "n2", "n3"]
    for name in nodes:
        cluster.api.create_node(name)
    first = cluster.api.create_pod("first", labels=SINGLE)
    second = cluster.api.create_pod("second", labels=SINGLE)
    config = {"extender": {"limits": {"requestTimeout": "1s"}}}

    with FaultProxy(cluster, tmp_path) as proxy:
        with Extender(
            cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=proxy.kubeconfig, config=config
        ) as bayplan:
            wait_view(bayplan, cluster)
            assert bind(bayplan, first, "n1") == ""
            wait_until(lambda: free_for(bayplan, second, nodes) == ["n2", "n3"], 20, what="it is seen there")

            silenced = proxy.silence()
            since = time.monotonic()
            cluster.api.delete("pods", "first")
            cluster.api.delete("nodes", "n3")
            assert free_for(bayplan, second, nodes) == ["n2", "n3"], "nobody has told"
            # The connection of the last bind is silent, too: the request is lost, and sent again.
            wait_until(lambda: bind(bayplan, second, "n2") == "", 20, what="bound over a new connection")
            bound = time.monotonic() - since

            third = cluster.api.create_pod("third", labels=SINGLE)
            wait_until(
                lambda: free_for(bayplan, third, ["n1", "n2"]) == ["n1"],
                PATIENCE_SECONDS,
                what="the view is right again",
                explain=bayplan.child.log_tail,
                poll_seconds=0.2,
            )
            seconds = time.monotonic() - since
            wait_view(bayplan, cluster)
            noticed = bayplan.log().count("silent for")
        lists = proxy.count("GET", "sendInitialEvents=true")

    assert placed(cluster) == {"second": "n2"}
    assert silenced >= 2, "a watch for nodes and one for pods"
    assert noticed == 2
    assert lists == 2, "the watches resumed where they were"
    print(
        f"\n{silenced} connections silent and open: a bind went through in {bound:.1f} s, the view was right"
        f" after {seconds:.0f} s, no list"
    )

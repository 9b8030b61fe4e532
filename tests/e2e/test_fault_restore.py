"""An older etcd is brought back under servers that run: what came after it never was, and they notice."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.controlplane.client import Json
from tests.controlplane.manifests import pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.after_fault import wait_settled
from tests.e2e.fault_proxy import FaultProxy
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.slices import (
    bayplan_with_slices,
    check_verified,
    create_owners,
    create_slices,
    wait_owners,
    wait_told,
)

pytestmark = pytest.mark.e2e

NODES, SLICES_A_NODE = 4, 10
SLICES = NODES * SLICES_A_NODE
RESTORED = "an older state of the cluster was restored"


def version(created: Json) -> int:
    """The version of the cluster in which this was written."""
    return int(created["metadata"]["resourceVersion"])


def test_slices_of_pods_that_were_never_there_are_free(cluster: ControlPlane, tmp_path: Path) -> None:
    """Half of the slices at the backup, all of them at the disaster; kube-scheduler is started again."""
    create_slices(cluster, nodes=NODES, each=SLICES_A_NODE)
    half = SLICES // 2
    with bayplan_with_slices(cluster, tmp_path) as bayplan:
        with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
            create_owners(cluster, range(half))
            kept = wait_owners(cluster, half)
            saved = cluster.save()
            create_owners(cluster, range(half, SLICES))
            wait_owners(cluster, SLICES)

        cluster.restore(saved)
        back_at = time.monotonic()
        create_owners(cluster, range(1000, 1000 + half))
        wait_until(
            lambda: RESTORED in bayplan.log(), 30, what="it has noticed", explain=bayplan.child.log_tail
        )
        with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
            owned = wait_owners(cluster, SLICES)
            seconds = time.monotonic() - back_at
        check_verified(bayplan)

    assert {name: owned[name] for name in kept} == kept
    assert RESTORED in bayplan.log()
    print(f"\nrestored with {half} of {SLICES} slices owned: the others were owned again in {seconds:.1f} s")


def test_who_was_refused_before_it_was_noticed_is_tried_again(cluster: ControlPlane, tmp_path: Path) -> None:
    """kube-scheduler asks while Bayplan is still blind, and hears of nothing later on: it is nudged."""
    create_slices(cluster, nodes=NODES, each=SLICES_A_NODE)
    saved = cluster.save()
    with (
        FaultProxy(cluster, tmp_path) as proxy,
        bayplan_with_slices(cluster, tmp_path, kubeconfig=proxy.kubeconfig, nudge=True) as bayplan,
    ):
        with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
            create_owners(cluster, range(SLICES))
            wait_owners(cluster, SLICES)
        proxy.decide = lambda _method, _path: "request lost"
        proxy.cut()
        cluster.restore(saved)
        create_owners(cluster, range(1000, 1000 + SLICES))
        with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
            # As many things happen until then as were lost: by the versions alone nobody could tell.
            wait_told(cluster, waiting=SLICES, nodes=NODES)
            proxy.decide = lambda _method, _path: ""
            seen_at = time.monotonic()
            wait_owners(cluster, SLICES)
            seconds = time.monotonic() - seen_at
        check_verified(bayplan)
    print(f"\n{SLICES} pods were refused by slices that were never owned: all owned {seconds:.1f} s later")


def test_a_node_that_never_was_as_it_is_in_view_is_found_by_verifying(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Cut off until the versions have passed those that were lost: no watch will ever tell of the node."""
    create_slices(cluster, nodes=NODES, each=SLICES_A_NODE)
    saved = cluster.save()
    with (
        FaultProxy(cluster, tmp_path) as proxy,
        bayplan_with_slices(cluster, tmp_path, kubeconfig=proxy.kubeconfig) as bayplan,
    ):
        more = {"metadata": {"annotations": {"example.com/gpus": f"{10 * SLICES_A_NODE}x250"}}}
        lost = version(cluster.api.patch("nodes", "n0", more))
        # So it has seen that, and its watch of nodes is past the backup.
        check_verified(bayplan)
        proxy.decide = lambda _method, _path: "request lost"
        proxy.cut()
        cluster.restore(saved)
        for number in range(1000):
            # Renewals of the Lease, and bookmarks, took it a little further than that.
            if version(cluster.api.create("configmaps", {"metadata": {"name": f"c{number}"}})) > lost + 100:
                break
        watched = ("/api/v1/nodes", "watch=true")
        before = proxy.count("GET", *watched)
        proxy.decide = lambda _method, _path: ""
        wait_until(
            lambda: proxy.count("GET", *watched) > before,
            30,
            what="it watches again",
            explain=bayplan.child.log_tail,
        )
        status, text = bayplan.ops("/verify")

    assert RESTORED not in bayplan.log(), "then it would have listed everything again"
    assert status == 200, text
    (found,) = json.loads(text)["drift"]
    assert found.startswith("node n0 has other metadata.annotations than in view: version "), found


def test_the_scheduler_goes_on_with_what_is_there(cluster: ControlPlane, tmp_path: Path) -> None:
    """Pods that wait, pods that are bound, and a node, each of them not so at the time of the backup."""
    for number in range(4):
        cluster.api.create_node(f"n{number}", pods=10)

    def create(*names: str) -> None:
        for name in names:
            cluster.api.create("pods", pod_manifest(name, scheduler_name=NAME, cpu="10m"))

    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        create(*(f"old-{number}" for number in range(10)))
        wait_settled(cluster, bayplan)
        with bayplan.child.frozen():
            # Unbound in the backup, and bound before the disaster.
            create(*(f"twice-{number}" for number in range(10)))
            saved = cluster.save()
        create(*(f"never-{number}" for number in range(20)))
        assert len(wait_settled(cluster, bayplan).bound) == 40
        cluster.api.delete("nodes", "n3")

        cluster.restore(saved)
        back_at = time.monotonic()
        create(*(f"new-{number}" for number in range(25)))
        wait_until(
            lambda: sum(bool(pod["spec"].get("nodeName")) for pod in cluster.api.items("pods")) == 40,
            60,
            what="the four nodes are full again",
            explain=bayplan.child.log_tail,
        )
        seconds = time.monotonic() - back_at
        outcome = wait_settled(cluster, bayplan)

    assert len(outcome.bound) == 40
    assert len(outcome.waiting) == 5
    assert not [name for name in (*outcome.bound, *outcome.waiting) if name.startswith("never")]
    assert RESTORED in bayplan.log()
    print(f"\nrestored with 30 pods fewer and a node more: all 40 places were taken {seconds:.1f} s later")

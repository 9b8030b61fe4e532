"""What happens between filter and bind, or a moment before filter: nobody is misplaced or left behind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json
from tests.e2e.one_per_node import (
    ONE_PER_NODE,
    SINGLE,
    bind,
    check_one_each,
    free_for,
    placed,
    wait_placed,
    wait_view,
)

pytestmark = pytest.mark.e2e

ROUNDS = 20
PLACES = 40
PODS = 50

REFUSALS = ("said 404", "is gone", "is another one now")
"""By the API server, by our watch in the middle of the bind, and by whom it was made anew."""


@pytest.mark.parametrize(
    "made_anew", [pytest.param(False, id="deleted"), pytest.param(True, id="deleted and made anew")]
)
def test_the_pod_goes_between_filter_and_bind(cluster: ControlPlane, tmp_path: Path, made_anew: bool) -> None:
    cluster.api.create_node("n1")
    other = cluster.api.create_pod("other", labels=SINGLE)
    said: set[str] = set()
    with Extender(cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=cluster.kubeconfig) as bayplan:
        for number in range(ROUNDS):
            name = f"p{number}"
            old = cluster.api.create_pod(name, labels=SINGLE)
            # Every other round the watch has told of the pod, which makes another way through bind.
            if number % 2:
                wait_view(bayplan, cluster)
            assert free_for(bayplan, old, ["n1"]) == ["n1"]
            cluster.api.delete("pods", name)
            new = cluster.api.create_pod(name, labels=SINGLE) if made_anew else None
            if number % 4 > 1:
                wait_view(bayplan, cluster)

            refusal = bind(bayplan, old, "n1")

            assert any(kind in refusal for kind in REFUSALS), refusal
            said |= {kind for kind in REFUSALS if kind in refusal}
            if new:
                assert cluster.api.node_of(name) is None
            assert free_for(bayplan, other, ["n1"]) == ["n1"], "no place is kept"
        # Neither is the pod itself.
        wait_view(bayplan, cluster)
        assert bind(bayplan, other, "n1") == ""
        assert placed(cluster) == {"other": "n1"}

    print(f"\n{ROUNDS} pods gone between filter and bind: {ROUNDS} binds refused ({', '.join(sorted(said))})")


def test_two_schedulers_and_one_server(cluster: ControlPlane, tmp_path: Path) -> None:
    for number in range(PLACES):
        cluster.api.create_node(f"n{number}")
    for number in range(PODS):
        name = "even" if number % 2 == 0 else "odd"
        cluster.api.create_pod(f"p{number}", cpu="10m", labels=SINGLE, scheduler_name=name)

    with Extender(cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=cluster.kubeconfig) as bayplan:
        entry = bayplan.entry(bind=True)
        started = time.monotonic()
        with (
            cluster.scheduler(extenders=[entry], scheduler_name="even"),
            cluster.scheduler(extenders=[entry], scheduler_name="odd"),
        ):
            wait_placed(cluster, PLACES)
            check_one_each(cluster, nodes=PLACES, waiting=PODS - PLACES)
            seconds = time.monotonic() - started
        refused = bayplan.requests("bind", result="error")
    even = sum(int(name[1:]) % 2 == 0 for name in placed(cluster))

    print(
        f"\ntwo kube-schedulers: {PLACES} of {PODS} pods on {PLACES} nodes, one each ({even} and"
        f" {PLACES - even}), {refused} binds refused on the way; {seconds:.1f} s"
    )


def test_a_node_a_moment_before_its_first_pod(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.api.create_node("elsewhere")
    took = []
    with (
        Extender(cluster.api, tmp_path, ONE_PER_NODE, kubeconfig=cluster.kubeconfig) as bayplan,
        cluster.scheduler(extenders=[bayplan.entry(bind=True)]),
    ):
        for number in range(ROUNDS):
            node, pod = f"n{number}", f"p{number}"
            # The pod waits already in every other round, and the node wakes it.
            settings: Json = {"labels": SINGLE, "node_selector": {"kubernetes.io/hostname": node}}
            if number % 2:
                cluster.api.create_pod(pod, **settings)
                cluster.api.wait_unschedulable(pod)
            created = time.monotonic()
            cluster.api.create_node(node)
            if not number % 2:
                cluster.api.create_pod(pod, **settings)
            assert cluster.api.wait_bound(pod, 20) == node
            took.append(time.monotonic() - created)
        wait_until(lambda: len(placed(cluster)) == ROUNDS, 20, what="every pod has its node")

    print(f"\n{ROUNDS} nodes a moment before their pods: all bound, the slowest in {max(took):.2f} s")

"""Every server is replaced while pods are being scheduled: no call fails, and every pod is bound once."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.service_stand_in import LATE_SECONDS
from tests.e2e.slices import ARGS, MEMORY, SHARED, SLICE, check_verified, create_slices, wait_owners
from tests.e2e.steady_caller import SteadyCaller
from tests.e2e.upgrading import (
    NODES,
    Kubelet,
    Site,
    arriving,
    attempts,
    check_places,
    create_nodes,
    wait_bound,
    wait_more_scheduled,
    wait_scheduled,
)

pytestmark = pytest.mark.e2e

SLICES_A_NODE = 1000
# Two probes that fail, and the calls that were on their way.
UNNOTICED_SECONDS = 10.0


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy as a file, for ``bayplan render``."""
    file = tmp_path / "even.py"
    file.write_text("import bayplan\n\n\n@bayplan.filter\ndef even(pod, node):\n    return None\n")
    return file


@pytest.mark.parametrize(
    "pauses",
    [
        pytest.param(True, id="with the pause of the manifest"),
        # It narrows what can be lost and cannot close it: one attempt in 213 was seen to fail.
        pytest.param(False, id="without it", marks=pytest.mark.chaos),
    ],
)
def test_servers_are_replaced_one_after_the_other(
    cluster: ControlPlane, tmp_path: Path, policy: Path, pauses: bool
) -> None:
    create_nodes(cluster)
    printed = Kubelet.of(policy, "--ignorable")
    assert printed.pause_seconds > LATE_SECONDS
    kubelet = printed if pauses else replace(printed, pause_seconds=0)
    with ExitStack() as stack:
        site = Site(cluster, tmp_path, stack, kubelet)
        old = [site.start("first"), site.start("second")]
        scheduler = site.scheduler(old[0])
        caller = SteadyCaller(cluster, site.service.port, nodes=NODES)
        with arriving(cluster) as names, caller.running():
            for number, each in enumerate(old):
                each.wait_metric(20, "bayplan_requests_total", verb="bind")
                # One more first, then one less: maxSurge 1, maxUnavailable 0.
                site.start(f"new-{number}")
                kubelet.end(site.service, each)
                # Whoever gets them: connections that are kept may all be to the other one.
                wait_more_scheduled(cluster, 50)
        wait_scheduled(cluster, names)

        assert caller.failures == []
        check_places(cluster, caller)
        assert attempts(scheduler) == Counter(scheduled=len(names))
        assert cluster.api.items("events", fields="reason=FailedScheduling") == []
    print(f"\n{len(names)} pods of kube-scheduler, {caller.answered} calls beside it: none failed")


def test_a_server_is_killed_and_the_damage_ends_with_its_endpoint(
    cluster: ControlPlane, tmp_path: Path, policy: Path
) -> None:
    create_nodes(cluster)
    with ExitStack() as stack:
        site = Site(cluster, tmp_path, stack, Kubelet.of(policy, "--ignorable"))
        first, second = site.start("first"), site.start("second")
        scheduler = site.scheduler(first)
        caller = SteadyCaller(cluster, site.service.port, nodes=NODES)
        with arriving(cluster) as names, caller.running():
            for each in (first, second):
                each.wait_metric(20, "bayplan_requests_total", verb="bind")
            killed_at = time.monotonic()
            os.kill(first.child.pid, signal.SIGKILL)
            site.service.wait_ready(first, ready=False)
            noticed_at = time.monotonic()
            asked = second.requests("bind")
            second.wait_metric(asked + 200, "bayplan_requests_total", verb="bind")
        unheard = wait_bound(cluster, names)

        assert noticed_at - killed_at < UNNOTICED_SECONDS
        assert [each for each in caller.failures if not killed_at <= each.at <= noticed_at + 1] == []
        check_places(cluster, caller)
        tries = attempts(scheduler)
        assert tries["scheduled"] == len(names) - len(unheard)
    print(
        f"\na server was killed: {len(caller.failures)} calls failed, all within"
        f" {noticed_at - killed_at:.1f} s; {caller.answered} did not;"
        f" kube-scheduler tried {tries['error']} times in vain and bound all"
        f" {len(names)} pods, {len(unheard)} of them without hearing of it"
    )


def write_config(directory: Path, config: Mapping[str, Any]) -> Path:
    """The configuration as a file, for ``bayplan render``."""
    file = directory / "bayplan.yaml"
    file.write_text(
        yaml.safe_dump({"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", **config})
    )
    return file


def _notes(cluster: ControlPlane) -> dict[str, str]:
    (lease,) = cluster.api.items("leases")
    found: dict[str, str] = lease["metadata"].get("annotations", {})
    return found


def test_the_lease_changes_hands_in_a_rollout_and_no_call_fails(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    create_slices(cluster, nodes=len(NODES), each=SLICES_A_NODE)
    config = {"policies": [{**SHARED, "args": {**ARGS, "nodes": "spread"}}]}
    limits = {MEMORY: str(SLICE)}
    kubelet = Kubelet.of("--config", write_config(tmp_path, config), "--managed-resource", MEMORY)
    with ExitStack() as stack:
        site = Site(cluster, tmp_path, stack, kubelet)
        old = [site.start("first", config), site.start("second", config, ready=False)]
        scheduler = site.scheduler(old[0])
        caller = SteadyCaller(cluster, site.service.port, nodes=NODES, limits=limits)
        with arriving(cluster, limits=limits) as names, caller.running(threads=1):
            old[0].wait_metric(20, "bayplan_requests_total", verb="bind")
            # All new ones beside all old ones: none is ready before the holder is told to end.
            new = [site.start(f"new-{number}", config, ready=False) for number in range(2)]
            kubelet.end(site.service, *old)
            ended_at = time.monotonic()
            holder = wait_until(
                lambda: next((each for each in new if each.metric("bayplan_writer")), None),
                30,
                what="a new server holds the Lease",
            )
            holder.wait_metric(20, "bayplan_requests_total", verb="bind", result="ok")
            seconds = time.monotonic() - ended_at
        owned = wait_owners(cluster, len(names) + len(caller.bound))
        # Where a node was full, a slice may be lost between filter and bind, which is another story.
        assert max(Counter(node for node, _ in owned.values()).values()) < SLICES_A_NODE
        assert caller.failures == []
        wait_scheduled(cluster, names)

        check_verified(holder)
        (waited,) = re.findall(r"\d+ calls have waited .* at the longest", holder.log())
        assert attempts(scheduler) == Counter(scheduled=len(names))
        assert cluster.api.items("events", fields="reason=FailedScheduling") == []
    print(
        f"\nthe Lease changed hands: {len(names)} pods of kube-scheduler have one slice each,"
        f" {caller.answered} calls beside it, none failed; {waited}; twenty binds were there"
        f" {seconds:.1f} s after the old ones had ended"
    )


def test_a_successor_is_killed_and_another_one_takes_over(cluster: ControlPlane, tmp_path: Path) -> None:
    create_slices(cluster, nodes=len(NODES), each=SLICES_A_NODE)
    config = {"policies": [SHARED]}
    kubelet = Kubelet.of("--config", write_config(tmp_path, config), "--managed-resource", MEMORY)
    with ExitStack() as stack:
        site = Site(cluster, tmp_path, stack, kubelet)
        holder = site.start("holder", config)
        others = [site.start(f"other-{number}", config, ready=False) for number in range(2)]
        scheduler = site.scheduler(holder)
        wait_until(lambda: _notes(cluster).get("bayplan.dev/standby"), 30, what="one stands by")
        with arriving(cluster, limits={MEMORY: str(SLICE)}) as names:
            holder.wait_metric(20, "bayplan_requests_total", verb="bind")
            os.kill(holder.child.pid, signal.SIGTERM)
            named = wait_until(
                lambda: _notes(cluster).get("bayplan.dev/successor"), 10, what="one comes", poll_seconds=0.01
            )
            killed, last = sorted(others, key=lambda each: f":{each.port}-" not in named)
            os.kill(killed.child.pid, signal.SIGKILL)
            killed_at = time.monotonic()
            assert holder.child.wait_ended(kubelet.grace_seconds - kubelet.pause_seconds) == 0
            last.wait_metric(1, "bayplan_writer")
            seconds = time.monotonic() - killed_at
            last.wait_metric(20, "bayplan_requests_total", verb="bind", result="ok")
        wait_owners(cluster, len(names))
        wait_scheduled(cluster, names)

        check_verified(last)
        tries = attempts(scheduler)
        assert tries["scheduled"] == len(names)
    print(
        f"\na successor was killed: another server was the writer {seconds:.1f} s later;"
        f" kube-scheduler tried {tries['error']} times in vain and bound all {len(names)} pods"
    )

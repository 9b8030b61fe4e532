"""The server is killed at each step of a bind, with many under way: no slice is owned twice or lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.fault_proxy import AnswerProxy, Decide, Fault, FaultProxy
from tests.e2e.slices import (
    bayplan_with_slices,
    check_verified,
    create_owners,
    create_slices,
    owners,
    wait_owners,
    wait_told,
)

pytestmark = pytest.mark.e2e

Step = Literal["last word", "on the way", "bound", "answered"]

ROUNDS = 2
BATCH = 12
NODES = 4
# Some to spare while binds are held: two pods for the last slice of a node would be one bind refused.
EACH = ROUNDS * BATCH // NODES + 2
WAITING = 5

# Longer than a batch takes: whoever is held must not be given up before the kill.
LIMITS = {"policyTimeout": "6s", "requestTimeout": "6s"}
HTTP_TIMEOUT = {"httpTimeout": "30s"}

HOLDS = """
import pathlib
import time

import bayplan

HELD = pathlib.Path({held!r})


@bayplan.allocate
def holds(pod, node):
    while HELD.exists():
        time.sleep(0.01)
"""


class Bench:
    """A server with a proxy on either side and a policy that can be held."""

    def __init__(self, cluster: ControlPlane, directory: Path, api: FaultProxy) -> None:
        policy = directory / "holds.py"
        self.cluster = cluster
        self.held = directory / "held"
        policy.write_text(HOLDS.format(held=str(self.held)))
        self.api = api
        self.bayplan = bayplan_with_slices(
            cluster,
            directory,
            kubeconfig=api.kubeconfig,
            nodes="spread",
            also=[{"use": str(policy)}],
            limits=LIMITS,
        )
        self.answers = AnswerProxy(self.bayplan)

    def arm(self, step: Step) -> None:
        """From now on no bind gets any further than this step."""
        if step == "last word":
            self.held.touch()
        elif step == "on the way":
            self.api.decide = binds("/binding", "request swallowed")
        elif step == "bound":
            self.api.decide = binds("/binding", "reply swallowed")
        else:
            self.answers.decide = binds("/bind", "reply swallowed")

    def disarm(self) -> None:
        """Whoever starts now is not disturbed."""
        self.held.unlink(missing_ok=True)
        self.api.decide = self.answers.decide = lambda _method, _path: ""

    def wait_there(self, step: Step, before: int) -> None:
        """Wait until the whole batch has come as far as the step, and no further."""
        bound = before + BATCH if step in ("bound", "answered") else before
        there: dict[Step, Callable[[], bool]] = {
            # One of them has the word, the others wait for it.
            "last word": lambda: self.bayplan.metric("bayplan_requests_in_flight") >= BATCH,
            "on the way": lambda: len(held_binds(self.api)) >= BATCH,
            "bound": lambda: len(owners(self.cluster)) >= bound,
            "answered": lambda: self.bayplan.requests("bind", result="ok") >= BATCH,
        }
        explain = self.bayplan.child.log_tail
        wait_until(there[step], 20, what=f"{BATCH} binds are at {step!r}", explain=explain)
        assert len(owners(self.cluster)) == bound

    def kill(self) -> None:
        """End the server without a word; whoever waits for its answer hears that it is gone."""
        os.kill(self.bayplan.child.pid, signal.SIGKILL)
        assert self.bayplan.child.wait_ended() == -signal.SIGKILL
        self.answers.cut()
        self.api.cut()
        self.api.seen.clear()


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("last word", id="before the reservation"),
        pytest.param("on the way", id="reserved and not at the API server yet"),
        pytest.param("bound", id="bound and the reply is not here yet"),
        pytest.param("answered", id="answered and kube-scheduler has not heard it"),
    ],
)
def test_killed_at_a_step_of_many_binds(cluster: ControlPlane, tmp_path: Path, step: Step) -> None:
    slices = create_slices(cluster, nodes=NODES, each=EACH)
    started = time.monotonic()
    recovered = []
    with FaultProxy(cluster, tmp_path) as api:
        bench = Bench(cluster, tmp_path, api)
        bayplan = bench.bayplan
        with bench.answers as answers, cluster.scheduler(extenders=[{**answers.entry(), **HTTP_TIMEOUT}]):
            for number in range(ROUNDS):
                before = number * BATCH
                with bayplan:
                    bench.arm(step)
                    create_owners(cluster, range(before, before + BATCH))
                    bench.wait_there(step, before)
                    bench.kill()
                bench.disarm()
                killed = time.monotonic()
                with bayplan:
                    wait_owners(cluster, before + BATCH)
                    recovered.append(time.monotonic() - killed)
                    check_verified(bayplan)
            with bayplan:
                # No slice was lost: each has an owner in the end, and there is none for those who wait.
                create_owners(cluster, range(ROUNDS * BATCH, slices + WAITING))
                wait_owners(cluster, slices)
                wait_told(cluster, waiting=WAITING, nodes=NODES)
                for name in sorted(owners(cluster))[:WAITING]:
                    cluster.api.delete("pods", name)
                wait_owners(cluster, slices)
                check_verified(bayplan)

    print(
        f"\nkilled {ROUNDS} times with {BATCH} binds at {step!r}: {slices} slices owned once, none lost,"
        f" all bound {max(recovered):.1f} s after the kill at the latest; {time.monotonic() - started:.1f} s"
    )


def binds(ending: str, fault: Fault) -> Decide:
    """Only requests to bind meet with the fault."""
    return lambda method, path: fault if method == "POST" and path.endswith(ending) else ""


def held_binds(api: FaultProxy) -> set[str]:
    """Pods whose bind is on its way to the API server."""
    return {path for method, path in api.seen if method == "POST" and path.endswith("/binding")}

"""Of two API servers, the one that has our bind is frozen and the other one says: unbound.

The slice is kept for as long as that takes, and given out again when the pod is gone for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane, OtherApiServer
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json
from tests.e2e.one_per_node import bind, free_for
from tests.e2e.slices import (
    NO_SLICE,
    SHARED,
    check_owned_once,
    check_verified,
    create_owners,
    create_slices,
    owners,
    reasons,
    wait_owners,
)
from tests.e2e.two_apiservers import RoutingProxy, Setting, renewed, same_term

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("one second API server")]

ROUNDS = 2
WAITING = 3
LEASE_SECONDS = 4
CONFIG = {
    "policies": [SHARED],
    "extender": {"limits": {"requestTimeout": "1s"}, "lease": {"duration": f"{LEASE_SECONDS}s"}},
}
UNKNOWN = "the outcome is unknown"
TRIES = 3


@pytest.fixture(scope="module")
def binder(control_plane: ControlPlane) -> Iterator[OtherApiServer]:
    """The API server that is frozen again and again."""
    with control_plane.other_apiserver() as other:
        yield other


@pytest.fixture
def setting(cluster: ControlPlane, binder: OtherApiServer, tmp_path: Path) -> Iterator[Setting]:
    """Both API servers, the way to them, and Bayplan."""
    with (
        RoutingProxy(cluster, tmp_path, binds_to=binder.server) as proxy,
        Extender(cluster.api, tmp_path, "", kubeconfig=proxy.kubeconfig, config=CONFIG) as bayplan,
    ):
        yield Setting(cluster, binder, proxy, bayplan)
        binder.child.check()


def test_a_held_bind_keeps_its_slice_and_lands_after_the_thaw(setting: Setting) -> None:
    create_slices(setting.cluster, nodes=2, each=1)
    bayplan, proxy = setting.bayplan, setting.proxy
    looks, settled = [], []
    for number in range(ROUNDS):
        first, second = setting.new_pods(2 * number, 2 * number + 1)
        name = first["metadata"]["name"]
        proxy.open_ahead(TRIES)
        with setting.binder.frozen():
            looks.append(check_kept(setting, first, second))
            assert set(proxy.held()) == {name}
            assert owners(setting.cluster) == {}

        settled.append(setting.wait_settled())
        assert owners(setting.cluster) == {name: ("n0", 0)}
        # One of them has bound it, and the others came too late.
        assert sorted(set(proxy.statuses(name))) == [201, 409]
        assert proxy.statuses(name).count(201) == 1
        assert bind(bayplan, first, "n0") == ""
        assert "already bound to n0" in bind(bayplan, first, "n1")
        assert NO_SLICE in bind(bayplan, second, "n0")
        assert bind(bayplan, second, "n1") == ""
        check_owned_once(setting.cluster, 2)
        check_verified(bayplan)
        setting.start_anew()

    print(
        f"\nfrozen {ROUNDS} times with a bind in it, the other API server said unbound: slice kept in"
        f" {sum(looks)} looks, Lease kept, settled {max(settled):.1f} s after the thaw at the latest"
    )


def check_kept(setting: Setting, first: Json, second: Json) -> int:
    """Bind the first to n0, which nobody answers: nobody else gets its slice, however often asked.

    It ends when it was tried again, and the Lease would have run out; how often was asked.
    """
    bayplan, before = setting.bayplan, setting.lease()
    looks = 0
    assert UNKNOWN in bind(bayplan, first, "n0")

    def for_long() -> bool:
        nonlocal looks
        looks += 1
        assert free_for(bayplan, second, ["n0", "n1"]) == ["n1"]
        assert free_for(bayplan, first, ["n0", "n1"]) == ["n0"], "its own slice is not in its way"
        assert NO_SLICE in bind(bayplan, second, "n0")
        assert "may yet be bound to n0" in bind(bayplan, first, "n1")
        assert setting.unsettled() == 1
        assert bayplan.metric("bayplan_writer") == 1
        return len(setting.proxy.held()) >= TRIES and renewed(before, setting.lease()) > LEASE_SECONDS

    wait_until(for_long, 30, what="tried again, and the Lease renewed", poll_seconds=0.1)
    assert same_term(before, setting.lease())
    return looks


@pytest.mark.parametrize(
    "again", [pytest.param(False, id="deleted"), pytest.param(True, id="made anew under its name")]
)
def test_the_pod_of_a_held_bind_is_deleted(setting: Setting, again: bool) -> None:
    create_slices(setting.cluster, nodes=1, each=1)
    bayplan, proxy = setting.bayplan, setting.proxy
    for number in range(ROUNDS):
        first, second = setting.new_pods(2 * number, 2 * number + 1)
        gone, heir = (pod["metadata"]["name"] for pod in (first, second))
        proxy.open_ahead(TRIES)
        with setting.binder.frozen():
            assert UNKNOWN in bind(bayplan, first, "n0")
            assert NO_SLICE in bind(bayplan, second, "n0")
            assert setting.unsettled() == 1
            assert gone in proxy.held()

            setting.cluster.api.delete("pods", gone)
            successors = setting.new_pods(2 * number) if again else []
            setting.wait_free(second)
            # Its bind waits behind that of the pod which is gone.
            assert UNKNOWN in bind(bayplan, second, "n0")
            assert owners(setting.cluster) == {}

        setting.wait_settled()
        assert owners(setting.cluster) == {heir: ("n0", 0)}
        assert 201 not in proxy.statuses(gone)
        for pod in successors:
            assert NO_SLICE in bind(bayplan, pod, "n0")
        assert bind(bayplan, second, "n0") == ""
        check_verified(bayplan)
        setting.start_anew()

    said = sorted({status for number in range(ROUNDS) for status in proxy.statuses(f"p{2 * number}")})
    print(
        f"\n{ROUNDS} times: the held bind of a pod that is gone got {said}, the one that waited has the slice"
    )


@pytest.mark.parametrize(
    "first_binds", [pytest.param(0, id="before the binds"), pytest.param(3, id="in the middle of the binds")]
)
def test_kube_scheduler_uses_the_one_that_answers(setting: Setting, first_binds: int) -> None:
    """Frozen when so many requests to bind are on their way, or done."""
    slices = create_slices(setting.cluster, nodes=2, each=4)
    pods = slices + WAITING
    proxy, bayplan, cluster = setting.proxy, setting.bayplan, setting.cluster
    bound, settled = [], []
    with cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
        for number in range(ROUNDS):
            proxy.open_ahead(TRIES * slices)
            names = range(number * pods, (number + 1) * pods)
            create_owners(cluster, names[:first_binds])
            setting.wait_asked(names[:first_binds])
            with setting.binder.frozen():
                create_owners(cluster, names[first_binds:])
                bound.append(check_all_kept(setting, slices))

            settled.append(setting.wait_settled())
            wait_owners(cluster, slices)
            check_verified(bayplan)
            # No slice was lost: whoever goes makes room for one who waits.
            for name in sorted(owners(cluster))[:WAITING]:
                cluster.api.delete("pods", name)
            wait_owners(cluster, slices)
            setting.wait_settled()
            check_verified(bayplan)
            setting.start_anew()

    print(
        f"\nfrozen {ROUNDS} times after {first_binds} requests to bind, kube-scheduler at the other one:"
        f" {bound} of {slices} slices were owned at the freeze, each once after it;"
        f" settled {max(settled):.1f} s after the thaw at the latest"
    )


def check_all_kept(setting: Setting, slices: int) -> int:
    """Each slice has a pod that is bound, or whose bind is held; the others wait. How many are bound."""
    proxy, bayplan, cluster = setting.proxy, setting.bayplan, setting.cluster
    explain = bayplan.child.log_tail
    wait_until(
        lambda: len(owners(cluster).keys() | set(proxy.held())) == slices,
        30,
        what="each slice has somebody",
        explain=explain,
    )
    bound = len(owners(cluster))
    wait_until(lambda: setting.unsettled() == slices - bound, 30, what="binds are held", explain=explain)
    wait_until(lambda: told(setting) == WAITING, 30, what="those who wait are told", explain=explain)
    unbound = set(proxy.held()) - owners(cluster).keys()
    wait_until(
        lambda: all(proxy.count("POST", f"/{name}/binding") >= TRIES for name in unbound),
        30,
        what="each was tried again",
        explain=explain,
    )
    assert setting.unsettled() == slices - bound
    assert bayplan.metric("bayplan_writer") == 1
    check_owned_once(cluster, bound)
    return bound


def told(setting: Setting) -> int:
    """How many pods, of which no bind is under way, say that there is no slice for them."""
    held = set(setting.proxy.held())
    return sum(name not in held and NO_SLICE in said for name, said in reasons(setting.cluster).items())

"""One writer: who holds the Lease, when it may bind, and when it must not."""

import msgspec
import pytest

from bayplan.client.errors import ApiError
from bayplan.client.lease import Lease, LeaseSpec
from tests.state.lease_world import DURATION, MARGIN, PERIOD, World, passing


@pytest.fixture
def world() -> World:
    return World()


async def test_the_first_server_holds_the_lease_and_keeps_it(world: World) -> None:
    with world.server("a").running() as a:
        await a.step()

        assert a.writer.problem() == ""
        await passing(world, 60, a)
        assert a.writer.problem() == ""
        assert a.writer.terms == 1
        stored = world.leases.stored
        assert stored is not None
        assert (stored.holder, stored.spec.lease_transitions) == ("a", 1)
        assert stored.metadata["labels"] == {"kept": "yes"}


async def test_the_second_waits_and_says_for_whom(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        await b.step()
        await passing(world, 60, a, b)

        assert b.writer.problem() == "another server binds: lease default/bayplan is held by a"
        assert set(world.leases.writes) == {"a"}


async def test_who_stands_by_is_told_from_who_has_a_problem(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        assert not b.writer.stands_by
        await a.step()
        await b.step()
        assert (a.writer.stands_by, b.writer.stands_by) == (False, True)

        world.leases.silent_for.add("everybody")
        await b.step()

        assert "cannot be had" in b.writer.problem()
        assert not b.writer.stands_by


async def test_a_holder_that_vanished_is_waited_out(world: World) -> None:
    with world.server("b").running() as b:
        with world.server("a").running() as a:
            await a.step()
            await b.step()
        await passing(world, DURATION - PERIOD, b)
        assert "held by a" in b.writer.problem()

        await passing(world, PERIOD, b)

        assert b.writer.problem() == ""
        assert world.leases.stored is not None
        assert world.leases.stored.spec.lease_transitions == 2


async def test_a_paused_holder_knows_at_once_that_its_time_is_over(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        await b.step()
        await passing(world, DURATION, b)
        assert b.writer.problem() == ""

        # "a" has not had a turn since: it must know by the clock alone.
        assert a.writer.problem() == "lease default/bayplan is not ours yet"
        await a.step()
        assert "held by b" in a.writer.problem()


async def test_never_do_two_hold_it_whatever_the_moment(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        await b.step()
        for paused in (a, b, a, b):
            running = b if paused is a else a
            for _ in range(10):
                world.now += PERIOD
                await running.step()
                assert not (a.writer.holds and b.writer.holds)
            assert running.writer.problem() == ""


async def test_who_cannot_renew_stops_before_anybody_else_may_start(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        await b.step()
        world.leases.silent_for.add("a")
        await passing(world, DURATION - MARGIN, a, b)

        assert a.writer.problem() == "lease default/bayplan cannot be had: no answer in 5 s"
        assert not b.writer.holds


async def test_a_server_that_comes_back_under_its_name_need_not_wait(world: World) -> None:
    with world.server("a").running() as a:
        await a.step()
    with world.server("a").running() as again:
        await again.step()

        assert again.writer.problem() == ""
        assert world.leases.stored is not None
        assert world.leases.stored.spec.lease_transitions == 1


async def test_nothing_is_bound_before_the_view_has_what_the_old_holder_bound(world: World) -> None:
    world.in_view.clear()
    with world.server("a").running() as a:
        await a.step()
        assert a.writer.problem() == "lease default/bayplan is ours; the view catches up"

        world.in_view.set()
        await a.step()

        assert a.writer.problem() == ""


async def test_after_a_gap_the_view_has_to_catch_up_again(world: World) -> None:
    with world.server("a").running() as a:
        await a.step()
        world.leases.silent_for.add("everybody")
        await passing(world, DURATION, a)
        world.in_view.clear()
        world.leases.silent_for.clear()

        await a.step()

        assert a.writer.problem() == "lease default/bayplan is ours; the view catches up"
        assert a.writer.terms == 2


@pytest.mark.parametrize(
    ("release", "holder", "waits"),
    [
        pytest.param(True, "", False, id="given back, the next one need not wait"),
        pytest.param(False, "a", True, id="kept while a bind may still land"),
    ],
)
async def test_the_end(world: World, release: bool, holder: str, waits: bool) -> None:
    with world.server("b").running() as b:
        with world.server("a").running() as a:
            await a.step()
            await b.step()
        await a.writer.close(release=release)
        assert world.leases.stored is not None
        assert world.leases.stored.holder == holder

        await passing(world, PERIOD, b)

        assert bool(b.writer.problem()) is waits
        assert not a.writer.holds


async def test_a_missing_right_is_named(world: World) -> None:
    async def forbidden() -> Lease:
        raise ApiError(403, "leases is forbidden", doing="reading lease default/bayplan")

    world.leases.read = forbidden  # type: ignore[method-assign]
    with world.server("a").running() as a:
        await a.step()

        assert "cannot be had" in a.writer.problem()
        assert "lacks a right" in a.writer.problem()


def test_a_lease_goes_over_the_wire_as_kubernetes_writes_it() -> None:
    text = b"""{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "x", "resourceVersion": "7", "uid": "u"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3,
                 "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z"}}"""

    lease = msgspec.json.decode(text, type=Lease)

    assert msgspec.json.decode(msgspec.json.encode(lease)) == msgspec.json.decode(text)


async def test_a_lease_deleted_under_its_holder_is_waited_out_by_the_others(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        await b.step()
        world.leases.delete()
        await b.step()
        assert not b.writer.holds, "the holder may not know yet"

        await a.step()

        assert a.writer.holds
        assert a.writer.terms == 2
        await b.step()
        assert "held by a" in b.writer.problem()


async def test_who_reads_that_another_one_holds_it_stops_at_once(world: World) -> None:
    with world.server("a").running() as a:
        await a.step()
        assert a.writer.holds
        assert world.leases.stored is not None
        taken = msgspec.structs.replace(world.leases.stored.spec, holder_identity="somebody")
        world.leases._store(world.leases.stored.metadata, taken, version=99)

        await a.step()

        assert a.writer.problem() == "another server binds: lease default/bayplan is held by somebody"


async def test_a_view_that_fails_to_catch_up_is_tried_again(world: World) -> None:
    server = world.server("a")
    failures = [RuntimeError("a bug"), None]

    async def caught_up(since: float) -> None:
        if failure := failures.pop(0):
            raise failure

    server.writer._caught_up = caught_up
    with server.running() as a:
        await a.step()
        await a.step()

        assert a.writer.problem() == ""


@pytest.mark.parametrize(
    "holder", [pytest.param("b", id="it was the other one's"), pytest.param("", id="it was nobody's")]
)
async def test_an_older_lease_that_was_restored_is_not_taken_while_its_last_holder_may_bind(
    world: World, holder: str
) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        world.now += PERIOD
        await a.step()
        await b.step()
        assert world.leases.stored is not None
        older = msgspec.structs.replace(world.leases.stored.spec, holder_identity=holder)
        world.leases._store(world.leases.stored.metadata, older, version=1)

        await b.step()
        assert not b.writer.holds, "the holder may not know yet"
        await a.step()
        if holder:
            assert not a.writer.holds, "it belongs to the other one"
            world.now += DURATION + 1
            await b.step()
            assert b.writer.holds
        else:
            assert a.writer.holds
        assert not (a.writer.holds and b.writer.holds)


@pytest.mark.parametrize(
    "cut_off", [pytest.param(False, id="at once"), pytest.param(True, id="after an error")]
)
async def test_a_holder_whose_own_lease_was_restored_binds_when_its_view_is_of_the_restored_cluster(
    world: World, cut_off: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The pods are those of the backup too: some of them hold what is free in our view."""
    with world.server("a").running() as a:
        await a.step()
        assert world.leases.stored is not None
        backup = world.leases.stored
        world.now += PERIOD
        await a.step()
        assert (a.writer.terms, a.writer.problem()) == (1, "")

        world.in_view.clear()
        if cut_off:
            world.leases.silent_for.add("everybody")
            world.now += PERIOD
            await a.step()
            world.leases.silent_for.clear()
        world.leases.stored = backup
        await a.step()
        assert a.writer.terms == 2
        assert a.writer.problem() == "lease default/bayplan is ours; the view catches up"
        assert "an older one that was restored" in caplog.text

        world.in_view.set()
        await a.step()
        assert a.writer.problem() == ""
        world.now += PERIOD
        await a.step()
        assert a.writer.terms == 2, "it is restored once"


async def test_a_lease_that_was_made_anew_has_no_older_versions(world: World) -> None:
    """Deleted and made by somebody else: another object, whose versions go on."""
    with world.server("b").running() as b:
        world.leases._store({"name": "bayplan"}, LeaseSpec("a", DURATION), version=5)
        await b.step()
        world.leases._store({"name": "bayplan"}, LeaseSpec("", 1), version=6)

        await b.step()

        assert b.writer.holds

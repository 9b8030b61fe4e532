"""A Lease that is not there: it never was, or somebody has deleted it under a holder who does not know."""

import logging

import pytest

from bayplan.client.errors import ApiError
from bayplan.client.lease import Lease, LeaseSpec
from bayplan.state.absence import Absence
from tests.state.lease_world import DURATION, MARGIN, PERIOD, World, passing

WAITS = "lease default/bayplan does not exist; it is created unless another server shows up"


@pytest.fixture
def world() -> World:
    return World()


async def test_the_first_server_of_all_waits_once_for_as_long_as_a_lease_lasts(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.leases.delete()
    caplog.set_level(logging.INFO)
    with world.server("a").running() as a:
        await a.step()
        await passing(world, DURATION - PERIOD, a)
        assert (a.writer.problem(), world.leases.stored) == (WAITS, None)

        await passing(world, PERIOD, a)

        assert a.writer.problem() == ""
        assert [each.message for each in caplog.records if "does not exist" in each.message] == [
            "lease default/bayplan does not exist; it is created in 15 s, unless another server shows up"
        ]


async def test_a_new_server_does_not_bind_beside_a_holder_whose_lease_was_deleted(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        world.leases.delete()

        await b.step()
        assert (a.writer.holds, b.writer.holds) == (True, False)

        await a.step()
        await b.step()
        assert a.writer.holds
        assert b.writer.problem() == "another server binds: lease default/bayplan is held by a"


async def test_a_holder_that_is_cut_off_has_stopped_before_a_new_server_makes_a_lease(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        world.leases.delete()
        for _ in range(2 * DURATION):
            world.now += 1
            await b.step()
            # What it began last may take the margin.
            assert not (b.writer.holds and world.now < 1000 + DURATION)
            assert not (a.writer.holds and b.writer.holds)

        assert b.writer.problem() == ""


async def test_who_stands_by_waits_from_the_moment_that_it_is_gone(world: World) -> None:
    """The last renewal before that may be one that nobody saw."""
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        await b.step()
        await passing(world, PERIOD, a)
        world.leases.delete()
        await b.step()

        await passing(world, DURATION - PERIOD, b)
        assert not b.writer.holds
        await passing(world, PERIOD, b)
        assert b.writer.holds


async def test_a_holder_stops_when_it_hears_that_its_lease_is_gone_and_makes_it_anew(world: World) -> None:
    with world.server("a").running() as a:
        await a.step()
        world.leases.delete()
        held: list[bool] = []
        create = world.leases.create

        async def look(spec: LeaseSpec) -> Lease:
            held.append(a.writer.holds)
            return await create(spec)

        world.leases.create = look  # type: ignore[method-assign]
        await a.step()

        assert held == [False]
        assert a.writer.problem() == ""


async def test_a_holder_that_hears_of_it_and_then_nothing_more_does_not_go_on(world: World) -> None:
    with world.server("a").running() as a:
        await a.step()
        world.leases.delete()
        read = world.leases.read

        async def lost() -> Lease:
            world.leases.silent_for.add("everybody")
            return await read()

        world.leases.read = lost  # type: ignore[method-assign]
        await a.step()

        assert not a.writer.holds


async def test_between_looks_that_are_far_apart_a_lease_may_have_come_and_gone(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await a.step()
        world.leases.delete()
        await b.step()
        await a.step()
        await passing(world, DURATION, a)
        world.leases.delete()

        await b.step()

        assert a.writer.holds
        assert not b.writer.holds


async def test_one_that_ends_does_not_wait_for_a_lease_to_make(world: World) -> None:
    with world.server("a").running() as a:
        await a.step()
        leaving = await a.leave()
        a.unsettled = 1
        world.now += DURATION
        world.leases.delete()
        await a.step()

        assert leaving.done()
        assert world.leases.stored is None


async def test_a_namespace_that_is_not_there_is_named(world: World) -> None:
    async def no_namespace(spec: LeaseSpec) -> Lease:
        raise ApiError(404, 'namespaces "locks" not found', doing="creating lease locks/bayplan")

    world.leases.delete()
    world.leases.create = no_namespace  # type: ignore[method-assign]
    with world.server("a").running() as a:
        await a.step()
        await passing(world, DURATION, a)

        assert 'namespaces "locks" not found' in a.writer.problem()


def test_a_lease_that_was_seen_to_last_longer_is_waited_for_longer() -> None:
    absence = Absence(DURATION)
    absence.noted(0.0, held=False, lasts_seconds=DURATION + MARGIN)

    assert not absence.over(DURATION)
    assert absence.over(DURATION + MARGIN)

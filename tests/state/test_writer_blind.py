"""A server that does not see the cluster leaves the Lease to one that does, and takes it from nobody."""

import pytest

from bayplan.client.errors import ConnectError
from bayplan.client.lease import Lease, LeaseSpec
from tests.state.lease_world import DURATION, LOOK, MARGIN, PERIOD, Turns, World, passing, settled

BLIND = "cut off from the API server for 61 s"
LEFT = f"lease default/bayplan is left to others: {BLIND}"


@pytest.fixture
def world() -> World:
    return World()


def _holder(world: World) -> str:
    assert world.leases.stored is not None
    return world.leases.stored.holder


async def _held_for_long(world: World, first: Turns, *others: Turns) -> None:
    """The first one holds the Lease, and has done so for longer than it lasts."""
    await first.step()
    for each in others:
        await each.step()
    await passing(world, 2 * DURATION, first, *others)
    assert first.writer.problem() == ""


async def test_a_blind_holder_gives_the_lease_up_and_the_other_one_has_it_at_once(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        a.blind = BLIND
        await passing(world, MARGIN + 2, a, b, every=1.0)

        assert b.writer.problem() == "", "it need not wait until the Lease runs out"
        assert a.writer.problem() == "another server binds: lease default/bayplan is held by b"
        a.blind = ""
        await passing(world, 4 * DURATION, a, b)
        assert (a.writer.terms, b.writer.terms) == (1, 1), "and one that sees again does not take it back"


async def test_from_the_first_look_on_a_blind_holder_begins_no_bind(world: World) -> None:
    with world.server("a").running() as a:
        await _held_for_long(world, a)
        a.blind = BLIND
        await a.step()

        assert a.writer.problem() == LEFT
        assert _holder(world) == "a", "what was sent before may take a bind's time"


async def test_a_bind_that_was_sent_is_waited_for(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        a.blind, a.binding = BLIND, 1
        await passing(world, 2 * MARGIN, a, b, every=1.0)
        assert _holder(world) == "a"

        a.binding = 0
        await passing(world, 2, a, b, every=1.0)

        assert b.writer.problem() == ""


async def test_a_bind_that_may_still_land_keeps_the_lease_and_may_be_sent_again(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        a.blind, a.unsettled = BLIND, 1
        await passing(world, 4 * DURATION, a, b)
        assert a.writer.problem() == "", "the ledger asks this before it sends the bind again"
        assert not b.writer.holds

        a.unsettled = 0
        await passing(world, MARGIN + 2 * PERIOD, a, b)

        assert b.writer.problem() == ""


async def test_a_bind_that_comes_into_doubt_while_the_others_end_opens_the_door_again(world: World) -> None:
    with world.server("a").running() as a:
        await _held_for_long(world, a)
        a.blind = BLIND
        await passing(world, MARGIN - 1, a, every=1.0)
        a.unsettled = 1
        await passing(world, 2 * MARGIN, a, every=1.0)
        assert a.writer.problem() == ""

        a.unsettled = 0
        await passing(world, MARGIN, a, every=1.0)
        assert _holder(world) == "a", "the time that a bind takes begins anew"


async def test_a_view_that_comes_back_in_time_changes_nothing(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        a.blind = BLIND
        await passing(world, MARGIN - 1, a, b, every=1.0)
        a.blind = ""
        await passing(world, 1, a, b, every=1.0)

        assert (a.writer.problem(), a.writer.terms) == ("", 1)


async def test_one_that_is_alone_goes_on_when_its_view_is_back(world: World) -> None:
    with world.server("a").running() as a:
        await _held_for_long(world, a)
        a.blind = BLIND
        await passing(world, 4 * DURATION, a)
        assert (_holder(world), a.writer.problem()) == ("", LEFT)

        a.blind = ""
        await a.step()

        assert (a.writer.problem(), a.writer.terms) == ("", 2)


async def test_after_a_blind_time_nothing_is_bound_before_the_view_has_what_others_bound(
    world: World,
) -> None:
    with world.server("a").running() as a:
        await _held_for_long(world, a)
        a.blind = BLIND
        await passing(world, MARGIN + PERIOD, a)
        world.in_view.clear()
        a.blind = ""
        await a.step()
        assert a.writer.problem() == "lease default/bayplan is ours; the view catches up"

        world.in_view.set()
        await settled()

        assert a.writer.problem() == ""


async def test_where_all_are_blind_nobody_has_it_until_one_sees(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        a.blind = b.blind = BLIND
        await passing(world, 4 * DURATION, a, b)
        assert [a.writer.problem(), b.writer.problem()] == [LEFT, LEFT]
        writes = len(world.leases.writes)
        await passing(world, 4 * DURATION, a, b)
        assert len(world.leases.writes) == writes, "nor does it go round"

        b.blind = ""
        await passing(world, PERIOD, a, b)

        assert b.writer.problem() == ""


@pytest.mark.parametrize("gone", [pytest.param(False, id="run out"), pytest.param(True, id="deleted")])
async def test_a_blind_one_does_not_take_over_from_a_holder_that_vanished(world: World, gone: bool) -> None:
    with world.server("b").running() as b, world.server("c").running() as c:
        with world.server("a").running() as a:
            await a.step()
            await b.step()
        b.blind = BLIND
        if gone:
            world.leases.delete()
        await passing(world, 2 * DURATION, b)
        assert not b.writer.holds

        await passing(world, DURATION + PERIOD, b, c)

        assert c.writer.problem() == ""


async def test_one_whose_lease_ran_out_while_it_stood_still_does_not_take_it_again_blind(
    world: World,
) -> None:
    with world.server("a").running() as a:
        await _held_for_long(world, a)
        world.now += 2 * DURATION
        a.blind = BLIND
        await passing(world, DURATION, a)

        assert (a.writer.terms, a.writer.problem()) == (1, LEFT)


async def test_the_lease_goes_round_no_faster_than_it_runs_out_however_the_views_flicker(
    world: World,
) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        changes, since = [], world.now - 2 * DURATION
        for _ in range(600):
            # Who has it sees nothing, and the other one sees.
            a.blind = BLIND if a.writer._ours else ""
            b.blind = BLIND if b.writer._ours else ""
            before = _holder(world)
            await passing(world, 0.5, a, b, every=0.5)
            if _holder(world) != before and _holder(world):
                changes.append(world.now - since)
                since = world.now

        assert len(changes) > 5
        assert min(changes) >= DURATION


async def test_a_first_term_is_kept_for_a_while_too(world: World) -> None:
    """A server that starts takes the Lease before its first list, which saves it a second one."""
    with world.server("a").running() as a:
        a.blind = ""
        await a.step()
        a.blind = BLIND
        await passing(world, DURATION - PERIOD, a)
        assert _holder(world) == "a"

        await passing(world, MARGIN + 2 * PERIOD, a)

        assert _holder(world) == ""


async def test_one_that_starts_blind_waits_for_its_view(world: World) -> None:
    world.leases.delete()
    with world.server("a").running() as a:
        a.blind = BLIND
        await passing(world, DURATION + PERIOD, a)
        assert (world.leases.stored, a.writer.problem()) == (None, LEFT)

        a.blind = ""
        await a.step()

        assert a.writer.problem() == ""


async def test_a_successor_that_goes_blind_keeps_its_word_and_then_leaves_it_to_others(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b, world.server("c").running() as c:
        await _held_for_long(world, a, b)
        await a.leave()
        await b.step()
        await b.ask()
        world.in_view.clear()
        b.blind = BLIND
        await a.step()
        await b.step()
        assert _holder(world) == "b"

        world.in_view.set()
        await passing(world, DURATION + MARGIN + 2, b, c, every=1.0)

        assert c.writer.problem() == ""
        assert b.writer.why_not_ready() == "another server binds: lease default/bayplan is held by c"


async def test_a_blind_successor_that_cannot_catch_up_does_not_take_it_again(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        await a.leave()
        await b.step()
        await b.ask()
        world.in_view.clear()
        b.blind = BLIND
        await a.step()
        await passing(world, 4 * DURATION, b, every=1.0)

        assert (_holder(world), b.writer.terms, b.writer.why_not_ready()) == ("", 1, LEFT)


async def test_a_blind_holder_that_is_told_to_end_hands_over_as_others_do(world: World) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        a.blind = BLIND
        await a.step()
        assert not a.writer.holds
        a.unsettled = 1
        leaving = await a.leave()
        await passing(world, 1, a, b, every=LOOK)
        assert a.writer.holds, "what is in doubt is sent again"
        assert world.leases.notes.successor == "b"
        await b.ask()
        a.unsettled = 0
        await passing(world, 1, a, b, every=LOOK)

        assert leaving.done()
        assert b.writer.problem() == ""


@pytest.mark.parametrize(
    "lands", [pytest.param(True, id="it has landed"), pytest.param(False, id="it has not")]
)
async def test_who_does_not_know_whether_it_was_given_up_binds_no_more(world: World, lands: bool) -> None:
    with world.server("a").running() as a, world.server("b").running() as b:
        await _held_for_long(world, a, b)
        a.blind = BLIND
        update = world.leases.update

        async def lost(lease: Lease, spec: LeaseSpec) -> Lease:
            if spec.holder_identity:
                return await update(lease, spec)
            if lands:
                await update(lease, spec)
            raise ConnectError("no answer in 5 s")

        world.leases.update = lost  # type: ignore[method-assign]
        await passing(world, MARGIN + 1, a, every=1.0)
        assert not a.writer._ours
        world.leases.update = update  # type: ignore[method-assign]
        await passing(world, DURATION + 2, a, b, every=1.0)

        assert b.writer.problem() == ""
        assert a.writer.terms == 1

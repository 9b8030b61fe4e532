"""The Lease changes hands: who leaves, who comes, what calls do meanwhile, and never two at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack

import msgspec
import pytest

from bayplan.client.errors import ConnectError
from bayplan.client.lease import Lease, LeaseSpec
from bayplan.state import writer
from bayplan.state.notes import Notes
from tests.state.lease_world import DURATION, LOOK, PERIOD, Turns, World, passing, settled


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def three(world: World) -> AsyncIterator[tuple[Turns, Turns, Turns]]:
    """Servers a, b and c, of which nobody has looked yet."""
    with ExitStack() as stack:
        a, b, c = (stack.enter_context(world.server(name).running()) for name in "abc")
        yield a, b, c


async def _standing_by(*servers: Turns) -> None:
    """The first one holds the Lease, and knows that another one stands by."""
    for each in servers:
        await each.step()


async def test_the_holder_hands_over_when_its_callers_have_moved(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    leaving = await a.leave()
    assert world.leases.notes.leaving == "a"
    assert (a.writer.problem(), a.writer.why_not_ready()) == ("", "")

    await b.step()
    assert world.leases.notes.successor == "b"
    assert b.writer.why_not_ready() == "", "callers may come"
    assert "held by a" in b.writer.problem(), "and wait"
    call = await b.ask()
    assert world.leases.notes.asked == "b"

    await a.step()
    assert leaving.done()
    assert not a.writer.holds
    assert a.writer.why_not_ready() == "the server ends: b takes over"
    stored = world.leases.stored
    assert stored is not None
    assert (stored.holder, stored.spec.lease_transitions) == ("b", 2)
    assert world.leases.notes == Notes()
    assert not call.done()

    await b.step()
    assert call.done()
    assert (b.writer.problem(), b.writer.terms) == ("", 1)
    assert b.changes == [True, False]
    assert world.leases.stored is not None
    assert world.leases.stored.spec.lease_transitions == 2
    await a.step()
    assert a.ended


async def test_calls_wait_until_the_view_has_what_the_old_holder_bound(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    world.in_view.clear()
    await a.leave()
    await b.step()
    call = await b.ask()
    await a.step()
    await b.step()
    assert not call.done()
    assert b.writer.why_not_ready() == ""

    world.in_view.set()
    await settled()

    assert call.done()
    assert b.writer.problem() == ""


async def test_of_several_that_stand_by_one_comes(world: World, three: tuple[Turns, Turns, Turns]) -> None:
    a, b, c = three
    await _standing_by(a, b, c)
    await a.leave()
    await asyncio.gather(b.step(), c.step())
    await passing(world, 0.5, b, c, every=LOOK)

    ready = [each for each in (b, c) if not each.writer.why_not_ready()]
    assert [each.writer.identity for each in ready] == [world.leases.notes.successor]


async def test_who_has_not_listed_the_cluster_does_not_come(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, c = three
    b.able = False
    await _standing_by(a, b, c)
    await a.leave()
    await b.step()
    assert world.leases.notes.successor == ""

    await c.step()
    assert world.leases.notes.successor == "c"


async def test_who_is_alone_waits_for_nobody(world: World, three: tuple[Turns, Turns, Turns]) -> None:
    a, _, _ = three
    await a.step()

    leaving = await a.leave()

    assert leaving.done()
    assert a.writer.problem() == "", "what is under way is still bound"
    await a.writer.close(release=True)
    assert world.leases.stored is not None
    assert world.leases.stored.holder == ""


async def test_who_does_not_hold_it_waits_for_nobody(world: World, three: tuple[Turns, Turns, Turns]) -> None:
    a, b, _ = three
    await _standing_by(a, b)

    leaving = await b.leave()

    assert leaving.done()
    assert b.ended, "nor does it come for others"
    assert world.leases.notes == Notes(standby="b")


async def test_one_that_stood_by_and_is_gone_is_waited_for_three_seconds(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    b.kill()
    leaving = await a.leave()
    await passing(world, 2.9, a, every=LOOK)
    assert not leaving.done()

    await passing(world, 0.3, a, every=LOOK)

    assert leaving.done()
    assert a.writer.problem() == ""


async def test_without_an_api_server_nobody_is_waited_for(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    world.leases.silent_for.add("everybody")

    leaving = await a.leave()

    assert leaving.done()


async def test_a_successor_whom_nobody_asks_gets_it_all_the_same(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    await a.leave()
    await b.step()
    await passing(world, 7.9, a, b, every=LOOK)
    assert a.writer.problem() == ""

    await passing(world, 0.4, a, b, every=LOOK)

    assert b.writer.problem() == ""
    assert a.ended


async def test_a_holder_that_is_still_asked_goes_on_for_a_while(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    a.quiet = False
    await a.leave()
    await b.step()
    await b.ask()
    await passing(world, 1.4, a, b, every=LOOK)
    assert a.writer.problem() == ""

    await passing(world, 0.4, a, b, every=LOOK)

    assert b.writer.problem() == ""


async def test_a_bind_under_way_is_waited_for_and_no_other_one_begins(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    a.binding = 1
    await a.leave()
    await b.step()
    await b.ask()
    await passing(world, 3, a, b, every=LOOK)
    assert a.writer.problem() == "the server ends: lease default/bayplan goes to b"
    assert not b.writer.holds

    a.binding = 0
    await passing(world, 0.2, a, b, every=LOOK)

    assert b.writer.problem() == ""


async def test_a_bind_that_may_still_land_keeps_the_lease(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    a.unsettled = 1
    await a.leave()
    await b.step()
    await b.ask()
    await passing(world, 15, a, b, every=LOOK)
    assert a.writer.problem() == "", "it is sent again until it is settled"

    await a.writer.close(release=False)
    a.kill()

    assert world.leases.stored is not None
    assert world.leases.stored.holder == "a"
    await passing(world, DURATION - 1, b, every=LOOK)
    assert not b.writer.holds
    await passing(world, 1 + PERIOD, b, every=LOOK)
    assert b.writer.problem() == ""


async def test_a_successor_that_was_killed_is_not_waited_for_as_a_holder_is(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, c = three
    await _standing_by(a, b, c)
    await a.leave()
    await b.step()
    assert world.leases.notes.successor == "b"
    b.kill()

    await passing(world, 8.2, a, c, every=LOOK)
    assert a.ended
    assert not c.writer.holds
    await passing(world, 2.5, c, every=LOOK)

    assert c.writer.problem() == ""
    assert world.leases.stored is not None
    assert world.leases.stored.spec.lease_duration_seconds == DURATION


async def test_a_successor_that_is_late_finds_that_another_one_has_it(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, c = three
    await _standing_by(a, b, c)
    await a.leave()
    await b.step()
    call = await b.ask()
    await a.step()
    await passing(world, 3, c, every=LOOK)
    assert c.writer.problem() == ""

    await b.step()

    assert call.done()
    assert b.writer.problem() == "another server binds: lease default/bayplan is held by c"
    assert b.writer.why_not_ready() == b.writer.problem()


async def test_a_holder_killed_while_it_left_is_waited_out_as_ever(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, c = three
    await _standing_by(a, b, c)
    await a.leave()
    a.kill()
    await passing(world, 1, c, every=LOOK)
    # Notes of the others, in the middle of it, make it neither shorter nor longer.
    assert world.leases.notes.successor == "c"
    await passing(world, 3, b, c, every=LOOK)
    await c.ask()
    await passing(world, DURATION - 4.5, b, c, every=LOOK)
    assert [b.writer.holds, c.writer.holds] == [False, False]

    await passing(world, 1, b, c, every=LOOK)

    (new,) = [each for each in (b, c) if not each.writer.problem()]
    assert world.leases.notes.leaving == world.leases.notes.successor == ""
    await passing(world, 10, b, c, every=LOOK)
    assert new.writer.problem() == ""


async def test_who_takes_over_stands_by_no_more(world: World, three: tuple[Turns, Turns, Turns]) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    a.kill()
    await passing(world, DURATION, b)
    assert b.writer.problem() == ""

    assert world.leases.notes == Notes()
    assert (await b.leave()).done()


async def test_a_holder_that_comes_back_under_its_name_does_not_leave(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    await a.leave()
    await b.step()
    call = await b.ask()
    a.kill()
    with world.server("a").running() as again:
        await again.step()
        assert again.writer.problem() == ""
        await b.step()

        assert call.done()
        assert b.changes == [True, False]
        assert "held by a" in b.writer.why_not_ready()


async def test_a_call_does_not_wait_for_ever(three: tuple[Turns, Turns, Turns]) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    await a.leave()
    await b.step()

    call = await b.ask(timeout_seconds=0.01)
    await asyncio.wait_for(call, 5)

    assert "held by a" in b.writer.problem()


async def test_a_note_of_another_one_is_no_lost_lease(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await a.step()
    await b.step()
    assert world.leases.notes == Notes(standby="b")

    await passing(world, 60, a)

    assert (a.writer.problem(), a.writer.terms) == ("", 1)
    assert world.leases.notes == Notes(standby="b")
    stored = world.leases.stored
    assert stored is not None
    assert stored.metadata["labels"] == {"kept": "yes"}


async def test_notes_of_others_stay_on_the_lease(world: World, three: tuple[Turns, Turns, Turns]) -> None:
    a, b, _ = three
    await a.step()
    assert world.leases.stored is not None
    theirs = {**world.leases.stored.metadata, "annotations": {"example.com/owner": "us"}}
    world.leases._store(theirs, world.leases.stored.spec, version=50)
    await b.step()
    await a.leave()
    await b.step()
    await b.ask()
    await a.step()
    await b.step()

    assert b.writer.problem() == ""
    assert world.leases.stored.metadata["annotations"] == {"example.com/owner": "us"}


async def test_a_conflict_at_the_very_end_is_tried_again(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    await a.leave()
    await b.step()
    await b.ask()
    update, meanwhile = world.leases.update, [True]

    async def update_late(lease: Lease, spec: LeaseSpec) -> Lease:
        if spec.holder_identity == "b" and meanwhile:
            meanwhile.clear()
            assert world.leases.stored is not None
            await update(world.leases.stored, world.leases.stored.spec)
        return await update(lease, spec)

    world.leases.update = update_late  # type: ignore[method-assign]
    await a.step()

    assert not meanwhile
    assert world.leases.stored is not None
    assert world.leases.stored.holder == "b"


@pytest.mark.parametrize(
    "lands", [pytest.param(True, id="it has landed"), pytest.param(False, id="it has not")]
)
async def test_who_does_not_know_whether_it_was_handed_over_binds_no_more(
    world: World, three: tuple[Turns, Turns, Turns], lands: bool
) -> None:
    a, b, _ = three
    await _standing_by(a, b)
    leaving = await a.leave()
    await b.step()
    await b.ask()
    update = world.leases.update

    async def lost(lease: Lease, spec: LeaseSpec) -> Lease:
        if spec.holder_identity != "b":
            return await update(lease, spec)
        if lands:
            await update(lease, spec)
        raise ConnectError("no answer in 5 s")

    world.leases.update = lost  # type: ignore[method-assign]
    await a.step()
    assert not a.writer.holds

    world.leases.update = update  # type: ignore[method-assign]
    await a.step()

    assert leaving.done()
    assert not a.writer.holds
    await passing(world, DURATION + 1, b, every=LOOK)
    assert b.writer.problem() == ""


async def test_a_successor_that_is_told_to_end_takes_over_first_and_hands_on(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, c = three
    await _standing_by(a, b, c)
    await a.leave()
    await b.step()
    call = await b.ask()
    leaving = await b.leave()
    assert not leaving.done()
    await a.step()
    await b.step()
    assert call.done()

    await passing(world, 1, b, c, every=LOOK)
    assert world.leases.notes.successor == "c"
    await c.ask()
    await passing(world, 0.5, b, c, every=LOOK)

    assert leaving.done()
    assert c.writer.problem() == ""


async def test_a_successor_gets_it_from_one_that_had_no_time_to_wait(
    world: World, three: tuple[Turns, Turns, Turns]
) -> None:
    a, b, c = three
    await _standing_by(a, b, c)
    await a.leave()
    await b.step()
    a.kill()

    await a.writer.close(release=True)

    assert world.leases.stored is not None
    assert world.leases.stored.holder == "b"


async def test_a_wall_clock_that_stands_still_makes_nobody_look_dead(
    world: World, three: tuple[Turns, Turns, Turns], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "micro_time", lambda: "2026-01-02T03:04:05.000006Z")
    a, b, _ = three
    await _standing_by(a, b)
    await passing(world, 4 * DURATION, a, b)

    assert a.writer.problem() == ""
    assert not b.writer.holds


def test_notes_of_an_earlier_term_mean_nothing() -> None:
    said = Notes(standby="c", leaving="a", successor="b", asked="b")
    of_a = said.on(Lease({"name": "bayplan"}, LeaseSpec("a")))

    assert Notes.of(of_a) == said
    assert Notes.of(msgspec.structs.replace(of_a, spec=LeaseSpec("z"))) == Notes(standby="c")
    assert Notes().on(of_a).metadata == {"name": "bayplan"}

"""Gangs that wait: what is said of them is true, not said too often, and said when they waited too long."""

import logging
from collections.abc import Iterator

import pytest

from tests.runtimes.scheduler.gang_stage import GangStage


@pytest.fixture
def stage() -> Iterator[GangStage]:
    made = GangStage()
    yield made
    made.close()


async def test_the_same_is_said_again_only_when_something_changed_and_after_longer_and_longer_pauses(
    stage: GangStage,
) -> None:
    told = []
    for number in range(40):
        stage.pod(f"g-{number}", gang="g", size=50, timeout="1h")
        await stage.turns()
        stage.later(1)
        told.append(stage.told.said.get("g-0", ""))

    assert len(set(told)) <= 8
    stage.later(60)
    assert stage.told.said["g-0"] == "gang default/g: 40 of 50 members are there"


async def test_a_member_that_is_deleted_makes_the_others_wait_and_be_told(stage: GangStage) -> None:
    stage.node("n1", cpu=2)
    stage.gang("g", 3)
    await stage.settle()
    assert stage.inbox.queue.count("unschedulable") == 3

    stage.gone("g-1")
    stage.later(1)

    assert stage.told.said["g-0"] == "gang default/g: 2 of 3 members are there"
    assert stage.inbox.queue.count("gang") == 2


async def test_those_who_have_their_node_are_told_of(stage: GangStage) -> None:
    stage.node("n1")
    stage.pod("g-0", gang="g", size=3, node="n1")
    stage.gang("g", 3, members=1, first=1)
    await stage.settle()
    stage.later(1)

    assert stage.told.said["g-1"] == ("gang default/g: 2 of 3 members are there, 1 of them has its node")


async def test_a_gang_that_is_not_complete_in_time_is_told_so_and_waits_on(stage: GangStage) -> None:
    stage.node("n1")
    stage.gang("g", 2, members=1, timeout="30s")
    await stage.settle()
    stage.later(29)
    assert stage.count("timeout") == 0

    stage.later(1)

    assert stage.told.said["g-0"] == (
        "gang default/g: not placed within 30 s. gang default/g: 1 of 2 members are there"
    )
    assert stage.count("timeout") == 1
    stage.gang("g", 2, members=1, first=1, timeout="30s")
    await stage.settle()
    assert len(stage.places()) == 2


async def test_a_gang_that_does_not_fit_in_time_gives_back_what_is_kept_for_its_members(
    stage: GangStage,
) -> None:
    stage.node("n1", cpu=1)
    stage.gang("g", 2, timeout="30s")
    await stage.settle()
    waiting = stage.inbox.queue.find("g-0")
    assert waiting is not None
    stage.inbox.nominations.keep(waiting.pod, "n1")

    stage.later(30)

    assert stage.inbox.nominations.of("g-0") is None
    assert stage.told.said["g-0"].startswith(
        "gang default/g: not placed within 30 s. gang default/g: member g-1"
    )


async def test_the_loop_is_told_when_there_is_something_to_say_next(stage: GangStage) -> None:
    assert stage.gangs.watch.next_seconds() > 1e9
    stage.gang("g", 2, members=1, timeout="30s")
    await stage.settle()
    assert stage.gangs.watch.next_seconds() == 0.5

    stage.later(0.5)

    assert stage.gangs.watch.next_seconds() == 29.5
    assert stage.gangs.watch.count == 1


async def test_a_gang_of_which_nobody_waits_any_more_is_forgotten(stage: GangStage) -> None:
    stage.gang("g", 2, members=1, timeout="30s")
    await stage.settle()
    stage.gone("g-0")

    stage.later(30)

    assert stage.gangs.watch.count == 0
    assert stage.count("timeout") == 0


async def test_what_cannot_be_told_stops_nobody(stage: GangStage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no pen")

    stage.gang("g", 2, members=1, timeout="30s")
    await stage.settle()
    monkeypatch.setattr(stage.told, "unscheduled", fails)
    stage.later(1)
    monkeypatch.undo()

    stage.later(30)

    assert stage.told.said["g-0"].endswith("1 of 2 members are there")


async def test_who_waits_too_long_is_told_so_after_longer_and_longer_pauses(stage: GangStage) -> None:
    stage.gang("g", 2, members=1, timeout="1s")
    await stage.settle()
    told_at = []
    for second in range(1, 1201):
        before = stage.told.times["g-0"]
        stage.later(1)
        told_at += [second] * (stage.told.times["g-0"] - before)

    assert told_at == [1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]


async def test_what_was_said_already_is_neither_logged_nor_written_down_nor_counted_again(
    stage: GangStage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stage.gang("g", 3, members=1, timeout="1s")
    await stage.settle()
    for _ in range(100):
        stage.later(1)

    assert caplog.messages == [
        "gang default/g: not placed within 1 s",
        "gang default/g: 1 of 3 members are there",
    ]
    assert len(stage.decisions) == 1
    assert stage.count("timeout") == 1

    stage.gang("g", 3, members=1, first=1, timeout="1s")
    await stage.settle()
    for _ in range(100):
        stage.later(1)

    assert caplog.messages[2:] == ["gang default/g: 2 of 3 members are there"]
    assert [decision.pod.name for decision in stage.decisions[1:]] == ["g-0", "g-1"]


async def test_of_many_gangs_to_be_told_at_one_moment_a_few_are_in_each_turn(stage: GangStage) -> None:
    for number in range(100):
        stage.gang(f"g{number}", 2, members=1, timeout="30s")
    await stage.settle()
    told = []
    stage.clock.now += 1
    while stage.gangs.watch.next_seconds() == 0:
        before = len(stage.told.said)
        stage.gangs.watch.flush()
        told.append(len(stage.told.said) - before)

    assert sum(told) == 100, "nobody is forgotten"
    assert max(told) <= 16
    assert stage.gangs.watch.next_seconds() == 29


async def test_who_is_not_to_be_told_yet_is_not_looked_at(
    stage: GangStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        stage.gang(f"g{number}", 2, members=1, timeout="1h")
    await stage.settle()
    for _ in range(20):
        stage.later(1)
    stage.gang("new", 2, members=1, timeout="1h")
    await stage.settle()
    looked_at: list[tuple[str, str]] = []
    monkeypatch.setattr(stage.gangs.watch, "_muster", looked_at.append)

    stage.later(1)

    assert looked_at == [("default", "new")]


async def test_a_gang_of_which_nobody_is_there_any_more_is_forgotten_at_once(stage: GangStage) -> None:
    stage.gang("g", 2, members=1, timeout="1000h")
    await stage.settle()
    stage.later(1)

    stage.gone("g-0")

    assert stage.gangs.watch.count == 0
    assert stage.gangs.watch.next_seconds() > 1e9

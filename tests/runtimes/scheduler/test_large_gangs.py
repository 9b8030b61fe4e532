"""A gang of a thousand: who comes or goes is one of many, and the others are not looked at for that."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler import gangs
from bayplan.runtimes.scheduler.band import muster
from bayplan.snapshot.sources import NO_READINGS, Readings
from tests.runtimes.scheduler.gang_stage import GangStage

SIZE = 60


@pytest.fixture
def stage() -> Iterator[GangStage]:
    made = GangStage()
    for number in range(SIZE // 2):
        made.node(f"n{number}")
    yield made
    made.close()


@pytest.fixture
def mustered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many members each look at a gang found."""
    found: list[int] = []

    def look(*arguments, **settings):  # type: ignore[no-untyped-def]
        band = muster(*arguments, **settings)
        found.append(len(band.waiting) + len(band.placed) if band else 0)
        return band

    monkeypatch.setattr(gangs, "muster", look)
    return found


async def test_members_that_come_one_by_one_are_looked_at_once_all_are_there(
    stage: GangStage, mustered: list[int]
) -> None:
    for number in range(SIZE):
        stage.gang("g", SIZE, members=1, first=number)
        await stage.turns()

    assert mustered == [SIZE]
    await stage.settle()
    assert len(stage.places()) == SIZE


async def test_members_that_come_all_at_once_and_are_too_few_are_not_looked_at(
    stage: GangStage, mustered: list[int]
) -> None:
    stage.gang("g", SIZE, members=SIZE - 1)
    await stage.settle()
    assert mustered == []

    stage.later(1)

    assert stage.told.said["g-0"] == f"gang default/g: {SIZE - 1} of {SIZE} members are there"
    assert len(stage.told.said) == SIZE - 1


async def test_members_that_go_one_by_one_are_not_looked_at(stage: GangStage, mustered: list[int]) -> None:
    stage.gang("g", SIZE)
    await stage.settle()
    mustered.clear()

    for number in range(SIZE):
        stage.gone(f"g-{number}")

    assert mustered == []
    assert stage.places() == {}
    assert stage.gangs.watch.count == 0


async def test_while_one_is_gated_the_others_are_not_looked_at_in_the_turn_of_each(
    stage: GangStage, mustered: list[int]
) -> None:
    stage.gang("g", SIZE, members=SIZE - 1)
    gated = stage.pod("gated", gang="g", size=SIZE)
    waiting = stage.inbox.queue.find("gated")
    assert waiting is not None
    stage.inbox.queue.take_too(waiting)

    await stage.settle()

    assert mustered == []
    assert stage.inbox.queue.count("gang") == SIZE - 1

    stage.inbox.queue.failed(waiting)
    stage.clock.now += 10
    await stage.settle()
    assert mustered == [SIZE]
    assert gated.name in stage.places()


async def test_members_beyond_the_size_join_one_by_one_and_the_others_are_not_looked_at(
    stage: GangStage, mustered: list[int]
) -> None:
    stage.gang("g", 2, members=2 * SIZE)

    await stage.settle()

    assert len(stage.places()) == SIZE, "all there is room for"
    assert len(mustered) == 1
    waiting = [pod.name for pod in stage.inbox.queue.pods()]
    assert len(waiting) == SIZE
    assert {stage.told.times[name] for name in waiting} == {1}, "each is told once, of itself"
    judged = [decision.pod.name for decision in stage.decisions]
    assert max(Counter(judged).values()) <= 2, "a filter and scores"


async def test_those_who_are_left_of_a_gang_that_waits_are_told_how_many_they_are(stage: GangStage) -> None:
    stage.gang("g", SIZE, members=SIZE - 1)
    await stage.settle()
    stage.later(1)

    stage.gone("g-7")
    stage.later(2)

    assert stage.told.said["g-0"] == f"gang default/g: {SIZE - 2} of {SIZE} members are there"


async def test_those_who_come_late_do_not_wait_for_each_other_and_are_told_of_themselves(
    stage: GangStage,
) -> None:
    stage.gang("g", 2, cpu=2)
    await stage.settle()
    stage.pod("g-large", gang="g", size=2, cpu=8)
    stage.pod("g-small", gang="g", size=2, cpu=1)

    await stage.settle()

    assert set(stage.places()) == {"g-0", "g-1", "g-small"}
    nowhere = f"0/{SIZE // 2} nodes are available: {SIZE // 2} Insufficient cpu."
    text = f"{nowhere} gang default/g: its 2 members have their nodes. A gang evicts nobody."
    assert stage.told.said == {"g-large": text}
    assert stage.told.times == {"g-large": 1}
    assert (stage.count("placed"), stage.count("refused")) == (1, 0), "the gang is placed"
    stage.later(3600)
    assert stage.count("timeout") == 0


async def test_members_without_a_kept_decision_are_placed_like_all_others(
    stage: GangStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayplan.engine.gang._KEPT_ROWS", 10 * SIZE // 2)
    stage.gang("g", SIZE)

    await stage.settle()

    assert len(stage.places()) == SIZE
    assert {decision.pod.name for decision in stage.decisions} == {f"g-{number}" for number in range(10)}


async def test_a_source_is_asked_about_several_members_at_a_time(
    stage: GangStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other pod is judged meanwhile, and an answer may take half a second."""
    asked: list[str] = []
    under_way, most = 0, 0

    async def about(pod: Pod, *_: Any, **__: Any) -> Readings:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        asked.append(pod.name)
        await asyncio.sleep(0)
        under_way -= 1
        return NO_READINGS

    sources = SimpleNamespace(asked={"inventory": None}, current=NO_READINGS, about=about)
    monkeypatch.setattr(GangStage, "sources", sources)
    stage.gang("g", SIZE)

    await stage.settle()

    assert most == 8
    assert Counter(asked) == {f"g-{number}": 1 for number in range(SIZE)}
    assert len(stage.places()) == SIZE

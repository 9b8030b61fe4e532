"""A gang of a thousand: who comes or goes is one of many, and the others are not looked at for that."""

from collections.abc import Iterator

import pytest

from bayplan.runtimes.scheduler import gangs
from bayplan.runtimes.scheduler.band import muster
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


async def test_those_who_are_left_of_a_gang_that_waits_are_told_how_many_they_are(stage: GangStage) -> None:
    stage.gang("g", SIZE, members=SIZE - 1)
    await stage.settle()
    stage.later(1)

    stage.gone("g-7")
    stage.later(2)

    assert stage.told.said["g-0"] == f"gang default/g: {SIZE - 2} of {SIZE} members are there"

"""One generation after another: the next begins at once, the last ends when nobody uses it any more."""

import asyncio

from bayplan.ops.metrics import Metrics
from bayplan.runtimes.generation import Generation
from bayplan.runtimes.generations import Generations
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.shadow import Shadow
from bayplan.state.sources.book import Sources

PATIENCE_SECONDS = 20.0


class Closing(Sources):
    """Sources that tell when they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


def make(number: int) -> tuple[Generation, asyncio.Event]:
    sources = Closing()
    return Generation(number=number, policies=[], sources=sources), sources.closed


def begun(first: Generation) -> Generations[Generation]:
    metrics, idle = Metrics(version="test"), asyncio.Event()
    shadow = Shadow(limits=Limits(), metrics=metrics.shadow, idle=idle)
    generations = Generations(first, shadow=shadow, metrics=metrics)
    generations.start(None)
    return generations


async def test_the_next_one_is_at_work_while_the_last_is_still_used() -> None:
    (first, first_closed), (second, second_closed) = make(1), make(2)
    generations = begun(first)
    assert generations.next_number == 2

    with first.used():
        assert generations.adopt(second) is generations.current is second
        await asyncio.sleep(0.01)
        assert not first_closed.is_set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await first_closed.wait()

    assert not second_closed.is_set()
    assert generations.metrics.edition is second.edition
    await generations.end()


async def test_at_the_end_those_that_are_still_used_are_not_waited_for() -> None:
    (first, first_closed), (second, second_closed) = make(1), make(2)
    generations = begun(first)

    with first.used(), second.used():
        generations.adopt(second)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await generations.end()

    assert first_closed.is_set()
    assert second_closed.is_set()

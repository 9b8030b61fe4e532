"""A task that was to run for ever and did not: the log has its traceback, and health knows."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bayplan.runtimes.generation import Generation
from bayplan.runtimes.watched_task import WatchedTask, WatchedTasks
from bayplan.state.sources.book import Declared, Sources
from bayplan.state.sources.http import SourceHttp
from bayplan.state.sources.poller import Polled
from tests.runtimes.extender.caller import look
from tests.runtimes.extender.obedient import serving


async def breaks() -> None:
    await asyncio.sleep(0)
    raise RuntimeError("a bug")


async def returns() -> None:
    await asyncio.sleep(0)


async def lasts() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("work", "may_end", "told"),
    [
        pytest.param(breaks, False, "water is not boiled any more: RuntimeError('a bug')", id="it fails"),
        pytest.param(breaks, True, "water is not boiled any more: RuntimeError('a bug')", id="it may end"),
        pytest.param(returns, False, "water is not boiled any more: None", id="it was to run for ever"),
        pytest.param(returns, True, "", id="it may end, and does"),
    ],
)
async def test_one_that_ends_by_itself_is_told_of(
    caplog: pytest.LogCaptureFixture, work: Callable[[], Coroutine[Any, Any, None]], may_end: bool, told: str
) -> None:
    task = WatchedTask(work(), "water is not boiled", may_end=may_end)

    await task.gone()

    assert task.problem == told
    assert caplog.messages == ([told] if told else [])
    assert ("Traceback" in caplog.text) is (work is breaks)


async def test_one_that_is_ended_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    task = WatchedTask(lasts(), "water is not boiled")

    await task.end()

    assert task.problem == ""
    assert caplog.messages == []


async def test_what_only_a_restart_cures_is_apart_from_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    tasks = WatchedTasks()
    begun = [
        tasks.start(breaks(), "tea is not made", vital=True),
        tasks.start(breaks(), "cups are not washed"),
    ]

    for task in begun:
        await task.gone()

    assert tasks.lost == "tea is not made any more: RuntimeError('a bug')"
    assert tasks.problem == "cups are not washed any more: RuntimeError('a bug')"
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL, logging.ERROR]


async def test_a_generation_whose_sources_are_not_asked_any_more_says_so() -> None:
    async def fetch(_http: SourceHttp) -> dict[str, float]:
        return {"n1": 1.0}

    class Breaking(Sources):
        async def run(self) -> None:
            await breaks()

    source = Polled("load", fetch, every_seconds=1, max_age_seconds=60)
    generation = Generation(number=1, policies=[], sources=Breaking([Declared(source)]))
    generation.start()
    assert generation.problem == ""
    await asyncio.sleep(0.01)

    assert generation.problem == "sources are not asked any more: RuntimeError('a bug')"
    await generation.end()


async def test_a_server_says_under_healthz_what_it_does_not_do_any_more(tmp_path: Path) -> None:
    async with serving(tmp_path, view=["n1"]) as server:
        await server.tasks.start(breaks(), "cups are not washed").gone()
        shown = (await look(server, "/healthz?verbose")).body.decode()
        assert "[!]background: cups are not washed any more: RuntimeError('a bug')" in shown
        assert (await look(server, "/livez")).status == 200

        await server.tasks.start(breaks(), "tea is not made", vital=True).gone()
        found = await look(server, "/livez")
        assert found.status == 503
        assert "[-]following failed: tea is not made any more: RuntimeError('a bug')" in found.body.decode()

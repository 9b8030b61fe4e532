"""A source whose calls hang in threads: it fills its own, takes none from others, and holds up no end."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from bayplan.config.flags import Flags, load_all
from bayplan.state.sources.document import FileDocument, Shape
from bayplan.state.sources.http import SourceHttp
from bayplan.state.sources.poller import Polled, Poller
from bayplan.state.sources.threads import AT_ONCE, ThreadsByCaller, run_apart

_LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(uvloop.new_event_loop, id="uvloop"),
]


class Hanging:
    """A source that waits in a thread until it is released, and counts the threads that it holds."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.held = 0

    async def fetch(self, http: SourceHttp) -> Mapping[str, Any]:
        return await asyncio.to_thread(self.wait)

    def wait(self) -> Mapping[str, Any]:
        self.held += 1
        self.released.wait(60)
        return {"n": 1}


def _poller(fetch: Callable[..., Any], *, timeout_seconds: float = 0.05, **settings: Any) -> Poller:
    source = Polled(
        "load", fetch, every_seconds=1, max_age_seconds=60, timeout_seconds=timeout_seconds, **settings
    )
    return Poller(source, SourceHttp())


@asynccontextmanager
async def _hanging(*, tries: int) -> AsyncIterator[tuple[Hanging, Poller]]:
    """One that has been asked so often, in vain."""
    asyncio.get_running_loop().set_default_executor(ThreadsByCaller())
    source = Hanging()
    poller = _poller(source.fetch)
    try:
        for _ in range(tries):
            await poller.ask()
        yield source, poller
    finally:
        source.released.set()


async def test_a_source_that_hangs_holds_no_more_threads_than_its_own_and_says_so() -> None:
    async with _hanging(tries=AT_ONCE - 1) as (source, poller):
        assert poller.error == "no answer in 0.05 s"
        for _ in range(5):
            await poller.ask()

        assert source.held == AT_ONCE
        assert poller.error == (
            "no answer in 0.05 s; all threads that it may have hang, and no other is started"
        )


async def test_a_source_that_hangs_takes_no_thread_from_others() -> None:
    async def other(http: SourceHttp) -> Mapping[str, Any]:
        return await asyncio.to_thread(lambda: {"n": 2})

    async with _hanging(tries=AT_ONCE + 1):
        good = _poller(other, timeout_seconds=20)
        await good.ask()

        assert good.error == ""
        assert await asyncio.wait_for(asyncio.to_thread(str, 3), 20) == "3"
        loop = asyncio.get_running_loop()
        assert await asyncio.wait_for(loop.getaddrinfo("localhost", 80), 20)


async def test_a_source_that_hangs_no_more_answers_again() -> None:
    async with _hanging(tries=AT_ONCE + 2) as (source, poller):
        source.released.set()
        await _again(poller).ask()

        assert poller.error == ""
        assert poller.reading.fields == {"": {"n": 1}}


def _again(poller: Poller) -> Poller:
    """The same with more patience: a thread that was released needs a moment."""
    poller._calls._timeout_seconds = 20
    return poller


async def test_tasks_of_a_source_use_its_threads_too() -> None:
    names: list[str] = []

    async def fetch(http: SourceHttp) -> Mapping[str, Any]:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(asyncio.to_thread(lambda: names.append(threading.current_thread().name)))
        return {}

    asyncio.get_running_loop().set_default_executor(ThreadsByCaller())
    await _poller(fetch, timeout_seconds=20).ask()

    assert names == ["bayplan-source-load"] * 3


async def test_a_file_that_hangs_is_not_read_again_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that is gone; the pool of the event loop has no part in it."""
    source = Hanging()
    monkeypatch.setattr(FileDocument, "_read", lambda _: source.wait())
    poller = _poller(FileDocument(tmp_path / "prices.yaml", Shape()).fetch, threads=1)
    try:
        for _ in range(4):
            await poller.ask()

        assert source.held == 1
        assert poller.error == "no answer in 0.05 s; its thread hangs, and no other is started"
    finally:
        source.released.set()
    await _again(poller).ask()
    assert (poller.error, source.held) == ("", 2)


@pytest.mark.parametrize(
    ("entry", "threads"),
    [
        pytest.param({"file": {"path": "prices.yaml"}}, 1, id="a file"),
        pytest.param({"http": {"url": "http://127.0.0.1:1"}}, AT_ONCE, id="a web service"),
    ],
)
def test_a_file_source_has_one_thread(tmp_path: Path, entry: dict[str, Any], threads: int) -> None:
    head = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n"
    (tmp_path / "bayplan.yaml").write_text(f"{head}sources: [{ {'name': 'prices', **entry} }]\n")
    (declared,) = load_all([], Flags(config=tmp_path / "bayplan.yaml")).sources

    assert isinstance(declared.source, Polled)
    assert declared.source.threads == threads


@pytest.mark.parametrize("factory", _LOOPS)
def test_the_end_does_not_wait_for_a_call_that_hangs(factory: Callable[[], Any]) -> None:
    source = Hanging()

    async def main() -> str:
        poller = _poller(source.fetch)
        await poller.ask()
        ours = asyncio.create_task(asyncio.to_thread(source.wait))
        await asyncio.sleep(0)
        ours.cancel()
        return poller.error

    start = time.monotonic()
    try:
        assert run_apart(main(), loop_factory=factory) == "no answer in 0.05 s"
        assert time.monotonic() - start < 20
    finally:
        source.released.set()


@pytest.mark.parametrize("factory", _LOOPS)
def test_the_end_does_not_wait_for_a_call_that_goes_on_when_it_is_cancelled(
    factory: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    ended = False

    async def stubborn(_: SourceHttp) -> Mapping[str, Any]:
        while not ended:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
        return {}

    async def main() -> str:
        poller = _poller(stubborn)
        await poller.ask()
        return poller.error

    assert run_apart(main(), loop_factory=factory) == "no answer in 0.05 s"
    ended = True
    assert "goes on although it was cancelled" in caplog.text
    caplog.clear()


def test_a_program_whose_source_hangs_ends(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(
        "import asyncio, time, bayplan\n"
        "PRICE = bayplan.Source('prices')\n"
        "@bayplan.source(every='1s', max_age='10s', timeout='100ms')\n"
        "async def prices(http):\n"
        "    return await asyncio.to_thread(time.sleep, 1000)\n"
        "@bayplan.score\n"
        "def cheap(pod, nodes):\n"
        "    return nodes[PRICE]\n"
    )
    (tmp_path / "nodes.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n")
    command = [str(Path(sys.executable).parent / "bayplan"), "columns", "policy.py", "--snapshot=nodes.yaml"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stderr
    assert "no answer in 0.1 s" in ended.stdout

"""A generation lasts as long as somebody uses it, and waits for nobody else's threads."""

import asyncio
import gc
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bayplan.authoring.editions import anew
from bayplan.authoring.load import load
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender.generation import Generation
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.state.sources.book import Sources
from tests.controlplane.waiting import wait_until
from tests.runtimes.extender.test_sources import Service, door, filtered

PATIENCE_SECONDS = 20.0


class Closing(Sources):
    """Sources that tell when they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


class Listening(Service):
    """A service that tells when it is asked."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer)
        self.heard = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.heard.set()
        return await super().handle(request)


def make_generation(sources: Sources) -> Generation:
    verbs = Verbs([], Metrics(version="test"))
    return Generation(number=1, policies=[], verbs=verbs, sources=sources)


async def test_it_ends_when_its_last_user_is_gone() -> None:
    sources = Closing()
    generation = make_generation(sources)
    generation.start()
    with generation.used():
        with generation.used():
            ending = asyncio.create_task(generation.end())
            await asyncio.wait({ending}, timeout=0.05)
        await asyncio.wait({ending}, timeout=0.05)
        assert not sources.closed.is_set()

    async with asyncio.timeout(PATIENCE_SECONDS):
        await ending
    assert sources.closed.is_set()


async def test_it_can_be_told_to_wait_for_nobody() -> None:
    """As when the server stops, and a request is left that did not end in time."""
    sources = Closing()
    generation = make_generation(sources)
    with generation.used():
        ending = asyncio.create_task(generation.end())
        await asyncio.wait({ending}, timeout=0.05)
        generation.let_go()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ending

    assert sources.closed.is_set()


async def test_what_its_policies_imported_is_forgotten_with_it(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("import bayplan\n\n@bayplan.filter\ndef f(node):\n    return None\n")
    with anew() as edition:
        load(str(tmp_path / "policy.py"))
    generation = make_generation(Sources())
    generation.edition = edition
    assert edition.files()

    await generation.end()

    assert edition.files() == []


async def test_the_memory_of_one_that_was_replaced_is_given_back(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(
        "import bayplan\n\nclass Model: ...\n\nonly_model = Model()\n\n"
        "@bayplan.filter\ndef f(node):\n    return None if only_model else 'no'\n"
    )
    generation = make_generation(Sources())
    gc.disable()
    try:
        with anew() as edition:
            load(str(tmp_path / "policy.py"))
        generation.edition = edition
        (module,) = (each for each in list(sys.modules.values()) if hasattr(each, "only_model"))
        model = weakref.ref(module.only_model)
        del module
        await generation.end()
        assert model() is not None

        await generation.retire()

        await asyncio.to_thread(wait_until, lambda: model() is None, PATIENCE_SECONDS, what="it is gone")
    finally:
        gc.enable()


async def test_a_reload_leaves_the_sources_open_for_requests_that_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Logging is one for the process: other tests must not find our second generation in it.
    monkeypatch.setattr("bayplan.ops.logs._generation", 1)
    service = Listening({"a": {"refuse": "no licence left"}})
    service.hangs = True
    async with door(tmp_path, service) as server:
        under_way = asyncio.create_task(filtered(server, "web"))
        await service.heard.wait()
        old = server.app.generation
        server.adopt(server.options)
        # What ends at once has ended by now.
        for _ in range(20):
            await asyncio.sleep(0)
        service.released.set()

        assert await under_way == {"a": "no licence left"}
        assert server.app.generation is not old
        assert old.sources.asked["svc"].error == ""


async def test_a_request_needs_no_thread_that_logins_and_the_api_share(tmp_path: Path) -> None:
    release = threading.Event()
    async with door(tmp_path, Service({"a": {"refuse": "no licence left"}})) as server:
        hogs = [asyncio.create_task(asyncio.to_thread(release.wait, 60)) for _ in range(64)]
        try:
            async with asyncio.timeout(PATIENCE_SECONDS / 4):
                assert await filtered(server, "web") == {"a": "no licence left"}
        finally:
            release.set()
            await asyncio.gather(*hogs)

"""An informer whose copy may be of a past that never was: it notices, or is told, and lists again."""

import asyncio
import random

import pytest
from aiohttp import web

from bayplan.client.rest import NODES
from bayplan.kube.node import NodeObject
from bayplan.state import informer as informer_module
from bayplan.state.informer import Informer
from tests.state.test_informer import (
    Copy,
    Reply,
    api_server,
    bookmark,
    event,
    frozen,
    informed,
    initial,
    node,
    saying,
    streaming,
    until,
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "_BACKOFF_SECONDS", (0.001, 0.01))


def at(version: str) -> Reply:
    """Where a server is."""
    return saying(200, {"metadata": {"resourceVersion": version}, "items": [node("a", 1)]})


async def test_a_server_that_is_not_where_it_was_has_another_past_and_is_listed() -> None:
    """An older etcd was restored: a watch from a version that it never had would be silent."""
    script = [
        streaming([*initial(["a", "never-was"], 5), bookmark(300)]),
        streaming(initial(["a", "new"], 250), stay=True),
    ]

    async with informed(*script, where=at("240")) as (informer, copy, api):
        await until(lambda: copy.names == {"a", "new"})

        assert api.asked[1]["resourceVersion"] == ""
        assert api.asked[1]["sendInitialEvents"] == "true"
        assert informer.lists == 2
        assert informer.as_of > 0


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(at("300"), id="nothing has happened"),
        pytest.param(at("4000"), id="it went on"),
        pytest.param(at("a-version-of-another-kind"), id="it does not count"),
        pytest.param(saying(403, {"message": "no"}), id="it does not say"),
        pytest.param(saying(200, {"metadata": 7}), id="it talks nonsense"),
    ],
)
async def test_a_server_that_may_be_where_it_was_is_watched_from_there(where: Reply) -> None:
    script = [streaming([*initial(["a"], 5), bookmark(300)]), streaming([bookmark(301)], stay=True)]

    async with informed(*script, where=where) as (informer, _, api):
        await until(lambda: len(api.asked) == 2)

        assert api.asked[1]["resourceVersion"] == "300"
        assert informer.lists == 1


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(saying(429, {"message": "slow down"}), id="too busy"),
        pytest.param(saying(500, {"message": "etcdserver: request timed out"}), id="without its etcd"),
        pytest.param(frozen, id="frozen"),
    ],
)
async def test_a_server_that_cannot_say_where_it_is_is_asked_again_before_it_is_watched(
    first: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch from a version that a restored etcd never had would be open and silent, and count as true."""
    monkeypatch.setattr(informer_module, "_VERSION_SECONDS", 0.1)
    replies = [first, at("240")]

    async def where(request: web.BaseRequest) -> web.StreamResponse:
        return await (replies.pop(0) if len(replies) > 1 else replies[0])(request)

    script = [
        streaming([*initial(["a", "never-was"], 5), bookmark(300)]),
        streaming(initial(["a", "new"], 250), stay=True),
    ]

    async with informed(*script, where=where) as (informer, copy, api):
        await until(lambda: len(api.asked) == 2)

        assert api.asked[1]["resourceVersion"] == ""
        await until(lambda: copy.names == {"a", "new"})
        assert informer.lists == 2


async def test_whoever_finds_the_copy_untrue_has_it_made_anew_while_the_watch_is_open() -> None:
    script = [
        streaming(initial(["a", "untrue"], 5), stay=True),
        streaming([*initial(["a"], 7), event("ADDED", node("b", 8))], stay=True),
    ]

    async with informed(*script) as (informer, copy, api):
        await until(lambda: informer.synced.is_set() and len(api.asked) == 1)
        informer.list_again()
        await until(lambda: copy.names == {"a", "b"})

        assert api.asked[1]["resourceVersion"] == ""
        assert informer.lists == 2
        assert informer.age_seconds == 0


@pytest.mark.parametrize(
    "ends", [pytest.param(False, id="the watch goes on"), pytest.param(True, id="the watch ends")]
)
async def test_news_in_the_moment_in_which_the_copy_is_found_untrue_change_nothing(
    ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Doubting(Copy):
        """Finds the copy untrue whenever it hears of a node called ``b``."""

        def put(self, item: NodeObject) -> None:
            super().put(item)
            if item.name == "b":
                informer.list_again()

    copy = Doubting()
    script = [
        streaming([*initial(["a", "untrue"], 5), event("ADDED", node("b", 6))], stay=not ends),
        streaming(initial(["a"], 7), stay=True),
    ]
    async with api_server(*script) as (client, api):
        informer = Informer(client, NODES, copy, dice=random.Random(1))
        task = asyncio.create_task(informer.run())
        try:
            await until(lambda: copy.names == {"a"})
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    assert [asked["resourceVersion"] for asked in api.asked] == ["0", ""]
    assert "this is a bug" not in caplog.text


async def test_a_server_that_forgets_what_it_has_just_listed_is_asked_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each list of a large cluster is work for the API server, which has enough of it just then."""
    monkeypatch.setattr(informer_module, "_BACKOFF_SECONDS", (0.1, 10.0))
    page = saying(200, {"metadata": {"resourceVersion": "9"}, "items": [node("a", 1)]})
    gone = saying(410, {"message": "too old"})
    script = [saying(400, {"message": "sendInitialEvents is forbidden"}), *[page, gone] * 500]

    async with informed(*script) as (informer, _, _):
        await until(lambda: informer.lists >= 2)
        await asyncio.sleep(0.6)

        assert informer.lists <= 5


async def test_after_a_watch_a_forgotten_past_is_listed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(informer_module, "_BACKOFF_SECONDS", (60.0, 60.0))
    gone = saying(410, {"message": "too old"})
    script = [streaming(initial(["a"], 5)), gone, streaming([*initial(["b"], 50), bookmark(51)]), gone]

    async with informed(*script, streaming(initial(["c"], 90), stay=True)) as (_, copy, _):
        await until(lambda: copy.names == {"c"})


async def test_told_to_list_again_between_two_watches_it_does() -> None:
    refused = saying(503, {"message": "down"})
    script = [streaming(initial(["a", "untrue"], 5)), *[refused] * 3, streaming(initial(["a"], 7), stay=True)]

    async with informed(*script) as (informer, copy, api):
        await until(lambda: len(api.asked) == 3)
        informer.list_again()
        await until(lambda: copy.names == {"a"})


async def test_a_list_of_the_latest_state_says_when_it_was_asked_for_before_it_is_there() -> None:
    told: list[tuple[float, int]] = []
    gone = saying(410, {"message": "too old"})
    script = [streaming(initial(["a"], 5)), gone, streaming(initial(["b"], 50), stay=True)]
    copy = Copy()
    async with api_server(*script) as (client, _):
        informer = Informer(
            client,
            NODES,
            copy,
            dice=random.Random(1),
            on_latest=lambda asked_at: told.append((asked_at, copy.replaced)),
        )
        task = asyncio.create_task(informer.run())
        await until(lambda: copy.names == {"b"})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert told == [(informer.as_of, 0)]

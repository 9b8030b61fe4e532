"""The informer's rules, against an API server that misbehaves on command; the real one is in e2e."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest
from aiohttp import web

from bayplan.client import channel, retry
from bayplan.client.connect import Connection
from bayplan.client.rest import NODES, ApiClient
from bayplan.kube.node import NodeObject
from bayplan.state import informer as informer_module
from bayplan.state.informer import Informer
from bayplan.state.pulse import Pulse
from bayplan.state.view import LiveView

Reply = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def node(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def event(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


# Its "status" is a text, and that of what is watched an object.
EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version: 5 (50)",
    "reason": "Expired",
    "code": 410,
}


def bookmark(version: int, *, end: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"metadata": metadata})


def initial(names: Iterable[str], version: int) -> list[bytes]:
    return [*(event("ADDED", node(name, version)) for name in names), bookmark(version, end=True)]


def streaming(lines: Iterable[bytes], *, stay: bool = False, cut: bool = False) -> Reply:
    """A watch with these lines; then it ends, is cut off, or stays open."""

    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        if stay:
            await asyncio.Event().wait()
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    return reply


async def frozen(request: web.BaseRequest) -> web.StreamResponse:
    """A server whose kernel still accepts connections, and no more."""
    await asyncio.Event().wait()
    raise AssertionError("it never thaws")


def beating(lines: Iterable[bytes], *, every_seconds: float, times: int) -> Reply:
    """A watch with these lines, then a bookmark now and then."""

    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        for version in range(times):
            await asyncio.sleep(every_seconds)
            await response.write(bookmark(100 + version))
        await response.write(event("ADDED", node("last", 200)))
        await asyncio.Event().wait()
        return response

    return reply


def saying(status: int, body: dict[str, Any], **headers: str) -> Reply:
    """A plain answer."""

    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(
            body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    return reply


class Copy:
    """A store that remembers what it was told."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.replaced = 0

    def replace(self, objects: Iterable[NodeObject]) -> None:
        self.names = {item.name for item in objects}
        self.replaced += 1

    def put(self, item: NodeObject) -> None:
        self.names.add(item.name)

    def drop(self, item: NodeObject) -> None:
        self.names.discard(item.name)


class ApiServer:
    """Answers requests by a script, and writes them down; apart from who asks where it is."""

    def __init__(self, script: list[Reply], where: Reply | None) -> None:
        self.script = [*script, streaming([], stay=True)]
        self.asked: list[dict[str, str]] = []
        self._where = where or saying(404, {"message": "nowhere"})

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.query.get("limit") == "1":
            return await self._where(request)
        self.asked.append(dict(request.query))
        reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return await reply(request)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_module, "_BACKOFF_SECONDS", (0.001, 0.01))


@contextlib.asynccontextmanager
async def api_server(
    *script: Reply, for_ever: bool = False, where: Reply | None = None
) -> AsyncIterator[tuple[ApiClient, ApiServer]]:
    """A server that follows the script, then stays silent or says its last line ``for_ever``."""
    api = ApiServer(list(script), where)
    if for_ever:
        api.script.pop()
    runner = web.ServerRunner(web.Server(api.handle), shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with ApiClient(Connection(f"http://{host}:{port}", None)) as client:
            yield client, api
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def informed(
    *script: Reply, where: Reply | None = None, **options: Any
) -> AsyncIterator[tuple[Informer[NodeObject], Copy, ApiServer]]:
    copy = Copy()
    async with api_server(*script, where=where) as (client, api):
        informer = Informer(client, NODES, copy, dice=random.Random(1), **options)
        task = asyncio.create_task(informer.run())
        try:
            yield informer, copy, api
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.002)


async def test_everything_arrives_in_one_stream_and_goes_on_from_there() -> None:
    lines = [*initial(["a", "b"], 5), event("ADDED", node("c", 6)), event("DELETED", node("a", 7))]

    async with informed(streaming(lines, stay=True)) as (informer, copy, api):
        await until(lambda: copy.names == {"b", "c"})

        assert informer.synced.is_set()
        assert informer.age_seconds == 0
        assert api.asked[0]["sendInitialEvents"] == "true"
        assert api.asked[0]["resourceVersion"] == "0"
        assert len(api.asked) == 1


async def test_a_first_list_may_be_asked_to_be_of_the_latest_state() -> None:
    async with api_server(streaming(initial(["a"], 5), stay=True)) as (client, api):
        informer = Informer(client, NODES, Copy(), consistent=True, dice=random.Random(1))
        task = asyncio.create_task(informer.run())
        await until(informer.synced.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert api.asked[0]["resourceVersion"] == ""


async def test_a_server_that_cannot_stream_is_listed_page_by_page() -> None:
    first = {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [node("a", 1)]}
    second = {"metadata": {"resourceVersion": "9"}, "items": [node("b", 2)]}
    script = [
        saying(400, {"message": "sendInitialEvents is forbidden"}),
        saying(200, first),
        saying(200, second),
    ]

    async with informed(*script, streaming([event("ADDED", node("c", 10))], stay=True)) as (
        _,
        copy,
        api,
    ):
        await until(lambda: copy.names == {"a", "b", "c"})

        assert [asked.get("continue") for asked in api.asked[1:3]] == [None, "more"]
        assert api.asked[3]["resourceVersion"] == "9"
        assert "sendInitialEvents" not in api.asked[3]


async def test_a_watch_that_ends_is_resumed_where_it_was() -> None:
    lines = [*initial(["a"], 5), event("MODIFIED", node("a", 8)), bookmark(11)]

    async with informed(streaming(lines), streaming([event("ADDED", node("b", 12))], stay=True)) as parts:
        informer, copy, api = parts
        await until(lambda: copy.names == {"a", "b"})

        assert api.asked[1]["resourceVersion"] == "11"
        assert informer.lists == 1
        assert copy.replaced == 0, "the first list goes in as it comes"


async def test_a_connection_that_breaks_is_resumed_without_listing() -> None:
    lines = [*initial(["a"], 5), event("ADDED", node("b", 6))]

    async with informed(streaming(lines, cut=True), streaming([], stay=True)) as (informer, copy, api):
        await until(lambda: len(api.asked) == 2)

        assert api.asked[1]["resourceVersion"] == "6"
        assert informer.lists == 1
        assert copy.names == {"a", "b"}


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(saying(410, {"message": "too old"}), id="as a status"),
        pytest.param(streaming([event("ERROR", {"code": 410, "message": "too old"})]), id="as an event"),
        pytest.param(streaming([event("ERROR", EXPIRED)]), id="as an event of an API server"),
    ],
)
async def test_a_forgotten_past_means_one_consistent_list_and_deletions_are_found(gone: Reply) -> None:
    script = [streaming(initial(["a", "deleted-unseen"], 5)), gone, streaming(initial(["a"], 50), stay=True)]

    async with informed(*script) as (informer, copy, api):
        await until(lambda: copy.names == {"a"})

        assert api.asked[2]["resourceVersion"] == ""
        assert api.asked[2]["sendInitialEvents"] == "true"
        assert informer.lists == 2


async def test_too_many_requests_means_wait_and_not_list() -> None:
    busy = saying(429, {"message": "slow down"})
    after = streaming([event("ADDED", node("b", 6))], stay=True)

    async with informed(streaming(initial(["a"], 5)), busy, busy, after) as (informer, copy, api):
        await until(lambda: copy.names == {"a", "b"})

        assert [asked["resourceVersion"] for asked in api.asked[1:]] == ["5", "5", "5"]
        assert informer.lists == 1


async def test_a_server_that_names_an_hour_is_asked_much_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in maintenance names its whole length; the API server behind it may be there in a second."""
    monkeypatch.setattr(retry, "_RETRY_AFTER_LIMIT_SECONDS", 0.01)
    away = saying(503, {"message": "maintenance"}, Retry_After="3600")
    after = streaming([event("ADDED", node("b", 6))], stay=True)

    async with informed(streaming(initial(["a"], 5)), away, away, after) as (informer, copy, _):
        await until(lambda: copy.names == {"a", "b"})

        assert informer.lists == 1


async def test_half_a_list_is_no_list() -> None:
    half = streaming([event("ADDED", node("a", 1))], cut=True)

    async with informed(half, streaming(initial(["a", "b"], 5), stay=True)) as (_, copy, api):
        await until(lambda: copy.names == {"a", "b"})

        assert copy.replaced == 1
        assert len(api.asked) == 2


async def test_what_was_in_half_a_list_and_is_gone_in_the_next_is_gone() -> None:
    half = streaming([event("ADDED", node("gone", 5)), event("ADDED", node("a", 5))], cut=True)

    async with informed(half, streaming(initial(["a", "b"], 7), stay=True)) as (informer, copy, _):
        await asyncio.wait_for(informer.synced.wait(), 5)

        assert copy.names == {"a", "b"}
        assert copy.replaced == 1


async def test_nonsense_in_a_watch_does_not_end_the_informer() -> None:
    nonsense = streaming([b"not json\n"])

    async with informed(streaming(initial(["a"], 5)), nonsense, streaming([bookmark(9)], stay=True)) as parts:
        informer, copy, api = parts
        await until(lambda: len(api.asked) == 3 and informer.age_seconds == 0)

        assert copy.names == {"a"}


async def test_age_counts_from_when_the_watch_broke() -> None:
    refused = saying(503, {"message": "down"})

    async with informed(streaming(initial(["a"], 5)), *[refused] * 50) as (informer, _, api):
        await until(lambda: len(api.asked) > 5)

        assert informer.synced.is_set()
        assert informer.age_seconds > 0


async def test_a_silent_watch_is_opened_again_where_it_was_and_no_age_is_shown() -> None:
    lines = [*initial(["a"], 5), event("ADDED", node("b", 6))]

    async with informed(streaming(lines, stay=True), silence_seconds=0.05) as (informer, copy, api):
        await until(lambda: copy.names == {"a", "b"})
        ages: list[float] = []

        def reopened_thrice() -> bool:
            ages.append(informer.age_seconds)
            return len(api.asked) >= 4

        await until(reopened_thrice)

        assert {asked["resourceVersion"] for asked in api.asked[1:]} == {"6"}
        assert set(ages) == {0.0}
        assert informer.last_error == ""
        assert informer.lists == 1


async def test_bookmarks_keep_a_quiet_watch_alive() -> None:
    quiet = beating(initial(["a"], 5), every_seconds=0.3, times=5)

    async with informed(quiet, silence_seconds=1.0) as (_, copy, api):
        await until(lambda: copy.names == {"a", "last"})

        assert len(api.asked) == 1


async def test_a_frozen_server_is_broken_since_its_last_sign_of_life() -> None:
    script = [streaming(initial(["a"], 5), stay=True), frozen]

    async with informed(*script, silence_seconds=0.5, pulse=Pulse(doubt_seconds=0.01)) as parts:
        informer, _, api = parts
        await until(informer.synced.is_set)
        assert informer.age_seconds == 0
        await until(lambda: informer.age_seconds > 0)

        assert informer.age_seconds >= 0.5
        assert informer.last_error == "watching /api/v1/nodes: silent for 0 s"
        assert len(api.asked) == 2


async def test_a_frozen_server_grows_older_with_every_try_until_it_thaws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "_ANSWER_SECONDS", 0.05)
    thawed = streaming([event("ADDED", node("b", 6))], stay=True)
    gate = asyncio.Event()

    async def last_try(request: web.BaseRequest) -> web.StreamResponse:
        gate.set()
        return await frozen(request)

    script = [streaming(initial(["a"], 5), stay=True), frozen, frozen, last_try, thawed]
    async with informed(*script, silence_seconds=0.2) as (informer, copy, api):
        await gate.wait()
        assert informer.age_seconds >= 0.2 + 2 * 0.05
        assert "no answer in" in informer.last_error

        await until(lambda: copy.names == {"a", "b"})
        assert informer.age_seconds == 0
        assert informer.last_error == ""
        assert {asked["resourceVersion"] for asked in api.asked[1:5]} == {"5"}


async def test_a_watch_that_ended_is_broken_since_then_when_the_next_one_is_not_answered() -> None:
    async with informed(streaming(initial(["a"], 5)), frozen, pulse=Pulse(doubt_seconds=0.3)) as parts:
        informer, _, api = parts
        await until(lambda: len(api.asked) == 2)
        assert informer.age_seconds == 0
        await until(lambda: informer.age_seconds > 0)

        assert informer.age_seconds >= 0.3
        assert "no answer to the next one yet" in informer.last_error


async def test_a_list_that_falls_silent_is_no_list() -> None:
    half = streaming([event("ADDED", node("a", 1))], stay=True)

    async with informed(half, streaming(initial(["a", "b"], 5), stay=True), silence_seconds=0.2) as parts:
        informer, copy, _ = parts
        await until(lambda: copy.names == {"a", "b"})

        assert copy.replaced == 1
        assert informer.lists == 2


async def test_a_first_page_that_fails_waits_for_one_back_off_only() -> None:
    """The client would try again by itself; then the server would be asked for pages more often."""
    page = {"metadata": {"resourceVersion": "9"}, "items": [node("a", 1)]}
    script = [
        saying(400, {"message": "sendInitialEvents is forbidden"}),
        saying(503, {"message": "starting"}),
        saying(200, page),
    ]

    async with informed(*script) as (informer, copy, _):
        await until(lambda: copy.names == {"a"})

        assert informer.lists == 2


async def test_the_last_error_is_kept_until_a_list_succeeds() -> None:
    refused = saying(403, {"message": "nodes is forbidden"})

    async with informed(*[refused] * 3, streaming(initial(["a"], 5), stay=True)) as (informer, copy, _):
        await until(lambda: informer.last_error != "")
        assert "/api/v1/nodes" in informer.last_error
        assert "403: nodes is forbidden" in informer.last_error

        await until(lambda: copy.names == {"a"})
        assert informer.last_error == ""


async def test_a_view_that_is_not_listed_says_why() -> None:
    async with api_server(saying(403, {"message": "nodes is forbidden"}), for_ever=True) as (client, _):
        view = LiveView(client, max_age_seconds=60)
        assert view.problem() == "the cluster is not listed yet"
        task = asyncio.create_task(view.run())
        try:
            await until(lambda: "403" in view.problem())
            assert view.problem().startswith("the cluster is not listed yet: ")
            assert "/api/v1/nodes: the API server said 403: nodes is forbidden" in view.problem()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def viewed(*script: Reply, max_age_seconds: float) -> AsyncIterator[LiveView]:
    async with api_server(*script, for_ever=True) as (client, _):
        view = LiveView(client, max_age_seconds=max_age_seconds, nodes_only=True)
        task = asyncio.create_task(view.run())
        try:
            yield view
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_view_that_is_cut_off_for_too_long_is_blind_until_it_sees_again() -> None:
    away, there = saying(503, {"message": "away"}), streaming(initial(["a"], 5), stay=True)
    script = [streaming(initial(["a"], 5)), *[away] * 60, there]

    async with viewed(*script, max_age_seconds=0.05) as view:
        await view.listed()
        assert view.blind() == ""
        await until(lambda: "503: away" in view.blind())
        assert view.blind().startswith("cut off from the API server for ")

        await until(lambda: view.blind() == "")


async def test_a_view_that_cannot_be_listed_is_blind_after_the_same_time() -> None:
    async with viewed(saying(403, {"message": "nodes is forbidden"}), max_age_seconds=0.2) as view:
        await until(lambda: "403" in view.problem())
        assert view.blind() == "" or view.age_seconds > 0.2

        await until(lambda: view.blind().startswith("the cluster is not listed yet: "))


async def test_a_first_list_that_takes_its_time_does_not_make_blind() -> None:
    async with viewed(streaming([event("ADDED", node("a", 1))], stay=True), max_age_seconds=0.05) as view:
        await until(lambda: view.age_seconds > 0.1)

        assert (view.problem(), view.blind()) == ("the cluster is not listed yet", "")


async def test_a_bookmark_that_cannot_be_read_does_not_end_the_informer() -> None:
    odd = streaming([*initial(["a"], 5), event("BOOKMARK", {"metadata": "none"})])

    async with informed(odd, streaming([event("ADDED", node("b", 12))], stay=True)) as (_, copy, __):
        await until(lambda: copy.names == {"a", "b"})


async def test_a_bug_of_ours_shows_and_everything_is_listed_again() -> None:
    class Broken(Copy):
        def put(self, item: NodeObject) -> None:
            if item.name == "b" and not self.replaced:
                raise KeyError("a bug")
            super().put(item)

    lines = [*initial(["a"], 5), event("ADDED", node("b", 6))]
    async with api_server(streaming(lines), streaming(initial(["a", "b"], 7), stay=True)) as (client, api):
        copy = Broken()
        informer = Informer(client, NODES, copy, dice=random.Random(1))
        task = asyncio.create_task(informer.run())
        await until(lambda: copy.names == {"a", "b"})

        assert informer.lists == 2
        assert api.asked[1]["resourceVersion"] == "", "what a server has at hand may be older than the copy"
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("lists", [1, 2])
async def test_what_goes_while_the_list_is_sent_is_not_in_it(lists: int) -> None:
    lines = [
        event("ADDED", node("a", 5)),
        event("ADDED", node("b", 5)),
        event("DELETED", node("a", 6)),
        event("MODIFIED", node("b", 7)),
        bookmark(7, end=True),
    ]
    again = [streaming([*initial(["a"], 3), event("ERROR", EXPIRED)])] * (lists - 1)

    async with informed(*again, streaming(lines, stay=True)) as (informer, copy, _):
        await until(lambda: informer.lists == lists and copy.names == {"b"})


async def test_a_server_that_ends_watches_at_once_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(informer_module, "_BACKOFF_SECONDS", (3600.0, 3600.0))

    async with informed(streaming(initial(["a"], 5)), streaming([])) as (informer, _, api):
        await until(lambda: informer.last_error != "")

        assert informer.last_error == "watching /api/v1/nodes: the server ends the watch at once"
        assert informer.age_seconds > 0
        assert len(api.asked) == 2


async def test_a_watch_that_told_something_before_it_ended_is_opened_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(informer_module, "_BACKOFF_SECONDS", (3600.0, 3600.0))
    told = [streaming([bookmark(version)]) for version in range(6, 9)]

    async with informed(streaming(initial(["a"], 5)), *told) as (informer, _, api):
        await until(lambda: len(api.asked) == 5)

        assert informer.last_error == ""

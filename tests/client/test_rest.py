"""What the client sends, and how often: reads a few times, writes once."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web

from bayplan.client import channel
from bayplan.client.connect import from_kubeconfig
from bayplan.client.errors import ApiError, ConnectError, NotSent, Silent, Unreachable
from bayplan.client.lease import LeaseApi, LeaseSpec
from bayplan.client.lines import AT_ONCE
from bayplan.client.rest import NODES, ApiClient
from tests.client.serving import Script, client_of, serving, write_kubeconfig

READS: list[Any] = [
    pytest.param(lambda client: client.list(NODES), id="a list"),
    pytest.param(lambda client: client.node("n1"), id="a node"),
    pytest.param(lambda client: client.pod("default", "web-1"), id="a pod"),
]
WRITES: list[Any] = [
    pytest.param(lambda client: client.create("/things", {}), id="create"),
    pytest.param(lambda client: client.patch("/things/a", {}), id="patch"),
    pytest.param(lambda client: client.request("PUT", "/things/a", doing="writing"), id="put"),
]
Act = Callable[[ApiClient], Awaitable[object]]


@pytest.mark.parametrize("read", READS)
async def test_a_read_that_fails_in_passing_is_read_again(tmp_path: Path, read: Act) -> None:
    api = Script([503, (429, {"Retry-After": "1"}), "cut"])
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        await read(client)

    assert len(api.asked) == 4


@pytest.mark.parametrize("read", READS)
async def test_a_read_that_was_refused_is_not_read_again(tmp_path: Path, read: Act) -> None:
    api = Script([403])
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        with pytest.raises(ApiError, match="403"):
            await read(client)

    assert len(api.asked) == 1


@pytest.mark.parametrize("failure", [503, "cut"])
@pytest.mark.parametrize("write", WRITES)
async def test_a_write_is_sent_once(tmp_path: Path, write: Act, failure: int | str) -> None:
    api = Script([failure])
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        with pytest.raises((ApiError, ConnectError)):
            await write(client)

    assert len(api.asked) == 1


async def test_whoever_has_a_back_off_of_its_own_asks_for_the_first_page_once(tmp_path: Path) -> None:
    api = Script([503])
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        with pytest.raises(ApiError, match="503"):
            await client.list(NODES, retry_first=False)

    assert len(api.asked) == 1


async def test_a_later_page_that_is_lost_does_not_cost_the_pages_before_it(tmp_path: Path) -> None:
    asked: list[str] = []

    async def pages(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.query.get("continue", ""))
        if asked == ["", "more"]:
            return web.Response(status=503)
        more = "" if asked[-1] else "more"
        return web.json_response({"items": [{"metadata": {"name": "n"}}], "metadata": {"continue": more}})

    async with (
        serving(pages) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        found, _ = await client.list(NODES, retry_first=False)

    assert len(found) == 2
    assert asked == ["", "more", "more"]


async def test_a_stream_that_is_not_answered_is_given_up_long_before_a_silent_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_ANSWER_SECONDS", 0.05)

    async def frozen(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("it never thaws")

    async with (
        asyncio.timeout(10),
        serving(frozen) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        with pytest.raises(Unreachable, match="watching: no answer in") as caught:
            await anext(client.lines("/watch", params={}, doing="watching", silence_seconds=60))

    assert not isinstance(caught.value, Silent)


async def test_create_posts_and_returns_what_was_made(tmp_path: Path) -> None:
    api = Script([201])
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        assert b'"found"' in await client.create("/api/v1/things", {"kind": "Thing"})

    (asked,) = api.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/things")
    assert asked.headers["Content-Type"] == "application/json"
    assert api.bodies == [{"kind": "Thing"}]


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("json", "application/json-patch+json"),
    ],
)
async def test_a_patch_says_of_which_kind_it_is(
    tmp_path: Path, kind: Literal["merge", "strategic", "json"], content_type: str
) -> None:
    api = Script()
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        await client.patch("/api/v1/things/a", [{"op": "remove", "path": "/x"}], kind=kind)

    (asked,) = api.asked
    assert (asked.method, asked.path, asked.headers["Content-Type"]) == (
        "PATCH",
        "/api/v1/things/a",
        content_type,
    )
    assert api.bodies == [[{"op": "remove", "path": "/x"}]]


async def test_a_login_that_takes_too_long_means_that_nothing_was_sent(tmp_path: Path) -> None:
    program = tmp_path / "login"
    program.write_text("#!/bin/sh\nsleep 2\n")
    program.chmod(0o755)
    login = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "interactiveMode": "Never",
    }
    api = Script([])
    async with serving(api.handle) as server:
        config = write_kubeconfig(tmp_path, cluster={"server": server}, user={"exec": login})
        async with client_of(config) as client:
            with pytest.raises(NotSent, match="logging in took longer"):
                await client.request("POST", "/things", doing="binding", timeout_seconds=0.1)

    assert api.asked == []


async def test_a_turn_that_comes_too_late_means_that_nothing_was_sent(tmp_path: Path) -> None:
    api = Script([])
    async with serving(api.handle) as server:
        config = write_kubeconfig(tmp_path, cluster={"server": server})
        async with ApiClient(from_kubeconfig(config), qps=0.01, burst=1) as client:
            await client.request("GET", "/first", doing="reading")
            with pytest.raises(NotSent, match="until its turn"):
                await client.request("GET", "/second", doing="reading", timeout_seconds=1)

    assert len(api.asked) == 1


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_no_time_left_is_not_all_the_time_in_the_world(tmp_path: Path, seconds: float) -> None:
    api = Script([])
    async with (
        serving(api.handle) as server,
        client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
    ):
        with pytest.raises(NotSent):
            await client.request("GET", "/things", doing="reading", timeout_seconds=seconds, limited=False)

    assert api.asked == []


async def test_a_lease_is_written_while_more_binds_wait_than_there_are_connections(tmp_path: Path) -> None:
    """Else whoever binds loses it where binds take their time, as with a slow webhook."""
    go_on = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "binding" in request.path:
            await go_on.wait()
        return web.json_response({"metadata": {"name": "l", "namespace": "ns"}})

    async with (
        serving(answer) as url,
        client_of(write_kubeconfig(tmp_path, cluster={"server": url})) as client,
    ):
        binding = partial(client.request, "POST", "/binding", doing="binding", body={}, limited=False)
        binds = [asyncio.create_task(binding()) for _ in range(AT_ONCE + 10)]
        api = LeaseApi(client, namespace="ns", name="l", timeout_seconds=5)

        lease = await api.create(LeaseSpec("us"))
        await api.update(lease, LeaseSpec("us"))

        assert not any(bind.done() for bind in binds)
        go_on.set()
        await asyncio.gather(*binds)


async def test_a_token_may_end_with_a_newline(tmp_path: Path) -> None:
    api = Script([])
    async with serving(api.handle) as server:
        config = write_kubeconfig(tmp_path, cluster={"server": server}, user={"token": "secret\n"})
        async with client_of(config) as client:
            await client.request("GET", "/things", doing="reading")

    assert len(api.asked) == 1


@pytest.mark.parametrize("act", [*READS, *WRITES])
async def test_calls_that_hang_in_the_threads_of_the_event_loop_are_nothing_to_us(
    tmp_path: Path, act: Act
) -> None:
    """A source whose calls hang fills them: the API server must be reached all the same."""
    release = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = asyncio.create_task(asyncio.to_thread(release.wait, 60))
    await asyncio.sleep(0)
    try:
        async with (
            serving(Script().handle) as server,
            client_of(write_kubeconfig(tmp_path, cluster={"server": server})) as client,
        ):
            await asyncio.wait_for(act(client), 20)
        assert not hanging.done()
    finally:
        release.set()
        await hanging

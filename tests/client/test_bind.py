"""Binding twice is binding once, also when the API server drops replies, stumbles or is slow.

A real API server does none of that on command; this one does what it is told, and nothing else.
"""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bayplan.client.bind import BindRefused, BindUnknown, bind_pod
from bayplan.client.connect import Connection
from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import NODES, PODS, ApiClient
from bayplan.client.retry import Retry
from tests.client.serving import no_nodes, no_sleep, server_tls, serving
from tests.controlplane.certs import make_ca

REFUSALS = {
    "500": (500, "etcdserver: request timed out"),
    "429": (429, "too many requests"),
    "403": (403, 'pods "web-1" is forbidden'),
    "gone": (404, 'pods "web-1" not found'),
    "gated": (409, "pod web-1 has non-empty .spec.schedulingGates"),
}
PATH = "/api/v1/namespaces/default/pods/web-1"


@dataclass
class FakeApi:
    """One pod, and a list of mishaps: one for each bind, in order."""

    mishaps: list[str] = field(default_factory=list)
    uid: str = "uid-1"
    node: str = ""
    reading: str = ""
    binds: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.paths.append(request.raw_path)
        self.headers = dict(request.headers)
        if request.method == "GET":
            return await self._read(request)
        binding = json.loads(await request.read())
        mishap = self.mishaps.pop(0) if self.mishaps else ""
        if mishap in REFUSALS:
            return status(*REFUSALS[mishap])
        if mishap == "no JSON":
            return web.Response(status=502, text="<html>bad gateway</html>")
        self.binds.append(binding)
        answer = self._bind(binding)
        if mishap == "lost reply":
            assert request.transport is not None
            request.transport.close()
        if mishap == "late reply":
            await asyncio.sleep(30)
        return answer

    def _bind(self, binding: dict[str, Any]) -> web.Response:
        if binding["metadata"]["uid"] != self.uid:
            return status(409, "Precondition failed: UID in precondition does not match")
        if self.node:
            return status(409, f'pod web-1 is already assigned to node "{self.node}"')
        self.node = binding["target"]["name"]
        return status(201, "")

    async def _read(self, request: web.BaseRequest) -> web.Response:
        if self.reading == "500":
            return status(500, "no")
        if self.reading == "late":
            await asyncio.sleep(30)
        if self.reading == "nonsense":
            return web.Response(text="[]")
        pod = {"metadata": {"name": "web-1", "uid": self.uid}, "spec": {"nodeName": self.node}}
        return web.json_response(pod)


def status(code: int, message: str) -> web.Response:
    kind = "Success" if code < 300 else "Failure"
    return web.json_response(
        {"kind": "Status", "status": kind, "message": message, "code": code}, status=code
    )


@contextlib.asynccontextmanager
async def client_of(
    api: FakeApi, *, token: str = "", token_file: Path | None = None
) -> AsyncIterator[ApiClient]:
    runner = web.ServerRunner(web.Server(api.handle), shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        connection = Connection(f"http://{host}:{port}", None, token=token, token_file=token_file)
        async with ApiClient(connection, retry=Retry(sleep=no_sleep)) as client:
            yield client
    finally:
        await runner.cleanup()


async def bind(
    client: ApiClient, *, uid: str = "uid-1", node: str = "node-0", timeout_seconds: float = 4.0
) -> None:
    await bind_pod(
        client, namespace="default", name="web-1", uid=uid, node=node, timeout_seconds=timeout_seconds
    )


async def refusal(client: ApiClient, **options: Any) -> str:
    with pytest.raises(BindRefused) as caught:
        await bind(client, **options)
    return str(caught.value)


async def test_a_bind_carries_the_uid_as_a_precondition() -> None:
    api = FakeApi()
    async with client_of(api, token="secret") as client:
        await bind(client)

    (binding,) = api.binds
    assert binding["metadata"] == {"name": "web-1", "namespace": "default", "uid": "uid-1"}
    assert binding["target"] == {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    assert api.paths == [f"{PATH}/binding"]
    assert api.headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("mishap", ["500", "429", "no JSON", "lost reply"])
@pytest.mark.parametrize("times", [1, 3])
async def test_what_passes_is_tried_again(mishap: str, times: int) -> None:
    api = FakeApi([mishap] * times)
    async with client_of(api) as client:
        await bind(client)

    assert api.node == "node-0"


async def test_a_missing_right_proves_nothing_about_a_try_before_it() -> None:
    api = FakeApi(["lost reply", "403", "403"])
    async with client_of(api) as client:
        await bind(client)

    assert api.node == "node-0"
    assert len(api.binds) == 2, "the lost one, and the one after both refusals"


async def test_what_was_never_sent_is_refused_and_not_unknown() -> None:
    """As when the process stood still: nothing can land later, and nothing is to be rolled forward."""
    api = FakeApi()
    async with client_of(api) as client:
        with pytest.raises(BindRefused, match="no time was left to send it") as caught:
            await bind(client, timeout_seconds=0.0)

    assert not isinstance(caught.value, BindUnknown)
    assert api.paths == []


async def test_without_credentials_nothing_is_sent_and_nothing_is_unknown(tmp_path: Path) -> None:
    """As while a token is being replaced: the place must be free again at once."""
    api = FakeApi()
    async with client_of(api, token_file=tmp_path / "not-there-yet") as client:
        with pytest.raises(BindRefused, match="not-there-yet") as caught:
            await bind(client, timeout_seconds=0.3)

    assert not isinstance(caught.value, BindUnknown)
    assert api.paths == []


async def test_to_a_server_that_is_not_to_be_trusted_nothing_is_sent_and_nothing_is_unknown(
    tmp_path: Path,
) -> None:
    theirs, ours = make_ca("theirs", tmp_path / "theirs"), make_ca("ours", tmp_path / "ours")
    trust = ssl.create_default_context(cafile=str(ours.cert))
    async with (
        serving(no_nodes, tls=server_tls(theirs, ip="127.0.0.1")) as url,
        ApiClient(Connection(url, trust)) as client,
    ):
        with pytest.raises(
            BindRefused, match=r"certificate verify failed.*its CA the one in the kubeconfig"
        ) as caught:
            await bind(client, timeout_seconds=0.3)

    assert not isinstance(caught.value, BindUnknown)


async def test_a_lost_reply_that_had_worked_is_found_out() -> None:
    """The second try gets 409, since the first one bound the pod: that is success."""
    api = FakeApi(["lost reply"])
    async with client_of(api) as client:
        await bind(client)

    assert len(api.binds) == 2
    assert api.paths == [f"{PATH}/binding", f"{PATH}/binding", PATH]


@pytest.mark.parametrize(
    ("api", "options", "said"),
    [
        pytest.param(FakeApi(node="node-9"), {}, "already bound to node-9", id="bound to another node"),
        pytest.param(FakeApi(uid="uid-2"), {}, "another one now: UID uid-2, asked for uid-1", id="made anew"),
        pytest.param(FakeApi(["gated"]), {}, "schedulingGates", id="gated"),
        pytest.param(FakeApi(["gone"]), {}, "said 404", id="gone"),
        pytest.param(FakeApi(["403"]), {}, "lacks a right", id="no right"),
        pytest.param(
            FakeApi(node="node-9", reading="500"), {}, "reading it back failed", id="cannot be read back"
        ),
        pytest.param(
            FakeApi(node="x", reading="nonsense"), {}, "reading it back failed", id="nonsense comes back"
        ),
    ],
)
async def test_what_does_not_pass_is_refused_with_a_reason(
    api: FakeApi, options: dict[str, Any], said: str
) -> None:
    bound = api.node
    async with client_of(api) as client:
        assert said in await refusal(client, **options)

    assert api.node == bound


async def test_bound_already_to_the_same_node_is_success() -> None:
    api = FakeApi(node="node-0")
    async with client_of(api) as client:
        await bind(client)


@pytest.mark.parametrize(
    ("api", "said"),
    [
        pytest.param(lambda: FakeApi(["500"] * 99), "the outcome is unknown", id="always 500"),
        pytest.param(lambda: FakeApi(["late reply"] * 99), "no answer in", id="never an answer"),
        pytest.param(
            lambda: FakeApi(node="x", reading="late"), "reading it back failed", id="no answer to the read"
        ),
    ],
)
async def test_the_time_of_the_caller_is_kept(api: Callable[[], FakeApi], said: str) -> None:
    start = time.monotonic()
    async with client_of(api()) as client:
        assert said in await refusal(client, timeout_seconds=0.6)

        assert time.monotonic() - start < 2


async def test_nobody_there_is_said_within_the_time() -> None:
    async with ApiClient(Connection("http://127.0.0.1:1", None)) as client:
        assert "binding default/web-1 to node-0" in await refusal(client, timeout_seconds=0.3)


async def test_names_cannot_leave_their_place_in_the_path() -> None:
    api = FakeApi()
    async with client_of(api) as client:
        with contextlib.suppress(BindRefused):
            await bind_pod(client, namespace="a/../b", name="x/y?z", uid="uid-1", node="n")

    assert api.paths == ["/api/v1/namespaces/a%2F..%2Fb/pods/x%2Fy%3Fz/binding"]


async def test_lists_are_read_page_by_page() -> None:
    pages = {"": ("a", "next"), "next": ("b", "")}

    class Pages(FakeApi):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            name, more = pages[request.query.get("continue", "")]
            return web.json_response(
                {"items": [{"metadata": {"name": name}}], "metadata": {"continue": more}}
            )

    async with client_of(Pages()) as client:
        assert [node.name for node in (await client.list(NODES))[0]] == ["a", "b"]
        assert [pod.name for pod in (await client.list(PODS))[0]] == ["a", "b"]


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        pytest.param((401, "Unauthorized"), ApiError, "token or certificate", id="401"),
        pytest.param((403, "forbidden"), ApiError, "forbidden.*lacks a right.*bayplan render", id="403"),
        pytest.param((302, ""), ApiError, "302", id="a redirect is not followed"),
        pytest.param((200, "<html>"), ConnectError, "not what an API server sends", id="a login page"),
    ],
)
async def test_a_list_that_fails_says_why(answer: tuple[int, str], error: type[Exception], said: str) -> None:
    class Stubborn(FakeApi):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=answer[0], text=answer[1], headers={"Location": "/elsewhere"})

    async with client_of(Stubborn()) as client:
        with pytest.raises(error, match=said):
            await client.list(NODES)

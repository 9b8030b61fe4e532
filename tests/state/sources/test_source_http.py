"""HTTP for sources: what is refused, what is bounded, and what errors say."""

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.abc import ResolveResult

from bayplan.state.sources import http as http_of_sources
from bayplan.state.sources.http import Access, SourceError, SourceHttp, check_url
from tests.client.serving import Handler, serving


@pytest.fixture
def no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a refusal fails to come, nobody is asked all the same."""

    def connect(_: socket.socket, address: object) -> None:
        raise AssertionError(f"it connects to {address}")

    monkeypatch.setattr(socket.socket, "connect", connect)


async def ask(handler: Handler, access: Access | None = None, *, path: str = "/values") -> object:
    """What a source gets from such a server."""
    async with serving(handler) as url:
        http = SourceHttp(access or Access())
        try:
            return await http.json(url + path)
        finally:
            await http.close()


async def test_an_answer_is_decoded() -> None:
    async def values(request: web.BaseRequest) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.json_response({"a": 1})

    assert await ask(values) == {"a": 1}


async def test_a_redirect_is_not_followed() -> None:
    asked: list[str] = []

    async def redirect(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.Response(status=302, headers={"Location": "/secret"})

    with pytest.raises(SourceError, match="status 302; redirects are not followed"):
        await ask(redirect)
    assert asked == ["/values"]


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://169.254.169.254/latest/meta-data", id="link-local"),
        pytest.param("http://[fe80::1]/", id="link-local, IPv6"),
        pytest.param("http://[::ffff:169.254.169.254]/", id="link-local, dressed as IPv6"),
        pytest.param("http://100.100.100.200/", id="a cloud's metadata"),
        pytest.param("http://[fd00:ec2::254]/", id="a cloud's metadata, IPv6"),
        pytest.param("http://192.0.0.192/", id="another cloud's metadata"),
        pytest.param("http://0xa9fea9fe/", id="link-local as a hexadecimal number"),
        pytest.param("http://169.254.169.254./", id="with a dot at its end"),
        pytest.param("http://169。254。169。254/", id="with dots of another script"),
        pytest.param("http://①⑥⑨.254.169.254/", id="with digits in circles"),
        pytest.param("http://[64:ff9b::a9fe:a9fe]/", id="through NAT64"),
        pytest.param("http://[64:ff9b:1::a9fe:a9fe]/", id="through a NAT64 of one's own"),
        pytest.param("http://[2002:a9fe:a9fe::1]/", id="through 6to4"),
        pytest.param("http://[::169.254.169.254]/", id="compatible with IPv4"),
        pytest.param("http://[fe80::1%25eth0]/", id="link-local with its interface"),
    ],
)
@pytest.mark.usefixtures("no_way_out")
async def test_where_clouds_keep_credentials_nobody_asks(url: str) -> None:
    http = SourceHttp(Access(timeout_seconds=2))
    try:
        with pytest.raises(SourceError, match="set allowLinkLocal if it is meant"):
            await http.json(url)
    finally:
        await http.close()


@pytest.mark.usefixtures("no_way_out")
async def test_an_address_as_one_number_is_no_address() -> None:
    http = SourceHttp(Access(timeout_seconds=2))
    try:
        with pytest.raises(SourceError, match="not a canonical IPv4 address"):
            await http.json("http://2852039166/")
    finally:
        await http.close()


@pytest.mark.usefixtures("no_way_out")
async def test_a_name_that_leads_to_a_forbidden_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    http = SourceHttp(Access(timeout_seconds=2))
    try:
        with pytest.raises(SourceError, match=r"metadata.example is 169\.254\.169\.254"):
            await http.json("http://metadata.example/")
    finally:
        await http.close()


@pytest.mark.usefixtures("no_way_out")
async def test_the_address_that_is_connected_to_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it came there: an address in digits is never resolved."""

    async def resolve(*_: object, **__: object) -> list[ResolveResult]:
        there = {"hostname": "x", "port": 80, "family": socket.AF_INET, "proto": 0, "flags": 0}
        return [ResolveResult(host=host, **there) for host in ("169.254.169.254", "169.254.169.253")]  # type: ignore[typeddict-item]

    monkeypatch.setattr(http_of_sources._Resolver, "resolve", resolve)
    http = SourceHttp(Access(timeout_seconds=2))
    try:
        with pytest.raises(SourceError, match="set allowLinkLocal if it is meant"):
            await http.json("http://metadata.example/")
    finally:
        await http.close()


@pytest.mark.parametrize(
    "address",
    ["::1", "::", "10.0.0.1", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"],
)
def test_other_addresses_are_allowed(address: str) -> None:
    check_url(f"http://{f'[{address}]' if ':' in address else address}/", allow_link_local=False)


@pytest.mark.parametrize(
    "url", ["ftp://x/", "file:///etc/passwd", "prometheus:9090", "http://", "http://[::1/"]
)
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(SourceError, match="is no address"):
        await SourceHttp().json(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("10.0.0.7:9911/prices", "10.0.0.7:9911/prices", id="as it was written"),
        pytest.param("prometheus:9090", "prometheus:9090", id="a name"),
        pytest.param("me:secret@prometheus:9090", "prometheus:9090", id="without what is secret"),
    ],
)
def test_an_address_without_http_is_shown_as_it_was_written(url: str, shown: str) -> None:
    with pytest.raises(SourceError, match=rf"^{shown} is no address, such as http://"):
        check_url(url, allow_link_local=False)


async def test_an_answer_that_is_too_large_is_given_up() -> None:
    sent: list[int] = []

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(10_000):
            await response.write(b" " * 65536)
            sent.append(65536)
        return response

    with pytest.raises(SourceError, match="larger than 100000 bytes"):
        await ask(endless, Access(max_bytes=100_000))
    assert sum(sent) < 50_000_000


async def test_an_answer_that_does_not_come_is_given_up() -> None:
    gone = asyncio.Event()

    async def silent(request: web.BaseRequest) -> web.Response:
        await gone.wait()
        return web.Response()

    with pytest.raises(SourceError, match=r"no answer in 0\.05 s"):
        await ask(silent, Access(timeout_seconds=0.05))
    gone.set()


async def test_a_packed_answer_is_not_unpacked() -> None:
    async def packed(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    with pytest.raises(SourceError, match="compressed, which was not asked for"):
        await ask(packed)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        pytest.param(500, "kaput", "status 500: kaput", id="an error with its text"),
        pytest.param(200, "<html>", "the answer is not JSON", id="a web page"),
        pytest.param(200, "[" * 100_000, "the answer is not JSON", id="nested without end"),
        pytest.param(200, '["\xe9"]', "the answer is not JSON", id="another encoding"),
    ],
)
async def test_what_went_wrong_is_said(status: int, body: str, said: str) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body.encode("latin-1"))

    with pytest.raises(SourceError, match=said):
        await ask(answer)


async def test_a_token_is_read_from_its_file_each_time_and_never_shown(tmp_path: Path) -> None:
    seen: list[str] = []

    async def who(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=403)

    file = tmp_path / "token"
    for token in ("old", "new"):
        file.write_text(token + "\n")
        with pytest.raises(SourceError) as error:
            await ask(who, Access(bearer_token_file=file))
        assert token not in str(error.value)
    assert seen == ["Bearer old", "Bearer new"]


@pytest.mark.usefixtures("no_way_out")
async def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(SourceError) as error:
        await SourceHttp(Access(timeout_seconds=2)).json("http://me:secret@169.254.169.254/x")

    assert "secret" not in str(error.value)

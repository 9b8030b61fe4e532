"""The HTTP client of sources: no redirects, no metadata services, limits of time and size.

Neither a source's address, which comes from the configuration, nor its answer may make the server read
credentials of the cloud, or more than it can hold.
"""

import asyncio
import errno
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from bayplan.client.errors import in_words
from bayplan.client.tls import FileContext
from bayplan.state.sources.addresses import forbidden

_CHUNK = 65536


class SourceError(Exception):
    """A source failed; the text says why."""


@dataclass(frozen=True)
class Access:
    """The HTTP settings of one source."""

    timeout_seconds: float = 5.0
    max_bytes: int = 8 * 1024 * 1024
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    bearer_token_file: Path | None = None
    ca_file: Path | None = None
    insecure_skip_verify: bool = False
    allow_link_local: bool = False
    """Allow addresses such as 169.254.169.254, where clouds serve credentials."""


PLAIN_ACCESS = Access()


class SourceHttp:
    """The HTTP client of one source."""

    def __init__(self, access: Access = PLAIN_ACCESS) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None
        self._tls: FileContext | None = None

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    async def json(self, url: str, *, params: dict[str, str] | None = None, body: Any = None) -> Any:
        """The decoded JSON answer to a GET, or to a POST if there is a body; else raises `SourceError`."""
        content = await self.read(url, params=params, body=body)
        try:
            return msgspec.json.decode(content)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise SourceError(f"{_shown(url)}: the answer is not JSON: {error}") from error

    async def read(self, url: str, *, params: dict[str, str] | None = None, body: Any = None) -> bytes:
        """The body of the answer; raises `SourceError` unless it is complete."""
        access = self._access
        check_url(url, allow_link_local=access.allow_link_local)
        try:
            async with asyncio.timeout(access.timeout_seconds):
                return await self._read(url, params, body)
        except TimeoutError as error:
            raise SourceError(f"{_shown(url)}: no answer in {access.timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise SourceError(f"{_shown(url)}: {in_words(error)}") from error

    async def _read(self, url: str, params: dict[str, str] | None, body: Any) -> bytes:
        access = self._access
        data = None if body is None else msgspec.json.encode(body)
        async with self._open().request(
            "GET" if data is None else "POST",
            url,
            params=params,
            data=data,
            headers=self._headers(json=data is not None),
            allow_redirects=False,
            ssl=self._context(),
        ) as response:
            if response.status != 200:
                said = (await response.content.read(200)).decode(errors="replace").strip()
                hint = "; redirects are not followed" if 300 <= response.status < 400 else ""
                raise SourceError(f"{_shown(url)}: status {response.status}{hint}: {said}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise SourceError(f"{_shown(url)}: the answer is compressed, which was not asked for")
            content = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                content += chunk
                if len(content) > access.max_bytes:
                    raise SourceError(f"{_shown(url)}: the answer is larger than {access.max_bytes} bytes")
            return bytes(content)

    def _headers(self, *, json: bool) -> dict[str, str]:
        access = self._access
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", **access.headers}
        if json:
            headers["Content-Type"] = "application/json"
        if access.bearer_token_file is not None:
            # Read each time: Kubernetes replaces tokens.
            headers["Authorization"] = f"Bearer {_text(access.bearer_token_file)}"
        return headers

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            access = self._access
            connector = aiohttp.TCPConnector(
                limit=16,
                resolver=_Resolver(allow_link_local=access.allow_link_local),
                socket_factory=None if access.allow_link_local else _checked_socket,
            )
            # No decompression: ten kilobytes may unpack to ten gigabytes.
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False, auto_decompress=False)
        return self._session

    def _context(self) -> ssl.SSLContext | bool:
        """The TLS context, for each request anew: a replaced CA file makes another context."""
        access = self._access
        if self._tls is None:
            try:
                self._tls = FileContext([access.ca_file] if access.ca_file else [], lambda: _tls(access))
            except OSError as error:
                raise SourceError(f"{access.ca_file}: {error.strerror or error}") from error
        return self._tls.current() or True


class _Resolver(AbstractResolver):
    """Resolves host names, and refuses forbidden addresses."""

    def __init__(self, *, allow_link_local: bool) -> None:
        self._inner = aiohttp.ThreadedResolver()
        self._allow_link_local = allow_link_local

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host; raises `SourceError` if one of them is forbidden."""
        found = await self._inner.resolve(host, port, family)
        for each in found:
            _check_address(each["host"], host, allow_link_local=self._allow_link_local)
        return found

    async def close(self) -> None:
        """Close the inner resolver."""
        await self._inner.close()


def check_url(url: str, *, allow_link_local: bool) -> None:
    """Raise `SourceError` if this is no HTTP URL, or if its address is forbidden."""
    try:
        parts = urlsplit(url)
        # The host as aiohttp will use it: yarl normalises unusual digits and dots.
        host = URL(url).host
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is no number
        host, usable = None, False
    if not usable or not host:
        raise SourceError(f"{_shown(url)} is no address, such as http://prometheus:9090")
    _check_address(host, host, allow_link_local=allow_link_local)


def _check_address(address: str, host: str, *, allow_link_local: bool) -> None:
    """Raise `SourceError` for a forbidden address; a name passes, and is checked when it is resolved."""
    found = None if allow_link_local else forbidden(address)
    if found is not None:
        raise SourceError(_refusal(host, found))


def _checked_socket(address: AddrInfoType) -> socket.socket:
    """A socket for this address, after a last check of the address that will be connected to."""
    family, kind, protocol, _, place = address
    found = forbidden(str(place[0]))
    if found is not None:
        # An OSError, so that aiohttp tries the name's next address and keeps the text.
        raise OSError(errno.EACCES, _refusal(str(place[0]), found))
    return socket.socket(family, kind, protocol)


def _refusal(host: str, found: object) -> str:
    return f"{host} is {found}, where clouds keep credentials: refused; set allowLinkLocal if it is meant"


def _tls(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(access.ca_file) if access.ca_file else None)
    if access.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error


def _shown(url: str) -> str:
    """The URL without its user, password and query, which may be secret."""
    try:
        parts = urlsplit(url)
    except ValueError:  # half an IPv6 address
        return "what is given"
    if not parts.netloc:
        # Without http:// urlsplit takes all of it for a path, or what is before a colon for a scheme.
        return f"{parts.scheme}:{parts.path}".lstrip(":").rpartition("@")[2]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

"""Bounds that keep the server answering, and reading a request body within them."""

import asyncio
from dataclasses import dataclass

from aiohttp import web

_LARGE_BYTES = 1024 * 1024
_LARGE_AT_ONCE = 2
# What is over the limit is read and thrown away up to here: a caller that cannot finish sending its
# request never reads the answer that says why.
_DRAIN_FACTOR = 4


@dataclass(frozen=True)
class Limits:
    """Every bound of the server; sizes in bytes, times in seconds."""

    max_body_bytes: int = 256 * 1024 * 1024
    max_connections: int = 512
    max_in_flight: int = 64
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    keep_alive_seconds: float = 300.0
    policy_seconds: float = 1.0
    request_seconds: float = 4.5
    drain_seconds: float = 20.0
    stuck_threads: int = 4
    interpreter_seconds: float = 30.0


class BodyError(Exception):
    """The body was not read; the text says why. ``drained`` tells whether the connection is usable."""

    def __init__(self, text: str, *, drained: bool) -> None:
        super().__init__(text)
        self.drained = drained


class BodyReader:
    """Reads bodies, few large ones at a time, so that memory stays bounded."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    def slot(self, request: web.BaseRequest) -> asyncio.Semaphore | None:
        """What to hold from before reading until after answering; ``None`` for a small body."""
        length = request.content_length
        return self._large if length is None or length > _LARGE_BYTES else None

    async def read(self, request: web.BaseRequest) -> bytes:
        """The whole body, or `BodyError`."""
        limit = self._limits.max_body_bytes
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                if (request.content_length or 0) > limit:
                    raise await self._too_large(request, already=0)
                chunks: list[bytes] = []
                size = 0
                while chunk := await request.content.readany():
                    size += len(chunk)
                    if size > limit:
                        chunks.clear()
                        raise await self._too_large(request, already=size)
                    chunks.append(chunk)
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError:
            text = f"the request's body did not arrive within {self._limits.body_seconds:.0f} s"
            raise BodyError(text, drained=False) from None
        except (web.RequestPayloadError, ConnectionError, EOFError) as error:
            raise BodyError(f"the request's body broke off: {error}", drained=False) from None

    async def _too_large(self, request: web.BaseRequest, *, already: int) -> BodyError:
        limit = self._limits.max_body_bytes
        bound = limit * _DRAIN_FACTOR
        drained = max(already, request.content_length or 0) <= bound
        while drained and (chunk := await request.content.readany()):
            already += len(chunk)
            drained = already <= bound
        text = f"the request is larger than {limit} bytes: raise extender.limits.maxBodyBytes"
        return BodyError(f"{text}, or set nodeCacheCapable: true", drained=drained)

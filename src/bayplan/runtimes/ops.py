"""The ops port: health, metrics and verification."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from bayplan.client.errors import ApiError, ConnectError
from bayplan.ops.health import Health
from bayplan.ops.metrics import CONTENT_TYPE, Metrics
from bayplan.runtimes.plain import plain
from bayplan.state.verify import Verification


class OpsApp:
    """Answers requests of the ops port."""

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        *,
        refresh: Callable[[], None],
        verify: Callable[[], Awaitable[Verification]] | None = None,
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._refresh = refresh
        self._verify = verify

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request of any kind."""
        name = request.path.strip("/")
        if request.method not in ("GET", "HEAD"):
            return plain(405, f"want GET, got {request.method}", headers={"Allow": "GET, HEAD"})
        if name in ("livez", "readyz", "healthz"):
            healthy, text = self._health.report(name, verbose="verbose" in request.query)
            return web.Response(status=200 if healthy else 503, text=text)
        if name == "metrics":
            self._refresh()
            return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})
        if name == "verify":
            return await self._verified()
        return plain(404, "here are /livez, /readyz, /healthz (each with ?verbose), /metrics and /verify")

    async def _verified(self) -> web.Response:
        if self._verify is None:
            return plain(404, "nothing to verify: this server watches no cluster")
        try:
            found = await self._verify()
        except (ApiError, ConnectError) as error:
            return plain(503, str(error))
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

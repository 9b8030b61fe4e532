"""A live cluster at its end: the Lease is given back where nothing of ours can land any more."""

import asyncio

import pytest

from bayplan.client.errors import ConnectError
from bayplan.state.live import LiveCluster
from bayplan.testing import make_node, make_pod


class Api:
    """Stands in for the API server: answers binds when it is told to."""

    def __init__(self, *, lost: bool = False) -> None:
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self._lost = lost

    async def request(self, *_: object, **__: object) -> bytes:
        self.asked.set()
        await self.answers.wait()
        if self._lost:
            raise ConnectError("the reply was lost")
        return b"{}"


class Writer:
    """Stands in for the holder of the Lease."""

    terms = 1
    released: bool | None = None

    def problem(self) -> str:
        return ""

    async def close(self, *, release: bool) -> None:
        self.released = release


@pytest.mark.parametrize(
    ("lost", "answered", "released"),
    [
        pytest.param(False, True, True, id="a bind that has ended"),
        pytest.param(False, False, False, id="a bind that is on its way"),
        pytest.param(True, True, False, id="a bind of which nobody knows"),
    ],
)
async def test_the_lease_is_kept_while_a_bind_may_still_land(
    lost: bool, answered: bool, released: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayplan.client.bind._RETRY_SECONDS", ())
    api, writer, pod = Api(lost=lost), Writer(), make_pod("p", uid="u")
    live = LiveCluster(api, commit=None, managed=tuple, max_age_seconds=60, bind_seconds=5)  # type: ignore[arg-type]
    live.writer = writer  # type: ignore[assignment]
    live.view.cache.put_node(make_node("n").object)
    live.view.cache.put_pod(pod)
    binding = asyncio.create_task(live.ledger.bind(namespace="default", name="p", uid="u", node="n"))
    await api.asked.wait()
    if answered:
        api.answers.set()
        await asyncio.wait({binding})

    await live.close()

    assert writer.released is released
    api.answers.set()
    await asyncio.gather(binding, return_exceptions=True)
    await live.ledger.close()

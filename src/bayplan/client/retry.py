"""Retries reads after transient failures: a few attempts, with jitter, within the caller's time.

Only for reads. A write without an answer may have worked; its caller must check first.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from bayplan.client.errors import ApiError, ConnectError, Unreachable

_PAUSES_SECONDS = (0.1, 0.3, 0.9)
# A proxy under maintenance may ask for a very long pause. With jitter, ten seconds at the most.
_RETRY_AFTER_LIMIT_SECONDS = 8.0
_TRANSIENT = frozenset({429, 500, 502, 503, 504})


def may_pass(error: ApiError | ConnectError) -> bool:
    """Whether the same read may succeed a moment later."""
    return error.status in _TRANSIENT if isinstance(error, ApiError) else isinstance(error, Unreachable)


def asked_pause_seconds(error: ApiError, dice: random.Random) -> float | None:
    """The pause that the server asked for (``Retry-After``), limited, with jitter; ``None`` if it did not.

    Never shorter than asked, up to the limit.
    """
    asked = error.retry_after_seconds
    return min(_RETRY_AFTER_LIMIT_SECONDS, asked) * dice.uniform(1.0, 1.25) if asked else None


class Retry:
    """Retries a read after a pause. Clock, sleep and dice are parameters, so that tests need not wait."""

    def __init__(
        self,
        *,
        dice: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._dice = dice or random.Random()  # noqa: S311 - jitter, no secret
        self._clock = clock
        self._sleep = sleep

    async def read(self, attempt: Callable[[float], Awaitable[bytes]], *, timeout_seconds: float) -> bytes:
        """The first answer of ``attempt``, which gets the seconds left; raises what the last attempt raised.

        Gives up at once if the next pause would end after the deadline.
        """
        deadline = self._clock() + timeout_seconds
        for usual_seconds in _PAUSES_SECONDS:
            try:
                return await attempt(deadline - self._clock())
            except (ApiError, ConnectError) as error:
                pause = self._after(error, usual_seconds)
                if not may_pass(error) or self._clock() + pause >= deadline:
                    raise
            await self._sleep(pause)
        return await attempt(deadline - self._clock())

    def _after(self, error: ApiError | ConnectError, usual_seconds: float) -> float:
        asked = asked_pause_seconds(error, self._dice) if isinstance(error, ApiError) else None
        return self._jittered(usual_seconds) if asked is None else asked

    def _jittered(self, seconds: float) -> float:
        return seconds * self._dice.uniform(0.5, 1.0)

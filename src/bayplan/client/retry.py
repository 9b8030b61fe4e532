"""Reading again what failed in passing: a few tries, with jitter, within the caller's time.

Only for reads. A write whose answer was lost may have worked; whoever writes must look first.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from bayplan.client.errors import ApiError, Unreachable

_PAUSES_SECONDS = (0.1, 0.3, 0.9)
# A server may name any time, and a proxy in front of it that of its maintenance: nobody waits for that long
# to see whether it is there again. With the dice, ten seconds at the most.
_RETRY_AFTER_LIMIT_SECONDS = 8.0
_PASSING = frozenset({429, 500, 502, 503, 504})


def asked_pause_seconds(error: ApiError, dice: random.Random) -> float | None:
    """How long to wait since the server asked for it (``Retry-After``), within reason; ``None``: it did not.

    Not earlier than asked, and not all at the same moment.
    """
    asked = error.retry_after_seconds
    return min(_RETRY_AFTER_LIMIT_SECONDS, asked) * dice.uniform(1.0, 1.25) if asked else None


class Retry:
    """Tries a read again after a pause. Clock, sleep and dice come in, so that tests need not wait."""

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
        """The first answer; ``attempt`` is told how many seconds it has. Raises what the last try raised.

        A pause that would not leave time for another try is not begun.
        """
        deadline = self._clock() + timeout_seconds
        for usual_seconds in _PAUSES_SECONDS:
            try:
                return await attempt(deadline - self._clock())
            except Unreachable:
                pause = self._jittered(usual_seconds)
                if self._clock() + pause >= deadline:
                    raise
            except ApiError as error:
                if error.status not in _PASSING:
                    raise
                pause = self._after(error, usual_seconds)
                if self._clock() + pause >= deadline:
                    raise
            await self._sleep(pause)
        return await attempt(deadline - self._clock())

    def _after(self, error: ApiError, usual_seconds: float) -> float:
        asked = asked_pause_seconds(error, self._dice)
        return self._jittered(usual_seconds) if asked is None else asked

    def _jittered(self, seconds: float) -> float:
        return seconds * self._dice.uniform(0.5, 1.0)

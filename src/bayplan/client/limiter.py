"""A rate limiter (token bucket) for requests to the API server."""

import asyncio
import time
from collections.abc import Callable
from math import inf


class Limiter:
    """A token bucket: tokens, here turns, come at a steady rate, up to ``burst``."""

    def __init__(self, *, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._turns = float(burst)
        self._at = clock()

    async def turn(self) -> None:
        """Wait for the next turn, first come first served."""
        wait = self.reserve()
        if wait > 0:
            await asyncio.sleep(wait)

    def reserve(self, *, within_seconds: float = inf) -> float:
        """The seconds until the next turn, which is taken if it comes within ``within_seconds``."""
        now = self._clock()
        self._turns = min(self._burst, self._turns + (now - self._at) * self._per_second)
        self._at = now
        wait = max(0.0, (1.0 - self._turns) / self._per_second)
        if wait < within_seconds:
            self._turns -= 1.0
        return wait

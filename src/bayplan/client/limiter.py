"""How often the API server is asked: so many requests a second, with room for a burst."""

import asyncio
import time
from collections.abc import Callable
from math import inf


class Limiter:
    """A bucket of turns that fills at a steady rate. Whoever finds it empty waits for the next one."""

    def __init__(self, *, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._turns = float(burst)
        self._at = clock()

    async def turn(self) -> None:
        """Wait for a turn, in the order of asking."""
        wait = self.reserve()
        if wait > 0:
            await asyncio.sleep(wait)

    def reserve(self, *, within_seconds: float = inf) -> float:
        """Take the next turn; the seconds until it comes. One that comes too late is left to others."""
        now = self._clock()
        self._turns = min(self._burst, self._turns + (now - self._at) * self._per_second)
        self._at = now
        wait = max(0.0, (1.0 - self._turns) / self._per_second)
        if wait < within_seconds:
            self._turns -= 1.0
        return wait

"""Limits how many requests to the API server are under way."""

import asyncio
from typing import Literal


class Hands(asyncio.Semaphore):
    """A semaphore that knows how many of its slots are free."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.free = count
        self._freed = asyncio.Event()

    async def acquire(self) -> Literal[True]:
        """Take a slot; waits only if none is free."""
        await super().acquire()
        self.free -= 1
        return True

    def release(self) -> None:
        """Give the slot back."""
        super().release()
        self.free += 1
        self._freed.set()

    async def freed(self) -> None:
        """Wait until the next slot is given back."""
        self._freed.clear()
        await self._freed.wait()

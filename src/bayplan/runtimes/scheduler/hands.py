"""So many requests to the API server at a time, and no more."""

import asyncio
from typing import Literal


class Hands(asyncio.Semaphore):
    """Hands that are free, or busy with a request."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.free = count
        self._freed = asyncio.Event()

    async def acquire(self) -> Literal[True]:
        """Take a free hand, or wait for one; at once where one is free."""
        await super().acquire()
        self.free -= 1
        return True

    def release(self) -> None:
        """The hand is free again."""
        super().release()
        self.free += 1
        self._freed.set()

    async def freed(self) -> None:
        """Wait until another hand is free than now."""
        self._freed.clear()
        await self._freed.wait()

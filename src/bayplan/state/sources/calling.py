"""Asking a source's own code: whatever it raises is its failure, and never the end of who asked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bayplan.snapshot.bynode import Scalar, by_field
from bayplan.state.sources.http import SourceError


async def asked(
    fetch: Callable[[], Awaitable[Mapping[str, Any]]], *, timeout_seconds: float
) -> dict[str, dict[str, Scalar]]:
    """What it says, by field; an `Exception` of its own, or `SourceError` where it raised something worse.

    ``CancelledError`` comes out only where the task that asks is being cancelled.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            return by_field(await fetch())
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from error
        if isinstance(error, Exception):
            raise
        said = f": {error}" if str(error) else ""
        raise SourceError(f"it raised {type(error).__name__}{said}") from error

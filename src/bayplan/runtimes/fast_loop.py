"""The event loop that servers run on."""

import asyncio
from collections.abc import Callable, Coroutine

try:
    import uvloop
except ImportError:  # not on every platform
    uvloop = None  # type: ignore[assignment]


def run_in_fast_loop(main: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run it on uvloop where that exists, on asyncio elsewhere."""
    factory = uvloop.new_event_loop if uvloop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())

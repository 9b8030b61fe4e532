"""Ends the process when something holds the interpreter for good.

A regular expression that backtracks, or a C extension that never returns, stops every thread of
Python: no probe is answered and no deadline fires. The timer of `faulthandler` is a thread without
Python in it; it prints where everybody stands and ends the process, so that it can be restarted.
"""

import asyncio
import faulthandler
import time
from collections.abc import Callable

_STDERR = 2


async def watch_interpreter(
    *, limit_seconds: float, on_lag: Callable[[float], None] = lambda _: None
) -> None:
    """Wind the timer again and again while the event loop turns; runs until it is cancelled.

    ``on_lag`` is told by how many seconds the loop came back later than it should have.
    """
    pause_seconds = min(1.0, limit_seconds / 4)
    try:
        while True:
            faulthandler.dump_traceback_later(limit_seconds, exit=True, file=_STDERR)
            due = time.monotonic() + pause_seconds
            await asyncio.sleep(pause_seconds)
            on_lag(max(0.0, time.monotonic() - due))
    finally:
        faulthandler.cancel_dump_traceback_later()

"""Ends the process when something holds the interpreter for good.

A regular expression that backtracks, or a C extension that never returns, stops every thread of
Python: no probe is answered and no deadline fires. The timer of `faulthandler` is a thread without
Python in it; it prints where everybody stands and ends the process, so that it can be restarted.
"""

import asyncio
import faulthandler

_STDERR = 2


async def watch_interpreter(*, limit_seconds: float) -> None:
    """Wind the timer again and again while the event loop turns; runs until it is cancelled."""
    try:
        while True:
            faulthandler.dump_traceback_later(limit_seconds, exit=True, file=_STDERR)
            await asyncio.sleep(min(1.0, limit_seconds / 4))
    finally:
        faulthandler.cancel_dump_traceback_later()

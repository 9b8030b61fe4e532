"""The end of the program, also where a policy or a source goes on: nobody waits for it for long.

Python itself does, for every thread that is no daemon and for every function that is to run at the exit. What
was told to end is then killed by whoever told it, half a minute later, and does not look as if it had ended
well.
"""

import logging
import os
import sys
import threading
import time
from contextlib import suppress

log = logging.getLogger(__name__)

_GRACE_SECONDS = 2.0


def end_soon(code: int) -> None:
    """Call it last: the program ends by itself, or after a moment without those who are still at work."""
    # First, as long as it takes: whoever reads the output may be slower than those who are still at work.
    _flush()
    threading.Thread(target=_end_without_them, args=(code,), daemon=True).start()


def _strangers() -> list[str]:
    main = threading.main_thread()
    return [each.name for each in threading.enumerate() if not each.daemon and each is not main]


def _end_without_them(code: int) -> None:
    time.sleep(_GRACE_SECONDS)
    if names := ", ".join(_strangers()):
        log.warning("threads of a policy or a source go on (%s); the program ends without them", names)
    else:
        log.warning("what a policy or a source does at the exit goes on; the program ends without it")
    logging.shutdown()
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A policy may have put None or anything else there.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()

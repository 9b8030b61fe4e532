"""The end of the program, also where threads of a policy or a source go on: nobody waits for them for long.

Python itself does, for every thread that is no daemon. What was told to end is then killed by whoever told
it, half a minute later, and does not look as if it had ended well.
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
    if _strangers():
        threading.Thread(target=_end_without_them, args=(code,), daemon=True).start()


def _strangers() -> list[str]:
    main = threading.main_thread()
    return [each.name for each in threading.enumerate() if not each.daemon and each is not main]


def _end_without_them(code: int) -> None:
    time.sleep(_GRACE_SECONDS)
    names = ", ".join(_strangers())
    log.warning("threads of a policy or a source go on (%s); the program ends without them", names)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)

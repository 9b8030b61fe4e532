"""How much of the machine others used meanwhile: a benchmark that shares it measures them too."""

import os
import resource
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE, _WAITING_FOR_DISK = 3, 4
# The last two are part of the first two already: what guests had.
_COUNTED = 8


class Busy:
    """CPU of the whole machine from here on, and ours in it."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._all, self._ours = _all_seconds(), _our_seconds()

    def by_others(self) -> float:
        """Cores that others kept busy, on the mean; children of ours count as ours once they have ended."""
        theirs = (_all_seconds() - self._all) - (_our_seconds() - self._ours)
        return max(0.0, theirs / (time.monotonic() - self._start))


def _all_seconds() -> float:
    """CPU that anybody has used since the start of the machine; 0 where nobody says."""
    if not _STAT.exists():
        return 0.0
    ticks = [int(each) for each in _STAT.read_text().split("\n", 1)[0].split()[1 : 1 + _COUNTED]]
    return (sum(ticks) - ticks[_IDLE] - ticks[_WAITING_FOR_DISK]) / os.sysconf("SC_CLK_TCK")


def _our_seconds() -> float:
    """What this process has used, with its children that were waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

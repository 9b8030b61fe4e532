"""What the kernel says about a process: the memory it has, and the time that it has used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12


def memory_mb(pid: int, field: Literal["VmRSS", "VmHWM"]) -> float:
    """Megabytes: ``VmRSS`` is now, ``VmHWM`` was the most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processors so far, all its threads together."""
    # The name of the program may have spaces in it, and ends with the last bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_A_SECOND

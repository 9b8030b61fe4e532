"""Waiting for a condition, with a deadline and a message that says what was missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


class Timeout(AssertionError):
    """A condition did not come true before its deadline.

    It is an AssertionError because in a test that is what a missing outcome means.
    """


def wait_until(
    condition: Callable[[], T | None],
    timeout_seconds: float,
    *,
    what: str,
    explain: Callable[[], str] = lambda: "",
    poll_seconds: float = POLL_SECONDS,
) -> T:
    """Call `condition` until it answers something true, which is returned.

    `explain` is asked only when the deadline has passed; its text ends the message.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        if answer := condition():
            return answer
        if time.monotonic() >= deadline:
            raise Timeout(f"{what}: not within {timeout_seconds:g} s\n{explain()}".rstrip())
        time.sleep(poll_seconds)

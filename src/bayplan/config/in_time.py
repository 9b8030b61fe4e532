"""Runs hooks in a dry run with a time limit."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import TypeVar

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.registry import Policy
from bayplan.engine.guard import Attempt

T = TypeVar("T")
A = TypeVar("A", bound=Attempt)


@dataclass(frozen=True)
class Limits:
    """The time limits of a dry run, in seconds: enough for a first call that loads something large."""

    one_call: float = 10.0
    all_calls: float = 10.0
    """For all hooks of one policy together."""
    other_pods: float = 5.0
    """After this time, no further pod is tried for the policy."""
    all_other_pods: float = 20.0
    """As ``other_pods``, for all policies together."""


NOT_LONG = Limits()
"""For the start of a server."""
LONGER = Limits(all_calls=60.0)
"""For ``bayplan check``, where the user waits and slow hooks are tried twice."""


def in_time(policy: Policy, work: Callable[[A], T], limits: Limits, attempt: A) -> T:
    """The result of ``work``; raises `PolicyError` if a hook, or all of them together, take too long."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(work(attempt))
        except BaseException as error:
            found.set_exception(error)

    # A daemon thread, since one that never returns must not keep the command from ending.
    Thread(target=run, name=f"bayplan-rehearsal-{policy.name}", daemon=True).start()
    ends = time.monotonic() + limits.all_calls
    while (left := ends - time.monotonic()) > 0:
        try:
            return found.result(min(left, limits.one_call / 10))
        except TimeoutError:
            hook = attempt.hook
            if hook is not None and time.monotonic() - attempt.since >= limits.one_call:
                about = f" (for pod {attempt.pod})" if attempt.pod else ""
                raise PolicyError(
                    f"{hook.title}: still running after {limits.one_call:g} s in the dry run{about}"
                ) from None
    calls = sum(ran.calls for ran in attempt.ran.values())
    raise PolicyError(
        f"{attempt.hook.title if attempt.hook else policy.name}: the dry run of policy {policy.name!r} is not"
        f" over after {limits.all_calls:g} s and {calls} calls of its hooks; make them faster"
    )

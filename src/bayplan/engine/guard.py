"""Calls a hook, and turns every exception of it into a named failure."""

import difflib
import re
import threading
import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Literal, TypeVar

from bayplan.authoring.lift import BadResult, UnknownNode
from bayplan.authoring.raised import option_meant, printable, safe_text
from bayplan.authoring.registry import Hook
from bayplan.snapshot.row import Node
from bayplan.snapshot.table import NodeTable

T = TypeVar("T")

FailureKind = Literal["exception", "bad-result", "unknown-node", "overrun"]

_LOOKED_UP = re.compile(
    r"\b(labels|annotations|node_selector|requests|allocatable|capacity|requested|free)\["
)
_OF_BOOLS = re.compile(r"ufunc '(invert|bitwise_and|bitwise_or|bitwise_xor)' not supported")
# A hook may return, name or note a text of any length, and each failure is logged and kept in the journal.
_LONGEST = 2000
_NUMBERS = "; a column of numbers is compared first, a label that is read as bool too: nodes[...] == 1"

CURRENT_POD: ContextVar[str] = ContextVar("bayplan_pod", default="")
"""The pod that is being judged, for log lines written inside a hook."""


class Interrupted(SystemExit):
    """Thrown into a thread whose hook overran its deadline; it ends the thread, not the server."""


@dataclass(frozen=True)
class Failure:
    """How a hook failed."""

    kind: FailureKind
    text: str
    """For people: file, line, hook and the mistake."""
    summary: str
    """Constant for one kind of failure of one policy: logs and metrics count by it."""


@dataclass
class Ran:
    """The calls of one hook in one attempt; some hooks are called many times, as for each victim."""

    hook: Hook
    began: float
    """When it was called first, by `time.perf_counter`."""
    calls: int = 0
    seconds: float = 0.0
    failures: dict[FailureKind, int] = field(default_factory=dict)


@dataclass
class Attempt:
    """One attempt at answering a request, whose deadlines another thread watches.

    The policy thread writes ``hook`` and ``since``; the thread that waits reads them.
    """

    given_up: dict[str, Failure] = field(default_factory=dict)
    """Policies that overran in an earlier attempt at the same request; they are not called again."""
    hook: Hook | None = None
    """The hook that runs now."""
    since: float = 0.0
    """When that hook was called, by `time.monotonic`."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The time that hooks get as ``now``."""
    pod: str = ""
    """``namespace/name`` of the request's pod, once it is decoded."""
    turn: int | None = None
    """How many shortened answers the pod got before (`keep.Turns`); ``None`` until it is looked up."""
    ran: dict[int, Ran] = field(default_factory=dict)
    """Every hook that was called, by its `id`: a hook with unhashable arguments cannot be a key."""

    def note(self, hook: Hook, failure: Failure | None, *, began: float, seconds: float | None) -> None:
        """Record one call; ``seconds`` is ``None`` if the hook was skipped as given up."""
        ran = self.ran.get(id(hook))
        if ran is None:
            ran = self.ran[id(hook)] = Ran(hook, began)
        if seconds is not None:
            ran.calls += 1
            ran.seconds += seconds
        if failure is not None:
            ran.failures[failure.kind] = ran.failures.get(failure.kind, 0) + 1


def overrun(hook: Hook, seconds: float) -> Failure:
    """The failure of a hook that was still running at its deadline."""
    summary = f"policy {hook.policy} took too long"
    return Failure("overrun", f"{hook.title}: still running after {seconds:.1f} s", summary)


def guarded(hook: Hook, attempt: Attempt, work: Callable[[], T]) -> tuple[T | None, Failure | None, float]:
    """Run ``work``, which calls ``hook``: its result or its failure, and its seconds."""
    start = time.perf_counter()
    if hook.policy in attempt.given_up:
        given_up = attempt.given_up[hook.policy]
        attempt.note(hook, given_up, began=start, seconds=None)
        return None, given_up, 0.0
    attempt.since = time.monotonic()
    attempt.hook = hook
    try:
        result: T | None = work()
        failure = None
    except Interrupted:
        raise
    except UnknownNode as error:
        result, failure = None, _failure(hook, "unknown-node", str(error), "named an unknown node")
    except BadResult as error:
        result, failure = None, _failure(hook, "bad-result", str(error), "gave a bad result")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            # Ctrl-C comes to the main thread only; in another one the hook has raised it itself.
            raise
        result, failure = (
            None,
            _failure(hook, "exception", _told(hook, error), f"raised {type(error).__name__}"),
        )
    finally:
        attempt.hook = None
    seconds = time.perf_counter() - start
    attempt.note(hook, failure, began=start, seconds=seconds)
    return result, failure, seconds


def _failure(hook: Hook, kind: FailureKind, text: str, did: str) -> Failure:
    summary = printable(f"policy {hook.policy} {did}", limit=_LONGEST)
    return Failure(kind, printable(text, limit=_LONGEST), summary)


def _told(hook: Hook, error: BaseException) -> str:
    try:
        return _explain(hook, error)
    except Exception:
        # Not only its text is the user's code: so may be its notes, its traceback and each other attribute.
        return f"{hook.spec.where} {hook.name}: {type(error).__name__}: (it cannot be told)"


def _explain(hook: Hook, error: BaseException) -> str:
    """``policy.py:14 fast: ZeroDivisionError: division by zero (on node a)``."""
    code = getattr(hook.function, "__code__", None)
    wanted = code.co_filename if code else ""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == wanted]
    at = hook.spec.where
    if frames:
        at = f"{wanted.rpartition('/')[2]}:{frames[-1].lineno}"
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    message = safe_text(error) + (_meant(error) or _instead(error, frames[-1].line if frames else ""))
    return f"{at} {hook.name}: {type(error).__name__}{': ' if message else ''}{message}{notes}"


def _instead(error: BaseException, line: str | None) -> str:
    """``; write .get('team') ...`` after ``pod.labels["team"]``; ``line`` is the one that raised."""
    if not isinstance(error, KeyError) or not _LOOKED_UP.search(line or ""):
        return ""
    return f"; write .get({safe_text(error)}) where it may be missing"


_ELSEWHERE: dict[tuple[type, str], str] = {
    **{(Node, part): f"write node.object.{part}" for part in ("metadata", "spec", "status")},
    (NodeTable, "labels"): "a label is nodes[Label(KEY)]",
    (NodeTable, "annotations"): "an annotation is nodes[NodeAnnotation(KEY)]",
}
"""Where something is that people look for at another place."""


def _meant(error: BaseException) -> str:
    """``; did you mean 'labels'?`` after ``node.label``; Python says so only in a traceback."""
    if isinstance(error, ValueError) and "truth value of an array" in safe_text(error):
        # NumPy's advice, any() or all(), would change what the rule means.
        instead = "; for `if a` return REASON.where(a)"
        return f"{instead}; of columns write ~a, a & b, a | b in place of not, and, or"
    if isinstance(error, TypeError):
        return _NUMBERS if _OF_BOOLS.search(safe_text(error)) else option_meant(error)
    if not isinstance(error, AttributeError) or not error.name or error.obj is None:
        return ""
    try:
        a_key = isinstance(error.obj, dict) and error.name in error.obj
        there = f"write [{error.name!r}]" if a_key else _ELSEWHERE.get((type(error.obj), error.name))
        if there:
            return f"; {there}"
        # A module's own message is better than a guess.
        known = [] if isinstance(error.obj, ModuleType) else [n for n in dir(error.obj) if n[0] != "_"]
        close = difflib.get_close_matches(error.name, known, n=1)
    except Exception:
        return ""
    return f"; did you mean {close[0]!r}?" if close else ""

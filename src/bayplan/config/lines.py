"""Finds the lines of hooks that a dry run did not reach.

Only for ``bayplan check``, since tracing makes functions slower.
"""

import contextlib
import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from types import CodeType, FrameType
from typing import Any

from bayplan.authoring.registry import Hook, Policy

_OURS = "bayplan.policies."


class Lines:
    """The lines of the hooks of some policies, and which were not run yet."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._hooks = [hook for policy in policies for hook in policy.hooks if not is_built_in(hook)]
        # By identity, since comparing code objects is slow.
        self._left: dict[int, set[int]] = {}
        for hook in self._hooks:
            for code in _codes(_code(hook)):
                self._left[id(code)] = set(_lines(code))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note the lines that this thread runs meanwhile."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def hints(self, *, what_to_give: str) -> list[str]:
        """A message for each hook with lines that were not reached."""
        found: dict[str, None] = {}
        for hook in self._hooks:
            # A dry run binds nothing, so it does not call ``bound``.
            if hook.spec.kind != "bound" and (places := self._places(_code(hook))):
                one = len(places) == 1 and "-" not in places[0]
                were = "this line was" if one else "these lines were"
                file = hook.spec.where.rpartition(":")[0]
                found[
                    f"{file}:{', '.join(places)} {hook.name}: {were} not run by any pod of the dry run;"
                    f" give one that comes there: {what_to_give}"
                ] = None
        return list(found)

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        return self._line if self._left.get(id(frame.f_code)) else None

    def _line(self, frame: FrameType, event: str, _arg: Any) -> Callable[..., Any]:
        if event == "line":
            self._left[id(frame.f_code)].discard(frame.f_lineno)
        return self._line

    def untouched(self, hook: Hook) -> bool:
        """Whether the hook has lines and none was run."""
        code = _code(hook)
        own = set(_lines(code)) if code is not None and id(code) in self._left else set()
        return bool(own) and code is not None and self._left[id(code)] == own

    def _places(self, code: CodeType | None) -> list[str]:
        """``["11-12", "15"]``: the lines that were not run, as ranges."""
        codes = list(_codes(code))
        left = {line for each in codes for line in self._left[id(each)]}
        every = sorted({line for each in codes for line in _lines(each)})
        rows = [list(lines) for not_run, lines in groupby(every, left.__contains__) if not_run]
        return [f"{lines[0]}-{lines[-1]}" if len(lines) > 1 else f"{lines[0]}" for lines in rows]


def is_built_in(hook: Hook) -> bool:
    """Whether the hook is of a built-in policy, which has its own tests."""
    return getattr(hook.function, "__module__", "").startswith(_OURS)


def _code(hook: Hook) -> CodeType | None:
    """The code that the author wrote: of the wrapped function, if there is a wrapper."""
    code = getattr(inspect.unwrap(hook.function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _codes(code: CodeType | None) -> Iterator[CodeType]:
    """The code of a function and of the functions in it."""
    if code is not None:
        yield code
        for part in code.co_consts:
            if isinstance(part, CodeType):
                yield from _codes(part)


def _lines(code: CodeType) -> Iterator[int]:
    """The lines with code, without the line of the ``def``."""
    return (line for _, line in dis.findlinestarts(code) if line and line != code.co_firstlineno)

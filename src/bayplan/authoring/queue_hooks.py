"""The decorators of hooks about the scheduler's queue and about binds.

``bayplan schedule`` calls ``gate``, ``order`` and ``bound``. An extender calls only ``bound``, since the
queue is kube-scheduler's own.
"""

from collections.abc import Callable
from typing import overload

from bayplan.authoring.hooks import F, decorate


@overload
def gate(function: F, /) -> F: ...
@overload
def gate() -> Callable[[F], F]: ...
def gate(function: F | None = None, /) -> F | Callable[[F], F]:
    """Whether the pod may enter the queue of ``bayplan schedule``.

    ::

        @bayplan.gate
        def nights_only(pod, now):
            if 6 <= now.hour < 22:
                return bayplan.Reason("batch jobs run at night", helped_by={"time"})

    ``None`` or ``True`` lets it in; a text, a `Reason` or ``False`` keeps it out. The hook is called again
    when something changes that ``helped_by`` of the reason names.
    """
    return decorate(function, "gate")


@overload
def order(function: F, /) -> F: ...
@overload
def order() -> Callable[[F], F]: ...
def order(function: F | None = None, /) -> F | Callable[[F], F]:
    """Which pod is next in the queue of ``bayplan schedule``: the one with the smallest value.

    It returns a number, a text, a time, or a tuple of these; ``None`` leaves it to the pod's priority.
    """
    return decorate(function, "order")


@overload
def bound(function: F, /) -> F: ...
@overload
def bound() -> Callable[[F], F]: ...
def bound(function: F | None = None, /) -> F | Callable[[F], F]:
    """Called after Bayplan has bound the pod to the node, at most once per pod; its result is ignored."""
    return decorate(function, "bound")

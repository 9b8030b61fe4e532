"""The decorators around the queue of a scheduler: who may come in, who is next, who was told of a bind.

They are asked by ``bayplan schedule``. An extender is not asked about the queue, which is kube-scheduler's
own; of binds it does hear.
"""

from collections.abc import Callable
from typing import overload

from bayplan.authoring.hooks import F, decorate


@overload
def gate(function: F, /) -> F: ...
@overload
def gate() -> Callable[[F], F]: ...
def gate(function: F | None = None, /) -> F | Callable[[F], F]:
    """Whether the pod may come into the queue: ``None`` or ``True`` lets it in, a text or a `Reason` not.

    One that is kept out is asked about again when there is news that its reason is ``helped_by``.
    """
    return decorate(function, "gate")


@overload
def order(function: F, /) -> F: ...
@overload
def order() -> Callable[[F], F]: ...
def order(function: F | None = None, /) -> F | Callable[[F], F]:
    """Who is next: a number, a text, a time or a tuple of these; the smallest comes first."""
    return decorate(function, "order")


@overload
def bound(function: F, /) -> F: ...
@overload
def bound() -> Callable[[F], F]: ...
def bound(function: F | None = None, /) -> F | Callable[[F], F]:
    """Told that the pod was bound to the node by us, at most once; what it returns is not looked at."""
    return decorate(function, "bound")

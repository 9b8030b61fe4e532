"""The decorators. A hook stays the function it was; its parameters say what it gets, by name."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, TypeVar, get_args, overload

from bayplan.kube.yaml import suggest

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

Kind = Literal[
    "prepare", "filter", "prefer", "score", "protect", "victims", "allocate", "gang", "gate", "order", "bound"
]

Reads = Literal["node", "nodes", "pods", "cluster"]
"""What an answer about a node depends on: that node, all nodes asked about, the pods on it, or anything."""
ReadsOf = Reads | Callable[[Any, Any], Reads]
"""The same, or how to tell for a pod in a cluster."""

_ABOUT_NODES = frozenset({"pod", "node", "nodes", "args", "prepared", "cluster", "now"})
_KNOWN: dict[str, frozenset[str]] = {
    "prepare": frozenset({"pod", "args", "cluster", "now"}),
    "filter": _ABOUT_NODES,
    "prefer": _ABOUT_NODES,
    "score": _ABOUT_NODES,
    "allocate": frozenset({"pod", "node", "args", "prepared", "cluster", "now"}),
    "protect": frozenset({"pod", "victim", "args", "prepared", "cluster", "now"}),
    "victims": frozenset({"pod", "victims", "node", "args", "prepared", "cluster", "now"}),
    "gang": frozenset({"pod", "args"}),
    "gate": frozenset({"pod", "args", "cluster", "now"}),
    "order": frozenset({"pod", "args", "now"}),
    "bound": frozenset({"pod", "node", "args", "now"}),
}
_NOT_PLAIN = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
_NEEDED = {
    "allocate": ("node", "the one that was chosen"),
    "protect": ("victim", "the pod that would be evicted"),
    "victims": ("victims", "the pods that would be evicted from one node"),
}
HOOK = "__bayplan_hook__"
POLICY = "__bayplan_policy__"


class PolicyError(Exception):
    """A policy that cannot be used; the text says where and what to do."""


@dataclass(frozen=True)
class HookSpec:
    """What a decorator wrote down about a function."""

    kind: Kind
    parameters: tuple[str, ...]
    where: str
    """``file.py:14``, for errors."""
    range: tuple[float, float] | None = None
    best: Literal["high", "low"] = "high"
    weight: float = 1.0
    recheck: bool = False
    first: bool = False
    reads: ReadsOf = "cluster"

    @property
    def per_node(self) -> bool:
        """Whether it is called once a node rather than once with the table."""
        return "node" in self.parameters


@overload
def filter(function: F, /) -> F: ...
@overload
def filter(*, recheck: bool = False, first: bool = False, reads: ReadsOf = "cluster") -> Callable[[F], F]: ...
def filter(
    function: F | None = None,
    /,
    *,
    recheck: bool = False,
    first: bool = False,
    reads: ReadsOf = "cluster",
) -> F | Callable[[F], F]:
    """A hard rule. ``None`` or ``True`` passes; a text or a `Reason` refuses.

    With ``nodes`` it answers for all of them: a `Verdict`, a bool array (true passes), or a dict
    of node name to reason.

    With ``recheck`` it is run once more at bind, on the chosen node, with every pod that is being bound
    in sight: a rule about other pods holds only so.

    One that is ``first`` speaks before those that are not, of all policies: what it refuses is told in its
    words, as that the pod's claim does not exist.

    ``reads`` is a promise that makes answers faster: pods which differ in name alone get the same answer, and
    the answer about a node depends on nothing but that node (``"node"``), the nodes that are asked about
    (``"nodes"``), or the node with the pods on it (``"pods"``). It is then asked again only about what has
    changed.
    """
    return decorate(function, "filter", recheck=recheck, first=first, reads=reads)


@overload
def prefer(function: F, /) -> F: ...
@overload
def prefer() -> Callable[[F], F]: ...
def prefer(function: F | None = None, /) -> F | Callable[[F], F]:
    """A soft rule: a filter over the nodes that are left, void when none would remain."""
    return decorate(function, "prefer")


@overload
def score(function: F, /) -> F: ...
@overload
def score(
    *,
    range: tuple[float, float] | None = None,
    best: Literal["high", "low"] = "high",
    weight: float = 1.0,
    reads: ReadsOf = "cluster",
) -> Callable[[F], F]: ...
def score(
    function: F | None = None,
    /,
    *,
    range: tuple[float, float] | None = None,
    best: Literal["high", "low"] = "high",
    weight: float = 1.0,
    reads: ReadsOf = "cluster",
) -> F | Callable[[F], F]:
    """A preference: any finite number a node; NaN is no opinion.

    Without ``range`` the scores of one call are stretched over the full range; with it they are
    taken as they are, so that a small difference stays small.

    ``reads`` is the promise that `filter` describes. Numbers that are shares of the highest depend on which
    other nodes are scored: that is ``"nodes"``.
    """
    return decorate(function, "score", range=range, best=best, weight=weight, reads=reads)


@overload
def protect(function: F, /) -> F: ...
@overload
def protect() -> Callable[[F], F]: ...
def protect(function: F | None = None, /) -> F | Callable[[F], F]:
    """Whether ``victim`` must not be evicted for ``pod``; its node is then no candidate."""
    return decorate(function, "protect")


@overload
def victims(function: F, /) -> F: ...
@overload
def victims() -> Callable[[F], F]: ...
def victims(function: F | None = None, /) -> F | Callable[[F], F]:
    """What it costs to evict ``victims``, all of them from one node: the cheapest candidates are kept.

    A number, or several that are compared in order; a text or a `Reason` takes the node out; ``None``
    is no opinion.
    """
    return decorate(function, "victims")


@overload
def allocate(function: F, /) -> F: ...
@overload
def allocate() -> Callable[[F], F]: ...
def allocate(function: F | None = None, /) -> F | Callable[[F], F]:
    """What the pod gets on the chosen node, decided at bind: an `Allocation`, a `Reason`, or ``None``.

    It only says; writing it down, counting it and giving it back are not its business.
    """
    return decorate(function, "allocate")


@overload
def prepare(function: F, /) -> F: ...
@overload
def prepare() -> Callable[[F], F]: ...
def prepare(function: F | None = None, /) -> F | Callable[[F], F]:
    """Run once a pod, before the other hooks, which get its result as ``prepared``."""
    return decorate(function, "prepare")


def policy(cls: C, /) -> C:
    """A class whose methods are hooks that share arguments."""
    if not isinstance(cls, type):
        raise PolicyError(f"{where(cls)}: @bayplan.policy is for classes; decorate functions with a hook")
    if not class_hooks(cls):
        raise PolicyError(
            f"{where(cls)} {cls.__name__}: no method has a hook; decorate one, such as @bayplan.filter"
        )
    for name in class_hooks(cls):
        method = inspect.getattr_static(cls, name)
        if inspect.isfunction(method) and next(iter(inspect.signature(method).parameters), "") != "self":
            raise PolicyError(f"{where(method)} {cls.__name__}.{name}: a method takes `self` first")
    setattr(cls, POLICY, True)
    return cls


def class_hooks(cls: type) -> dict[str, HookSpec]:
    """Hooks of a class by method name, inherited ones first."""
    found: dict[str, HookSpec] = {}
    for parent in reversed(cls.__mro__):
        for name, member in vars(parent).items():
            spec = getattr(member, HOOK, None)
            if isinstance(spec, HookSpec):
                found[name] = spec
    return found


def where(thing: Any) -> str:
    """``file.py:14`` of a function or class, as short as it is useful."""
    code = getattr(thing, "__code__", None)
    if code is not None:
        return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"
    try:
        line = inspect.getsourcelines(thing)[1]
        return f"{(inspect.getsourcefile(thing) or '?').rpartition('/')[2]}:{line}"
    except (OSError, TypeError):
        return getattr(thing, "__module__", None) or "?"


def decorate(function: F | None, kind: Kind, **options: Any) -> F | Callable[[F], F]:
    """Mark the function as a hook of that kind; without one, what will."""

    def mark(target: F) -> F:
        if not inspect.isfunction(target):
            raise PolicyError(f"@bayplan.{kind} is for functions and methods, not {target!r}")
        if kind == "score":
            _check_score(target, **{name: options[name] for name in ("range", "best", "weight")})
        spec = HookSpec(kind, _parameters(target, kind), where(target), **options)
        _check_reads(target, spec)
        setattr(target, HOOK, spec)
        return target

    return mark if function is None else mark(function)


def _check_score(function: Callable[..., Any], *, range: Any, best: Any, weight: Any) -> None:
    """The options of a score, once it is known whose they are."""
    at = f"{where(function)} {function.__name__}: score"
    if range is not None:
        pair = isinstance(range, tuple | list) and len(range) == 2 and all(map(_finite, range))
        if not pair or not range[0] < range[1]:
            raise PolicyError(f"{at}: range must be (low, high) with low < high, not {range!r}")
    if best not in ("high", "low"):
        raise PolicyError(f'{at}: best must be "high" or "low", not {best!r}')
    if not (_finite(weight) and weight > 0):
        raise PolicyError(f"{at}: weight must be a number above 0, not {weight!r}")


def _check_reads(function: Callable[..., Any], spec: HookSpec) -> None:
    at = f"{where(function)} {function.__name__}"
    if not callable(spec.reads) and spec.reads not in get_args(Reads):
        known = ", ".join(f'"{each}"' for each in get_args(Reads))
        raise PolicyError(f"{at}: reads must be one of {known}, not {spec.reads!r}")
    if spec.reads != "cluster" and "now" in spec.parameters:
        raise PolicyError(f"{at}: what depends on `now` is never the same again; leave out `reads`")


def _finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _parameters(function: Callable[..., Any], kind: Kind) -> tuple[str, ...]:
    """The names that the function wants, checked: a typo is found when the file is loaded."""
    at = f"{where(function)} {function.__name__}"
    if any(is_kind(function) for is_kind in _NOT_PLAIN):
        raise PolicyError(f"{at}: a hook is a plain function; it may neither be async nor yield")
    wanted = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise PolicyError(f"{at}: name each parameter; *{name} says nothing about what it wants")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise PolicyError(f"{at}: parameters are given by name; take away the '/'")
        if name in _KNOWN[kind]:
            wanted.append(name)
        elif parameter.default is parameter.empty:
            raise PolicyError(f"{at}: unknown parameter {name!r}{suggest(name, _KNOWN[kind])}")
    if kind in ("filter", "prefer", "score") and ("node" in wanted) == ("nodes" in wanted):
        raise PolicyError(
            f"{at}: take either `node` (called for each node) or `nodes` (called once with the table)"
        )
    needed, meaning = _NEEDED.get(kind, ("", ""))
    if needed and needed not in wanted:
        raise PolicyError(f"{at}: take `{needed}`, {meaning}")
    return tuple(wanted)

"""The decorators that mark functions as hooks. A hook stays a plain function; it gets arguments by name."""

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
"""What a hook's answer about a node depends on: the node, all candidate nodes, its pods too, or anything."""
ReadsOf = Reads | Callable[[Any, Any], Reads]
"""`Reads`, or a function of pod and cluster that returns it."""

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
    """A policy that cannot be used. The text says where the mistake is, and what to do."""


@dataclass(frozen=True)
class HookSpec:
    """The kind, parameters and options of a hook, as its decorator recorded them."""

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
    reads_said: bool = False
    """Whether the author declared ``reads``; otherwise it is inferred from the source, or ``"cluster"``."""
    idle: frozenset[str] = frozenset()
    """Parameters that the function takes but does not use."""

    @property
    def per_node(self) -> bool:
        """Whether the hook is called for each node, rather than once with the table."""
        return "node" in self.parameters

    @property
    def reads_from(self) -> Literal["declared", "shown", "default"]:
        """Where ``reads`` is from: its author, its source, or nobody, so that it is anything."""
        if self.reads_said:
            return "declared"
        return "default" if self.reads == "cluster" else "shown"

    @property
    def uses_pod(self) -> bool:
        """Whether the hook may look at the pod."""
        return "pod" in self.parameters and "pod" not in self.idle


@overload
def filter(function: F, /) -> F: ...
@overload
def filter(
    *, recheck: bool = False, first: bool = False, reads: ReadsOf | None = None
) -> Callable[[F], F]: ...
def filter(
    function: F | None = None,
    /,
    *,
    recheck: bool = False,
    first: bool = False,
    reads: ReadsOf | None = None,
) -> F | Callable[[F], F]:
    """A hard rule: which nodes may be used.

    ::

        @bayplan.filter
        def has_disk(pod, node):
            if "disk" not in node.labels:
                return "node has no disk"

    With ``node`` it is called for each node: ``None`` or ``True`` passes, a text or a `Reason` refuses, and
    ``False`` refuses with the function's name. With ``nodes``, a `NodeTable`, it is called once for all of
    them, and returns a `Verdict` (see `Reason.where`), a bool array (true passes), or a dict of node name to
    reason.

    ``recheck=True`` runs it once more at bind, on the chosen node. A rule about other pods needs that: two
    pods that are filtered at the same time do not see each other.

    ``first=True`` runs it before the filters of all policies that are not ``first``. A node that both refuse
    then shows its reason.

    ``reads`` is a promise that makes answers faster: that the answer about a node depends on the pod and on
    that node alone (``"node"``), on the candidate nodes (``"nodes"``), or on the node and the pods on it
    (``"pods"``), and not on the pod's name. The hook is then called again only for what has changed. Without
    ``reads``, ``"node"`` is inferred if the source shows it; ``reads="cluster"`` has it called each time.
    """
    return decorate(function, "filter", recheck=recheck, first=first, reads=reads)


@overload
def prefer(function: F, /) -> F: ...
@overload
def prefer() -> Callable[[F], F]: ...
def prefer(function: F | None = None, /) -> F | Callable[[F], F]:
    """A soft rule: a `filter` over the remaining nodes. It is void for a pod if no node would remain."""
    return decorate(function, "prefer")


@overload
def score(function: F, /) -> F: ...
@overload
def score(
    *,
    range: tuple[float, float] | None = None,
    best: Literal["high", "low"] = "high",
    weight: float = 1.0,
    reads: ReadsOf | None = None,
) -> Callable[[F], F]: ...
def score(
    function: F | None = None,
    /,
    *,
    range: tuple[float, float] | None = None,
    best: Literal["high", "low"] = "high",
    weight: float = 1.0,
    reads: ReadsOf | None = None,
) -> F | Callable[[F], F]:
    """A preference: a number for each node, the highest is best; ``None`` or NaN is no opinion.

    ::

        @bayplan.score(range=(0, 100))
        def room(pod, nodes):
            return 100 * nodes["cpu.free"] / nodes["cpu.allocatable"]

    Without ``range`` the scores of one call are stretched: the lowest becomes 0, the highest 100. With it
    they are taken as they are, so that a small difference stays small. ``best="low"`` turns it round.
    ``weight`` counts beside the other scores of the same policy.

    ``reads`` is the promise that `filter` describes. A score that compares nodes with each other, such as a
    share of the highest, reads ``"nodes"``.
    """
    return decorate(function, "score", range=range, best=best, weight=weight, reads=reads)


@overload
def protect(function: F, /) -> F: ...
@overload
def protect() -> Callable[[F], F]: ...
def protect(function: F | None = None, /) -> F | Callable[[F], F]:
    """Whether the pod ``victim`` must not be evicted for ``pod``: ``True``, a text or a `Reason` protects it.

    ::

        @bayplan.protect
        def keep_databases(victim):
            return victim.labels.get("tier") == "data"
    """
    return decorate(function, "protect")


@overload
def victims(function: F, /) -> F: ...
@overload
def victims() -> Callable[[F], F]: ...
def victims(function: F | None = None, /) -> F | Callable[[F], F]:
    """What it costs to evict ``victims``, all of them from one node: the cheapest nodes are kept.

    ::

        @bayplan.victims
        def fewest(pod, victims):
            return len(victims), sum(victim.priority for victim in victims)

    It returns a number, or several that are compared in order; a text or a `Reason` to leave the node alone;
    ``None`` for no opinion.
    """
    return decorate(function, "victims")


@overload
def allocate(function: F, /) -> F: ...
@overload
def allocate() -> Callable[[F], F]: ...
def allocate(function: F | None = None, /) -> F | Callable[[F], F]:
    """What the pod gets on the chosen node, decided at bind.

    It returns an `Allocation` (see `Units.take`), a `Reason` or a text to refuse, or ``None`` for a pod that
    wants nothing. Bayplan writes the allocation on the pod, counts it, and frees it when the pod is gone.
    """
    return decorate(function, "allocate")


@overload
def prepare(function: F, /) -> F: ...
@overload
def prepare() -> Callable[[F], F]: ...
def prepare(function: F | None = None, /) -> F | Callable[[F], F]:
    """A value that is computed once for each pod, before the other hooks, which get it as ``prepared``."""
    return decorate(function, "prepare")


def policy(cls: C, /) -> C:
    """A class whose methods are hooks. Settings come as ``args``, of a class derived from `Args`.

    ::

        @bayplan.policy
        class Headroom:
            def __init__(self, args: HeadroomArgs) -> None:
                self.headroom = args.headroom_milli

            @bayplan.filter
            def fits(self, pod, nodes):
                return nodes["cpu.free"] - pod.cpu_milli >= self.headroom
    """
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
            # A static method may be a hook too; its mark is on the function inside.
            spec = getattr(getattr(member, "__func__", member), HOOK, None)
            if isinstance(spec, HookSpec):
                found[name] = spec
    return found


def where(thing: Any) -> str:
    """``file.py:14`` of a function or class."""
    code = getattr(thing, "__code__", None)
    if code is not None:
        return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"
    try:
        line = inspect.getsourcelines(thing)[1]
        return f"{(inspect.getsourcefile(thing) or '?').rpartition('/')[2]}:{line}"
    except (OSError, TypeError):
        return getattr(thing, "__module__", None) or "?"


def decorate(function: F | None, kind: Kind, **options: Any) -> F | Callable[[F], F]:
    """Mark the function as a hook of that kind; without a function, return the decorator."""

    reads = options.get("reads")
    given = {**options, "reads": "cluster" if reads is None else reads, "reads_said": reads is not None}

    def mark(target: F) -> F:
        if not inspect.isfunction(target):
            raise PolicyError(f"@bayplan.{kind} is for functions and methods, not {target!r}")
        if kind == "score":
            _check_score(target, **{name: options[name] for name in ("range", "best", "weight")})
        before = getattr(target, HOOK, None)
        if before is not None and before.kind != kind:
            raise PolicyError(
                f"{where(target)} {target.__name__}: a function is one hook, and this is a `{before.kind}`"
                f" already; write another one for `{kind}`"
            )
        spec = HookSpec(kind, _parameters(target, kind), where(target), **given)
        _check_reads(target, spec)
        setattr(target, HOOK, spec)
        return target

    return mark if function is None else mark(function)


def _check_score(function: Callable[..., Any], *, range: Any, best: Any, weight: Any) -> None:
    """Check the options of a score; the error names the function."""
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
    """The names of the function's parameters, checked, so that a typo is found when the file is loaded."""
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

"""``@bayplan.source`` marks an async function that fetches values from outside; the only hook that may wait.

It is called in the background at its own interval. Policies read its last values as ``nodes[Source("name")]``
with the function's name.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, overload

from bayplan.authoring.hooks import PolicyError, where
from bayplan.kube.duration import Duration
from bayplan.kube.yaml import suggest

F = TypeVar("F", bound=Callable[..., Any])
Per = Literal["cluster", "pod"]

SOURCE = "__bayplan_source__"
_KNOWN = {"cluster": ("http", "args"), "pod": ("pod", "nodes", "http", "args")}


@dataclass(frozen=True)
class SourceSpec:
    """The parameters and options of a source, as its decorator recorded them."""

    parameters: tuple[str, ...]
    where: str
    per: Per = "cluster"
    every_seconds: float = 30.0
    max_age_seconds: float = 300.0
    timeout_seconds: float = 10.0
    keep_seconds: float = 10.0
    fallback: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceHook:
    """A source of a policy, with its arguments, ready to be called."""

    name: str
    spec: SourceSpec
    function: Callable[..., Any]
    args: Any = None

    async def call(self, available: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values that the function returns: one, or several by name, for each node."""
        arguments = {n: self.args if n == "args" else available[n] for n in self.spec.parameters}
        values = await self.function(**arguments)
        if not isinstance(values, Mapping):
            raise TypeError(
                f"{self.spec.where} {self.name}: want a dict by node name, got {type(values).__name__}"
            )
        return values


@overload
def source(function: F, /) -> F: ...
@overload
def source(
    *,
    every: str = "30s",
    max_age: str = "5m",
    per: Per = "cluster",
    timeout: str = "",
    keep: str = "10s",
    fallback: Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...
def source(
    function: F | None = None,
    /,
    *,
    every: str = "30s",
    max_age: str = "5m",
    per: Per = "cluster",
    timeout: str = "",
    keep: str = "10s",
    fallback: Mapping[str, Any] | None = None,
) -> F | Callable[[F], F]:
    """An async function that fetches values from outside: ``{node: value}`` or ``{node: {name: value}}``.

    ::

        @bayplan.source(every="30s", max_age="5m")
        async def price(http):
            return await http.json("https://prices.internal/by-node")

    Other hooks read it as ``nodes[bayplan.Source("price")]``. It is called in the background, at the interval
    ``every``; values older than ``max_age`` read as NaN.

    With ``per="pod"`` it is called for each pod, while kube-scheduler waits, and takes ``pod`` and ``nodes``,
    which are names. It must answer within ``timeout`` (500ms unless given). The answer is kept for ``keep``.
    Without an answer, ``fallback`` has the value of each name, for every node.
    """

    def mark(target: F) -> F:
        at = f"{where(target)} {getattr(target, '__name__', target)}"
        if not inspect.iscoroutinefunction(target):
            raise PolicyError(f"{at}: a source is `async def`: it may wait, the other hooks may not")
        if per not in _KNOWN:
            raise PolicyError(f'{at}: per must be "cluster" or "pod", not {per!r}')
        spec = SourceSpec(
            parameters=_parameters(target, per, at),
            where=where(target),
            per=per,
            every_seconds=_seconds(every, "every", at),
            max_age_seconds=_seconds(max_age, "max_age", at),
            timeout_seconds=_seconds(timeout or ("500ms" if per == "pod" else "10s"), "timeout", at),
            keep_seconds=_seconds(keep, "keep", at),
            fallback=dict(fallback or {}),
        )
        if per == "cluster" and spec.max_age_seconds < spec.every_seconds:
            raise PolicyError(
                f"{at}: max_age, {max_age}, is less than every, {every}: values would be missing in between"
            )
        setattr(target, SOURCE, spec)
        return target

    return mark if function is None else mark(function)


def _seconds(text: str, option: str, at: str) -> float:
    try:
        return Duration(text).seconds
    except ValueError as error:
        raise PolicyError(f"{at}: {option}: {error}") from error


def _parameters(function: Callable[..., Any], per: Per, at: str) -> tuple[str, ...]:
    known = _KNOWN[per]
    wanted = list(inspect.signature(function).parameters)
    for name in wanted:
        if name == "self":
            raise PolicyError(f"{at}: a source is a function of the file, not a method")
        if name not in known:
            raise PolicyError(f"{at}: unknown parameter {name!r}{suggest(name, known)}")
    return tuple(wanted)

"""Policies that are ready to run: hooks with their arguments, and the policy's weight and scope."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

from bayplan.authoring.hooks import HookSpec, Kind
from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.authoring.source import SourceHook

FailurePolicy = Literal["Fail", "Ignore"]
PodKey = tuple[Literal["labels", "annotations"], str]


@dataclass(frozen=True)
class Hook:
    """One hook of a policy, with its arguments, ready to be called."""

    policy: str
    name: str
    spec: HookSpec
    function: Callable[..., Any]
    args: Any = None

    @property
    def title(self) -> str:
        """``file.py:14 fast``: its name in errors."""
        return f"{self.spec.where} {self.name}"

    def call(self, available: dict[str, Any]) -> Any:
        """Call the function with those of the ``available`` values that it has parameters for."""
        return self.function(**self._arguments(available, self.spec.parameters))

    def per_node(self, available: dict[str, Any]) -> Callable[[Any], Any]:
        """The function with all its arguments bound except ``node``."""
        rest = self._arguments(available, (name for name in self.spec.parameters if name != "node"))
        before = _before_node(self.function)
        if before is None or not rest.keys() >= set(before):
            ask = partial(self.function, **rest)
            return lambda node: ask(node=node)
        # By position a call takes less time, and there is one for each node.
        return partial(self.function, *map(rest.pop, before), **rest) if rest else self.function

    def _arguments(self, available: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
        return {name: self.args if name == "args" else available[name] for name in names}


def _before_node(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The function's parameters before ``node``; ``None`` if it takes ``node`` by name alone.

    Asked of its code, not of its signature: that of a decorated function is that of the one inside.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    names = code.co_varnames[hasattr(function, "__self__") : code.co_argcount]
    return names[: names.index("node")] if "node" in names else None


@dataclass(frozen=True)
class Policy:
    """A policy: its hooks, and its settings from the configuration."""

    name: str
    hooks: tuple[Hook, ...]
    weight: float = 1.0
    scope: Scope = EVERY_POD
    failure_policy: FailurePolicy = "Fail"
    columns: tuple[Any, ...] = ()
    """The typed columns that the policy declares in its module, class or instance."""
    sources: tuple[SourceHook, ...] = ()
    """The sources that the policy's file declares."""
    pod_keys: tuple[PodKey, ...] = ()
    """The labels and annotations of pods that the policy's expressions read."""
    shadow: bool = False
    """Whether the policy is only run and recorded, without effect on the decision."""

    def of_kind(self, kind: Kind) -> tuple[Hook, ...]:
        """The policy's hooks of one kind, in the order they were written."""
        return self._by_kind.get(kind, ())

    @cached_property
    def hard(self) -> "Policy":
        """The policy without its soft filters (``prefer``)."""
        if not self.of_kind("prefer"):
            return self
        return replace(self, hooks=tuple(hook for hook in self.hooks if hook.spec.kind != "prefer"))

    @cached_property
    def _by_kind(self) -> dict[str, tuple[Hook, ...]]:
        kinds: dict[str, tuple[Hook, ...]] = {}
        for hook in self.hooks:
            kinds[hook.spec.kind] = (*kinds.get(hook.spec.kind, ()), hook)
        return kinds

"""Policies that are ready to run: hooks bound to their arguments, a weight, a scope."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

from bayplan.authoring.hooks import HookSpec, Kind
from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.authoring.source import SourceHook

FailurePolicy = Literal["Fail", "Ignore"]


@dataclass(frozen=True)
class Hook:
    """One function of a policy, ready to be called by parameter name."""

    policy: str
    name: str
    spec: HookSpec
    function: Callable[..., Any]
    args: Any = None

    @property
    def title(self) -> str:
        """``file.py:14 fast``: how errors call it."""
        return f"{self.spec.where} {self.name}"

    def call(self, available: dict[str, Any]) -> Any:
        """Call the function with what it asked for."""
        return self.function(**self._asked_for(available, self.spec.parameters))

    def per_node(self, available: dict[str, Any]) -> Callable[..., Any]:
        """The function with all that it asked for but ``node``, which each call brings."""
        rest = [name for name in self.spec.parameters if name != "node"]
        return partial(self.function, **self._asked_for(available, rest))

    def _asked_for(self, available: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
        return {name: self.args if name == "args" else available[name] for name in names}


@dataclass(frozen=True)
class Policy:
    """Hooks that belong together, with what the configuration says about them."""

    name: str
    hooks: tuple[Hook, ...]
    weight: float = 1.0
    scope: Scope = EVERY_POD
    failure_policy: FailurePolicy = "Fail"
    columns: tuple[Any, ...] = ()
    """Typed columns that the policy names: in its module, its class or its object."""
    sources: tuple[SourceHook, ...] = ()
    """Sources that the policy's file brings along."""
    shadow: bool = False
    """Asked and recorded like the others, and never heeded."""

    def of_kind(self, kind: Kind) -> tuple[Hook, ...]:
        """The policy's hooks of one kind, in the order they were written."""
        return self._by_kind.get(kind, ())

    @cached_property
    def hard(self) -> "Policy":
        """The policy without its soft filters: what is left says whether a node will do at all."""
        if not self.of_kind("prefer"):
            return self
        return replace(self, hooks=tuple(hook for hook in self.hooks if hook.spec.kind != "prefer"))

    @cached_property
    def _by_kind(self) -> dict[str, tuple[Hook, ...]]:
        kinds: dict[str, tuple[Hook, ...]] = {}
        for hook in self.hooks:
            kinds[hook.spec.kind] = (*kinds.get(hook.spec.kind, ()), hook)
        return kinds

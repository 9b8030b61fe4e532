"""Turns CEL expressions of the configuration into hooks.

Expressions use the field names of Kubernetes: ``node.metadata.labels[?'rack'].orValue('') == 'a'``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.cel.compile import CompileError, compile_expression
from bayplan.authoring.cel.evaluate import Evaluator
from bayplan.authoring.cel.reads import Reads
from bayplan.authoring.hooks import HookSpec, Kind, PolicyError
from bayplan.authoring.hooks import Reads as Promise
from bayplan.authoring.registry import FailurePolicy, Hook, PodKey, Policy
from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.authoring.verdict import Reason, Verdict
from bayplan.kube.pod import Pod
from bayplan.snapshot.columns import Label, NodeAnnotation, split_resource
from bayplan.snapshot.table import NodeTable

KINDS: tuple[Kind, ...] = ("filter", "prefer", "score", "protect")
"""The kinds of hooks that an expression can be."""

_NO_POD = Pod()
_NODES = ("pod", "node", "column")
_VARIABLES: dict[str, tuple[str, ...]] = {**dict.fromkeys(KINDS, _NODES), "protect": ("pod", "victim")}
_NUMBERS = ("INT", "UINT", "DOUBLE", "DYN")
_HINTS = {"BYTES": "a quantity; add .asApproximateFloat()", "optional_type": "an optional; add .orValue(...)"}
_OF_A_KIND = {("metadata", part) for part in ("namespace", "labels", "annotations", "ownerReferences")}
_DECLARED: dict[str, Any] = {"labels": Label, "annotations": NodeAnnotation}


class ExpressionError(PolicyError):
    """An expression that cannot be used; ``kind`` says which one of the policy's entry."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class Expression:
    """One expression of a policy's entry, and its place in the file."""

    text: str
    where: str
    """``bayplan.yaml:12``, for errors."""


def from_expressions(
    name: str,
    expressions: Mapping[Kind, Expression],
    *,
    reason: str = "",
    weight: float = 1.0,
    scope: Scope = EVERY_POD,
    failure_policy: FailurePolicy = "Fail",
) -> Policy:
    """A policy made of these expressions, by kind of hook; raises `ExpressionError`."""
    hooks: list[Hook] = []
    columns: dict[Any, None] = {}
    pod_keys: dict[PodKey, None] = {}
    for kind, expression in expressions.items():
        rule, reads = _rule(name, kind, expression, reason or name)
        spec = HookSpec(kind, rule.parameters, expression.where, reads=_promise(kind, reads))
        hooks.append(Hook(name, kind, spec, rule))
        columns.update(dict.fromkeys(_declared(reads)))
        pod_keys.update(dict.fromkeys(_pod_keys(reads)))
    return Policy(name, tuple(hooks), weight, scope, failure_policy, tuple(columns), pod_keys=tuple(pod_keys))


@dataclass(frozen=True)
class _Filter:
    """A ``filter`` or ``prefer`` hook: refuses the nodes for which the expression is false."""

    evaluator: Evaluator
    parameters: tuple[str, ...]
    reason: Reason

    def __call__(self, nodes: NodeTable, pod: Pod = _NO_POD) -> Verdict:
        passed = self.evaluator.over(pod, nodes).astype(np.bool_)
        return self.reason.where(~passed)


@dataclass(frozen=True)
class _Score:
    """A ``score`` hook: the expression's number for each node."""

    evaluator: Evaluator
    parameters: tuple[str, ...]

    def __call__(self, nodes: NodeTable, pod: Pod = _NO_POD) -> NDArray[np.float64]:
        return self.evaluator.over(pod, nodes).astype(np.float64)


@dataclass(frozen=True)
class _Protect:
    """A ``protect`` hook: whether a victim is protected."""

    evaluator: Evaluator
    parameters = ("pod", "victim")

    def __call__(self, pod: Pod, victim: Pod) -> bool:
        return bool(self.evaluator.about(pod, victim))


def _rule(
    name: str, kind: Kind, expression: Expression, reason: str
) -> tuple[_Filter | _Score | _Protect, Reads]:
    try:
        compiled = compile_expression(expression.text, _VARIABLES[kind])
    except CompileError as error:
        raise ExpressionError(kind, str(error)) from error
    allowed, called = (_NUMBERS, "a number") if kind == "score" else (("BOOL", "DYN"), "true or false")
    returns = compiled.returns
    if returns not in allowed:
        hint = _HINTS.get(returns.partition("<")[0], returns.lower())
        raise ExpressionError(kind, f"want {called}, this is {hint}")
    wanted = (int, float) if kind == "score" else (bool,)
    where = f"{expression.where} {kind}"
    evaluator = Evaluator(compiled, policy=name, where=where, wanted=wanted)
    # Without the parameter ``pod``, the engine knows that the answer is the same for all pods.
    parameters = ("pod", "nodes") if compiled.reads.paths.get("pod") else ("nodes",)
    if kind == "score":
        return _Score(evaluator, parameters), compiled.reads
    if kind == "protect":
        return _Protect(evaluator), compiled.reads
    try:
        return _Filter(evaluator, parameters, _reason(reason, compiled.reads)), compiled.reads
    except ValueError as error:
        raise ExpressionError("reason", str(error)) from error


def _reason(text: str, reads: Reads) -> Reason:
    """The reason; what could change the verdict follows from what the expression reads."""
    pods = _reads_pods(reads)
    return Reason(text, preemptible=pods, helped_by=frozenset({"nodes", "pods"} if pods else {"nodes"}))


def _promise(kind: Kind, reads: Reads) -> Promise:
    """The hook's ``reads``, from what the expression reads."""
    if kind not in ("filter", "score"):
        # Whether a soft rule is void depends on all remaining nodes.
        return "cluster"
    # Pods of one kind have the same spec, namespace, labels, annotations and owners.
    pod = reads.paths.get("pod", frozenset())
    if any(path[0] != "spec" and path[:2] not in _OF_A_KIND for path in pod):
        return "cluster"
    return "pods" if _reads_pods(reads) else "node"


def _reads_pods(reads: Reads) -> bool:
    """Whether the expression reads what the pods on a node request."""
    aspects = {resource[1] for name in reads.columns if (resource := split_resource(name))}
    return bool(aspects & {"requested", "free"})


def _declared(reads: Reads) -> list[Any]:
    """The labels and annotations of nodes that the expression reads, for ``bayplan columns``."""
    return [_DECLARED[where](key) for where, key in _keys(reads, "node")]


def _pod_keys(reads: Reads) -> list[PodKey]:
    """The labels and annotations of pods and victims that the expression reads, for ``bayplan check``."""
    return [*_keys(reads, "pod"), *_keys(reads, "victim")]


def _keys(reads: Reads, variable: str) -> Iterator[PodKey]:
    """The keys of labels and annotations among the paths of a variable."""
    for path in sorted(reads.paths.get(variable, ())):
        match path:
            case ("metadata", "labels" | "annotations" as where, key):
                yield where, key

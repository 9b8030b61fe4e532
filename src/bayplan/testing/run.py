"""Run a policy as the server would, on a cluster made by hand or read from a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from bayplan.authoring.hooks import HOOK, PolicyError
from bayplan.authoring.load import Definition, definitions, load
from bayplan.authoring.registry import Policy
from bayplan.config.load import explain
from bayplan.engine.commit import commit
from bayplan.engine.cycle import Question, filter_nodes, score_nodes
from bayplan.engine.decision import Decision
from bayplan.kube.meta import NO_META
from bayplan.kube.pod import Pod
from bayplan.kube.yaml import Document, suggest
from bayplan.snapshot.cluster import Snapshot


@dataclass(frozen=True)
class Result:
    """What a policy said about a pod: which nodes passed, which did not and why, and the scores."""

    passed: list[str]
    refused: dict[str, str]
    """Reason by node name."""
    details: dict[str, str]
    """The numbers behind each refusal, by node name."""
    scores: dict[str, float]
    """0 to 100, of the nodes that passed; on the wire that is 0 to 10."""
    errors: list[str]
    """Hooks that failed, each with file and line."""
    filtered: Decision
    scored: Decision

    @property
    def best(self) -> str | None:
        """The best node that passed; the first of them where several are."""
        return max(self.scores, key=self.scores.__getitem__) if self.scores else None


def run_policy(
    policy: Any,
    pod: Pod,
    cluster: Snapshot,
    *,
    args: dict[str, Any] | None = None,
    now: datetime | None = None,
    allow_errors: bool = False,
) -> Result:
    """Filter and score ``pod`` over the cluster's nodes with one policy, or with several in a list.

    ::

        nodes = [make_node("small", cpu=1), make_node("big", cpu=8)]
        result = run_policy(fits, make_pod(cpu=2), make_cluster(nodes))
        assert result.refused == {"small": "too little CPU"}

    ``policy`` is a decorated function, a ``@bayplan.policy`` class, a module, or a file to load. A hook
    that fails raises `PolicyError`: a test must not pass because a rule was silent. With ``allow_errors``
    it is told in the result instead, and where its ``failurePolicy`` is Fail no node passes.
    """
    if not isinstance(cluster, Snapshot):
        kinds = "as of make_cluster([...]) or load_snapshot(...)"
        raise TypeError(f"run_policy() wants a cluster, {kinds}, not {type(cluster).__name__}")
    if not isinstance(pod, Pod):
        raise TypeError(f"run_policy() wants a pod, as of make_pod(...), not {type(pod).__name__}")
    policies = ready(policy, args)
    question = Question(pod, cluster.nodes, cluster, now or datetime.now(UTC))
    filtered = filter_nodes(policies, question)
    passed = [] if filtered.error else filtered.passed_names
    survivors = cluster.nodes.take(cluster.find(passed), passed)
    scored = score_nodes(policies, Question(pod, survivors, cluster, question.now))
    refusals = [r for row in range(len(cluster.nodes)) if (r := filtered.refusal(row))]
    totals = [0.0] * len(survivors) if scored.total is None else scored.total.tolist()
    failures = [o.failure.text for o in (*filtered.failures, *scored.failures) if o.failure]
    if failures and not allow_errors:
        raise PolicyError("\n".join(failures))
    return Result(
        passed=passed,
        refused={r.node: r.reason.text for r in refusals},
        details={r.node: r.detail for r in refusals},
        scores=dict(zip(survivors.names, totals, strict=True)),
        errors=failures,
        filtered=filtered,
        scored=scored,
    )


@dataclass(frozen=True)
class Bound:
    """What a policy said at bind."""

    refusal: str
    """Why the pod may not be bound after all; ``""`` when it may."""
    annotations: dict[str, str]
    """What is written on the pod, what it got among it."""
    cluster: Snapshot
    """The cluster with the pod on its node; unchanged after a refusal."""


def bind(policy: Any, pod: Pod, node: str, cluster: Snapshot, *, args: dict[str, Any] | None = None) -> Bound:
    """Bind ``pod`` to a node as the server would: rules with ``recheck`` again, then ``allocate``."""
    if node not in cluster.nodes.names:
        raise ValueError(f"bind() to {node!r}: no such node{suggest(node, cluster.nodes.names)}")
    question = Question(pod, cluster.nodes, cluster, datetime.now(UTC))
    said = commit(ready(policy, args), question, node)
    if said.refusal:
        return Bound(said.refusal, {}, cluster)
    notes = {**pod.annotations, **said.annotations}
    metadata = msgspec.structs.replace(pod.metadata or NO_META, annotations=notes)
    bound = msgspec.structs.replace(pod, metadata=metadata)
    return Bound("", dict(said.annotations), cluster.placed(bound, node))


def ready(policy: Any, args: dict[str, Any] | None) -> list[Policy]:
    """The policies that are meant by a function, a class, a module, a file or a list of these."""
    if isinstance(policy, Policy):
        return [policy]
    if isinstance(policy, list | tuple):
        return [made for one in policy for made in ready(one, args)]
    return [_made(definition, args) for definition in _definitions(policy)]


def _made(definition: Definition, args: dict[str, Any] | None) -> Policy:
    try:
        return definition.make(args=args)
    except msgspec.ValidationError as error:
        told = explain(error, Document("args", args, {}), definition.schema, base=())
        # As in a configuration, but there is no line: ``priceLabl: unknown key; did you mean 'priceLabel'?``.
        error.add_note(f"args of {definition.name}: {str(told).partition(': ')[2]}")
        raise


def _definitions(policy: Any) -> Sequence[Definition]:
    if isinstance(policy, str | Path):
        return load(str(policy))
    if isinstance(policy, ModuleType):
        return definitions(policy)
    if isinstance(policy, type):
        return [Definition(policy.__name__, (), policy, ())]
    if hasattr(policy, HOOK):
        return [Definition(policy.__name__, ((policy.__name__, policy),), None, ())]
    raise TypeError(f"{policy!r} is no policy: want a decorated function, a class, a module or a file")

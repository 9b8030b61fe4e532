"""Reads a filter or prioritize request: the pod, the nodes, and the question that they are for the engine."""

from collections.abc import Callable
from datetime import datetime

from bayplan.engine.cycle import Question
from bayplan.engine.node_hooks import NodeHooks
from bayplan.kube.pod import Pod
from bayplan.kube.quantity import QuantityError
from bayplan.runtimes.extender.answer import Asked
from bayplan.runtimes.extender.lengths import LONGEST, too_long
from bayplan.snapshot.cluster import DuplicateNode, Snapshot
from bayplan.snapshot.lookup import UNKNOWN_ROW
from bayplan.snapshot.sources import Readings
from bayplan.wire import v1
from bayplan.wire.codec import WireError, decode, decode_nodes

NAMES_WITHOUT_VIEW = (
    "kube-scheduler sends node names (nodeCacheCapable: true), and this server knows no cluster:"
    " start it with --kubeconfig, --in-cluster or --snapshot"
)

FindHooks = Callable[[Pod, Snapshot, Readings], NodeHooks | None]
"""Finds the results of hooks that need not be called for a pod in this cluster."""


def nothing_known(_pod: Pod, _cluster: Snapshot, _readings: Readings) -> None:
    """Every hook must be called."""


def question_of(body: bytes, view: Snapshot | None, readings: Readings, now: datetime) -> Question:
    """The question that a request asks over this view."""
    args = decode(body, v1.ExtenderArgs)
    return read_question(args, pod_of(args), view, readings, now)[1]


def read_question(
    args: v1.ExtenderArgs,
    pod: Pod,
    view: Snapshot | None,
    readings: Readings,
    now: datetime,
    *,
    known: FindHooks = nothing_known,
) -> tuple[Asked, Question]:
    """The nodes that the answer is about, and the question; over the nodes that came, or those in view."""
    if args.nodes is not None:
        objects = decode_nodes(args.nodes.items or [])
        try:
            cluster = view.with_nodes(objects) if view else Snapshot.build(objects, None)
        except (DuplicateNode, QuantityError) as error:
            raise WireError(f"Nodes: {error}") from error
        cluster = cluster.with_readings(readings)
        names = [node.name for node in objects]
        asked = Asked(names, args.nodes, wants_names=args.node_names is not None)
        return asked, Question(pod, cluster.nodes.take(cluster.find(names), names), cluster, now)
    names = args.node_names or []
    asked = Asked(names, None, wants_names=True)
    if view is None:
        if names:
            raise WireError(NAMES_WITHOUT_VIEW)
        view = Snapshot.build([], None)
    hooks = known(pod, view, readings)
    view = view.with_readings(readings)
    rows = view.rows.find_each(names)
    if rows is not None:
        return asked, Question(pod, view.nodes.take(rows, names), view, now, known=hooks)
    _unique(names)
    every = view.find(names)
    missing = tuple(name for name, row in zip(names, every.tolist(), strict=True) if row == UNKNOWN_ROW)
    there = [name for name, row in zip(names, every.tolist(), strict=True) if row != UNKNOWN_ROW]
    nodes = view.nodes.take(every[every != UNKNOWN_ROW], there)
    return asked, Question(pod, nodes, view, now, missing, known=hooks)


def pod_of(args: v1.ExtenderArgs) -> Pod:
    """The pod; raises `WireError` if it is missing, or if a text that it is known by is too long."""
    if args.pod is None:
        raise WireError("ExtenderArgs: Pod is missing")
    if what := too_long(args.pod):
        raise WireError(f"ExtenderArgs: the pod's {what} is longer than {LONGEST} characters")
    return args.pod


def asked_in(args: v1.ExtenderArgs) -> Asked:
    """The nodes of a request, without a look at the view."""
    if args.nodes is None:
        return Asked(_unique(args.node_names or []), None, wants_names=True)
    names = [node.name for node in decode_nodes(args.nodes.items or [])]
    return Asked(_unique(names), args.nodes, wants_names=args.node_names is not None)


def asked_as_sent(args: v1.ExtenderArgs) -> Asked:
    """The nodes of a request as they were sent, not decoded: no policy will look at them."""
    return Asked(
        args.node_names or [], args.nodes, wants_names=args.nodes is None or args.node_names is not None
    )


def _unique(names: list[str]) -> list[str]:
    """The names; `WireError` if one occurs twice, since the answer could list it only once."""
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise WireError(f"node {twice!r} is there twice")
    return names

"""Converts a decision and its inputs to the lines of a recording."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from bayplan.engine.choose import Choice
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.recording.attempts import VERB, encode_question, encode_verdict
from bayplan.recording.clusters import ClusterWriter
from bayplan.recording.lines import (
    Asked,
    Committed,
    Configuration,
    FullNodes,
    GivenUp,
    Item,
    Line,
    moment,
)
from bayplan.recording.readings import ReadingsWriter
from bayplan.recording.redact import kept_args, kept_pod, kept_preemption, without_nodes
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings
from bayplan.wire import v1
from bayplan.wire.codec import decode


@dataclass(frozen=True)
class Basis:
    """The inputs of the policies: the cluster, the readings, the time."""

    configuration: Configuration
    cluster: Snapshot | None
    readings: Readings
    attempt: Attempt
    expecting: Mapping[str, Collection[Pod]] = field(default_factory=dict)
    """Nominated pods, by node, which counted there."""


@dataclass(frozen=True)
class Answered:
    """A request and its answer."""

    verb: str
    body: bytes
    answer: bytes
    basis: Basis


@dataclass(frozen=True)
class Commitment:
    """A pod that is to be bound, and the result of the policies' last check."""

    pod: Pod
    node: str
    refusal: str
    annotations: Mapping[str, str]
    basis: Basis


@dataclass(frozen=True)
class Scheduled:
    """An attempt of the scheduler, and its result."""

    pod: Pod
    choice: Choice
    all_nodes: bool
    """False if only the decision's nodes were candidates: the pod's nominated node."""
    basis: Basis


class Narrator:
    """Writes decisions, each after the lines with what has changed before it."""

    def __init__(self) -> None:
        self._clusters = ClusterWriter()
        self._readings = ReadingsWriter()
        self._configuration: Configuration | None = None
        self._items: dict[bytes, int] = {}

    def forget(self) -> None:
        """Write everything anew before the next decision."""
        self._clusters.forget()
        self._readings.forget()
        self._configuration = None
        self._items.clear()

    def tell(self, what: Answered | Commitment | Scheduled) -> Iterator[Line]:
        """The lines of a decision, the decision itself last."""
        basis = what.basis
        anew = basis.configuration is not self._configuration
        if anew:
            # A reader that begins here, after damage, must find all that it needs.
            self.forget()
        # First of all, so that a request that cannot be written leaves no lines behind.
        told = self._told(what)
        if anew:
            yield basis.configuration
            self._configuration = basis.configuration
        if basis.cluster is not None:
            yield from self._clusters.lines(basis.cluster)
        yield from self._readings.lines(basis.readings)
        yield from told

    def _told(self, what: Answered | Commitment | Scheduled) -> list[Line]:
        if isinstance(what, Answered):
            return self._answered(what)
        return [_scheduled(what) if isinstance(what, Scheduled) else _committed(what)]

    def _answered(self, what: Answered) -> list[Line]:
        if what.verb == "preempt":
            preemption = decode(what.body, v1.ExtenderPreemptionArgs)
            return [_asked(what, preemption.pod, kept_preemption(preemption))]
        args = decode(what.body, v1.ExtenderArgs)
        if args.nodes is None:
            return [_asked(what, args.pod, kept_args(args))]
        lines: list[Line] = []
        numbers = []
        for item in args.nodes.items or []:
            digest = hashlib.blake2b(item, digest_size=16).digest()
            number = self._items.get(digest)
            if number is None:
                number = len(self._items)
                lines.append(Item(number=number, text=bytes(item).decode()))
                self._items[digest] = number
            numbers.append(number)
        nodes = FullNodes(bytes(args.nodes.metadata).decode(), numbers)
        return [*lines, _asked(what, args.pod, kept_args(args), nodes)]


def _asked(what: Answered, pod: Pod | None, request: bytes, nodes: FullNodes | None = None) -> Asked:
    answer, digest = what.answer, ""
    if nodes is not None and what.verb == "filter":
        answer, digest = without_nodes(what.answer)
    return Asked(
        **_seen(what.basis),
        verb=what.verb,
        pod=pod.key if pod else "",
        request=Raw(request),
        nodes=nodes,
        answer=Raw(answer),
        sha256=digest,
    )


def _scheduled(what: Scheduled) -> Asked:
    names = None if what.all_nodes else what.choice.filtered.nodes.names
    return Asked(
        **_seen(what.basis),
        verb=VERB,
        pod=what.pod.key,
        request=Raw(encode_question(what.pod, names)),
        answer=Raw(encode_verdict(what.choice)),
    )


def _committed(what: Commitment) -> Committed:
    return Committed(
        **_seen(what.basis),
        pod=kept_pod(what.pod),
        node=what.node,
        refusal=what.refusal,
        annotations=dict(what.annotations),
    )


def _seen(basis: Basis) -> dict[str, Any]:
    given_up = {
        policy: GivenUp(failure.kind, failure.text, failure.summary)
        for policy, failure in basis.attempt.given_up.items()
    }
    return {
        "at": moment(basis.attempt.now),
        "blind": basis.cluster is None,
        "expecting": {node: [kept_pod(pod) for pod in pods] for node, pods in basis.expecting.items()},
        "sources": list(basis.readings.by_source),
        "given_up": given_up,
        "turn": basis.attempt.turn or 0,
    }

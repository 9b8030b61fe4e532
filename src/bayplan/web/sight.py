"""The read-only view that the page has of a server."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.engine.entry import Entry
from bayplan.engine.journal import Journal
from bayplan.engine.ranking import ToWire
from bayplan.engine.shadowing import NO_SHADOW, ShadowReport
from bayplan.engine.why import Why, bound_node, explain
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import Column
from bayplan.snapshot.units import Units

Facts = Mapping[str, Mapping[str, Any]]
"""State of the server by subject: ``{"ledger": {"assumed": 0}}``."""


@dataclass(frozen=True)
class Sight:
    """The journal, the cluster, and how the server is."""

    journal: Journal
    cluster: Callable[[], Snapshot | None]
    """The cluster now; asked by the event loop's thread alone."""
    facts: Callable[[], Facts]
    to_wire: ToWire | None
    """Scores as kube-scheduler is told them; nothing where Bayplan places pods itself."""
    version: str = ""
    columns: Callable[[], Sequence[Column | Units]] = tuple
    """Columns that policies name, beside those that every cluster has."""
    policies: Callable[[], Sequence[str]] = tuple
    """Names of the policies at work."""
    schedulers: Callable[[], Collection[str]] = tuple
    """Where Bayplan places pods itself: the names that it does so by."""
    problems: Callable[[], Mapping[str, str]] = dict
    """What is wrong with the server, by subject; asked often, by the event loop's thread alone."""
    stands_by: Callable[[], str] = str
    """Who places pods while this server stands by; asked as ``problems`` are."""
    shadow: Callable[[], ShadowReport] = lambda: NO_SHADOW
    """How a candidate does beside them; asked by the event loop's thread alone."""

    def told(self, entry: Entry) -> list[int]:
        """The scores of an entry, as kube-scheduler was told them; empty where it was told none."""
        return [] if entry.total is None or self.to_wire is None else self.to_wire(entry.total)

    def why(self, key: str, cluster: Snapshot | None, *, weight: float = 1.0) -> Why | None:
        """What is known about the last attempt of the pod ``namespace/name``; in any thread."""
        entries = self.journal.of_pod(key)
        uid = entries[0].pod.uid if entries else ""
        # Where nobody watches pods, a bind of ours is all that is known.
        chosen = _node_of(uid, cluster) or bound_node(entries)
        names = None if cluster is None else cluster.nodes.names
        found = explain(entries, every_node=names, chosen=chosen, to_wire=self.to_wire, weight=weight)
        if found is None or cluster is None:
            return found
        if not cluster.pods_known:
            return msgspec.structs.replace(found, pods_followed=False)
        gone = bool(uid and found.chosen) and uid not in cluster.pods_by_uid
        return msgspec.structs.replace(found, gone=gone)


def _node_of(uid: str, cluster: Snapshot | None) -> str:
    if cluster is None or not cluster.pods_known:
        return ""
    pod = cluster.pods_by_uid.get(uid)
    return pod.node_name if pod else ""

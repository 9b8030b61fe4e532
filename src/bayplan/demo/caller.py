"""Asks the verbs the way kube-scheduler does: filter, prioritize, pick the best, bind.

Its own judgement is kept to what no policy should repeat: a node without room is not offered.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.view import FixedView


@dataclass(frozen=True)
class Placement:
    """The result for one pod."""

    pod: Pod
    node: str
    """Empty if the pod still waits."""
    offered: int
    passed: int
    score: int
    """The score on the wire, 0 to 10."""
    reasons: Counter[str] = field(default_factory=Counter)
    error: str = ""
    seconds: float = 0.0

    @property
    def event(self) -> str:
        """The line that kube-scheduler would put into the pod's event."""
        if self.error:
            return self.error
        why = ", ".join(f"{count} {text}" for text, count in sorted(self.reasons.items()))
        return f"0/{self.offered} nodes are available: {why}."


class MemoryBinder:
    """Stands in for the API server: binds by updating the view of the embedded cluster."""

    def __init__(self, view: FixedView, pods: dict[str, Pod]) -> None:
        self._view = view
        self._pods = pods

    async def bind(self, *, namespace: str, name: str, uid: str, node: str) -> None:
        """Place the pod on the node; does nothing if it is there already."""
        cluster, pod = self._view.current, self._pods.get(uid)
        if cluster is None or pod is None:
            raise LookupError(f"pod {namespace}/{name} is not in the embedded cluster")
        there = cluster.pods_by_uid.get(uid)
        if there is not None and there.node_name != node:
            raise ValueError(f"pod {namespace}/{name} is already bound to {there.node_name}")
        if there is None:
            self._view.replace(cluster.placed(_bound(pod, node), node))

    @property
    def cluster(self) -> Snapshot:
        """The embedded cluster as it is now."""
        assert self._view.current is not None, "the demo has a cluster from the start"
        return self._view.current

    def expect(self, pod: Pod) -> None:
        """Add a pod that may be bound."""
        self._pods[pod.uid] = pod

    def end_oldest(self, *, keep: int) -> None:
        """End the oldest pods, so that at most so many are left."""
        over = len(self._pods) - keep
        for uid in list(self._pods)[: max(0, over)]:
            del self._pods[uid]
            self._view.replace(self.cluster.without({uid}))


class Caller:
    """kube-scheduler's side of the conversation, over real HTTP."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def schedule(self, pod: Pod, cluster: Snapshot) -> Placement:
        """Find a node for the pod and bind it there."""
        start = time.perf_counter()
        names, reasons = _offer(pod, cluster)
        total = len(cluster.nodes)
        body: dict[str, object] = {"Pod": pod, "Nodes": None, "NodeNames": names}
        filtered = await self._ask("filter", body) if names else {"NodeNames": []}
        if filtered.get("Error"):
            return Placement(pod, "", total, 0, 0, error=filtered["Error"])
        reasons.update((filtered.get("FailedAndUnresolvableNodes") or {}).values())
        reasons.update((filtered.get("FailedNodes") or {}).values())
        passed = filtered["NodeNames"]
        if not passed:
            return Placement(pod, "", total, 0, 0, reasons, seconds=time.perf_counter() - start)
        best, score = passed[0], 0
        if len(passed) > 1:
            # Not asked when one node is left, just as kube-scheduler does it.
            priorities = await self._ask("prioritize", body | {"NodeNames": passed})
            top = max(priorities, key=lambda line: line["Score"])
            best, score = top["Host"], top["Score"]
        bound = await self._ask(
            "bind", {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": best}
        )
        seconds = time.perf_counter() - start
        if bound["Error"]:
            return Placement(pod, "", total, len(passed), score, reasons, bound["Error"], seconds)
        return Placement(pod, best, total, len(passed), score, reasons, seconds=seconds)

    async def _ask(self, verb: str, body: dict[str, object]) -> Any:
        async with self._session.post(f"{self._url}/{verb}", data=msgspec.json.encode(body)) as response:
            return msgspec.json.decode(await response.read())


def _offer(pod: Pod, cluster: Snapshot) -> tuple[list[str], Counter[str]]:
    """The nodes with room for the pod, and kube-scheduler's words about the others."""
    reasons: Counter[str] = Counter()
    offered = []
    for node in cluster.nodes:
        free = node.free
        short = [r for r in ("cpu", "memory") if free.get(r, 0) < pod.request(r)]
        if short:
            reasons[f"Insufficient {short[0]}"] += 1
        else:
            offered.append(node.name)
    return offered, reasons


def _bound(pod: Pod, node: str) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name=node) if pod.spec else None
    return msgspec.structs.replace(pod, spec=spec)

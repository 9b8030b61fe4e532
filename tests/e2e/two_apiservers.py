"""Two API servers on one etcd: Bayplan's binds go to the one, everything else to the other."""

from __future__ import annotations

import http.client
import queue
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from tests.controlplane.plane import ControlPlane, OtherApiServer
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json
from tests.e2e.fault_proxy import FaultProxy
from tests.e2e.one_per_node import free_for, wait_view
from tests.e2e.slices import create_owners


class RoutingProxy(FaultProxy):
    """Binds have connections that are open before they are needed.

    A frozen server takes in what is sent over an open connection, and cannot open a new one: what is
    sent over a new one is with the server only when it wakes up.
    """

    def __init__(self, cluster: ControlPlane, directory: Path, *, binds_to: str) -> None:
        super().__init__(cluster, directory)
        self.binds_to = binds_to
        self._ahead: queue.SimpleQueue[http.client.HTTPConnection] = queue.SimpleQueue()

    def server_close(self) -> None:
        """Close also what was opened and not needed."""
        super().server_close()
        while not self._ahead.empty():
            self._ahead.get().close()

    def open_ahead(self, count: int) -> None:
        """Make sure that the next so many binds find a connection that is open."""
        while self._ahead.qsize() < count:
            connection = self.new_connection(urlsplit(self.binds_to))
            connection.connect()
            self._ahead.put(connection)

    def connection_for(self, method: str, path: str) -> http.client.HTTPConnection:
        """To the API server of the binds, or to that of everything else."""
        if not _is_bind(method, path):
            return super().connection_for(method, path)
        try:
            return self._ahead.get_nowait()
        except queue.Empty:
            return self.new_connection(urlsplit(self.binds_to))

    def held(self) -> list[str]:
        """The pod of each bind that is with the API server and has no reply; one may be there often."""
        return [_pod(path) for method, path in list(self.unanswered) if _is_bind(method, path)]

    def statuses(self, pod: str) -> list[int]:
        """What the API server has said to the binds of a pod."""
        return [code for method, path, code in self.replies if _is_bind(method, path) and _pod(path) == pod]

    def every_bind_has_its_reply(self) -> bool:
        """Nothing that was sent can have an effect any more."""
        asked = sum(_is_bind(method, path) for method, path in list(self.seen))
        return asked == sum(_is_bind(method, path) for method, path, _ in list(self.replies))


@dataclass(frozen=True)
class Setting:
    """Bayplan binds through ``binder`` and does everything else through the API server of the cluster."""

    cluster: ControlPlane
    binder: OtherApiServer
    proxy: RoutingProxy
    bayplan: Extender

    def new_pods(self, *numbers: int) -> list[Json]:
        """New pods that want a slice each; Bayplan has seen them."""
        for number in numbers:
            create_owners(self.cluster, range(number, number + 1))
        wait_view(self.bayplan, self.cluster)
        return [self.cluster.api.get("pods", f"p{number}") for number in numbers]

    def wait_free(self, pod: Json) -> None:
        """Wait until the first node has a slice for the pod."""
        wait_until(lambda: free_for(self.bayplan, pod, ["n0"]), 20, what="the slice is free again")

    def wait_asked(self, numbers: range) -> None:
        """Wait until the API server was asked to bind each of these pods."""
        wait_until(
            lambda: all(self.proxy.count("POST", f"/p{number}/binding") for number in numbers),
            20,
            what="binds are under way",
            explain=self.bayplan.child.log_tail,
            poll_seconds=0.001,
        )

    def wait_settled(self) -> float:
        """Wait until every bind has had its effect and Bayplan knows it; how long that took."""
        since = time.monotonic()
        explain = self.bayplan.child.log_tail
        wait_until(self.proxy.every_bind_has_its_reply, 30, what="each bind has its reply", explain=explain)
        wait_until(lambda: self.unsettled() == 0, 30, what="every bind is settled", explain=explain)
        return time.monotonic() - since

    def unsettled(self) -> float:
        """How many binds have no outcome yet."""
        return self.bayplan.metric("bayplan_unsettled_binds")

    def lease(self) -> Json:
        """What the Lease says."""
        (lease,) = self.cluster.api.items("leases")
        spec: Json = lease["spec"]
        return spec

    def start_anew(self) -> None:
        """No pod is left, and Bayplan knows it."""
        self.cluster.api.delete_all("pods")
        wait_until(lambda: self.bayplan.metric("bayplan_view_pods") == 0, 30, what="the view has no pods")


def renewed(before: Json, now: Json) -> float:
    """Seconds from one renewal of the Lease to another."""
    first, last = (datetime.fromisoformat(spec["renewTime"]) for spec in (before, now))
    return (last - first).total_seconds()


def same_term(before: Json, now: Json) -> bool:
    """Nobody, and not its holder either, has had to take the Lease anew."""
    keys = ("holderIdentity", "leaseTransitions", "acquireTime")
    return all(before.get(key) == now.get(key) for key in keys)


def _is_bind(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/binding")


def _pod(path: str) -> str:
    return path.split("/")[-2]

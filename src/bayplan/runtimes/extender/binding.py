"""Binds pods through the ledger, then calls the policies' ``bound`` hooks."""

from collections.abc import Callable, Sequence

from bayplan.authoring.registry import Policy
from bayplan.runtimes.bound import TellBound
from bayplan.state.live import LiveCluster


class Binding:
    """Binds pods in a live cluster."""

    def __init__(
        self, live: LiveCluster, telling: TellBound, *, policies: Callable[[], Sequence[Policy]]
    ) -> None:
        self._live = live
        self._telling = telling
        self._policies = policies
        self.under_way = 0
        """How many binds wait for the API server."""

    async def bind(self, *, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod to the node; raises what the ledger raises."""
        key, cache = f"{namespace}/{name}", self._live.view.cache
        before = cache.pod(key)
        self.under_way += 1
        try:
            await self._live.ledger.bind(namespace=namespace, name=name, uid=uid, node=node)
        finally:
            self.under_way -= 1
        if before is not None and before.uid == uid and before.node_name:
            # kube-scheduler repeats a bind whose answer was lost: the hooks ran the first time.
            return
        pod = cache.pod(key)
        if pod is not None and pod.uid == uid and pod.node_name == node:
            self._telling.tell(self._policies(), pod, node)

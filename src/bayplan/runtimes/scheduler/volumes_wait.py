"""Waits until a controller has bound the volumes of a pod, by watch events, without holding up other pods.

Gives up with kube-scheduler's messages: a provisioner that failed removes the selected node from the claim,
and the pod must be judged again.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

from bayplan.kube.meta import NamedObject
from bayplan.kube.node import NodeObject
from bayplan.kube.volumes import PersistentVolume, PersistentVolumeClaim
from bayplan.policies.default_profile.claims import SELECTED_NODE, fully_bound
from bayplan.policies.default_profile.volume_binding import reachable
from bayplan.runtimes.scheduler.volumes_kept import CLAIM, VOLUME, Kept, VolumesRefused
from bayplan.snapshot.table import NodeTable
from bayplan.state.cache import Cache
from bayplan.state.objects import version_of

# Claims and volumes have watch events; deleted pods and nodes and a lost Lease are polled for.
_LOOK_SECONDS = 1.0


class VolumeWait:
    """The pods that have a node and wait for their volumes."""

    def __init__(
        self,
        cache: Cache,
        *,
        why_not: Callable[[], str] = lambda: "",
        term: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``why_not``: why this server may not bind; ``term`` changes when the Lease changes hands."""
        self._cache = cache
        self._why_not = why_not
        self._term = term
        self._clock = clock
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._stopped = False
        self.count = 0
        """How many pods wait."""
        cache.objects.listeners.append(self._heard)

    async def bound(self, kept: Kept) -> None:
        """Wait for all volumes of a pod; `VolumesRefused` if it must be judged again."""
        deadline = self._clock() + kept.seconds
        with self._listening(kept) as news:
            while not self._all_bound(kept):
                left_seconds = deadline - self._clock()
                if left_seconds <= 0:
                    raise VolumesRefused(f"timed out after {kept.seconds:.0f} s: {self._missing(kept)}")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left_seconds, _LOOK_SECONDS)):
                        await news.wait()
                news.clear()

    def stop(self) -> None:
        """Stop waiting; the next scheduler finds what was written."""
        self._stopped = True
        self._heard(CLAIM, None)

    @contextlib.contextmanager
    def _listening(self, kept: Kept) -> Iterator[asyncio.Event]:
        news = asyncio.Event()
        for key in kept.claims:
            self._waiting.setdefault(key, set()).add(news)
        self.count += 1
        try:
            yield news
        finally:
            self.count -= 1
            for key in kept.claims:
                self._waiting[key].discard(news)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _heard(self, kind: str, one: NamedObject | None) -> None:
        if isinstance(one, PersistentVolumeClaim):
            woken = self._waiting.get(one.key, ())
        elif isinstance(one, PersistentVolume):
            keeper = one.spec.claim_ref
            woken = self._waiting.get(f"{keeper.namespace}/{keeper.name}", ()) if keeper else ()
        elif one is None and kind in (CLAIM, VOLUME):
            woken = {event for events in self._waiting.values() for event in events}
        else:
            return
        for event in woken:
            event.set()

    def _all_bound(self, kept: Kept) -> bool:
        node = self._still_wanted(kept)
        done = [self._found(claim, volume, kept, node) for claim, volume in kept.found]
        return all(done + [self._made(claim, kept, node) for claim in kept.to_make])

    def _still_wanted(self, kept: Kept) -> NodeObject:
        """The node; `VolumesRefused` if the node, the pod or our Lease is gone."""
        if self._stopped:
            # The server stops; there is nothing to report about the pod.
            raise asyncio.CancelledError
        if problem := self._why_not():
            raise VolumesRefused(problem)
        if self._term() != kept.term:
            raise VolumesRefused("another one was the leader meanwhile")
        pod = self._cache.pod(kept.pod.key)
        if pod is None or pod.uid != kept.pod.uid or not self._cache.assumes(pod):
            raise VolumesRefused(f"pod {kept.pod.key} does not want its volumes any more")
        node = self._cache.node(kept.node)
        if node is None:
            raise VolumesRefused(f"node {kept.node} is gone")
        return node

    def _found(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, kept: Kept, node: NodeObject
    ) -> bool:
        """Whether a claim with an existing volume is bound."""
        there = self._told_claim(claim)
        now = self._cache.objects.told(VOLUME, volume.name)
        if not isinstance(now, PersistentVolume):
            raise VolumesRefused(f"volume {volume.name} is gone")
        if version_of(now) < version_of(kept.written[VOLUME, volume.name]):
            return False
        self._check_reach(now, node)
        if now.spec.claim_ref is None or not now.spec.claim_ref.uid:
            raise VolumesRefused(f'ClaimRef got reset for pv "{volume.name}"')
        return fully_bound(there)

    def _made(self, claim: PersistentVolumeClaim, kept: Kept, node: NodeObject) -> bool:
        """Whether a claim with a provisioned volume is bound."""
        there = self._told_claim(claim)
        if version_of(there) < version_of(kept.written[CLAIM, claim.key]):
            return False
        if there.annotations.get(SELECTED_NODE) != kept.node:
            raise VolumesRefused(f'provisioning failed for PVC "{claim.name}"')
        if not there.spec.volume_name:
            return False
        volume = self._cache.objects.told(VOLUME, there.spec.volume_name)
        if not isinstance(volume, PersistentVolume):
            # The watch of volumes may be behind that of claims.
            return False
        self._check_reach(volume, node)
        return fully_bound(there)

    def _told_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        there = self._cache.objects.told(CLAIM, claim.key)
        if not isinstance(there, PersistentVolumeClaim) or there.uid != claim.uid:
            raise VolumesRefused(f"claim {claim.key} is gone")
        return there

    def _check_reach(self, volume: PersistentVolume, node: NodeObject) -> None:
        if not reachable(NodeTable([node]), volume, self._cache.objects.freeze())[0]:
            raise VolumesRefused(f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"')

    def _missing(self, kept: Kept) -> str:
        told = (self._cache.objects.told(CLAIM, key) for key in sorted(kept.claims))
        claims = (claim for claim in told if isinstance(claim, PersistentVolumeClaim))
        left = ", ".join(claim.key for claim in claims if not fully_bound(claim))
        return f"no volume is bound to claim {left}"

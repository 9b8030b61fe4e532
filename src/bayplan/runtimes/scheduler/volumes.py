"""Binds volumes for claims in WaitForFirstConsumer mode: assumed at once, written before the pod is bound.

Assumed volumes count in our view, so that the next pod does not take the same one. What was written stays if
the bind fails: the API server has it then, and the next attempt finds it there.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec
import numpy as np

from bayplan.client.claims import WriteRefused, is_kept, keep_volume, select_node
from bayplan.client.rest import ApiClient
from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.meta import NO_META, NamedObject
from bayplan.kube.pod import Pod
from bayplan.kube.volumes import ObjectReference, PersistentVolume, PersistentVolumeClaim
from bayplan.policies.default_profile.claims import SELECTED_NODE, claim_name, find_claim, fully_bound
from bayplan.policies.default_profile.volume_offers import Offers
from bayplan.policies.default_profile.volume_picks import Picks, pick_volumes
from bayplan.runtimes.scheduler.volumes_kept import CLAIM, VOLUME, Kept, VolumesRefused
from bayplan.runtimes.scheduler.volumes_wait import VolumeWait
from bayplan.snapshot.objects import ObjectsOfKind
from bayplan.state.cache import Cache
from bayplan.state.objects import version_of

log = logging.getLogger(__name__)

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class Volumes:
    """Keeps volumes for pods' claims, and writes that to the API server."""

    def __init__(
        self,
        cache: Cache,
        client: ApiClient,
        *,
        seconds: Callable[[str], float | None],
        write_seconds: float,
        why_not: Callable[[], str] = lambda: "",
        term: Callable[[], int] = lambda: 0,
    ) -> None:
        """``seconds``: the time limit of a scheduler name; ``why_not``: why nothing may be written now."""
        self._cache = cache
        self._client = client
        self._seconds = seconds
        self._write_seconds = write_seconds
        self._why_not = why_not
        self._term = term
        self._offers = Offers(ObjectsOfKind())
        self.wait = VolumeWait(cache, why_not=why_not, term=term)

    def keep(self, pod: Pod, node: str) -> Kept | None:
        """Keep volumes on the node for the pod's unbound claims; ``None`` if it has none."""
        if not self._waits(pod):
            return None
        seconds = self._seconds(pod.scheduler_name)
        if seconds is None:
            return None
        picks = self._pick(pod, node)
        if picks.problem:
            raise VolumesRefused(picks.problem)
        kept = Kept(pod, node, self._term(), seconds, picks.found, picks.to_make)
        for claim, volume in picks.found:
            if not is_kept(volume, claim):
                self._assume(kept, VOLUME, _kept_for(volume, claim))
        for claim in picks.to_make:
            if claim.annotations.get(SELECTED_NODE) != node:
                self._assume(kept, CLAIM, _made_on(claim, node))
        return kept

    def release(self, kept: Kept) -> bool:
        """Release what was kept and is not written; whether there was anything."""
        freed = bool(kept.assumed)
        for (kind, _), one in kept.assumed.items():
            self._cache.objects.forget(kind, one)
        kept.assumed.clear()
        return freed

    async def write(self, kept: Kept) -> None:
        """Write what is kept to the API server; `VolumesRefused` if it refuses."""
        try:
            for claim, volume in kept.found:
                await self._write_volume(kept, claim, volume)
            for claim in kept.to_make:
                await self._write_claim(kept, claim)
        except WriteRefused as error:
            raise VolumesRefused(str(error)) from error

    def _waits(self, pod: Pod) -> bool:
        if not pod.volumes:
            return False
        objects = self._cache.objects.freeze()
        names = (claim_name(pod, volume) for volume in pod.volumes)
        claims = (find_claim(pod, name, objects) for name in names if name is not None)
        return any(claim is not None and not fully_bound(claim) for claim in claims)

    def _pick(self, pod: Pod, node: str) -> Picks:
        cluster = self._cache.snapshot()
        # A row of the whole table, so that its cached columns are used.
        row = cluster.nodes.take(np.array([cluster.rows[node]], dtype=np.intp), [node])
        self._offers = self._offers.followed_by(cluster.objects.of_kind(VOLUME))
        return pick_volumes(pod, row, cluster.objects, self._offers)

    def _assume(self, kept: Kept, kind: str, one: NamedObject) -> None:
        self._cache.objects.assume(kind, one)
        kept.assumed[kind, OBJECT_KINDS[kind].key(one)] = one

    async def _write_volume(self, kept: Kept, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        now = self._newest(VOLUME, volume)
        if not is_kept(now, claim):
            self._may_write(kept, VOLUME, before=volume, now=now)
            there = self._cache.objects.told(CLAIM, claim.key)
            if there is None or there.uid != claim.uid:
                raise VolumesRefused(f"claim {claim.key} is gone")
            now = await keep_volume(self._client, now, claim, timeout_seconds=self._write_seconds)
            self._cache.objects.assume(VOLUME, now)
            log.info("volume %s is kept for claim %s", now.name, claim.key, extra={"pod": kept.pod.key})
        self._known(kept, VOLUME, now)

    async def _write_claim(self, kept: Kept, claim: PersistentVolumeClaim) -> None:
        now = self._newest(CLAIM, claim)
        if now.annotations.get(SELECTED_NODE) != kept.node:
            self._may_write(kept, CLAIM, before=claim, now=now)
            now = await select_node(self._client, now, kept.node, timeout_seconds=self._write_seconds)
            self._cache.objects.assume(CLAIM, now)
            log.info("claim %s gets a volume made on %s", now.key, kept.node, extra={"pod": kept.pod.key})
        self._known(kept, CLAIM, now)

    def _newest(self, kind: str, chosen: T) -> T:
        """The newest version of the object: from the watch, or from the answer to a write of ours."""
        told = self._cache.objects.told(kind, OBJECT_KINDS[kind].key(chosen))
        if not isinstance(told, type(chosen)) or told.uid != chosen.uid:
            raise VolumesRefused(f"{kind} {chosen.name} is gone")
        return chosen if version_of(chosen) > version_of(told) else told

    def _may_write(self, kept: Kept, kind: str, *, before: NamedObject, now: NamedObject) -> None:
        if problem := self._why_not():
            raise VolumesRefused(problem)
        if self._term() != kept.term:
            raise VolumesRefused("another one was the leader meanwhile")
        if version_of(before) != version_of(now):
            raise VolumesRefused(f"{kind} {before.name} was changed meanwhile")

    def _known(self, kept: Kept, kind: str, one: NamedObject) -> None:
        """Note that the API server has the object, so that it is no longer released."""
        which = kind, OBJECT_KINDS[kind].key(one)
        kept.written[which] = one
        kept.assumed.pop(which, None)


def _kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    reference = ObjectReference(claim.namespace, claim.name, claim.uid)
    return msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference))


def _made_on(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    annotations = {**claim.annotations, SELECTED_NODE: node}
    metadata = msgspec.structs.replace(claim.metadata or NO_META, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=metadata)

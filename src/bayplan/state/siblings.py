"""Pods of one controller share their equal parts, and the values computed from them, to save memory and time.

A cluster of 150,000 pods has some thousand controllers. Each pod is decoded on its own, so without sharing
the same containers, labels and tolerations would be in memory once for each pod.
"""

from operator import attrgetter

from msgspec.structs import force_setattr

from bayplan.kube.meta import NO_META, ObjectMeta
from bayplan.kube.pod import NO_SPEC, Pod, PodSpec, same_resize

# Lists are sorted by namespace and name, so the pods of one controller mostly come one after another.
_REMEMBERED = 8192
# All cached properties of a pod depend on these fields and on its resize alone; and these take the memory.
_OF_SPEC = (
    "containers",
    "init_containers",
    "overhead",
    "resources",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "node_selector",
)
_OF_METADATA = ("namespace", "labels", "owner_references")
_spec_parts, _metadata_parts = attrgetter(*_OF_SPEC), attrgetter(*_OF_METADATA)


class Siblings:
    """Remembers the last pod of each controller."""

    def __init__(self, *, limit: int = _REMEMBERED) -> None:
        self._last: dict[str, Pod] = {}
        self._limit = limit

    def join(self, pod: Pod, known: Pod | None) -> None:
        """Let a pod share its equal parts with its own ``known`` state, or else with the last sibling."""
        owner = pod.owner
        like = known
        if owner is not None:
            like = known or self._last.pop(owner.uid, None)
            self._last[owner.uid] = pod
            if len(self._last) > self._limit:
                del self._last[next(iter(self._last))]
        if like is not None:
            share(like, pod)


def share(like: Pod, pod: Pod) -> None:
    """Replace parts of ``pod`` by the equal parts of ``like``, and take over what was computed from them."""
    was, now = like.spec or NO_SPEC, pod.spec or NO_SPEC
    parts = _spec_parts(was)
    if parts == _spec_parts(now):
        if now is not NO_SPEC:
            _set(now, _OF_SPEC, parts)
        # While a pod is being resized, its requests are not those of its spec.
        if same_resize(like, pod):
            pod.__dict__.update(like.__dict__)
    metadata, theirs = pod.metadata or NO_META, _metadata_parts(like.metadata or NO_META)
    if metadata is not NO_META and theirs == _metadata_parts(metadata):
        _set(metadata, _OF_METADATA, theirs)


def _set(struct: PodSpec | ObjectMeta, names: tuple[str, ...], values: tuple[object, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        if value is not None:
            force_setattr(struct, name, value)

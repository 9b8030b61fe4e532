"""Pods of one controller are alike: what they have in common is kept once, and worked out once.

A cluster of 150,000 pods has some thousand controllers. Each pod comes as text of its own, so without this
the same containers, labels and tolerations would be in memory once for each of them.
"""

from operator import attrgetter

from msgspec.structs import force_setattr

from bayplan.kube.meta import NO_META, ObjectMeta
from bayplan.kube.pod import NO_SPEC, Pod, PodSpec, same_resize

# A list comes by namespace and name, so pods of one controller come together, mostly.
_REMEMBERED = 8192
# Of these, and of a resize, everything is worked out that a pod remembers of itself; and they take memory.
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
    """The last pod of each controller."""

    def __init__(self, *, limit: int = _REMEMBERED) -> None:
        self._last: dict[str, Pod] = {}
        self._limit = limit

    def join(self, pod: Pod, known: Pod | None) -> None:
        """Let a pod share what it has in common with the one that is ``known`` in its place, or a sibling."""
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
    """Let ``pod`` have the parts of ``like`` that are equal, and what was worked out of them."""
    was, now = like.spec or NO_SPEC, pod.spec or NO_SPEC
    parts = _spec_parts(was)
    if parts == _spec_parts(now):
        if now is not NO_SPEC:
            _set(now, _OF_SPEC, parts)
        # While one is being resized, it asks for something else than its spec says.
        if same_resize(like, pod):
            pod.__dict__.update(like.__dict__)
    metadata, theirs = pod.metadata or NO_META, _metadata_parts(like.metadata or NO_META)
    if metadata is not NO_META and theirs == _metadata_parts(metadata):
        _set(metadata, _OF_METADATA, theirs)


def _set(struct: PodSpec | ObjectMeta, names: tuple[str, ...], values: tuple[object, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        if value is not None:
            force_setattr(struct, name, value)

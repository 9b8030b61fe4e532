"""What is attached to each node according to VolumeAttachments.

There may be one for each of tens of thousands of volumes. What is known is carried on: an event costs the
node that it is about, and nothing where it changes nothing of what is attached.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.blocks import Objects, ObjectsOfKind

Attached = tuple[str, str]
"""A driver, and what tells a volume from the driver's others."""

# More changes at once than so many, and it is quicker to begin anew.
_FEW = 200


@dataclass(frozen=True, eq=False)
class Attachments:
    """Attached volumes by node, and what they were worked out from."""

    on_node: Mapping[str, frozenset[Attached]]
    """The same object again while nothing was attached or detached."""
    _names: dict[str, frozenset[str]]
    """VolumeAttachments of each node."""
    _of_volume: dict[str, frozenset[str]]
    """VolumeAttachments of each volume."""
    _attachments: ObjectsOfKind
    _volumes: ObjectsOfKind

    def followed_by(self, objects: Objects) -> "Attachments":
        """What is attached at a later moment."""
        attachments, volumes = objects.of_kind("VolumeAttachment"), objects.of_kind("PersistentVolume")
        if attachments is self._attachments and volumes is self._volumes:
            return self
        changed = attachments.changed_since(self._attachments)
        of_volumes = volumes.changed_since(self._volumes)
        if changed is None or of_volumes is None or len(changed) + len(of_volumes) > _FEW:
            return _anew(attachments, volumes)
        names, of_volume = self._names, self._of_volume
        if changed:
            names, of_volume = dict(names), dict(of_volume)
        nodes: set[str] = set()
        for name in changed:
            before, now = self._attachments.get(name), attachments.get(name)
            for one, kept in ((before, False), (now, True)):
                if one is not None:
                    nodes.add(one.spec.node_name)
                    _keep(names, one.spec.node_name, name, kept=kept)
                    _keep(of_volume, _volume_of(one), name, kept=kept)
        for volume in of_volumes:
            nodes |= {attachments[name].spec.node_name for name in of_volume.get(volume, ())}
        fresh = {node: _attached(names.get(node, ()), attachments, volumes) for node in nodes}
        on_node = self.on_node
        if any(on_node.get(node, frozenset()) != there for node, there in fresh.items()):
            on_node = {**on_node, **fresh}
        return Attachments(on_node, names, of_volume, attachments, volumes)


NO_ATTACHMENTS = Attachments({}, {}, {}, ObjectsOfKind(), ObjectsOfKind())


def _anew(attachments: ObjectsOfKind, volumes: ObjectsOfKind) -> Attachments:
    names: dict[str, set[str]] = {}
    of_volume: dict[str, set[str]] = {}
    for name, one in attachments.items():
        names.setdefault(one.spec.node_name, set()).add(name)
        of_volume.setdefault(_volume_of(one), set()).add(name)
    return Attachments(
        {node: _attached(there, attachments, volumes) for node, there in names.items()},
        {node: frozenset(there) for node, there in names.items()},
        {volume: frozenset(those) for volume, those in of_volume.items()},
        attachments,
        volumes,
    )


def _keep(index: dict[str, frozenset[str]], key: str, name: str, *, kept: bool) -> None:
    there = index.get(key, frozenset())
    there = there | {name} if kept else there - {name}
    if there:
        index[key] = there
    else:
        index.pop(key, None)


def _volume_of(attachment: Any) -> str:
    name: str | None = attachment.spec.source.persistent_volume_name
    return name or ""


def _attached(
    names: Iterable[str], attachments: ObjectsOfKind, volumes: ObjectsOfKind
) -> frozenset[Attached]:
    """The volumes behind some VolumeAttachments, as far as a driver has them."""
    found: set[Attached] = set()
    for name in names:
        spec = attachments[name].spec
        volume = volumes.get(spec.source.persistent_volume_name or "")
        if spec.attacher and volume is not None and volume.spec.csi is not None:
            found.add((spec.attacher, volume.spec.csi.volume_handle))
    return frozenset(found)

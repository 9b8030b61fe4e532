"""Reads a snapshot from a file: the output of ``kubectl get nodes,pods -A -o json`` (or ``-o yaml``)."""

from pathlib import Path
from typing import Any

import msgspec

from bayplan.kube.kinds import EVERY_KIND
from bayplan.kube.meta import NO_META
from bayplan.kube.node import NodeWithImages
from bayplan.kube.pod import Pod
from bayplan.kube.unread import unread
from bayplan.kube.yaml import YamlError, read_documents
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import Objects


class SnapshotError(ValueError):
    """The file is not a snapshot; the text says where and what to do."""


class _Kind(msgspec.Struct):
    kind: str = ""


class _List(msgspec.Struct):
    items: list[msgspec.Raw]
    kind: str = ""


_LIST = msgspec.json.Decoder(_List)
_KIND = msgspec.json.Decoder(_Kind)
_OBJECTS: dict[str, msgspec.json.Decoder[Any]] = {
    "Node": msgspec.json.Decoder(NodeWithImages),
    "Pod": msgspec.json.Decoder(Pod),
    **{name: msgspec.json.Decoder(kind.part) for name, kind in EVERY_KIND.items()},
}
_Found = tuple[str, str, bytes | msgspec.Raw]
_HOW = "make one with: kubectl get nodes,pods -A -o json > cluster.json"


def load_snapshot(path: Path | str) -> Snapshot:
    """Read a snapshot file, JSON or YAML; kinds that scheduling does not look at are skipped."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SnapshotError(unread(path, error, or_else=f"; {_HOW}")) from error
    found: dict[str, list[Any]] = {kind: [] for kind in _OBJECTS}
    for where, kind, raw in _objects(content, path):
        if kind in _OBJECTS:
            found[kind].append(_decode(_OBJECTS[kind], raw, where))
            if not found[kind][-1].name:
                raise SnapshotError(f"{where}: a {kind} without metadata.name; {_HOW}")
    if not found["Node"]:
        raise SnapshotError(f"{path}: no nodes in it; {_HOW}")
    try:
        others = Objects.of((kind, one) for kind in EVERY_KIND for one in found[kind])
        return Snapshot.build(found["Node"], map(_with_uid, found["Pod"]), others)
    except ValueError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _with_uid(pod: Pod) -> Pod:
    """The pod with its key as UID, if it has none: pods without a UID would all count as the same pod."""
    if pod.uid:
        return pod
    metadata = msgspec.structs.replace(pod.metadata or NO_META, uid=pod.key)
    return msgspec.structs.replace(pod, metadata=metadata)


def _objects(content: bytes, path: Path) -> list[_Found]:
    """The objects of the file: the place, the kind and the JSON of each."""
    if content.lstrip()[:1] == b"{":
        return _flatten(content, str(path))
    found = []
    try:
        for document in read_documents(content, source=str(path)):
            if not isinstance(document.data, dict):
                raise SnapshotError(f"{path}:{document.line(())}: no object of Kubernetes; {_HOW}")
            encoded = msgspec.json.encode(document.data)
            found += _flatten(encoded, f"{path}:{document.line(())}")
    except YamlError as error:
        raise SnapshotError(f"{error}; {_HOW}") from error
    return found


def _flatten(content: bytes, where: str) -> list[_Found]:
    kind = _decode(_KIND, content, where).kind
    if not kind.endswith("List"):
        return [(where, kind, content)]
    # Items of a plain List have a kind; those of a NodeList or PodList have none.
    singular = kind.removesuffix("List")
    found: list[_Found] = []
    for number, item in enumerate(_decode(_LIST, content, where).items):
        place = f"{where} items[{number}]"
        found.append((place, singular or _decode(_KIND, item, place).kind, item))
    return found


def _decode(decoder: msgspec.json.Decoder[Any], content: bytes | msgspec.Raw, where: str) -> Any:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise SnapshotError(f"{where}: {error}; {_HOW}") from error

"""Claims, volumes and the like in a recording: told once, then what changed, and read back as they were."""

from typing import Any

import msgspec

from bayplan.kube.volumes import PersistentVolumeClaim
from bayplan.recording.clusters import ClusterReader, ClusterWriter
from bayplan.recording.lines import AnyLine, ObjectsChanged
from bayplan.recording.objects import ObjectsReader, ObjectsWriter
from bayplan.snapshot.objects import NO_OBJECTS, Objects
from bayplan.testing import make_cluster

CLAIM = "PersistentVolumeClaim"
MANIFEST = "kubectl.kubernetes.io/last-applied-configuration"


def claim(name: str, *, volume: str = "", annotations: dict[str, str] | None = None) -> Any:
    document = {
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": {"volumeName": volume},
    }
    return msgspec.convert(document, PersistentVolumeClaim)


def through(reader: ObjectsReader, lines: list[ObjectsChanged]) -> Objects:
    """What a reader makes of lines that were written down and read."""
    for line in lines:
        read = msgspec.json.decode(msgspec.json.encode(line), type=AnyLine)
        assert isinstance(read, ObjectsChanged)
        reader.apply(read)
    return reader.objects()


def test_only_what_changed_is_told_and_all_of_it_is_read_back() -> None:
    writer, reader = ObjectsWriter(), ObjectsReader()
    data, logs = claim("data"), claim("logs")
    first = Objects.of([(CLAIM, data), (CLAIM, logs)])
    assert through(reader, list(writer.lines(first))).claims == first.claims
    assert list(writer.lines(first)) == []

    bound = claim("data", volume="disk-1")
    second = Objects.of([(CLAIM, bound)])
    (line,) = writer.lines(second)
    assert (line.gone, len(line.came)) == (["shop/logs"], 1)
    assert through(reader, [line]).claims == {"shop/data": bound}

    (last,) = writer.lines(NO_OBJECTS)
    assert through(reader, [last]).claims == {}


def test_whoever_forgets_tells_all_again() -> None:
    writer = ObjectsWriter()
    objects = Objects.of([(CLAIM, claim("data"))])
    before = list(writer.lines(objects))

    writer.forget()

    assert list(writer.lines(objects)) == before


def test_the_manifest_that_it_was_made_from_stays_out() -> None:
    objects = Objects.of([(CLAIM, claim("data", annotations={MANIFEST: "secret", "kept": "yes"}))])

    read = through(ObjectsReader(), list(ObjectsWriter().lines(objects)))

    assert read.claims["shop/data"].annotations == {"kept": "yes"}


def test_objects_come_with_the_cluster_that_they_are_in() -> None:
    cluster = make_cluster(["node"])
    cluster.objects = Objects.of([(CLAIM, claim("data"))])
    reader = ClusterReader()

    for line in ClusterWriter().lines(cluster):
        reader.apply(line)

    assert list(reader.snapshot().objects.claims) == ["shop/data"]

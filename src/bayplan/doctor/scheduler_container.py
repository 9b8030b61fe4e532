"""A container that runs kube-scheduler: its flags, its version, and the volume that a file of it is on."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bayplan.doctor.command_line import Flag, Word, arguments_of, flags_of
from bayplan.doctor.finding import Page
from bayplan.doctor.manifests import called, pod_path, value_at
from bayplan.doctor.setting import Version
from bayplan.kube.yaml import Path

_PROGRAM = "kube-scheduler"
_ARCHITECTURE = re.compile(r"-(amd64|arm64|arm|ppc64le|s390x)$")
_TAGGED_AS_KUBERNETES = (_PROGRAM, "hardened-kubernetes", "hyperkube")
# An image of one's own may be called kube-scheduler:1.0, which is no version of Kubernetes.
_RELEASE = re.compile(r"v1\.\d+\.\d+\b.*")


@dataclass(frozen=True)
class Mount:
    """A part of a volume at a place in the container."""

    path: Path
    """Where the volume is written; the mount, where there is no such volume."""
    volume: Mapping[str, Any]
    inside: str
    """What is looked for, within the volume; ``.`` is all of it."""


@dataclass(frozen=True)
class SchedulerContainer:
    """One kube-scheduler of a manifest."""

    page: Page
    pod: Mapping[str, Any]
    """The spec of its pod."""
    path: Path
    data: Mapping[str, Any]
    words: tuple[Word, ...]
    """What kube-scheduler is given."""

    @property
    def name(self) -> str:
        """``container kube-scheduler of Pod kube-scheduler``."""
        return f"container {self.data.get('name') or self.path[-1]} of {called(self.page.data)}"

    @cached_property
    def flags(self) -> tuple[Flag, ...]:
        """Its flags, as they are written."""
        return tuple(flags_of(self.words))

    @property
    def all_said(self) -> bool:
        """Whether no variable stands where more flags may be."""
        return not any(word.startswith("$") for _, word in self.words)

    @property
    def is_upstream(self) -> bool:
        """Whether the image is one of Kubernetes: there is the program in it, and no configuration."""
        return _image(self.data)[0] == _PROGRAM

    @property
    def version(self) -> Version | None:
        """What the tag of the image says."""
        name, tag = _image(self.data)
        if name not in _TAGGED_AS_KUBERNETES or not _RELEASE.fullmatch(tag):
            return None
        try:
            return Version.read(tag)
        except ValueError:
            return None

    @property
    def config(self) -> Flag | None:
        """``--config``; of several the last one counts, and an empty one is none."""
        last = next((flag for flag in reversed(self.flags) if flag.name == "config"), None)
        return last if last and last.value else None

    @property
    def config_file(self) -> str:
        """The path in the container that ``--config`` names; empty where it cannot be known."""
        if self.config is None or "$" in self.config.value:
            return ""
        folder = self.data.get("workingDir")
        start = folder if isinstance(folder, str) and folder else "/"
        return posixpath.normpath(posixpath.join("/", start, self.config.value))

    def mount_of(self, file: str) -> Mount | None:
        """The mount that covers a path; the innermost of several."""
        covering = [found for found in self._mounts() if _covers(found[1], file)]
        if not covering:
            return None
        path, at, mount = max(covering, key=lambda found: len(found[1]))
        volume_path, volume = self._volume(mount.get("name"), default=path)
        rest = posixpath.relpath(file, at)
        part = mount.get("subPath")
        inside = posixpath.normpath(posixpath.join(part if isinstance(part, str) else "", rest))
        return Mount(volume_path, volume, inside)

    def _mounts(self) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
        for number, mount in _mappings(self.data.get("volumeMounts")):
            at = mount.get("mountPath")
            if isinstance(at, str) and at:
                yield (*self.path, "volumeMounts", number), posixpath.normpath(posixpath.join("/", at)), mount

    def _volume(self, name: Any, *, default: Path) -> tuple[Path, Mapping[str, Any]]:
        for number, volume in _mappings(self.pod.get("volumes")):
            if volume.get("name") == name:
                return (*self.path[:-2], "volumes", number), volume
        return default, {}


def scheduler_containers(pages: Iterable[Page]) -> list[SchedulerContainer]:
    """The containers that run kube-scheduler, in pods and templates of pods."""
    return [container for page in pages for container in _of(page)]


def _of(page: Page) -> Iterator[SchedulerContainer]:
    base = (*pod_path(page.data), "spec")
    spec = value_at(page.data, base)
    if not isinstance(spec, dict):
        return
    for number, container in _mappings(spec.get("containers")):
        path = (*base, "containers", number)
        words = arguments_of(container, path, program=_PROGRAM, image=_image(container)[0])
        if words is not None:
            yield SchedulerContainer(page, spec, path, container, tuple(words))


def _mappings(listed: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, dict):
            yield number, item


def _image(container: Mapping[str, Any]) -> tuple[str, str]:
    """Name and tag, without registry, architecture and digest."""
    image = container.get("image")
    last = (image if isinstance(image, str) else "").partition("@")[0].rpartition("/")[2]
    name, _, tag = last.partition(":")
    return _ARCHITECTURE.sub("", name), tag


def _covers(folder: str, file: str) -> bool:
    return file == folder or file.startswith(folder.rstrip("/") + "/")

"""Files that a configuration has read in the pod: which of them go along, and which somebody has to mount."""

import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayplan.config.v1 import BayplanConfiguration
from bayplan.install.configuration import CONFIG_DIRECTORY
from bayplan.install.errors import InstallError

MOUNT = "mount a volume with extraVolumes and extraVolumeMounts of the chart"
# What every pod has of its account.
_ACCOUNT = ("/var/run/secrets/kubernetes.io/serviceaccount", "/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Read:
    """A file that is read while the server runs."""

    key: str
    """Where it is named."""
    path: str
    secret: bool = False


def files_read(config: BayplanConfiguration) -> Iterator[Read]:
    """Every one that the configuration names, beside policies and profiles."""
    yield from files_of_sources(config)
    if config.page.token_file:
        yield Read("page.tokenFile", config.page.token_file, secret=True)


def files_of_sources(config: BayplanConfiguration) -> Iterator[Read]:
    """Those of sources; of a candidate these alone count."""
    for source in config.sources:
        if source.file is not None:
            yield Read(f"source {source.name}, path", source.file.path)
        access = source.prometheus or source.http
        if access is not None and access.ca_file:
            yield Read(f"source {source.name}, caFile", access.ca_file)
        if access is not None and access.bearer_token_file:
            yield Read(f"source {source.name}, bearerTokenFile", access.bearer_token_file, secret=True)


def brought(
    reads: Iterable[Read], base: Path, *, mounted: Sequence[str], given: Collection[str]
) -> tuple[list[Path], list[str]]:
    """The files that go along, and a line for each that the image would have to have.

    ``mounted`` are volumes of the user's own, ``given`` names in the ConfigMap. `InstallError` for a file
    that will never be there.
    """
    along: list[Path] = []
    warnings: list[str] = []
    for read in dict.fromkeys(reads):
        place = posixpath.normpath(posixpath.join(CONFIG_DIRECTORY, read.path))
        if any(_is_below(place, mount) for mount in (*mounted, *_ACCOUNT)):
            continue
        if not _is_below(place, CONFIG_DIRECTORY):
            warnings.append(
                f"{read.key}: nobody brings {place} into the pod: unless the image has it, {MOUNT}"
            )
        elif posixpath.relpath(place, CONFIG_DIRECTORY) not in given:
            along.append(_beside(read, base))
    return along, warnings


def _beside(read: Read, base: Path) -> Path:
    """The file on this machine, to be put beside the configuration."""
    if read.secret:
        raise InstallError(
            f"{read.key}: {read.path}: no secret goes into the ConfigMap at {CONFIG_DIRECTORY}: {MOUNT}, in a"
            " folder of its own, and name the file there, such as /etc/bayplan-token/token"
        )
    if posixpath.isabs(read.path):
        raise InstallError(
            f"{read.key}: {read.path}: nobody brings it into the ConfigMap at {CONFIG_DIRECTORY}: name a file"
            f" beside the configuration, without a folder; or {MOUNT}, elsewhere"
        )
    path = base / read.path
    if not path.is_file():
        raise InstallError(f"{read.key}: there is no file {path}; if it is made in the cluster, {MOUNT}")
    return path


def _is_below(place: str, folder: str) -> bool:
    return place == folder.rstrip("/") or place.startswith(f"{folder.rstrip('/')}/")

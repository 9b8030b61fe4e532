"""The user's configuration and the files of its policies, as a ConfigMap can hold them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayplan.config.candidate import candidate_path, candidate_source
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.watching import WatchedFiles
from bayplan.install.configuration import CONFIG_FILE
from bayplan.install.errors import InstallError
from bayplan.install.reads import MOUNT, brought, files_of_sources, files_read
from bayplan.install.workload import TMP_MEBIBYTES
from bayplan.kube.yaml import read_documents

# The API server takes a mebibyte, with the names and everything else.
_LARGEST_BYTES = 1_000_000
_WRITABLE = "/tmp/"  # noqa: S108 - of the container
_MEBIBYTE = 1024 * 1024
_ELSEWHERE = ("kubeconfig", "context", "snapshot")


@dataclass(frozen=True)
class Packed:
    """What a ConfigMap holds."""

    config: dict[str, Any]
    """The configuration as data."""
    texts: dict[str, str]
    """The files beside it."""
    warnings: tuple[str, ...] = ()
    """Files that are read in the pod, and that nobody seems to bring there."""


def pack(
    files: Sequence[str],
    flags: Flags,
    loaded: Loaded,
    *,
    mounted: Sequence[str] = (),
    given: Collection[str] = (),
) -> Packed:
    """What goes into the ConfigMap; ``mounted`` are the user's volumes, ``given`` files that it has."""
    config = _data(flags.config) if flags.config else _named(files)
    _refuse_what_cannot_be_written(loaded, mounted)
    base = flags.config.parent if flags.config else None
    candidate = _candidate(loaded)
    reads = [*files_read(loaded.config), *(files_of_sources(candidate[1].config) if candidate else ())]
    along, warnings = brought(reads, loaded.base, mounted=mounted, given=given)
    named = [
        *WatchedFiles(files, flags, loaded).paths,
        *(candidate[0] if candidate else ()),
        *_profiles(loaded),
        *along,
    ]
    beside = [path for path in dict.fromkeys(named) if path != flags.config]
    return Packed(config, _texts(beside, base), tuple(warnings))


def _data(path: Path) -> dict[str, Any]:
    document = next(iter(read_documents(path.read_bytes(), source=str(path))))
    # Said in so many words, since the chart has policies of its own for those who say nothing.
    data = {"policies": [], **document.data}
    if isinstance(cluster := data.get("cluster"), Mapping):
        # A pod is in its cluster. With a way to another one beside that, the server would not start.
        data["cluster"] = {key: value for key, value in cluster.items() if key not in _ELSEWHERE}
    return data


def _named(files: Sequence[str]) -> dict[str, Any]:
    """The configuration that a command line with policy files stands for."""
    uses = [Path(use).name if use.partition(":")[0].endswith(".py") else use for use in files]
    return {
        "apiVersion": "bayplan.dev/v1",
        "kind": "BayplanConfiguration",
        "policies": [{"use": use} for use in uses],
    }


def _candidate(loaded: Loaded) -> tuple[list[Path], Loaded] | None:
    """The files of the candidate, and what is in them."""
    path = candidate_path(loaded)
    if path is None:
        return None
    files, flags = candidate_source(path)
    candidate = load_all(files, flags)
    return [path, *WatchedFiles(files, flags, candidate).paths], candidate


def _profiles(loaded: Loaded) -> Iterable[Path]:
    names = [profile.kube_scheduler_config for profile in loaded.config.scheduler.profiles]
    return [loaded.base / name for name in names if name]


def _texts(paths: Sequence[Path], base: Path | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in paths:
        if path.name in found or path.name == CONFIG_FILE:
            raise InstallError(f"{path}: two files are called {path.name}: a ConfigMap has no folders")
        if base is not None and path.parent.resolve() != base.resolve():
            raise InstallError(
                f"{path}: a ConfigMap has no folders: put it beside the configuration, in {base.resolve()}"
            )
        try:
            found[path.name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InstallError(f"{path}: {error}") from error
    size = sum(len(text.encode()) for text in found.values())
    if size > _LARGEST_BYTES:
        raise InstallError(
            f"the files of the policies are {size} bytes: a ConfigMap holds {_LARGEST_BYTES}; build an image"
            " with the policies as an installed package, and name them as module:Class"
        )
    return found


def _refuse_what_cannot_be_written(loaded: Loaded, mounted: Sequence[str]) -> None:
    bytes_of_tmp = 0
    for key, path, size in _written(loaded):
        if any(path.startswith(f"{place.rstrip('/')}/") for place in mounted):
            continue
        if not path.startswith(_WRITABLE):
            raise InstallError(
                f"{key}: {path}: the container's root is read-only: write below {_WRITABLE}, or {MOUNT}"
            )
        bytes_of_tmp += size
        if bytes_of_tmp > TMP_MEBIBYTES * _MEBIBYTE:
            raise InstallError(
                f"{key}: up to {bytes_of_tmp // _MEBIBYTE} MiB are written below {_WRITABLE}, and the kubelet"
                f" ends pods with more than {TMP_MEBIBYTES} there: lower maxBytes and keep, or {MOUNT}"
            )


def _written(loaded: Loaded) -> Iterable[tuple[str, str, int]]:
    """Files that are written: the key, the path, and how many bytes with those that are kept."""
    journal, record = loaded.config.journal.file, loaded.config.record
    if journal:
        yield "journal.file.path", journal.path, journal.max_bytes * (journal.keep + 1)
    if record.file:
        yield "record.file", record.file, record.max_bytes * 2

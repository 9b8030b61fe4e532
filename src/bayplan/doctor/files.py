"""Files sorted by what is in them: kube-scheduler's configuration, old Policies, ours, manifests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayplan.config.standard_input import read_standard_input
from bayplan.doctor.finding import Page
from bayplan.kube.unread import unread
from bayplan.kube.yaml import Document, YamlError, read_documents, suggest

CONFIGURATION = "KubeSchedulerConfiguration"
STDIN = Path("-")
_GROUP = "kubescheduler.config.k8s.io"
_MEANT = (CONFIGURATION, "BayplanConfiguration")
_BEGINNINGS = ("kubescheduler", "bayplanconfig")
_POLICY_KEYS = {"predicates", "priorities", "extenders"}
_WORKLOADS = frozenset(
    {
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
    }
)


class UnreadableError(Exception):
    """A file that cannot be examined; the text says where and what to do."""


@dataclass
class Given:
    """What the files hold, each kind by itself."""

    schedulers: list[Page] = field(default_factory=list)
    policies: list[Page] = field(default_factory=list)
    """Legacy Policies, with predicates and priorities."""
    configurations: list[Page] = field(default_factory=list)
    """BayplanConfigurations."""
    workloads: list[Page] = field(default_factory=list)
    """Pods, and what has a template of pods."""
    config_maps: list[Page] = field(default_factory=list)
    """They are of use beside something that mounts them."""

    def joined(self, other: "Given") -> "Given":
        """Both together."""
        return Given(
            self.schedulers + other.schedulers,
            self.policies + other.policies,
            self.configurations + other.configurations,
            self.workloads + other.workloads,
            self.config_maps + other.config_maps,
        )

    def __bool__(self) -> bool:
        return bool(self.schedulers or self.policies or self.configurations or self.workloads)


def read_files(paths: Sequence[Path]) -> Given:
    """Everything in the files that can be examined; `UnreadableError` where all of them hold nothing of it.

    Beside others a file may hold other objects: a folder of manifests has Services in it, too. None at all is
    a file that went wrong on its way here.
    """
    given = Given()
    for path in paths:
        given = given.joined(_read(read_bytes(path), source=str(path)))
    return given if given or not paths else _must(given, source=", ".join(map(str, paths)))


def read_bytes(path: Path) -> bytes:
    """The content of a file, or of standard input for ``-``."""
    try:
        return read_standard_input() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise UnreadableError(unread(path, error)) from error


def read_text(text: bytes | str, *, source: str) -> Given:
    """Everything in a text that can be examined; `UnreadableError` where there is nothing of it."""
    return _must(_read(text, source=source), source=source)


def _read(text: bytes | str, *, source: str) -> Given:
    given = Given()
    try:
        pages = [
            Page(document, number) for number, document in enumerate(read_documents(text, source=source))
        ]
    except (YamlError, UnicodeDecodeError) as error:
        # What a parser says may have several lines.
        raise UnreadableError(" ".join(str(error).split())) from error
    # A list is nothing to examine, but no broken file: kubeadm's patches are lists.
    if not any(isinstance(page.data, dict | list) for page in pages):
        raise UnreadableError(f"{source}: there is no object in it")
    for page in pages:
        _sort(page, given)
    return given


def _must(given: Given, *, source: str) -> Given:
    if not given:
        raise UnreadableError(
            f"{source}: no {CONFIGURATION}, no Policy with predicates or extenders, no BayplanConfiguration"
            " and no pods in it; give what kube-scheduler's --config names, or manifests"
        )
    return given


def _sort(page: Page, given: Given) -> None:
    data = page.data
    if not isinstance(data, dict):
        return
    kind = data.get("kind")
    if kind == CONFIGURATION:
        given.schedulers.append(page)
    elif kind == "Policy" or (kind is None and _POLICY_KEYS & set(data)):
        given.policies.append(page)
    elif kind == "BayplanConfiguration":
        given.configurations.append(page)
    elif isinstance(kind, str) and kind in _WORKLOADS:
        given.workloads.append(page)
    else:
        if kind == "ConfigMap":
            given.config_maps.append(page)
        for inner in _inside(page):
            _sort(inner, given)


def _inside(page: Page) -> Iterator[Page]:
    """The objects in an object of another kind; `UnreadableError` for a kind that is misspelt."""
    data = page.data
    if data.get("kind") == "ConfigMap":
        yield from _embedded(page)
    elif isinstance(data.get("items"), list):
        for number, item in enumerate(data["items"]):
            yield _item(page, number, item)
    elif _nearly_ours(data):
        kind = data.get("kind")
        said = f"{kind!r} is no kind that is known{suggest(str(kind), _MEANT)}" if kind else "kind is missing"
        raise UnreadableError(f"{page.where(('kind',))}: {said}")


def _nearly_ours(data: dict[str, Any]) -> bool:
    """Whether a document is meant for kube-scheduler or for us, and nobody would read it."""
    group = str(data.get("apiVersion")).partition("/")[0]
    return group == _GROUP or str(data.get("kind")).lower().startswith(_BEGINNINGS)


def _item(page: Page, number: int, item: Any) -> Page:
    """An object of a List, with the lines that it has in the file."""
    start = ("items", number)
    lines = {path[2:]: line for path, line in page.document.lines.items() if path[:2] == start}
    return Page(Document(page.document.source, item, lines), page.number, embedded=True)


def _embedded(page: Page) -> Iterator[Page]:
    """The texts of a ConfigMap that are configurations; the lines are those of the file."""
    data = page.data.get("data")
    for key, text in data.items() if isinstance(data, dict) else ():
        if not isinstance(text, str) or not any(word in text for word in (CONFIGURATION, "predicates")):
            continue
        source = f"{page.document.source} ({key})"
        # The text of `key: |` begins on the line below.
        before = page.document.line(("data", key))
        try:
            for number, inner in enumerate(read_documents(text, source=source)):
                lines = {path: line + before for path, line in inner.lines.items()}
                yield Page(Document(page.document.source, inner.data, lines), number, embedded=True)
        except YamlError as error:
            raise UnreadableError(str(error)) from error

"""Reads the pod of a manifest: a pod, or the template in another object.

Reports mistakes that the API server would have found, and adds the defaults that it would have added.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bayplan.config.load import ConfigError, explain, place
from bayplan.config.standard_input import read_standard_input
from bayplan.kube.pod import Pod
from bayplan.kube.pod_keys import Steps, mistyped_keys, mistyped_metadata
from bayplan.kube.quantity import QuantityError, amount
from bayplan.kube.unread import unread
from bayplan.kube.yaml import Document, YamlError, read_documents
from bayplan.runtimes.simulator.admitted import defaulted, with_host_ports

_TEMPLATE: Steps = ("spec", "template")
_TEMPLATES: dict[str, Steps] = {
    "Pod": (),
    "Deployment": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}


@dataclass(frozen=True)
class Manifest:
    """The objects of a file, at least one of which makes pods."""

    makers: tuple[tuple[Document, Steps], ...]
    """Those that do, and where they are."""
    namespace: str | None = None

    @property
    def first(self) -> Pod:
        """The pod of the first object that makes pods."""
        return self._pod(*self.makers[0])

    @property
    def sample(self) -> bool:
        """Whether the manifest is a single pod, whose controller is not in the file."""
        document, at = self.makers[0]
        return len(self.makers) == 1 and _walk(document.data, (*at, "kind")) in ("Pod", "PodTemplate")

    def every(self) -> list[tuple[Pod, int]]:
        """The pod of each object that makes pods, and how many of it run at a time."""
        return [(self._pod(*maker), _copies(*maker)) for maker in self.makers]

    def _pod(self, document: Document, at: Steps) -> Pod:
        steps = _template(_walk(document.data, at))
        assert steps is not None, "it makes pods"
        return _pod(document, at, steps, self.namespace)


def read_pod(path: str, *, namespace: str | None = None) -> Pod:
    """The first pod of the manifest in a file, or on standard input for ``-``."""
    return read_manifest(path, namespace=namespace).first


def read_manifest(path: str, *, namespace: str | None = None) -> Manifest:
    """Read a file, or standard input for ``-``; ``namespace`` is for objects without one."""
    try:
        content = read_standard_input() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(unread(path, error)) from error
    return manifest_of(content, source="standard input" if path == "-" else path, namespace=namespace)


def pod_of(content: bytes, *, source: str, namespace: str | None = None) -> Pod:
    """The first pod of these documents."""
    return manifest_of(content, source=source, namespace=namespace).first


def manifest_of(content: bytes, *, source: str, namespace: str | None = None) -> Manifest:
    """The manifest of these documents."""
    try:
        found = [each for document in read_documents(content, source=source) for each in _objects(document)]
    except (YamlError, UnicodeDecodeError) as error:
        raise ConfigError(str(error) if isinstance(error, YamlError) else f"{source}: {error}") from error
    makers = [(document, at) for document, at in found if _template(_walk(document.data, at)) is not None]
    if makers:
        return Manifest(tuple(makers), namespace)
    kinds = sorted({str(_walk(document.data, at).get("kind", "no kind")) for document, at in found})
    raise ConfigError(
        f"{source}: no pod in it, and nothing that makes pods: there is {', '.join(kinds) or 'nothing'};"
        " want a Pod, or a Deployment, StatefulSet, Job and the like"
    )


def _objects(document: Document) -> Iterator[tuple[Document, Steps]]:
    """The objects of a document, and where they are: those of a list, or itself."""
    data = document.data
    if not isinstance(data, dict):
        raise ConfigError(f"{place(document, ())}: want an object with `kind`")
    if not str(data.get("kind", "")).endswith("List") or not isinstance(data.get("items"), list):
        yield document, ()
        return
    for number, item in enumerate(data["items"]):
        if not isinstance(item, dict):
            raise ConfigError(f"{place(document, ('items', number))}: want an object with `kind`")
        yield document, ("items", number)


def _template(data: Any) -> Steps | None:
    """The path to the pod in the object; ``None`` for an object that makes no pods."""
    kind = str(data.get("kind", ""))
    if kind in _TEMPLATES:
        return _TEMPLATES[kind]
    spec = _walk(data, (*_TEMPLATE, "spec"))
    return _TEMPLATE if isinstance(spec, dict) and "containers" in spec else None


def _copies(document: Document, at: Steps) -> int:
    """How many pods of the object run at the same time."""
    kind = _walk(document.data, (*at, "kind"))
    if kind in ("Pod", "PodTemplate", "DaemonSet"):
        return 1
    spec: Steps = (*at, "spec", "jobTemplate", "spec") if kind == "CronJob" else (*at, "spec")
    if kind not in ("Job", "CronJob"):
        return _number(document, (*spec, "replicas"))
    at_once = _number(document, (*spec, "parallelism"))
    return min(at_once, _number(document, (*spec, "completions"), default=at_once))


def _number(document: Document, at: Steps, *, default: int = 1) -> int:
    said = _walk(document.data, at)
    if said is None:
        return default
    if isinstance(said, bool) or not isinstance(said, int) or said < 0:
        raise ConfigError(f"{place(document, at)}: want a number, 0 or more; got {said!r}")
    return said


def _pod(document: Document, at: Steps, steps: Steps, namespace: str | None) -> Pod:
    base = (*at, *steps)
    body = _walk(document.data, base)
    if not isinstance(body, dict):
        raise ConfigError(f"{place(document, base)}: the template of the pod is missing")
    _check_metadata(document, (*at, "metadata"))
    _check_metadata(document, (*base, "metadata"))
    _check(document, base, body)
    whole = _mapping(_walk(document.data, (*at, "metadata")))
    name = whole.get("name") or whole.get("generateName")
    if not name:
        raise ConfigError(f"{place(document, (*at, 'metadata'))}: `name` is missing")
    there = whole.get("namespace")
    if there and namespace and there != namespace:
        where = place(document, (*at, "metadata", "namespace"))
        raise ConfigError(f"{where}: it is {there!r}, and -n says {namespace!r}: give one of them")
    metadata = {**_mapping(body.get("metadata")), "name": name, "namespace": there or namespace}
    try:
        pod = msgspec.convert({"metadata": metadata, "spec": with_host_ports(body["spec"])}, Pod)
    except msgspec.ValidationError as error:
        raise explain(error, document, Pod, base=base) from error
    _check_quantities(document, base, pod)
    return defaulted(pod)


def _check(document: Document, base: Steps, body: dict[str, Any]) -> None:
    """Report mistakes that decoding only some fields would miss."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        raise ConfigError(f"{place(document, base)}: `spec` is missing")
    _refuse(document, (*base, "spec"), mistyped_keys(spec))
    if not spec.get("containers"):
        raise ConfigError(f"{place(document, (*base, 'spec'))}: `containers` is missing")


def _check_metadata(document: Document, base: Steps) -> None:
    """Report keys such as ``label``, which decoding only some fields would miss."""
    _refuse(document, base, mistyped_metadata(_walk(document.data, base)))


def _refuse(document: Document, base: Steps, mistyped: Iterator[tuple[Steps, str]]) -> None:
    for steps, meant in mistyped:
        raise ConfigError(f"{place(document, (*base, *steps))}: unknown key; did you mean {meant!r}?")


def _check_quantities(document: Document, base: Steps, pod: Pod) -> None:
    for kind, containers in (("containers", pod.containers), ("initContainers", pod.init_containers)):
        for number, container in enumerate(containers):
            resources = container.resources
            asked = {"requests": resources.requests, "limits": resources.limits} if resources else {}
            for which, quantities in asked.items():
                for resource, text in (quantities or {}).items():
                    try:
                        amount(resource, text)
                    except QuantityError as error:
                        at = (*base, "spec", kind, number, "resources", which, resource)
                        raise ConfigError(f"{place(document, at)}: {error}") from error


def _walk(data: Any, steps: Steps) -> Any:
    for step in steps:
        data = data[step] if isinstance(step, int) else _mapping(data).get(step)
    return data


def _mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}

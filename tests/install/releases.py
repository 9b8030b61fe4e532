"""Installations to look at: every shape, on old and new versions, with what makes a difference."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bayplan.config.flags import Flags
from bayplan.install.documents import objects
from bayplan.install.names import Release
from bayplan.install.plan import Wishes, plan
from bayplan.install.versions import NEWEST, OLDEST, parse_version

Object = dict[str, Any]

# Around each place where versions differ, and both ends.
VERSIONS = [f"1.{minor}" for minor in (OLDEST, 26, 27, 28, 29, 30, 31, 33, 36, NEWEST)]
ATTACHED = ("service", "control-plane")

ONLY_SSD = """
    import bayplan

    @bayplan.filter
    def ssd(pod, node):
        return None if node.labels.get("disk") == "ssd" else "no SSD"
"""
NEAREST = """
    import bayplan

    @bayplan.score
    def nearest(pod, node):
        return 1
"""
ONE_EACH = """
    import bayplan

    @bayplan.filter(recheck=True)
    def alone(pod, node):
        return None if not node.pods else "taken"
"""


def policy(folder: Path, code: str = ONLY_SSD, name: str = "policy.py") -> Path:
    """A file with a policy."""
    path = folder / name
    path.write_text(textwrap.dedent(code))
    return path


def configuration(folder: Path, text: str, name: str = "bayplan.yaml") -> Path:
    """A file with a configuration."""
    path = folder / name
    path.write_text(f"apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n{textwrap.dedent(text)}")
    return path


def made(
    shape: Any,
    file: Path,
    *,
    version: str = "1.36",
    namespace: str = "kube-system",
    **over: Any,
) -> Release:
    """An installation of a policy or a configuration; attached shapes are ignorable unless it says else."""
    if shape in ATTACHED and "extender" not in over:
        over["extender"] = {"ignorable": True}
    wishes = Wishes(shape=shape, version=parse_version(version), namespace=namespace, over=over)
    if file.suffix == ".py":
        return plan([str(file)], Flags(), wishes)
    return plan([], Flags(config=file), wishes)


def found(release: Release) -> list[Object]:
    """Its objects."""
    return list(objects(release))


def of_kind(kind: str, some: Iterable[Object], name: str = "") -> Object:
    """The one object of a kind, and of a name where there are several."""
    (one,) = [each for each in some if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    return one


def pod_spec(some: Iterable[Object]) -> Object:
    """The spec of the pods that they make."""
    (workload,) = [each for each in some if each["kind"] in ("Deployment", "DaemonSet")]
    spec: Object = workload["spec"]["template"]["spec"]
    return spec


def containers(spec: Object) -> dict[str, Object]:
    """All containers of a pod, by name."""
    return {each["name"]: each for each in (*spec.get("initContainers", ()), *spec["containers"])}

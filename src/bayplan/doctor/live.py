"""Reads a live cluster; only this part of doctor sends requests."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import msgspec

from bayplan.client.connect import Connection
from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient, Resource
from bayplan.doctor.cluster import Cluster
from bayplan.doctor.files import Given, UnreadableError, read_text
from bayplan.doctor.finding import Page as FilePage
from bayplan.doctor.live_handshake import shake_hands
from bayplan.doctor.live_rights import Account, ask_rights
from bayplan.doctor.manifests import ANNOTATION, is_bayplan, schedules, value_at
from bayplan.doctor.rights import Right, needed, needed_to_schedule
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.setting import Setting, Version

T = TypeVar("T")
_CONTROL_PLANE = "kube-system"


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = "default"
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Container(msgspec.Struct):
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    scheduler_name: str = ""
    service_account_name: str = ""
    containers: list[_Container] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, Any] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _ConfigMap(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] | None = None


class _VersionInfo(msgspec.Struct, rename="camel"):
    git_version: str = ""


def look(
    connection: Connection, files: Given, setting: Setting, *, fixed_version: bool
) -> tuple[Cluster, Setting]:
    """The cluster, and the setting with what it says: its version, unless that is given, and its nodes."""
    return asyncio.run(_look(connection, files, setting, fixed_version=fixed_version))


async def _look(
    connection: Connection, files: Given, setting: Setting, *, fixed_version: bool
) -> tuple[Cluster, Setting]:
    async with ApiClient(connection) as client:
        version, skew = await _version_and_clock(client)
        unseen: list[str] = []
        nodes = await _seen(unseen, "nodes", lambda: client.list(Resource.of("/api/v1/nodes", _Node)))
        pods = await _seen(unseen, "pods", lambda: client.list(Resource.of("/api/v1/pods", _Pod)))
        # One at a time: of a hundred thousand pods, a few matter.
        known = (msgspec.to_builtins(pod) for pod in (pods[0] if pods else ()))
        kept = [pod for pod in known if is_bayplan(pod) or _asks(pod)]
        ours = [pod for pod in kept if is_bayplan(pod)]
        given, nodes_only = await _configurations(client, ours, unseen)
        read = version if not fixed_version else str(setting.version)
        setting = replace(setting, version=_read(read, setting), version_from="")
        if nodes is not None:
            advertised = {name for node in nodes[0] for name in node.status.allocatable or ()}
            setting = replace(setting, nodes=len(nodes[0]), advertised=frozenset(advertised))
        pages: Sequence[FilePage] = [*files.schedulers, *given.schedulers]
        schedulers = [SchedulerFile(page) for page in pages]
        accounts = _accounts(ours, schedulers, setting, nodes_only)
        rights = await ask_rights(client, accounts, needed(schedulers, setting), unseen)
    # The loopback of a pod is not that of this machine, where somebody else may answer.
    called = [
        (file, entry)
        for file in schedulers
        for entry in file.entries
        if entry.url and not (entry.local and file.page in given.schedulers)
    ]
    shakes = [await shake_hands(file, entry) for file, entry in called]
    cluster = Cluster(
        server=connection.server,
        version=version,
        skew_seconds=skew,
        pods=kept,
        rights=rights,
        given=given,
        handshakes=shakes,
        unseen=unseen,
    )
    return cluster, setting


def _accounts(
    pods: Sequence[Any], schedulers: Sequence[SchedulerFile], setting: Setting, nodes_only: Container[str]
) -> dict[Account, list[Right]]:
    """The service accounts of our pods, each with the rights that they need for what they run."""
    found: dict[Account, list[Right]] = {}
    for pod in pods:
        namespace = pod["metadata"]["namespace"]
        account = namespace, pod["spec"].get("serviceAccountName") or "default"
        wanted = (
            needed_to_schedule(setting)
            if schedules(pod)
            else needed(schedulers, setting, nodes_only=namespace in nodes_only)
        )
        known = found.setdefault(account, [])
        known += [right for right in wanted if right not in known]
    return found


def _asks(pod: Any) -> bool:
    return ANNOTATION in (pod["metadata"].get("annotations") or {})


async def _version_and_clock(client: ApiClient) -> tuple[str, float | None]:
    before = time.time()
    body = await client.request("GET", "/version", doing="asking for the version")
    # The header counts whole seconds: on average it is half a second old when it is written.
    now = (before + time.time()) / 2 - 0.5
    try:
        info = msgspec.json.decode(body, type=_VersionInfo)
    except msgspec.MsgspecError as error:
        raise ConnectError(f"/version: not what an API server sends: {error}") from error
    try:
        theirs = parsedate_to_datetime(client.server_date)
    except ValueError:
        return info.git_version, None
    return info.git_version, (theirs - datetime.fromtimestamp(now, UTC)).total_seconds()


def _read(text: str, setting: Setting) -> Version:
    try:
        return Version.read(text)
    except ValueError:
        return setting.version


async def _seen(unseen: list[str], what: str, ask: Callable[[], Awaitable[T]]) -> T | None:
    """What was asked for; what the user may not see is noted down."""
    try:
        return await ask()
    except ApiError as error:
        if error.status not in (401, 403):
            raise
        unseen.append(f"{what}: {error.message}")
        return None


async def _configurations(
    client: ApiClient, ours: Sequence[Any], unseen: list[str]
) -> tuple[Given, set[str]]:
    """Configurations of kube-scheduler in ConfigMaps, where control planes and our own pods are; and the
    namespaces in which one of ours says that nodes alone are followed.
    """
    given = Given()
    nodes_only: set[str] = set()
    for namespace in sorted({_CONTROL_PLANE, *(pod["metadata"]["namespace"] for pod in ours)}):
        resource = Resource.of(f"/api/v1/namespaces/{namespace}/configmaps", _ConfigMap)
        found = await _seen(unseen, f"ConfigMaps of {namespace}", lambda r=resource: client.list(r))  # type: ignore[misc]
        for map_ in found[0] if found else ():
            for key, text in (map_.data or {}).items():
                if "nodesOnly" in text and _nodes_only(text):
                    nodes_only.add(namespace)
                if "KubeSchedulerConfiguration" in text:
                    _add(given, text, f"configmap {namespace}/{map_.metadata.name} ({key})", unseen)
    return given, nodes_only


def _nodes_only(text: str) -> bool:
    try:
        return any(
            value_at(page.data, ("cluster", "nodesOnly")) is True
            for page in read_text(text, source="").configurations
        )
    except UnreadableError:  # a policy, or whatever else is in a ConfigMap
        return False


def _add(given: Given, text: str, source: str, unseen: list[str]) -> None:
    try:
        pages = read_text(text, source=source).schedulers
        # Nobody can edit it here.
        given.schedulers += [replace(page, embedded=True) for page in pages]
    except UnreadableError as error:
        unseen.append(str(error))

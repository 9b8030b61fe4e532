"""Opens the cluster that the configuration names."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from bayplan.client.connect import Connection, default_kubeconfigs, from_kubeconfig, in_cluster
from bayplan.client.rest import ApiClient
from bayplan.config.flags import Loaded
from bayplan.config.load import SettingError
from bayplan.config.v1 import LIVE, ClusterSection
from bayplan.config.where import naming_the_line
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.files import load_snapshot
from bayplan.state.view import list_cluster


def open_cluster(section: ClusterSection, base: Path) -> tuple[Snapshot | None, Connection | None]:
    """A snapshot, or a connection to the API server, or neither; paths are relative to ``base``."""
    for key, source in (("kubeconfig", "kubeconfig"), ("context", "kubeconfig"), ("snapshot", "snapshot")):
        if getattr(section, key) and section.source != source:
            raise SettingError(
                f"cluster.{key}", f" is given, and cluster.source is {section.source}: set `source: {source}`"
            )
    if section.nodes_only and section.source not in LIVE:
        raise SettingError(
            "cluster.nodesOnly",
            f" needs a cluster that is followed, and cluster.source is {section.source}:"
            " take it away, or give --kubeconfig or --in-cluster",
        )
    if section.source == "snapshot":
        if not section.snapshot:
            raise SettingError(
                "cluster.source", " is snapshot: give the file as cluster.snapshot or --snapshot"
            )
        return load_snapshot(base / section.snapshot), None
    if section.source == "kubeconfig":
        paths = [base / section.kubeconfig] if section.kubeconfig else default_kubeconfigs()
        return None, from_kubeconfig(*paths, context=section.context)
    if section.source == "in-cluster":
        return None, in_cluster()
    return None, None


def take_snapshot(loaded: Loaded, *, kinds: Iterable[str] = (), images: bool = False) -> Snapshot | None:
    """The cluster now; ``None`` if only requests bring nodes.

    ``kinds`` are those of objects that are wanted beside nodes and pods, as far as they may be read, with
    ``images`` those on nodes: a file has what it has.
    """
    section = loaded.config.cluster
    with naming_the_line(loaded):
        snapshot, connection = open_cluster(section, loaded.base)
    if connection is None:
        return snapshot

    async def take() -> Snapshot:
        async with ApiClient(connection) as client:
            return await list_cluster(client, nodes_only=section.nodes_only, kinds=kinds, images=images)

    return asyncio.run(take())

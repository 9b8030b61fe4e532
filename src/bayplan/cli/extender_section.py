"""What keeps ``bayplan serve`` from starting in a pod: better here than there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.config.flags import Flags


def check_extender(files: Sequence[str], flags: "Flags", *, alone: bool) -> None:
    """`ConfigError` for what a server in a cluster would refuse.

    ``alone``: it is the only one that its kube-scheduler asks, and needs no Lease.
    """
    from dataclasses import replace

    import msgspec

    from bayplan.authoring.editions import anew
    from bayplan.config.check import dry_run, refuse
    from bayplan.config.flags import load_all
    from bayplan.runtimes.extender.options import check_section

    with anew():
        loaded = load_all(files, flags)
        config = loaded.config
        cluster = msgspec.structs.replace(config.cluster, source="in-cluster")
        lease = msgspec.structs.replace(config.extender.lease, use="never" if alone else "auto")
        extender = msgspec.structs.replace(config.extender, lease=lease)
        inside = replace(loaded, config=msgspec.structs.replace(config, cluster=cluster, extender=extender))
        where = f"{flags.config}: " if flags.config else ""
        if cluster.nodes_only:
            # Only hooks themselves show that they look at pods.
            dry_run(inside, where=where)
        else:
            refuse(inside, where=where)
        check_section(inside)

"""The columns that policies can read, for ``bayplan columns``."""

from collections.abc import Sequence

from bayplan.config.cluster import take_snapshot
from bayplan.config.flags import Flags, load_all
from bayplan.config.rehearse import example_cluster
from bayplan.snapshot.describe import ColumnInfo, describe


def describe_columns(files: Sequence[str], flags: Flags) -> list[ColumnInfo]:
    """Every named column, and every typed one that a policy names."""
    loaded = load_all(files, flags)
    snapshot = take_snapshot(loaded.config.cluster, loaded.base)
    declared = {column: None for policy in loaded.policies for column in policy.columns}
    return describe((snapshot or example_cluster(0)).nodes, list(declared), example=snapshot is None)

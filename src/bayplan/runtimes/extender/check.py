"""Everything that ``bayplan serve`` would find out at its start, without serving."""

from collections.abc import Sequence

from bayplan import __version__
from bayplan.config.candidate import candidate_path, load_candidate
from bayplan.config.check import Report, faults, hints, load_checked
from bayplan.config.cluster import take_snapshot
from bayplan.config.flags import Flags
from bayplan.config.labels import label_hints
from bayplan.config.rehearse import rehearse
from bayplan.runtimes.extender.options import options_from


def check(files: Sequence[str], flags: Flags) -> Report:
    """Load, dry-run, read certificates, and try every hook on the nodes of the cluster that is named."""
    loaded, problems = load_checked(files, flags)
    options = options_from(loaded, version=__version__)
    if options.tls is not None:
        options.tls.context()
    candidate = candidate_path(loaded)
    beside = load_candidate(candidate, loaded).problems if candidate is not None else ()
    of_candidate = [f"shadow: {problem}" for problem in beside]
    cluster = options.snapshot or take_snapshot(loaded.config.cluster, loaded.base)
    if cluster is None:
        problems += of_candidate
        return Report(loaded.policies, problems, hints=[] if problems else hints(loaded.policies))
    # On its nodes, instead of made-up ones alone: what is wrong with both would be said twice.
    problems = rehearse(loaded.policies, pods_known=cluster.pods_known, cluster=cluster)
    problems += faults(loaded.policies) + of_candidate
    if options.snapshot is not None and cluster.pods_known and not cluster.pods:
        problems.append(
            "the snapshot has no pods, so every node looks empty; make it anew:"
            " kubectl get nodes,pods -A -o json > FILE"
        )
    tried_on = f"0, 1 and 3 nodes, and on the cluster's {len(cluster.nodes)}"
    better = label_hints(loaded.policies, cluster.nodes)
    better += [] if problems else hints(loaded.policies, cluster=cluster)
    return Report(loaded.policies, problems, tried_on, better)

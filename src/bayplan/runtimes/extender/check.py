"""Everything that ``bayplan serve`` would find out at its start, without serving."""

from collections.abc import Sequence

from bayplan import __version__
from bayplan.config.candidate import candidate_path, load_candidate
from bayplan.config.check import Report, faults, hints, refuse, refuse_hopeless
from bayplan.config.cluster import take_snapshot
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.labels import label_hints
from bayplan.config.rehearse import LONGER, Rehearsal
from bayplan.config.time_limits import time_limits
from bayplan.runtimes.extender.options import options_from
from bayplan.snapshot.cluster import Snapshot

_NO_PODS = (
    "the snapshot has no pods, so every node looks empty; make it anew:"
    " kubectl get nodes,pods -A -o json > FILE"
)


def check(files: Sequence[str], flags: Flags) -> Report:
    """Load, dry-run, read certificates, and try every hook on the nodes of the cluster that is named."""
    loaded = load_all(files, flags)
    refuse(loaded, where=f"{flags.config}: " if flags.config else "")
    options = options_from(loaded, version=__version__)
    if options.tls is not None:
        options.tls.context()
    cluster = options.snapshot or take_snapshot(loaded.config.cluster, loaded.base)
    rehearsal = _rehearse(loaded, cluster)
    problems = rehearsal.failures + rehearsal.late + faults(loaded.policies) + _of_candidate(loaded)
    if cluster is None:
        return Report(loaded.policies, problems, hints=[] if problems else hints(loaded.policies))
    if options.snapshot is not None and cluster.pods_known and not cluster.pods:
        problems.append(_NO_PODS)
    tried_on = f"0, 1 and 3 nodes, and on the cluster's {len(cluster.nodes)}"
    better = label_hints(loaded.policies, cluster.nodes)
    better += [] if problems else hints(loaded.policies, cluster=cluster)
    return Report(loaded.policies, problems, tried_on, better)


def _rehearse(loaded: Loaded, cluster: Snapshot | None) -> Rehearsal:
    pods_known = loaded.config.cluster.knows_pods if cluster is None else cluster.pods_known
    limit_of = time_limits(loaded.config)
    rehearsal = Rehearsal(pods_known=pods_known, cluster=cluster, limit_of=limit_of, limits=LONGER)
    for policy in loaded.policies:
        rehearsal.of(policy)
    refuse_hopeless(loaded, rehearsal.failures)
    return rehearsal


def _of_candidate(loaded: Loaded) -> list[str]:
    """What is wrong with the candidate beside the policies, where there is one."""
    path = candidate_path(loaded)
    beside = load_candidate(path, loaded).problems if path is not None else ()
    return [f"shadow: {problem}" for problem in beside]

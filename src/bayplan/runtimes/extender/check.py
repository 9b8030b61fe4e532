"""Checks everything that ``bayplan serve`` checks at its start, without serving."""

from collections.abc import Sequence

from bayplan import __version__
from bayplan.authoring.scope import EVERY_POD
from bayplan.client.connect import Connection, is_pod
from bayplan.client.errors import ConnectError
from bayplan.config.candidate import candidate_path, load_candidate
from bayplan.config.check import Report, faults, hints, refuse, refuse_hopeless
from bayplan.config.cluster import open_cluster, take_snapshot
from bayplan.config.different_pods import different_pods, one_more
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.in_time import LONGER
from bayplan.config.labels import label_hints
from bayplan.config.lines import Lines
from bayplan.config.pod_keys import pod_key_hints
from bayplan.config.rehearse import Rehearsal
from bayplan.config.resources import resource_hints
from bayplan.config.time_limits import time_limits
from bayplan.config.where import naming_the_line
from bayplan.kube.pod import Pod
from bayplan.runtimes.extender.options import options_from
from bayplan.snapshot.cluster import Snapshot

_NO_PODS = (
    "the snapshot has no pods, so every node looks empty; make it anew:"
    " kubectl get nodes,pods -A -o json > FILE"
)
_NOT_THERE = (
    "cluster.source is in-cluster, and this is no pod of a cluster: hooks were tried on made-up nodes only."
    " To try them on nodes of yours too, give {what}"
)
_WITHOUT_PODS = (
    "cluster.nodesOnly: no pods are in view. If a line that was not run needs them, as cpu.free and"
    " nodes.count() do, it fails for each pod that comes there"
)
# Stands for the API server of the cluster that the configuration is meant for: nobody calls it.
_ELSEWHERE = Connection("https://kubernetes.default.svc", None)
_POD = "--pod pod.yaml"
_OTHER_POD = "another --pod than yours"
_OR_NODES = ", or the nodes of a cluster: --snapshot cluster.json"
_OR_OTHER_NODES = ", or a cluster with a node that leads there"
_OR_TYPO = "; or is a label or an annotation of the pod mistyped in the policy?"


def check(files: Sequence[str], flags: Flags, *, pods: Sequence[Pod] = ()) -> Report:
    """Load, dry-run, read certificates, and try every hook on the nodes of the cluster that is named.

    Hooks are asked about a plain pod, about these ``pods``, and about one of each kind in the cluster.
    """
    loaded = load_all(files, flags)
    refuse(loaded, where=f"{flags.config}: " if flags.config else "")
    opened = _opened(loaded, asked=bool(flags.in_cluster))
    options = options_from(loaded, version=__version__, opened=opened)
    if options.tls is not None:
        options.tls.context()
    elsewhere = options.connection is _ELSEWHERE
    cluster = options.snapshot
    if cluster is None and not elsewhere:
        cluster = take_snapshot(loaded)
    there = different_pods(cluster.pods) if cluster is not None and cluster.pods_known else []
    lines = Lines(loaded.policies)
    rehearsal = _rehearse(loaded, cluster, given=pods, there=there, lines=lines)
    problems = rehearsal.failures + rehearsal.late + faults(loaded.policies) + _of_candidate(loaded)
    if options.snapshot is not None and options.snapshot.pods_known and not options.snapshot.pods:
        problems.append(_NO_PODS)
    nodes_only = loaded.config.cluster.nodes_only
    better = [*([_not_there(nodes_only=nodes_only)] if elsewhere else []), *rehearsal.cut_short]
    if cluster is not None:
        better += label_hints(loaded.policies, cluster.nodes)
        better += resource_hints(loaded.policies, cluster.nodes)
    in_view = cluster.pods if cluster is not None and cluster.pods_known else ()
    better += pod_key_hints(loaded.policies, [*pods, *in_view])
    # Lines behind a line that fails were not run either, and need no hint.
    or_nodes = _OR_OTHER_NODES if cluster is not None else "" if nodes_only else _OR_NODES
    what_to_give = f"{_OTHER_POD}{or_nodes}{_OR_TYPO}" if pods else f"{_POD}{or_nodes}"
    not_run = lines.hints(what_to_give=what_to_give) if not problems else []
    if not_run and nodes_only:
        not_run.append(_WITHOUT_PODS)
    if not problems:
        better += [*not_run, *hints(loaded.policies, rehearsal.refusals, cluster=cluster)]
    return Report(
        loaded.policies,
        problems,
        _tried_on(loaded, cluster, rehearsal, given=len(pods), there=len(there)),
        better,
        _not_run(loaded, rehearsal, lines),
        in_part=bool(not_run),
    )


def _not_there(*, nodes_only: bool) -> str:
    # A snapshot has pods, and is refused with nodesOnly.
    file = "" if nodes_only else "--snapshot cluster.json or "
    return _NOT_THERE.format(what=f"{file}--kubeconfig FILE")


def _opened(loaded: Loaded, *, asked: bool) -> tuple[Snapshot | None, Connection | None]:
    """The cluster; `_ELSEWHERE` for a configuration that will run in a pod, and is checked outside of it.

    ``asked``: the command line itself says that this is a pod.
    """
    section = loaded.config.cluster
    try:
        with naming_the_line(loaded):
            return open_cluster(section, loaded.base)
    except ConnectError as error:
        if section.source == "in-cluster" and not asked and not is_pod():
            return None, _ELSEWHERE
        raise ConnectError(f"{error}; or read nodes and pods from a file: --snapshot FILE") from error


def _rehearse(
    loaded: Loaded,
    cluster: Snapshot | None,
    *,
    given: Sequence[Pod],
    there: Sequence[Pod],
    lines: Lines,
) -> Rehearsal:
    def rehearsed(*, pods_known: bool) -> Rehearsal:
        rehearsal = Rehearsal(
            pods_known=pods_known,
            cluster=cluster,
            given=[one_more(pod) for pod in given],
            there=there,
            limit_of=time_limits(loaded.config),
            limits=LONGER,
            lines=lines,
        )
        for policy in loaded.policies:
            rehearsal.of(policy)
        return rehearsal

    found = rehearsed(pods_known=loaded.config.cluster.knows_pods)
    if cluster is None and not loaded.config.cluster.knows_pods:
        refuse_hopeless(found.failures, lambda: rehearsed(pods_known=True).failures)
    return found


def _not_run(loaded: Loaded, rehearsal: Rehearsal, lines: Lines) -> list[str]:
    hooks = [hook for policy in loaded.policies for hook in policy.hooks]
    idle = [hook for hook in hooks if id(hook) not in rehearsal.called or lines.untouched(hook)]
    return [hook.title + " (nothing was bound)" * (hook.spec.kind == "bound") for hook in idle]


def _tried_on(
    loaded: Loaded, cluster: Snapshot | None, rehearsal: Rehearsal, *, given: int, there: int
) -> str:
    """``0, 1 and 3 nodes, and on the cluster's 6, for a plain pod and 4 of the cluster's``."""
    nodes = "0, 1 and 3 nodes" + ("" if cluster is None else f", and on the cluster's {len(cluster.nodes)}")
    others = [f"{given} of yours"] if given else []
    others += [f"{there} of the cluster's"] if there else []
    if not others:
        return f"{nodes}, for a plain pod"
    meant = all(policy.scope is EVERY_POD for policy in loaded.policies)
    but = "" if meant else ", each where the policy is for it"
    but += ", as far as there was time" if rehearsal.cut_short else ""
    return f"{nodes}, for a plain pod and {' and '.join(others)}{but}"


def _of_candidate(loaded: Loaded) -> list[str]:
    """Problems of the candidate configuration, if there is one."""
    path = candidate_path(loaded)
    problems = load_candidate(path, loaded).problems if path is not None else ()
    return [f"shadow: {problem}" for problem in problems]

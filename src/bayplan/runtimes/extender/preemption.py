"""Reads a preempt request: the pod, and the nodes with the pods that would be evicted there."""

from bayplan.engine.preempt import Candidate
from bayplan.kube.pod import Pod
from bayplan.wire import v1
from bayplan.wire.codec import WireError


def preemptor(args: v1.ExtenderPreemptionArgs) -> Pod:
    """The pod that others would be evicted for; raises `WireError` if it is missing."""
    if args.pod is None:
        raise WireError("ExtenderPreemptionArgs: Pod is missing")
    return args.pod


def candidates_in(
    args: v1.ExtenderPreemptionArgs,
) -> tuple[list[Candidate], list[tuple[str, int]], dict[str, Pod]]:
    """The candidates, how many budgets each violates, and the victims that were sent as full pods."""
    candidates = []
    violations = []
    pods: dict[str, Pod] = {}
    for name, victims in (args.node_name_to_meta_victims or {}).items():
        uids = tuple(pod.uid for pod in (victims.pods if victims else None) or () if pod and pod.uid)
        violated = (victims.num_pdb_violations if victims else None) or 0
        candidates.append(Candidate(name, uids, violated))
        violations.append((name, violated))
    if candidates:
        return candidates, violations, pods
    for name, full in (args.node_name_to_victims or {}).items():
        there = [pod for pod in (full.pods if full else None) or () if pod and pod.uid]
        pods.update({pod.uid: pod for pod in there})
        violated = (full.num_pdb_violations if full else None) or 0
        candidates.append(Candidate(name, tuple(pod.uid for pod in there), violated))
        violations.append((name, violated))
    return candidates, violations, pods

"""What our policies need of kube-scheduler's configuration, and do not get."""

from collections.abc import Iterator
from dataclasses import replace

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.registry import Policy
from bayplan.config.rehearse import rehearse
from bayplan.config.v1 import LIVE
from bayplan.doctor.extender_entry import may_be_ours
from bayplan.doctor.finding import Finding, Put, Repair
from bayplan.doctor.ours import Ours
from bayplan.doctor.scheduler_file import Entry, SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_policies import (
    BIND_WITHOUT_CLUSTER,
    MANAGED_RESOURCE_NARROW,
    MANAGED_RESOURCE_OTHER,
    NAMES_WITHOUT_CLUSTER,
    RULE_WITHOUT_BIND,
    RULE_WITHOUT_RECHECK,
    SOURCE_WITHOUT_NUDGE,
)
from bayplan.snapshot.sources import Latch, Source
from bayplan.snapshot.units import Units

# What a table without pods says to whoever counts them.
_COUNTING = "counting pods"


def check_policies(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """The entry that is ours, against the policies and the cluster that they are given."""
    ours = setting.ours
    if ours is None:
        return
    for entry in file.entries:
        if may_be_ours(file, entry, setting):
            yield from _cluster(file, entry, ours)
            yield from _between_pods(file, entry, ours)
            yield from _resources(file, entry, ours)


def check_our_policies(ours: Ours) -> Iterator[Finding]:
    """What is wrong with the policies whoever calls."""
    for policy in _deciding(ours):
        if not ours.nudges and policy.of_kind("filter") and _sources(policy):
            what = f"the filter of {policy.name} may read {', '.join(_sources(policy))}"
            yield ours.page.found(SOURCE_WITHOUT_NUDGE, ("cluster",), what)
        for name in _unchecked(policy):
            what = f"{policy.name}: {name} looks at other pods, without recheck"
            yield ours.page.found(RULE_WITHOUT_RECHECK, ("policies",), what)


def _cluster(file: SchedulerFile, entry: Entry, ours: Ours) -> Iterator[Finding]:
    source = ours.cluster_source
    asked = entry.text("filterVerb") or entry.text("prioritizeVerb")
    if asked and entry.flag("nodeCacheCapable") and source == "request":
        what = "nodeCacheCapable is true, and Bayplan's cluster.source is request"
        yield file.found(NAMES_WITHOUT_CLUSTER, entry.at("nodeCacheCapable"), what)
    if entry.text("bindVerb") and not _can_bind(ours):
        key = "nodesOnly is true" if source in LIVE else f"source is {source}"
        what = f"bindVerb is set, and Bayplan's cluster.{key}"
        yield file.found(BIND_WITHOUT_CLUSTER, entry.at("bindVerb"), what)


def _can_bind(ours: Ours) -> bool:
    return ours.cluster_source in LIVE and not ours.nodes_only


def _between_pods(file: SchedulerFile, entry: Entry, ours: Ours) -> Iterator[Finding]:
    if entry.text("bindVerb") or not entry.text("filterVerb"):
        return
    allocating = [policy for policy in _deciding(ours) if policy.of_kind("allocate")]
    checking = [
        policy
        for policy in _deciding(ours)
        if policy not in allocating and any(hook.spec.recheck for hook in policy.hooks)
    ]
    free = not any(other.text("bindVerb") for other in file.entries) and not entry.flag("ignorable")
    repairs: tuple[Repair, ...] = ()
    if free and _can_bind(ours):
        repairs = (Put((*entry.path, "bindVerb"), "bind", after=str(entry.at("filterVerb")[-1])),)
    for policy in allocating:
        what = f"{policy.name} hands something out at bind, and there is no bindVerb"
        yield file.found(RULE_WITHOUT_BIND, entry.path, what, severity="error", repairs=repairs)
    for policy in checking:
        what = f"{policy.name} checks again at bind, and there is no bindVerb"
        yield file.found(RULE_WITHOUT_BIND, entry.path, what, repairs=repairs)


def _resources(file: SchedulerFile, entry: Entry, ours: Ours) -> Iterator[Finding]:
    managed = {resource.text("name") for resource in entry.managed}
    if not managed:
        return
    at = entry.at("managedResources")
    for policy in _deciding(ours):
        units = {column.resource for column in policy.columns if isinstance(column, Units)}
        if missing := sorted(units - managed):
            what = f"{policy.name} hands out {', '.join(missing)}"
            yield file.found(MANAGED_RESOURCE_OTHER, at, what)
        elif not units:
            what = f"{policy.name} is asked only about pods that request {', '.join(sorted(managed))}"
            yield file.found(MANAGED_RESOURCE_NARROW, at, what)


def _deciding(ours: Ours) -> list[Policy]:
    return [policy for policy in ours.policies if not policy.shadow]


def _sources(policy: Policy) -> list[str]:
    return sorted({column.source for column in policy.columns if isinstance(column, Source | Latch)})


def _unchecked(policy: Policy) -> list[str]:
    """The filters that fail where pods are unknown, so that they look at them, and are not run at bind."""
    names = []
    prepares = policy.of_kind("prepare")
    for hook in policy.of_kind("filter"):
        if hook.spec.recheck:
            continue
        alone = replace(policy, hooks=(*prepares, hook), sources=())
        try:
            blind = set(rehearse([alone], pods_known=False))
            told = blind - set(rehearse([alone], pods_known=True))
        except PolicyError:
            continue
        if any(_COUNTING in text for text in told):
            names.append(hook.name)
    return names
